package doctor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/verify"
	"github.com/superloop/superloop/roles/agent/preflight"
)

// Bounds of what a program is asked.
const (
	proveGrace  = time.Second
	proveOutput = 64 << 10 // bytes of each stream, of its beginning and of its end
)

// Prove finds out whether a program of which nothing is known works: by asking
// it for its version, and where that says nothing by what recovery/verify finds.
// It starts at most six commands, each a process tree of its own that has
// nothing to read and ends within q.Bound.
func Prove(ctx context.Context, q preflight.Question) (preflight.Check, error) {
	original := text.Paste(q.Path) + " --version"
	c := preflight.Check{Original: original, ExitCode: -1}
	spawner, err := proc.Start(proc.Options{})
	if err != nil {
		return c, err
	}
	name := filepath.Base(q.Path)
	r := &prover{q: q, spawner: spawner}
	out, err := verify.Repair(ctx, verify.Tool{ID: name, CLI: name, Verify: catalog.Verify{Command: original, Origin: catalog.VerifyGenerated}}, r)
	if err := errors.Join(err, spawner.Close()); err != nil {
		return c, err
	}
	last := r.runs[len(r.runs)-1]
	c.Works, c.Broken, c.Why, c.ExitCode, c.Said = out.Works, out.Analysis.Broken, out.Why, r.runs[0].Exit.Code, r.runs[0].Stdout+r.runs[0].Stderr
	switch {
	case out.Works && out.Repair != nil:
		c.Repaired, c.Method, c.ExitCode = out.Repair.Repaired, out.Repair.Method, out.Repair.ExitCode
		c.TimeSavedMS = out.Repair.TimeSaved.Milliseconds()
	case out.Works:
	case verify.AnalyzeVerifyFailure(last.Stdout, last.Stderr, last.Exit, name).Broken: // a fallback may be what shows it
		c.Broken, c.ExitCode = true, last.Exit.Code
	}
	if last.Exit.TimedOut && !c.Works {
		c.TimedOut, c.Broken, c.ExitCode = true, false, -1
	}
	return c, nil
}

// prover runs the commands of one check.
type prover struct {
	q       preflight.Question
	spawner *proc.Spawner
	runs    []verify.Run
}

// Run runs one command.
func (p *prover) Run(ctx context.Context, argv []string) (verify.Run, error) {
	env := append(p.q.Env[:len(p.q.Env):len(p.q.Env)], "LC_ALL=C")
	res, err := p.spawner.Run(ctx, proc.Spec{Argv: argv, Dir: p.q.Dir, Env: env, Timeout: p.q.Bound, Grace: proveGrace, HeadTail: proveOutput})
	switch {
	case err != nil:
		return verify.Run{}, err
	case ctx.Err() != nil:
		return verify.Run{}, fmt.Errorf("asking %s: %w", argv[0], context.Cause(ctx))
	}
	run := verify.RunOf(res)
	p.runs = append(p.runs, run)
	return run, nil
}
