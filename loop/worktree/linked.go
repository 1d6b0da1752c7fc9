package worktree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// forgetTime bounds the undoing of a commit that failed.
const forgetTime = 30 * time.Second

// linked is one work tree as git worktree list tells it.
type linked struct {
	path   string
	branch string // full name; "" when HEAD is detached
	locked string // the reason, "yes" for none; "" when it is not locked
}

// AddWorktree makes a linked work tree at path with branch checked out, which is
// created at HEAD when it does not exist, and opens it. A work tree of this
// repository that is there already, with that branch, is used as it is. One that
// a crash left half made, or whose directory is gone, is made anew; no other work
// tree is touched.
func (r *Repo) AddWorktree(ctx context.Context, path, branch string) (*Repo, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("adding a work tree: %w", err)
	}
	head, err := r.Head(ctx)
	if err != nil {
		return nil, err
	}
	if head == "" {
		return nil, fmt.Errorf("adding a work tree at %s: %w; make one first: git -C %s commit", path, ErrUnborn, shellWord(r.Top))
	}
	if _, err := r.read(ctx, "check-ref-format", "--branch", branch); err != nil {
		return nil, fmt.Errorf("adding a work tree at %s: %q is not a name for a branch: %w", path, branch, err)
	}
	known, found, err := r.linkedAt(ctx, path)
	if err != nil {
		return nil, err
	}
	if found {
		_, missing := os.Stat(filepath.Join(path, ".git"))
		switch {
		case missing != nil && !errors.Is(missing, os.ErrNotExist):
			return nil, fmt.Errorf("adding a work tree at %s: %w", path, missing)
		case missing == nil && known.locked != "initializing":
			if known.branch != "refs/heads/"+branch {
				return nil, fmt.Errorf("adding a work tree at %s: there is one already, on %s and not on %s; to remove it: git -C %s worktree remove %s",
					path, orDetached(known.branch), branch, shellWord(r.Top), shellWord(path))
			}
			return OpenEnv(ctx, path, r.env)
		}
		if err := r.RemoveWorktree(ctx, path, true); err != nil {
			return nil, err
		}
	}
	args := []string{"worktree", "add", "--quiet", path, branch}
	if _, err := r.read(ctx, "rev-parse", "--quiet", "--verify", "refs/heads/"+branch); exitCode(err) == 1 {
		args = []string{"worktree", "add", "--quiet", "-b", branch, path, "HEAD"}
	} else if err != nil {
		return nil, fmt.Errorf("adding a work tree at %s: %w", path, err)
	}
	if _, err := r.write(ctx, nil, nil, args...); err != nil {
		return nil, fmt.Errorf("adding a work tree at %s: %w", path, err)
	}
	return OpenEnv(ctx, path, r.env)
}

// RemoveWorktree removes the linked work tree at path; its branch stays. With
// changes or untracked files in it git refuses, unless force is set. One that is
// not there is no error.
func (r *Repo) RemoveWorktree(ctx context.Context, path string, force bool) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("removing a work tree: %w", err)
	}
	known, found, err := r.linkedAt(ctx, path)
	if err != nil || !found {
		return err
	}
	args := []string{"worktree", "remove"}
	if force {
		args = append(args, "--force")
	}
	if force && known.locked == "initializing" {
		args = append(args, "--force")
	}
	if _, err := r.write(ctx, nil, nil, append(args, known.path)...); err != nil {
		return fmt.Errorf("removing the work tree at %s: %w", path, err)
	}
	return nil
}

func orDetached(ref string) string {
	if ref == "" {
		return "no branch"
	}
	return strings.TrimPrefix(ref, "refs/heads/")
}

// linkedAt finds the linked work tree at path; never the main one.
func (r *Repo) linkedAt(ctx context.Context, path string) (linked, bool, error) {
	out, err := r.read(ctx, "worktree", "list", "--porcelain")
	if err != nil {
		return linked{}, false, fmt.Errorf("listing the work trees: %w", err)
	}
	want := resolved(path)
	for i, l := range parseLinked(string(out)) {
		if i > 0 && resolved(l.path) == want {
			return l, true, nil
		}
	}
	return linked{}, false, nil
}

// parseLinked reads the paragraphs of git worktree list; the first is the main
// work tree.
func parseLinked(out string) []linked {
	var list []linked
	for line := range strings.Lines(out) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if key == "worktree" {
			list = append(list, linked{path: value})
			continue
		}
		if len(list) == 0 {
			continue
		}
		l := &list[len(list)-1]
		switch key {
		case "branch":
			l.branch = value
		case "locked":
			if l.locked = value; value == "" {
				l.locked = "yes"
			}
		}
	}
	return list
}

// resolved is a path without symbolic links, as far as it exists.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path
	}
	return filepath.Join(resolved(parent), filepath.Base(path))
}
