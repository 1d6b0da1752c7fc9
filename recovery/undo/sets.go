package undo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
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

// patience is how long a call waits for another to end. A lock may also outlive its call for a moment, in a process
// that this one is just starting.
const patience = 3 * time.Second

// lock keeps other calls out.
func (s Store) lock(ctx context.Context) (unlock func(), err error) {
	if err := s.Disk.MkdirAll("undo", s.sets(), 0o700); err != nil {
		return nil, err
	}
	for limit := time.Now().Add(patience); ; {
		l, err := s.Disk.Lock(filepath.Join(s.Dir, "undo.lock"), fmt.Appendf(nil, "superloop, pid %d", os.Getpid()))
		if err == nil {
			return func() { _ = l.Unlock() }, nil
		}
		if held := (*durable.LockedError)(nil); !errors.As(err, &held) || time.Now().After(limit) {
			return nil, err
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for another undo: %w", ctx.Err())
		}
	}
}

// clear removes what there is of a set, or what was to become one; its mark goes last. It does without s.Disk, which
// may be what has failed.
func (s Store) clear(ctx context.Context, id string) error {
	if err := s.unref(ctx, id); err != nil {
		return err
	}
	if _, err := os.Lstat(s.path(id, treesDir)); err == nil {
		if err := removeTree(ctx, s.sets(), id+treesDir); err != nil {
			return err
		}
	}
	_, err := proc.Tool{Dir: s.sets()}.Run(ctx, "rm", "-f", "--", "./"+id+manifestFile, "./"+id+afterFile, "./"+id+packFile, "./"+id+markFile)
	return err
}

// sweep removes what calls that were killed have left: sets that were never finished, with their refs, and sets that
// were being removed.
func (s Store) sweep(ctx context.Context) error {
	entries, err := os.ReadDir(s.sets())
	if err != nil {
		return fmt.Errorf("looking for sets that were not finished: %w", err)
	}
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), markFile)
		if !ok {
			continue
		}
		if info, err := os.Lstat(s.path(id, manifestFile)); err == nil && info.Size() > 0 {
			continue
		}
		if err := s.clear(ctx, id); err != nil {
			return err
		}
	}
	if len(entries) > 0 && entries[0].Name()[0] == '.' { // a write was killed
		_, err = s.Disk.RemoveTemps("undo-sweep", s.sets())
	}
	return err
}

// unref removes the ref of a set, if there is a repository to remove it from. That it is not there is no error.
func (s Store) unref(ctx context.Context, id string) error {
	if _, err := os.Stat(s.Repo); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if at, err := open(s.Repo, ".git/"+refBase+id); err == nil {
		defer at.close()
		// git removes neither a ref that a power cut has emptied nor what locks one, left by a git that was killed.
		for name, most := range map[string]int64{id: 0, id + ".lock": 1 << 10} {
			if _, err := at.sibling(name).read(most); err == nil {
				if err := s.Disk.Remove("undo-ref", at.at(name)); err != nil {
					return err
				}
			}
		}
	}
	g, err := openGit(ctx, s.Repo)
	if err != nil || !g.found {
		return err
	}
	if _, err = g.run(ctx, nil, "update-ref", "-d", refBase+id); err != nil {
		return fmt.Errorf("removing %s: %w", refBase+id, err)
	}
	return nil
}
