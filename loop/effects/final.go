package effects

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/gate"
	"github.com/superloop/superloop/loop/worktree"
)

const finalOutput = "final-output.txt"

// final runs the setup and the tests in a fresh checkout of HEAD, in a directory of its own in the system's temporary
// directory. What keeps the checkout from being made is a failure of the gate, because an agent can have caused it.
func (t *Tests) final(ctx context.Context, e loop.Effect) (loop.Fact, error) {
	l := t.Settings().Loop
	lingers, stop := Linger(ctx)
	defer stop()
	head, err := t.Repo.Head(lingers)
	if err != nil {
		return nil, err
	}
	commands := slices.Concat(l.Gates.Setup, l.Tests.Commands)
	s, err := t.Journal.Fact(loop.FinalStarted{Of: loop.To(e), Commit: head, Commands: commands})
	if err != nil {
		return nil, err
	}
	started := t.Now(s)
	f := loop.FinalEnded{Of: loop.To(e), Commit: head, Status: gate.StatusFailed, Results: t.Paths.Rel(t.Paths.File(finalOutput))}
	done := func(details string) (loop.Fact, error) {
		f.Details, f.DurationMS = details, t.Now(s).Sub(started).Milliseconds()
		return f, nil
	}
	dir, err := t.checkout(ctx, head)
	defer func() { t.Warn("the checkout for the last tests is left behind", t.Disk.RemoveAll("checkout", dir)) }()
	if err != nil && ctx.Err() != nil {
		return nil, nil
	} else if err != nil {
		return done(err.Error())
	}
	there := *t.Host
	there.Repo = &worktree.Repo{Top: dir}
	results, interrupted, err := there.commands(ctx, s, "tests", finalOutput, commands, l.Tests.Timeout, e.LimitMS)
	if err != nil {
		return nil, err
	}
	if f.Interrupted = interrupted; interrupted {
		return done("")
	}
	verdict := gate.TestStatus(results)
	f.Status, f.ExitCode, f.Failed = verdict.Status(), verdict.ExitCode, verdict.Failed
	if now, err := t.Repo.Head(lingers); err != nil {
		return nil, err
	} else if now != head {
		f.Status = gate.StatusFailed
		return done("HEAD has moved to another commit meanwhile")
	}
	return done("")
}

// checkout makes a fresh checkout of a commit. Each loop has one directory for it; what a killed superloop left there is
// removed.
func (t *Tests) checkout(ctx context.Context, commit string) (dir string, err error) {
	sum := sha256.Sum256([]byte(t.Paths.Private))
	dir = filepath.Join(os.TempDir(), "superloop-final-"+hex.EncodeToString(sum[:8]))
	if commit == "" {
		return dir, worktree.ErrUnborn
	}
	if err := t.Disk.RemoveAll("checkout", dir); err != nil {
		return dir, err
	}
	if err := t.Disk.Mkdir("checkout", dir, 0o700); err != nil {
		return dir, fmt.Errorf("making the directory for the last tests: %w; if another user made it, set TMPDIR", err)
	}
	return dir, t.Repo.Checkout(ctx, commit, dir)
}
