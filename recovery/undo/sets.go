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

// List returns the valid sets, the oldest first. It changes nothing and takes no lock. An error names the sets that it
// cannot read, such as those of another version of superloop; List returns the others all the same.
func (s Store) List() ([]Kept, error) {
	entries, err := os.ReadDir(s.sets())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing what was kept: %w", err)
	}
	var out []Kept
	var unread error
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), manifestFile)
		if !ok || id == "" || id[0] == '.' {
			continue
		}
		m, err := s.load(id)
		if errors.Is(err, fs.ErrNotExist) {
			continue // another call has dropped it meanwhile
		}
		if err != nil {
			unread = errors.Join(unread, err)
			continue
		}
		has := func(suffix string) bool {
			_, err := os.Lstat(s.path(id, suffix))
			return err == nil
		}
		out = append(out, m.kept(has(afterFile), has(backFile)))
	}
	slices.SortStableFunc(out, func(a, b Kept) int { return a.Time.Compare(b.Time) })
	return out, unread
}

// Drop removes a set and its ref. If superloop is killed meanwhile, the set is either complete or gone. The next Keep
// or Prune removes the remains.
func (s Store) Drop(ctx context.Context, id string) error {
	return s.with(ctx, id, func(*manifest) error { return s.drop(ctx, id) })
}

func (s Store) drop(ctx context.Context, id string) error {
	if err := s.Disk.Remove("undo-drop", s.path(id, manifestFile)); err != nil {
		return err
	}
	return s.clear(ctx, id)
}

// Prune drops sets older than maxAge, and all but the newest keep sets; 0 means no limit. It returns the ids of the
// dropped sets. Sets that List cannot read stay, and the error names them.
func (s Store) Prune(ctx context.Context, keep int, maxAge time.Duration, now time.Time) ([]string, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := s.sweep(ctx); err != nil {
		return nil, err
	}
	all, unread := s.List()
	var gone []string
	for i, k := range all {
		if maxAge > 0 && now.Sub(k.Time) > maxAge || keep > 0 && len(all)-i > keep {
			if err := s.drop(ctx, k.ID); err != nil {
				return gone, err
			}
			gone = append(gone, k.ID)
		}
	}
	return gone, unread
}

// patience is the time that a call waits for another one to end. A lock may also outlive its call for a moment, because
// a process that is just being started still holds its descriptor.
const patience = 3 * time.Second

// lock excludes other calls until unlock.
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

// clear removes all files of a set, or of an unfinished set; its mark goes last. It does not use s.Disk, which may be
// the part that failed.
func (s Store) clear(ctx context.Context, id string) error {
	if err := s.unref(ctx, id); err != nil {
		return err
	}
	if _, err := os.Lstat(s.path(id, treesDir)); err == nil {
		if err := removeTree(ctx, s.sets(), id+treesDir); err != nil {
			return err
		}
	}
	_, err := proc.System(ctx, s.sets(), "rm", "-f", "--", "./"+id+manifestFile, "./"+id+afterFile, "./"+id+backFile, "./"+id+packFile, "./"+id+markFile)
	return err
}

// sweep removes the remains of calls that were killed: unfinished sets with their refs, and sets that were being
// removed.
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
		if _, err := s.load(id); !errors.Is(err, fs.ErrNotExist) {
			continue // it is a set, or another superloop's
		}
		if err := s.clear(ctx, id); err != nil {
			return err
		}
	}
	if len(entries) > 0 && entries[0].Name()[0] == '.' { // the temporary file of a killed write
		_, err = s.Disk.RemoveTemps("undo-sweep", s.sets())
	}
	return err
}

// unref removes the ref of a set, if the repository still exists. A missing ref is not an error.
func (s Store) unref(ctx context.Context, id string) error {
	if _, err := os.Stat(s.Repo); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if at, err := open(s.Repo, ".git/"+refBase+id); err == nil {
		defer at.close()
		// git removes neither a ref file that a power cut has emptied nor the lock file of a ref that a killed git has
		// left.
		for name, most := range map[string]int64{id: 0, id + ".lock": 1 << 10} {
			if _, err := at.sibling(name).read(most); err == nil {
				if err := s.Disk.Remove("undo-ref", at.at(name)); err != nil {
					return err
				}
			}
		}
	}
	g, err := s.openGit(ctx)
	if err != nil || !g.found {
		return err
	}
	if _, err = g.run(ctx, nil, "update-ref", "-d", refBase+id); err != nil {
		return fmt.Errorf("removing %s: %w", refBase+id, err)
	}
	return nil
}
