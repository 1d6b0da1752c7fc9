package worktree

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// StackError says with which branch a new one cannot begin. It wraps ErrLacks, ErrOldGit or an *UnfitError.
type StackError struct {
	Branch string
	Err    error
}

func (e *StackError) Error() string { return e.Branch + ": " + e.Err.Error() }
func (e *StackError) Unwrap() error { return e.Err }

// ErrLacks means that the branch that is to begin exists already, without the work that it is to begin with.
var ErrLacks = errors.New("the branch that is to begin with its work exists already and lacks it")

// Stack makes a branch that begins with the work of others: at HEAD with what the branches on have and HEAD has not. A
// branch of on that does not exist, or whose changes HEAD has, counts as taken; one that contains HEAD is where the
// branch begins; else a merge commit with the message is made, by the user of git. No work tree and no index changes, and
// no hook, filter or merge program runs. With dry no branch is made. If the branch exists and has all that, Stack
// changes nothing, so it may be repeated after a crash. The branch survives a power cut.
//
// If a branch of on does not fit, the error is a *StackError.
func (r *Repo) Stack(ctx context.Context, branch string, on []string, message string, dry bool) error {
	at, err := r.Head(ctx)
	if err != nil {
		return err
	} else if at == "" {
		return ErrUnborn
	}
	was, err := r.Tip(ctx, branch)
	switch {
	case err == nil:
		at = was
	case !errors.Is(err, ErrNoBranch):
		return err
	}
	for _, name := range on {
		next, err := r.onto(ctx, at, name, message)
		switch {
		case err != nil:
			return err
		case was != "" && next != was:
			return &StackError{name, ErrLacks}
		}
		at = next
	}
	if dry || was != "" {
		return nil
	}
	// The objects come first: a branch that a power cut leaves without them could not be read.
	if err := r.Flush(ctx); err != nil {
		return err
	}
	if _, err := r.read(ctx, "update-ref", "refs/heads/"+branch, at, strings.Repeat("0", len(at))); err != nil {
		return r.explain("making the branch "+branch, err)
	}
	return r.Flush(ctx)
}

// onto returns the commit that has what the commit at and the branch have.
func (r *Repo) onto(ctx context.Context, at, branch, message string) (string, error) {
	m := Merging{Branch: branch, Head: at}
	var err error
	m.Tip, err = r.Tip(ctx, branch)
	if errors.Is(err, ErrNoBranch) {
		return at, nil
	}
	if err == nil {
		err = r.mergedTree(ctx, &m)
	}
	if err == nil && !m.Nothing {
		err = r.harmless(ctx, &m)
	}
	unfit, refused := errors.AsType[*UnfitError](err)
	switch {
	case refused:
		return "", &StackError{branch, unfit}
	case errors.Is(err, ErrOldGit):
		return "", &StackError{branch, err}
	case err != nil:
		return "", fmt.Errorf("looking at the branch %s: %w", branch, err)
	case m.Nothing:
		return at, nil
	case m.FastForward:
		return m.Tip, nil
	}
	out, err := r.run(ctx, []byte(message), "commit-tree", m.Tree, "-p", at, "-p", m.Tip, "-F", "-")
	if err != nil {
		return "", r.explain("committing the work of "+branch, err)
	}
	return strings.TrimSpace(string(out)), nil
}
