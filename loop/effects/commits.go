package effects

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/worktree"
	"github.com/superloop/superloop/roles"
)

const commitTimeout = 10 * time.Minute // bounds a commit with its hooks, and each pre-commit command

// While another git holds the index, a commit is tried busyTries times, over Commits.Patience.
const (
	busyTries = 15
	busyTime  = 30 * time.Second
)

// Commits performs Commit.
type Commits struct {
	*Host
	Tree *Tree
	// Patience is how long a commit waits for another git that holds the index. 0 is half a minute.
	Patience time.Duration
}

// Perform commits the work of the iteration. A failed commit is an outcome in the fact and does not end the loop,
// because the work is still in the work tree. If ctx ends during the commit itself, Perform finishes the commit, within
// ten minutes.
func (c *Commits) Perform(ctx context.Context, e loop.Effect, s loop.State) (loop.Fact, error) {
	git := c.Settings().Loop.Git
	f := loop.CommitEnded{Of: loop.To(e), Outcome: "skipped", Strategy: e.Reason, Source: "template"}
	if len(git.PreCommitCommands) > 0 {
		if s.TestsFiles != "" {
			if err := c.Tree.Before(ctx); err != nil {
				return nil, err
			}
		}
		_, interrupted, err := c.commands(ctx, s, "pre-commit", "lint-feedback.txt", git.PreCommitCommands, commitTimeout, e.LimitMS)
		if err != nil || interrupted {
			return nil, err
		}
		if f.Files, err = c.Tree.After(ctx, s); err != nil {
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
	req := worktree.CommitRequest{LoopID: c.LoopID, RunID: s.RunID, Iteration: s.Iteration, Strategy: e.Reason,
		Exclude: exclude, MaxSubject: git.MaxSubjectLength}
	if req.Made, err = c.made(s); err != nil {
		return nil, err
	}
	var unrecorded error
	req.Record = func(sha string) error {
		unrecorded = c.record(s, sha)
		return unrecorded
	}
	if subject, body, ok := roles.ParseCommit(text); ok {
		req.Subject, req.Body, f.Source = subject, body, "reviewer"
	}
	if req.Subject == "" {
		req.Subject = fmt.Sprintf("%s: iteration %d", c.LoopID, s.Iteration)
	}
	given := ctx
	ctx, done := Linger(ctx)
	defer done()
	ctx, stop := context.WithTimeout(ctx, commitTimeout)
	defer stop()
	res, err := c.Repo.Commit(ctx, req)
	for try := 1; errors.Is(err, worktree.ErrLocked) && try < busyTries; try++ {
		select {
		case <-given.Done():
			return nil, given.Err()
		case <-time.After(cmp.Or(c.Patience, busyTime) / busyTries):
		}
		res, err = c.Repo.Commit(ctx, req)
	}
	switch {
	case errors.Is(err, context.Canceled):
		return nil, err
	case unrecorded != nil: // no branch leads to the commit, and the next run makes it
		return nil, unrecorded
	case err != nil:
		f.Outcome, f.Reason = loop.CommitFailed, err.Error()
	case res.Skipped == worktree.SkippedAlreadyCommitted:
		f.Outcome, f.SHA, f.Subject, f.Reason = "success", res.SHA, res.Subject, res.Skipped
	case res.Skipped != "":
		f.Reason = res.Skipped
	default:
		f.Outcome, f.SHA, f.Subject = "success", res.SHA, res.Subject
	}
	f.Left = res.Left[:min(len(res.Left), maxNamed)]
	return f, nil
}

// ownCommit is the record of the commit that superloop makes. It lies where agents cannot write, so that no message of
// theirs makes a commit superloop's.
type ownCommit struct {
	RunID     string `json:"run_id"`
	Iteration int    `json:"iteration"`
	SHA       string `json:"sha"`
}

// record notes the id of a commit before a branch leads to it.
func (c *Commits) record(s loop.State, sha string) error {
	data, err := json.Marshal(ownCommit{s.RunID, s.Iteration, sha})
	if err != nil {
		return err
	}
	return c.Full(c.Disk.WriteFile("commit", c.Paths.Commit(), append(data, '\n'), 0o600))
}

// Last returns the commit that superloop has recorded last, or "".
func (c *Commits) Last() string {
	own, _ := c.own()
	return own.SHA
}

// made returns the id that record has noted for this iteration, or "".
func (c *Commits) made(s loop.State) (string, error) {
	own, err := c.own()
	if err != nil || own.RunID != s.RunID || own.Iteration != s.Iteration {
		return "", err
	}
	return own.SHA, nil
}

// own reads the last record.
func (c *Commits) own() (own ownCommit, err error) {
	err = door.ReadState(c.Paths.Commit(), 1<<10, "which commit superloop has made last", "superloop takes that commit for an agent's", &own)
	if errors.Is(err, fs.ErrNotExist) {
		return own, nil
	}
	return own, err
}
