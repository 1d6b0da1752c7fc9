package worktree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/gitcmd"
	"github.com/superloop/superloop/internal/text"
)

// listed is one work tree in the output of git worktree list.
type listed struct {
	path   string
	branch string // full name; "" when HEAD is detached
	locked string // the reason of the lock, "yes" if it has none, or "" if the work tree is not locked
}

// half reports whether the checkout of a work tree was cut off: git and AddWorktree lock it while they make it.
func (l listed) half() bool { return l.locked == "initializing" || l.locked == "added with --lock" }

// AddWorktree makes a linked work tree at path with branch checked out, and opens it. If the branch does not exist,
// AddWorktree creates it at HEAD. If this repository already has a work tree at path with that branch, AddWorktree
// opens that one. If a crash left the work tree half made, or its directory is gone, AddWorktree makes it anew. It
// changes no other work tree. No hook and no filter runs, so a file of LFS is checked out as its pointer.
func (r *Repo) AddWorktree(ctx context.Context, path, branch string) (*Repo, error) {
	added, err := r.addWorktree(ctx, path, branch)
	if err != nil {
		return nil, fmt.Errorf("adding a work tree at %s: %w", path, err)
	}
	return added, nil
}

func (r *Repo) addWorktree(ctx context.Context, path, branch string) (*Repo, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	head, err := r.Head(ctx)
	if err != nil {
		return nil, err
	}
	if head == "" {
		return nil, fmt.Errorf("%w; make one first: git -C %s commit", ErrUnborn, text.Paste(r.Top))
	}
	if _, err := r.read(ctx, "check-ref-format", "--branch", branch); err != nil {
		return nil, fmt.Errorf("%q is not a name for a branch: %w", branch, err)
	}
	unlock, err := r.alone(ctx)
	if err != nil {
		return nil, err
	}
	known, err := r.register(ctx, path, branch)
	unlock()
	if err != nil || known != nil {
		return known, err
	}
	return r.checkout(ctx, path)
}

// alone waits until no other superloop adds a work tree to this repository, and returns the function that lets the next
// one begin. git fails when it lists the work trees while another git is making one. An agent may hold the lock, so after
// addPatience alone goes on without it.
func (r *Repo) alone(ctx context.Context) (unlock func(), err error) {
	lock, err := durable.OS().LockWait(ctx, filepath.Join(r.git.Common, "superloop-worktrees.lock"), nil, addPatience)
	if _, held := errors.AsType[*durable.LockedError](err); held {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	return func() { _ = lock.Unlock() }, nil // the kernel releases the lock when the process ends
}

// addPatience bounds the wait of alone. Adding a work tree without its files takes some milliseconds.
const addPatience = 30 * time.Second

// register makes git know a work tree at path on branch, without its files. If there is a whole one already, register
// returns it.
func (r *Repo) register(ctx context.Context, path, branch string) (*Repo, error) {
	known, err := r.linkedAt(ctx, path)
	if err != nil {
		return nil, err
	}
	if known != nil {
		_, missing := os.Stat(filepath.Join(path, ".git"))
		switch {
		case missing != nil && !errors.Is(missing, os.ErrNotExist):
			return nil, missing
		case missing == nil && !known.half():
			if known.branch != "refs/heads/"+branch {
				return nil, fmt.Errorf("there is one already, on %s and not on %s; to remove it: git -C %s worktree remove %s",
					cmp.Or(strings.TrimPrefix(known.branch, "refs/heads/"), "no branch"), branch, text.Paste(r.Top), text.Paste(path))
			}
			return r.linked(ctx, path)
		}
		// The files in the work tree are removed, too, and its branch stays. If somebody has locked the work tree, it
		// stays, and the call fails.
		remove := []string{"worktree", "remove", "--force"}
		if known.half() {
			remove = append(remove, "--force")
		}
		if _, err := r.git.Admin(ctx, append(remove, known.path)...); err != nil {
			return nil, err
		}
	}
	args := []string{"worktree", "add", "--quiet", "--lock", "--no-checkout", path, branch}
	if _, err := r.read(ctx, "rev-parse", "--quiet", "--verify", "refs/heads/"+branch); gitcmd.ExitCode(err) == 1 {
		args = []string{"worktree", "add", "--quiet", "--lock", "--no-checkout", "-b", branch, path, "HEAD"}
	} else if err != nil {
		return nil, err
	}
	_, err = r.git.Admin(ctx, args...)
	return nil, err
}

// checkout checks the files of a new linked work tree out and unlocks it.
func (r *Repo) checkout(ctx context.Context, path string) (*Repo, error) {
	w, err := r.linked(ctx, path)
	if err != nil {
		return nil, err
	}
	if _, err := w.run(ctx, nil, "reset", "--quiet", "--hard"); err != nil {
		return nil, fmt.Errorf("checking out the files: %w", err)
	}
	// A file that a power cut emptied would be taken for an agent's work.
	list, err := w.index(ctx)
	if err != nil {
		return nil, err
	}
	files := make([]string, 0, len(list))
	for _, e := range list {
		files = append(files, e.path)
	}
	if err := w.flushBefore(ctx, "", files); err != nil {
		return nil, err
	}
	if err := w.Flush(ctx); err != nil {
		return nil, err
	}
	unlock, err := r.alone(ctx) // git looks at every work tree here, too
	if err != nil {
		return nil, err
	}
	defer unlock()
	_, err = r.git.Admin(ctx, "worktree", "unlock", path)
	return w, err
}

// linked opens the linked work tree at path.
func (r *Repo) linked(ctx context.Context, path string) (*Repo, error) {
	git, err := r.git.Inside(ctx, path)
	if err != nil {
		return nil, err
	}
	return at(git), nil
}

// linkedAt returns the linked work tree at path, or nil if there is none. It never returns the main work tree.
func (r *Repo) linkedAt(ctx context.Context, path string) (*listed, error) {
	out, err := r.git.Admin(ctx, "worktree", "list", "--porcelain")
	if err != nil {
		return nil, fmt.Errorf("listing the work trees: %w", err)
	}
	want := resolved(path)
	for i, l := range parseLinked(string(out)) {
		if i > 0 && resolved(l.path) == want {
			return &l, nil
		}
	}
	return nil, nil
}

// parseLinked parses the output of git worktree list --porcelain. The first work tree in it is the main one.
func parseLinked(out string) []listed {
	var list []listed
	for line := range strings.Lines(out) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch n := len(list) - 1; {
		case key == "worktree":
			list = append(list, listed{path: value})
		case key == "branch" && n >= 0:
			list[n].branch = value
		case key == "locked" && n >= 0:
			list[n].locked = cmp.Or(value, "yes")
		}
	}
	return list
}

// resolved returns a path without symbolic links, as far as the path exists.
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
