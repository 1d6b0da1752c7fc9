package execute

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/superloop/superloop/recovery/inputs"
)

// madeBy is a command that ran, with the undo set that was kept before it.
type madeBy struct{ command, undo string }

// takeBack removes the single files that a command has made and that are as it left them, such as the lock file of
// another package manager. It is for a command that did not help: such a file would mislead the next one. Directories
// stay, because the next install uses them, or removes them itself. An error stops nothing.
func (x *Executor) takeBack(ctx context.Context, command string) {
	if x.made.undo == "" || x.made.command != command {
		return
	}
	removed, err := x.Undo.RemoveCreated(context.WithoutCancel(ctx), x.made.undo)
	x.made = madeBy{}
	if err != nil {
		x.Warn("what a remedy made stays, although it did not help", err)
	}
	if len(removed) > 0 && x.Note != nil {
		x.Note("taken back, since it did not help: " + strings.Join(removed, ", "))
	}
}

// lockNames are the lock files that an install makes from what the project declares.
var lockNames = strings.Fields("package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock bun.lockb Cargo.lock uv.lock poetry.lock" +
	" pdm.lock Pipfile.lock go.sum go.work.sum Gemfile.lock gems.locked composer.lock mix.lock")

// adopt makes the lock files that a command has just made a part of the baseline. The command itself ran with trusted
// inputs, or an operator approved it, so that its lock file is no agent's. Without adopt the next listed command would
// wait for an operator because of superloop's own file. A lock file that existed before keeps its baseline.
func (x *Executor) adopt(ctx context.Context, k Kept) {
	if k.ID == "" || x.run.Lock == "" {
		return
	}
	ctx = context.WithoutCancel(ctx)
	created, err := x.Undo.Created(ctx, k.ID)
	created = slices.DeleteFunc(created, func(p string) bool { return !slices.Contains(lockNames, path.Base(p)) })
	if err == nil && len(created) > 0 {
		err = x.trustNew(ctx, created)
	}
	if err != nil {
		x.Warn("the next command may wait for an operator because of what this one made", err)
	}
}

// trustNew trusts the changes of these files, for every command that the policies list.
func (x *Executor) trustNew(ctx context.Context, files []string) error {
	base, err := x.baseline()
	if err != nil {
		return err
	}
	tree, err := inputs.Open(x.Repo)
	if err != nil {
		return err
	}
	defer func() { _ = tree.Close() }() // tree was only read
	var trusted []inputs.Change
	for _, q := range x.listed() {
		report, err := inputs.Check(base, tree, q)
		if err != nil {
			continue // a listed command whose inputs cannot be read waits for an operator anyway
		}
		for _, c := range report.Changes {
			if slices.Contains(files, c.Path) {
				trusted = append(trusted, c)
			}
		}
	}
	if len(trusted) == 0 {
		return nil
	}
	return x.Ledger.Trust(ctx, x.Repo, trusted)
}
