package effects

import (
	"context"
	"fmt"
	"time"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/worktree"
	"github.com/superloop/superloop/roles"
)

const commitTimeout = 10 * time.Minute // bounds a commit with its hooks, and each pre-commit command

// Commits performs Commit.
type Commits struct {
	*Host
	Tree *Tree
}

// Perform commits the work of the iteration. A failed commit is an outcome in the fact and does not end the loop,
// because the work is still in the work tree. If ctx ends during the commit itself, Perform finishes the commit, within
// ten minutes.
func (c *Commits) Perform(ctx context.Context, e loop.Effect, s loop.State) (loop.Fact, error) {
	git := c.Settings().Loop.Git
	if len(git.PreCommitCommands) > 0 {
		_, interrupted, err := c.commands(ctx, s, "pre-commit", "lint-feedback.txt", git.PreCommitCommands, commitTimeout, e.LimitMS)
		if err != nil || interrupted {
			return nil, err
		}
	}
	exclude, err := c.Tree.notOurs(ctx, s)
	if err != nil {
		return nil, err
	}
	text, err := c.lastMessage(s)
	if err != nil {
		return nil, err
	}
	f := loop.CommitEnded{Of: loop.To(e), Outcome: "skipped", Strategy: e.Reason, Source: "template"}
	req := worktree.CommitRequest{LoopID: c.LoopID, RunID: s.RunID, Iteration: s.Iteration, Strategy: e.Reason,
		Exclude: exclude, MaxSubject: git.MaxSubjectLength}
	if subject, body, ok := roles.ParseCommit(text); ok {
		req.Subject, req.Body, f.Source = subject, body, "reviewer"
	}
	if req.Subject == "" {
		req.Subject = fmt.Sprintf("%s: iteration %d", c.LoopID, s.Iteration)
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer stop()
	res, err := c.Repo.Commit(ctx, req)
	switch {
	case err != nil:
		f.Outcome, f.Reason = "failed", err.Error()
	case res.Skipped == worktree.SkippedAlreadyCommitted:
		f.Outcome, f.SHA, f.Subject, f.Reason = "success", res.SHA, res.Subject, res.Skipped
	case res.Skipped != "":
		f.Reason = res.Skipped
	default:
		f.Outcome, f.SHA, f.Subject = "success", res.SHA, res.Subject
	}
	return f, nil
}
