package undo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
)

// copyTo copies the place to a path that is not there yet. Modes, times, links and names stay as they are; owners as
// far as the user may set them.
func (p place) copyTo(ctx context.Context, method, to string) error {
	argv := []string{"cp", "-a"}
	switch {
	case method == byReflink && runtime.GOOS == "darwin":
		argv = append(argv, "-c")
	case method == byReflink:
		argv = append(argv, "--reflink=always")
	case method == byLink:
		argv = append(argv, "-l")
	}
	return p.run(ctx, append(argv, "--", "./"+p.name, to)...)
}

// canReflink tries it with one file of a tree.
func (s Store) canReflink(ctx context.Context, p place, had survey, dir string) bool {
	to := filepath.Join(dir, "probe")
	err := p.sibling(filepath.Join(p.name, had.probe)).copyTo(ctx, byReflink, to)
	_ = s.Disk.Remove("undo-probe", to)
	return err == nil
}

const whileCopied = "it changed while it was copied"

// same surveys an entry of a directory. If that does not give the sum, the error says why.
func same(dir, name, sum, why string) error {
	at, err := open(dir, name)
	if err != nil {
		return err
	}
	defer at.close()
	got, err := at.look(1<<30, 1<<62)
	if err == nil && got.sum != sum {
		err = errors.New(why)
	}
	return err
}

// removeTree removes an entry of a directory with everything below it. Directories that may not be written are made
// so before it gives up.
func removeTree(ctx context.Context, dir, name string) error {
	t := proc.Tool{Dir: dir}
	_, err := t.Run(ctx, "rm", "-rf", "--", "./"+name)
	if err != nil {
		_, _ = t.Run(ctx, "find", "./"+name, "-type", "d", "-exec", "chmod", "u+rwx", "{}", "+")
		_, err = t.Run(ctx, "rm", "-rf", "--", "./"+name)
	}
	if err != nil {
		return fmt.Errorf("removing %s: %w", filepath.Join(dir, name), err)
	}
	return nil
}

// remove is removeTree for an entry of the repository.
func (p place) remove(ctx context.Context) error {
	if k, err := p.kind(); k == isMissing || err != nil {
		return err
	}
	return removeTree(ctx, p.path(), p.name)
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
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
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
		if _, err := at.read(0); err == nil { // git does not remove a ref that a power cut has emptied
			if err := s.Disk.Remove("undo-ref", at.at(at.name)); err != nil {
				return err
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
