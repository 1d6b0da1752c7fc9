package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/effects"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/recovery/cage"
	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/verify"
	"github.com/superloop/superloop/roles/agent"
)

// Bounds of the verification of a tool.
const (
	verifyTime   = 5 * time.Second // of each command; there are at most six
	verifyGrace  = time.Second
	verifyOutput = 64 << 10 // bytes of each stream, of its beginning and of its end
)

// errLeaving: what was verified is not known, because superloop has to leave.
var errLeaving = errors.New("superloop has to leave")

// checkTool looks whether the tool works that the last command has installed. It
// decides nothing: what it finds is recorded, the tests that follow are the judge.
// A check that asks the wrong question is repaired for this once; what the
// repository itself brings along is not run.
func (d *driver) checkTool(shutdown context.Context, e loop.Effect) (loop.Fact, error) {
	f := loop.ToolChecked{Of: loop.To(e), Tool: e.Tool, Result: loop.ToolSkipped}
	a, err := d.rulesOfAid()
	if err != nil {
		f.Why = err.Error()
		return f, nil
	}
	recipe, ok := a.cat.Recipe(e.Tool)
	if !ok || recipe.Origin.Source == catalog.SourceRepository {
		f.Why = "its check is the repository's own, or there is none"
		return f, nil
	}
	t := &toolCheck{d: d, shutdown: shutdown, env: agent.Environment(d.host.Env(), agent.Request{WorkDir: d.repo.Top, Repo: d.paths.Repo, LoopDir: d.paths.Loop,
		Loop: d.o.LoopID, RunID: d.state.RunID, Role: "verify", Iteration: d.state.Iteration, Attempt: 1})}
	out, err := verify.Repair(shutdown, verify.Tool{ID: recipe.ID, CLI: recipe.CLI, Verify: recipe.Verify}, t)
	switch {
	case errors.Is(err, errLeaving):
		return nil, nil // it is looked at again
	case err != nil:
		d.log.Warn("an installed tool was not verified", zap.String("tool", e.Tool), zap.Error(err))
		f.Why = err.Error()
		return f, nil
	case out.Works && out.Repair == nil:
		f.Result = loop.ToolWorks
		return f, nil
	case out.Works:
		m := out.Repair
		f.Result, f.Original, f.Repaired, f.Method, f.ExitCode = loop.ToolRepaired, m.Original, m.Repaired, m.Method, m.ExitCode
		f.Mode, f.Pattern, f.TimeSavedMS = out.Verify.Mode, t.inert(out.Verify.Pattern), m.TimeSaved.Milliseconds()
		return f, nil
	}
	f.Result, f.Original, f.ExitCode, f.Why = loop.ToolDoubtful, recipe.Verify.Command, t.first.Exit.Code, t.inert(out.Why)
	f.Broken = out.Analysis.Broken || verify.AnalyzeVerifyFailure(t.last.Stdout, t.last.Stderr, t.last.Exit, recipe.CLI).Broken
	if t.first.Exit.TimedOut {
		f.ExitCode = -1
	}
	if t.first.Exit.NotStarted {
		f.Why = t.inert(t.first.Stderr)
		if recipe.PostEnv != "" {
			f.Why += "; its recipe says that PATH needs " + recipe.PostEnv
		}
	}
	return f, nil
}

// toolCheck runs the commands of one verification as the tests are run: in the
// repository, in their environment and behind the same walls.
type toolCheck struct {
	d           *driver
	shutdown    context.Context
	env         []string
	first, last verify.Run
	ran         bool
}

// Run runs one command.
func (t *toolCheck) Run(_ context.Context, argv []string) (verify.Run, error) {
	run, err := t.run(argv)
	if err == nil && !t.ran {
		t.first, t.ran = run, true
	}
	t.last = run
	return run, err
}

func (t *toolCheck) run(argv []string) (verify.Run, error) {
	program := argv[0]
	if strings.Contains(program, "/") && !filepath.IsAbs(program) {
		program = filepath.Join(t.d.repo.Top, program)
	}
	if _, err := proc.LookPath(program, t.env); errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return verify.Run{Stderr: err.Error(), Exit: verify.ExitInfo{Code: -1, NotStarted: true}}, nil
	}
	var res proc.Result
	var runErr error
	err := t.d.underKill(t.shutdown, func(kill context.Context, hurry <-chan struct{}) {
		res, runErr = t.d.agents.Run(kill, proc.Spec{Argv: argv, Dir: t.d.repo.Top, Env: t.env, Timeout: verifyTime, Grace: verifyGrace, Hurry: hurry,
			HeadTail: verifyOutput, Marker: effects.Mark(t.d.state.RunID)})
	})
	switch {
	case err != nil || runErr != nil:
		return verify.Run{}, fmt.Errorf("running %s: %w", argv[0], errors.Join(err, runErr))
	case res.Ended == proc.Killed:
		return verify.Run{}, errLeaving
	}
	run := verify.Run{Stdout: res.Stdout.Text(), Stderr: res.Stderr.Text(), Exit: verify.ExitInfo{Code: res.Code, Signal: res.Signal,
		TimedOut: res.Ended == proc.TimedOut, NotStarted: res.Ended == proc.NotStarted}}
	if run.Exit.NotStarted && res.Err != nil {
		run.Stderr = res.Err.Error()
	}
	return run, nil
}

// inert is what a tool has said, without the operator's secrets and at a length
// that an event may have.
func (t *toolCheck) inert(text string) string {
	text = cage.Secrets(t.d.host.Env()).String(text)
	return strings.ToValidUTF8(text[:min(len(text), maxLine)], "")
}
