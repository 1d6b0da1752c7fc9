package worktree

import (
	"context"
	"fmt"
	"strings"

	"github.com/superloop/superloop/internal/gitcmd"
)

// contains reports whether HEAD contains the commit. A commit that is missing or damaged is not contained.
func (r *Repo) contains(ctx context.Context, sha string) (bool, error) {
	if sha == "" {
		return false, nil
	}
	_, err := r.read(ctx, "merge-base", "--is-ancestor", sha, "HEAD")
	if gitcmd.ExitCode(err) > 0 {
		return false, nil
	}
	return err == nil, err
}

// finish returns the commit that an earlier call has made, and makes up for what that call did not reach.
func (r *Repo) finish(ctx context.Context, q CommitRequest, err error) (CommitResult, error) {
	if err != nil {
		return CommitResult{}, fmt.Errorf("looking for the commit %s: %w", q.Made, err)
	}
	subject, err := r.line(ctx, "log", "-1", "--no-show-signature", "--format=%s", q.Made)
	if err != nil {
		return CommitResult{}, fmt.Errorf("reading the commit %s: %w", q.Made, err)
	}
	if head, err := r.Head(ctx); err == nil && head == q.Made && r.free() == nil {
		if out, err := r.read(ctx, "diff-tree", "-r", "-z", "--root", "--no-commit-id", "--name-only", "--no-renames", q.Made); err == nil && len(out) > 0 {
			r.follow(ctx, strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"))
		}
	}
	if err := r.Flush(ctx); err != nil {
		return CommitResult{}, fmt.Errorf("flushing the commit %s: %w", q.Made, err)
	}
	return CommitResult{SHA: q.Made, Subject: subject, Skipped: SkippedAlreadyCommitted}, nil
}
