package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/superloop/superloop/cmd/superloop/internal/take"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/worktree"
	"github.com/superloop/superloop/server/backlog"
)

// stacked checks that a new loop can begin with the work of the loops after which it comes, and returns the function that
// makes its branch so, which may be called again after a kill. What such a loop has left uncommitted is committed on its
// branch first. If their work does not fit, the error is a *backlog.WaitError. Without such loops there is nothing to do.
func (a *app) stacked(ctx context.Context, p layout.Paths, after []string) (begin func() error, err error) {
	if len(after) == 0 {
		return func() error { return nil }, nil
	}
	places, err := a.places(p.Repo, after...)
	if err != nil {
		return nil, err
	}
	var all []*take.Work
	var branches []string
	for _, at := range places {
		if err := a.free(at); err != nil {
			return nil, &backlog.WaitError{Why: "waits for " + at.id + ", which is just ending"}
		}
		w, err := a.work(ctx, at)
		if err != nil {
			return nil, err
		}
		w.Say = io.Discard
		if w.Own { // else its work is where HEAD is
			all, branches = append(all, w), append(branches, at.OwnBranch())
		}
	}
	if len(all) == 0 {
		return func() error { return nil }, nil
	}
	message := "Begin with the work of " + strings.Join(after, ", ") + "\n"
	stack := func(dry bool) error {
		return stackWait(p, all[0].Main.Stack(ctx, p.OwnBranch(), branches, message, dry))
	}
	if err := stack(true); err != nil {
		return nil, err
	}
	return func() error {
		for _, w := range all {
			err := w.CommitRest(ctx)
			if refused, ok := errors.AsType[*take.Refusal](err); ok {
				return &backlog.WaitError{Why: fmt.Sprintf("waits for the work of %s: %v; %s", w.ID, refused.Err, refused.Next)}
			}
			if err != nil {
				return fmt.Errorf("committing what the loop %s has left uncommitted: %w", w.ID, err)
			}
		}
		return stack(false)
	}, nil
}

// stackWait turns the refusal of a branch into the reason why an item waits, with what an operator types.
func stackWait(p layout.Paths, err error) error {
	failed, ok := errors.AsType[*worktree.StackError](err)
	if !ok {
		return err
	}
	id, repo := strings.TrimPrefix(failed.Branch, "superloop/"), text.Paste(p.Repo)
	next := "merge it yourself: superloop merge --loop " + id + " --repo " + repo
	if errors.Is(err, worktree.ErrLacks) {
		next = "if you do not need it: git -C " + repo + " branch -D " + p.OwnBranch()
	}
	return &backlog.WaitError{Why: fmt.Sprintf("waits for the work of %s: %v; %s", id, failed.Err, next)}
}
