package take

import (
	"context"
	"errors"
	"strings"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/worktree"
)

// MergeOptions are the flags of superloop merge.
type MergeOptions struct{ Squash, DryRun, Force bool }

// Merge takes the branch of the loop into the branch that is checked out in the repository. It changes nothing if it
// returns a *Refusal, but that it may have committed on the loop's branch what the loop had left uncommitted. The caller
// knows that nobody runs the loop.
func (w *Work) Merge(ctx context.Context, o MergeOptions) error {
	if !w.Own {
		branch, _ := w.Main.Branch(ctx)
		if branch == "" {
			branch = "no branch"
		}
		return nothing("superloop diff --loop "+w.ID+"   (then commit what is not committed: git add -A && git commit)",
			"there is nothing to merge: loop %s works in the repository itself, on %s, and its work is there already", w.ID, branch)
	}
	res, err := w.settled(ctx, "superloop merge", o.Force)
	if err != nil {
		return err
	}
	plan, err := w.Main.PlanMerge(ctx, w.Paths.OwnBranch())
	if err == nil || isConflict(err) { // else nothing is committed, either
		if rest := w.commitRest(ctx, res, o.DryRun); rest != nil {
			return rest
		}
		if !o.DryRun {
			plan, err = w.Main.PlanMerge(ctx, w.Paths.OwnBranch())
		}
	}
	if err != nil {
		return w.explain(err)
	}
	if plan.Nothing {
		w.say("%s has all of %s already", plan.Into, plan.Branch)
		return nil
	}
	how := "fast-forward"
	if o.Squash || !plan.FastForward {
		how = "as one commit"
	}
	if o.DryRun {
		w.say("would merge %s into %s, %s: %s", plan.Branch, plan.Into, how, count(len(plan.Paths), "file"))
		w.say("next: superloop merge --loop %s%s", w.ID, map[bool]string{true: " --squash"}[o.Squash])
		return nil
	}
	subject, body := res.Message()
	sha, err := w.Main.Merge(ctx, plan, o.Squash, subject+"\n\n"+body+"\n")
	if err != nil {
		return w.explain(err)
	}
	repo := "git -C " + text.Paste(w.Paths.Repo)
	w.say("merged %s into %s, %s: %s, now at %s", plan.Branch, plan.Into, how, count(len(plan.Paths), "file"), sha[:12])
	w.say("next: %s log -p %s..   (%s reset --keep %s takes it back)", repo, plan.Head[:12], repo, plan.Head[:12])
	w.say("when you need the loop's work tree no more: %s worktree remove %s && %s branch -D %s", repo, text.Paste(w.Paths.OwnTree()), repo, plan.Branch)
	return nil
}

func isConflict(err error) bool {
	unfit, ok := errors.AsType[*worktree.UnfitError](err)
	return ok && unfit.Why == worktree.UnfitConflict
}

// explain adds to the error of a merge what the operator types next.
func (w *Work) explain(err error) error {
	repo, branch := "git -C "+text.Paste(w.Paths.Repo), w.Paths.OwnBranch()
	again := "superloop merge --loop " + w.ID
	const nothingIsChanged = "; nothing is changed"
	unfit, _ := errors.AsType[*worktree.UnfitError](err)
	switch {
	case errors.Is(err, worktree.ErrNoBranch):
		return refuse("superloop run --loop "+w.ID, "%w; the loop makes it when it runs", err)
	case errors.Is(err, worktree.ErrDetached):
		return refuse(repo+" switch BRANCH, then: "+again, "%w in %s, so there is nothing to merge into", err, w.Paths.Repo)
	case errors.Is(err, worktree.ErrOldGit):
		return refuse(repo+" merge --squash "+branch, "%w", err)
	case errors.Is(err, worktree.ErrBusy):
		return refuse(repo+" status", "%w", err)
	case unfit == nil:
		return err
	}
	next := map[string]string{
		worktree.UnfitDirty:     repo + " stash, then: " + again + "   (and: " + repo + " stash pop)",
		worktree.UnfitConflict:  repo + " merge " + branch + "   (resolve it, then: git commit)",
		worktree.UnfitSteers:    repo + " diff HEAD..." + branch + " -- .superloop   (if it is what you want: " + repo + " merge " + branch + ")",
		worktree.UnfitFiltered:  repo + " merge " + branch,
		worktree.UnfitUntracked: "mv them away, then: " + again,
	}[unfit.Why]
	if unfit.Why == worktree.UnfitUntracked && len(unfit.Paths) > 0 {
		p := text.Paste(strings.TrimSuffix(w.Paths.Repo, "/") + "/" + unfit.Paths[0])
		next = "mv " + p + " " + p + ".mine, then: " + again
	}
	return refuse(next, "%w%s", err, nothingIsChanged)
}
