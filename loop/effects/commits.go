package local

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/superloop/superloop/loop/control"

	"github.com/superloop/superloop/loop"

	"github.com/superloop/superloop/loop/worktree"
	"github.com/superloop/superloop/roles"
)

// commit commits the iteration's work. What goes wrong is recorded and does
// not end the loop: the work is still there.
func (d *driver) commit(shutdown context.Context, e loop.Effect) (loop.Fact, error) {
	f := loop.CommitEnded{Of: loop.To(e), Outcome: "skipped", Strategy: e.Reason}
	if err := d.loadTrees(); err != nil {
		return nil, err
	}
	if len(d.loop.Git.PreCommitCommands) > 0 {
		out, err := d.host.File("pre-commit-output", d.paths.File("lint-feedback.txt"))
		if err != nil {
			return nil, d.host.Full(err)
		}
		_, interrupted, err := d.commands(shutdown, "pre-commit", d.loop.Git.PreCommitCommands, commitTimeout, e.LimitMS, io.Writer(out))
		if cerr := out.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return nil, err
		}
		if interrupted {
			return nil, nil
		}
	}
	exclude, err := d.notOurs()
	if err != nil {
		return nil, err
	}
	req := worktree.CommitRequest{LoopID: d.o.LoopID, RunID: d.state.RunID, Iteration: d.state.Iteration, Strategy: e.Reason,
		Exclude: exclude, MaxSubject: d.loop.Git.MaxSubjectLength}
	f.Source = "template"
	text, err := d.lastMessage()
	if err != nil {
		return nil, err
	}
	if subject, body, ok := roles.ParseCommit(text); ok {
		req.Subject, req.Body, f.Source = subject, body, "reviewer"
	}
	if req.Subject == "" {
		req.Subject = fmt.Sprintf("%s: iteration %d", d.o.LoopID, d.state.Iteration)
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(shutdown), commitTimeout)
	defer stop()
	res, err := d.repo.Commit(ctx, req)
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

// Cancel ends a loop that no supervisor runs.
func Cancel(ctx context.Context, o Options) error {
	d, err := open(ctx, o)
	if err != nil {
		return err
	}
	defer d.close()
	if err := d.fold(); err != nil {
		return err
	}
	if err := d.takeIntents(); err != nil {
		return err
	}
	if d.cancel == nil || d.state.Status.Ended() {
		return nil // a supervisor was faster
	}
	if err := d.stopCancelled(); err != nil {
		return err
	}
	if err := d.settle(); err != nil {
		return err
	}
	return d.flushViews()
}

// settle removes the intents that the journal holds, or that came too late, and
// ends the question of a loop that has ended.
func (d *driver) settle() error {
	if err := d.approvals.Withdraw("the loop is " + string(d.state.Status)); err != nil {
		return err
	}
	_, files, err := control.Submitted(d.paths)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := d.o.Disk.Remove("control", f); err != nil && !os.IsNotExist(err) {
			return d.host.Full(err)
		}
	}
	return nil
}
