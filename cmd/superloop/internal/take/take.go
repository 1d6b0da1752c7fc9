// Package take lets a person take the work of a loop: see it (Diff), take it into the branch that is checked out (Merge),
// open a pull request (Pull). All git runs through package worktree, so no hook and no configuration that an agent wrote
// steers it.
package take

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/effects"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/result"
	"github.com/superloop/superloop/loop/worktree"
)

// Refusal is an error for an operator: what is not done, why, and what to type next.
type Refusal struct {
	Err     error
	Next    string
	Nothing bool // there is nothing to do, rather than something wrong
}

func (r *Refusal) Error() string { return r.Err.Error() }
func (r *Refusal) Unwrap() error { return r.Err }

func refuse(next, format string, args ...any) error {
	return &Refusal{Err: fmt.Errorf(format, args...), Next: next}
}

func nothing(next, format string, args ...any) error {
	return &Refusal{Err: fmt.Errorf(format, args...), Next: next, Nothing: true}
}

// Work is the work of one loop, and where to say what is done with it.
type Work struct {
	ID      string
	Paths   layout.Paths
	Disk    durable.Disk
	Environ []string
	Main    *worktree.Repo // the repository
	Own     bool           // the loop has a work tree and a branch of its own
	Say     io.Writer
}

// Open opens the repository of a loop. configured says what the configuration has for git.worktree; nil if it cannot be
// read, and then the work tree that is there decides.
func Open(ctx context.Context, w Work, configured *bool) (*Work, error) {
	main, err := worktree.OpenEnv(ctx, w.Paths.Repo, w.Paths.Git(), w.Environ)
	if err != nil {
		return nil, err
	}
	w.Main = main
	if configured != nil {
		w.Own = *configured
		return &w, nil
	}
	linked, err := main.Linked(ctx, w.Paths.OwnTree())
	w.Own = linked != nil
	return &w, err
}

func (w *Work) say(format string, args ...any) { fmt.Fprintf(w.Say, format+"\n", args...) }

// Result returns the result of the last run.
func (w *Work) Result(ctx context.Context) (result.Result, error) {
	res, ok, err := effects.ResultOf(ctx, w.Disk, w.Paths, w.Main, w.Own)
	if err == nil && !ok {
		err = nothing("superloop run --loop "+w.ID, "loop %s has not run yet", w.ID)
	}
	return res, err
}

// Diff returns what the loop has changed since its run began, as git shows it, and how many files that are. With stat it
// is the table of the files, for a screen of width columns.
func (w *Work) Diff(ctx context.Context, stat bool, width int) (patch []byte, files int, err error) {
	c, _, err := effects.Changes(ctx, w.Disk, w.Paths, w.Main, w.Own)
	switch {
	case errors.Is(err, effects.ErrNoOwnTree):
		if _, rerr := w.Result(ctx); rerr != nil {
			return nil, 0, rerr
		}
		return nil, 0, refuse("git -C "+text.Paste(w.Paths.Repo)+" log -p HEAD.."+w.Paths.OwnBranch(), "%w: %s", err, w.Paths.OwnTree())
	case errors.Is(err, effects.ErrNoBaseline):
		if _, rerr := w.Result(ctx); rerr != nil {
			return nil, 0, rerr // it has not run yet
		}
		return nil, 0, refuse("git -C "+text.Paste(w.Paths.Repo)+" diff HEAD", "%w", err)
	case err != nil:
		return nil, 0, err
	}
	patch, err = c.Diff(ctx, stat, width)
	return patch, len(c.Files), errors.Join(err, c.Close())
}

// settled returns the result of a loop whose work can be taken: it is completed, or force is set.
func (w *Work) settled(ctx context.Context, verb string, force bool) (result.Result, error) {
	res, err := w.Result(ctx)
	if err == nil && res.Status != loop.Completed && !force {
		err = refuse(verb+" --loop "+w.ID+" --force   (superloop diff --loop "+w.ID+" shows what is there)", "loop %s is not completed: %s", w.ID, res.How())
	}
	return res, err
}

// CommitRest commits what a completed loop has left uncommitted in its own work tree, on its branch. If it cannot, the error
// is a *Refusal. The caller knows that nobody runs the loop.
func (w *Work) CommitRest(ctx context.Context) error {
	res, err := w.settled(ctx, "superloop merge", false)
	if err != nil {
		return err
	}
	return w.commitRest(ctx, res, false)
}

// commitRest commits what the loop has left uncommitted in its own work tree, on its branch. In a dry run it only says so.
func (w *Work) commitRest(ctx context.Context, res result.Result, dry bool) error {
	linked, err := w.Main.Linked(ctx, w.Paths.OwnTree())
	if err != nil || linked == nil {
		return err // the branch has all that there is
	}
	dirty, err := linked.Dirty(ctx)
	if err != nil || len(dirty) == 0 {
		return err
	}
	if dry {
		w.say("would first commit what the loop has left uncommitted in its work tree: %s", count(len(dirty), "file"))
		return nil
	}
	subject, body := res.Message()
	made, err := linked.Commit(ctx, worktree.CommitRequest{LoopID: w.ID, RunID: res.RunID, Iteration: len(res.Iterations), Strategy: "at_the_end", Subject: subject, Body: body})
	if err != nil {
		return err
	}
	if made.SHA != "" {
		w.say("committed what the loop had left uncommitted: %s %s", made.SHA[:12], count(len(made.Paths), "file"))
	}
	if len(made.Left) > 0 {
		return refuse("git -C "+text.Paste(linked.Top)+" add -A && git -C "+text.Paste(linked.Top)+" commit", "these files have a filter (git-lfs), which superloop does not run, and are not committed: %s", text.Line(fmt.Sprint(made.Left), 200))
	}
	return nil
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
