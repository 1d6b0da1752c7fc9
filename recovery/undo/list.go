package undo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
)

// List gives the sets that are there, the oldest first. It changes nothing and takes no lock.
func (s Store) List() ([]Kept, error) {
	entries, err := os.ReadDir(s.sets())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing what was kept: %w", err)
	}
	var out []Kept
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), manifestFile)
		if !ok || id == "" || id[0] == '.' {
			continue
		}
		m, err := s.load(id)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was dropped meanwhile
		}
		if err != nil {
			return nil, err
		}
		_, err = os.Lstat(s.path(id, afterFile))
		out = append(out, m.kept(err == nil))
	}
	slices.SortStableFunc(out, func(a, b Kept) int { return a.Time.Compare(b.Time) })
	return out, nil
}

// Drop removes a set and its ref. Killed in the middle, the set is either there or gone; what remains of one that is
// gone is swept by the next Keep or Prune.
func (s Store) Drop(ctx context.Context, id string) error {
	return s.with(ctx, id, func(*manifest) error { return s.drop(ctx, id) })
}

func (s Store) drop(ctx context.Context, id string) error {
	if err := s.Disk.Remove("undo-drop", s.path(id, manifestFile)); err != nil {
		return err
	}
	return s.clear(ctx, id)
}

// Prune drops sets older than maxAge, and all but the newest keep; 0 means no bound. It says which it dropped.
func (s Store) Prune(ctx context.Context, keep int, maxAge time.Duration, now time.Time) ([]string, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := s.sweep(ctx); err != nil {
		return nil, err
	}
	all, err := s.List()
	if err != nil {
		return nil, err
	}
	var gone []string
	for i, k := range all {
		if maxAge > 0 && now.Sub(k.Time) > maxAge || keep > 0 && len(all)-i > keep {
			if err := s.drop(ctx, k.ID); err != nil {
				return gone, err
			}
			gone = append(gone, k.ID)
		}
	}
	return gone, nil
}
