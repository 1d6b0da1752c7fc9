package failures

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/effects"
	"github.com/superloop/superloop/recovery/sandbox"
	"github.com/superloop/superloop/recovery/verify"
	"github.com/superloop/superloop/roles/agent"
)

// Bounds of the verification of a tool.
const (
	verifyTime   = 5 * time.Second // for each command; there are at most six
	verifyGrace  = time.Second
	verifyOutput = 64 << 10 // bytes kept of the beginning and of the end of each stream
)

// errLeaving means that the result of a check is not known, because superloop has to leave.
var errLeaving = errors.New("superloop has to leave")

// checkTool checks whether the tool works that the last command has installed, and records the result. The tests, not
// this check, decide about the recovery. If the check itself is wrong, checkTool repairs it for this run only. It never
// runs a check that comes from the repository, or from a recipe that is held.
func (f *Performer) checkTool(ctx context.Context, e loop.Effect, s loop.State) (loop.Fact, error) {
	c := loop.ToolChecked{Of: loop.To(e), Tool: e.Tool, Result: loop.ToolSkipped}
	b, err := f.Rules.load(f.Journal)
	if err != nil {
		c.Why = err.Error()
		return c, nil
	}
	recipe, ok := b.cat.Recipe(e.Tool)
	if !ok || recipe.Origin.Foreign() != "" {
		c.Why = "its check is the repository's own, its recipe is held, or there is none"
		return c, nil
	}
	t := &toolCheck{Performer: f, runID: s.RunID, env: agent.Environment(f.Env(), f.Request(s, "verify", 1))}
	out, err := verify.Repair(ctx, verify.Tool{ID: recipe.ID, CLI: recipe.CLI, Real: proc.RealName(cmp.Or(recipe.CLI, recipe.ID), t.env), Verify: recipe.Verify}, t)
	switch {
	case errors.Is(err, errLeaving), ctx.Err() != nil:
		return nil, nil // the next supervisor makes the check again
	case err != nil:
		f.Log.Warn("an installed tool was not verified", zap.String("tool", e.Tool), zap.Error(err))
		c.Why = err.Error()
		return c, nil
	case out.Works && out.Repair == nil:
		c.Result = loop.ToolWorks
		return c, nil
	case out.Works:
		m := out.Repair
		c.Result, c.Original, c.Repaired, c.Method, c.ExitCode = loop.ToolRepaired, m.Original, m.Repaired, m.Method, m.ExitCode
		c.Mode, c.Pattern, c.TimeSavedMS = out.Verify.Mode, t.inert(out.Verify.Pattern), m.TimeSaved.Milliseconds()
		return c, nil
	}
	c.Result, c.Original, c.ExitCode, c.Why = loop.ToolDoubtful, recipe.Verify.Command, t.first.Exit.Code, t.inert(out.Why)
	c.Broken = out.Analysis.Broken || verify.AnalyzeVerifyFailure(t.last.Stdout, t.last.Stderr, t.last.Exit, recipe.CLI).Broken
	if t.first.Exit.TimedOut {
		c.ExitCode = -1
	}
	if t.first.Exit.NotStarted {
		c.Why = t.inert(t.first.Stderr)
		if recipe.PostEnv != "" {
			c.Why += "; its recipe says that PATH needs " + recipe.PostEnv
		}
	}
	return c, nil
}

// toolCheck runs the commands of one verification in the way in which superloop runs the tests: in the repository, in
// their environment and in the same sandbox.
type toolCheck struct {
	*Performer
	runID       string
	env         []string
	first, last verify.Run
	ran         bool
}

// Run runs one command, and keeps the results of the first and of the last command.
func (t *toolCheck) Run(ctx context.Context, argv []string) (run verify.Run, err error) {
	defer func() {
		if err == nil && !t.ran {
			t.first, t.ran = run, true
		}
		t.last = run
	}()
	program := argv[0]
	if strings.Contains(program, "/") && !filepath.IsAbs(program) {
		program = filepath.Join(t.Repo.Top, program)
	}
	if _, err := proc.LookPath(program, t.env); errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return verify.Run{Stderr: err.Error(), Exit: verify.ExitInfo{Code: -1, NotStarted: true}}, nil
	}
	res, err := t.Runner.Run(ctx, proc.Spec{Argv: argv, Dir: t.Repo.Top, Env: t.env, Timeout: verifyTime, Grace: verifyGrace, Hurry: effects.Hurry(ctx),
		HeadTail: verifyOutput, Marker: effects.Mark(t.runID)})
	switch {
	case err != nil:
		return verify.Run{}, fmt.Errorf("running %s: %w", argv[0], err)
	case res.Ended == proc.Killed:
		return verify.Run{}, errLeaving
	}
	return verify.RunOf(res), nil
}

// inert returns the output of a tool without the operator's secrets, cut to the length that an event may hold.
func (t *toolCheck) inert(text string) string {
	text = sandbox.Secrets(t.Env()).String(text)
	return strings.ToValidUTF8(text[:min(len(text), maxLine)], "")
}
