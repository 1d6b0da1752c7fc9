package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/superloop/superloop/loop"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop/effects"
	"github.com/superloop/superloop/loop/gate"
	"github.com/superloop/superloop/roles"
	"github.com/superloop/superloop/roles/agent"
)

// runTests runs the test commands, all of them, and records their start and
// what they found.
func (d *driver) runTests(shutdown context.Context, e loop.Effect) (loop.Fact, error) {
	rerun := e.Reason == loop.ReasonTreeChanged || e.Reason == loop.ReasonRecovery
	then := d.testsBefore(e)
	defer d.failures.Rules.Expect(d.state)()
	cmds := d.loop.Tests.Commands
	if err := d.step(loop.TestsStarted{Of: loop.To(e), Rerun: rerun, Mode: d.loop.Tests.Mode, Commands: cmds, Reason: e.Reason}); err != nil {
		return nil, err
	}
	out, err := d.host.File("test-output", d.paths.File("test-output.txt"))
	if err != nil {
		return nil, d.host.Full(err)
	}
	started := d.host.Now(d.state)
	results, interrupted, err := d.commands(shutdown, "tests", cmds, d.loop.Tests.Timeout, e.LimitMS, out)
	if err := errors.Join(err, out.Close()); err != nil {
		return nil, d.host.Full(err)
	}
	f := loop.TestsEnded{Of: loop.To(e), Rerun: rerun, DurationMS: d.host.Now(d.state).Sub(started).Milliseconds(), Reason: e.Reason, Interrupted: interrupted}
	if interrupted {
		f.Status, f.Details = gate.StatusSkipped, loop.ReasonInterrupted
		return f, nil
	}
	verdict := gate.TestStatus(results)
	f.Status, f.ExitCode, f.Failed = verdict.Status(), verdict.ExitCode, verdict.Failed
	f.Failures, f.Outputs = failuresOf(results), spansOf(results)
	if then != nil {
		v := verifyRecovery(*then, testsThen{f.Status, f.Failures, d.patternSeen(d.state.Recovery.Pattern)})
		f.Verification = &v
		d.recoveries.Learn(shutdown, d.state, v.Result)
	}
	if err := d.host.Write("test-status.json", verdict.StatusJSON(d.host.Now(d.state))); err != nil {
		return nil, err
	}
	f.Tree, err = d.lookAtTree(shutdown)
	return f, err
}

// testsBefore is what the tests said before the recovery that this run is to
// verify; nil when it is not for one.
func (d *driver) testsBefore(e loop.Effect) *testsThen {
	if e.Reason != loop.ReasonRecovery || d.state.Recovery == nil {
		return nil
	}
	return &testsThen{d.state.Gates.Tests, d.state.TestFailures, d.state.Recovery.PatternBefore}
}

// patternSeen looks for the proposal's error_pattern in what the tests printed
// last.
func (d *driver) patternSeen(pattern string) *bool {
	out, _, err := roles.ReadRegular(d.paths.File("test-output.txt"), 1<<20, 1<<20)
	if err != nil {
		return nil
	}
	return patternIn(pattern, out)
}

// commands runs shell commands one after the other as process trees of their
// own and writes what they print to out. Each may take timeout, all together
// what the loop has left.
func (d *driver) commands(shutdown context.Context, who string, cmds []string, timeout time.Duration, leftMS int64, out io.Writer) ([]gate.CommandResult, bool, error) {
	env := agent.Environment(d.host.Env(), agent.Request{WorkDir: d.repo.Top, Repo: d.paths.Repo, LoopDir: d.paths.Loop,
		Loop: d.o.LoopID, RunID: d.state.RunID, Role: who, Iteration: d.state.Iteration, Attempt: 1})
	shell, err := proc.LookPath("bash", env)
	if err != nil {
		if shell, err = proc.LookPath("sh", env); err != nil {
			return nil, false, fmt.Errorf("running the %s: %w", who, err)
		}
	}
	begun := time.Now()
	sum := &counted{w: out}
	out = sum
	var results []gate.CommandResult
	for _, cmd := range cmds {
		limit := leftMS
		if limit > 0 {
			limit = max(1, limit-time.Since(begun).Milliseconds())
		}
		bound, _ := capTimeout(timeout, limit)
		fmt.Fprintf(out, "$ %s\n", cmd)
		end := &lastByte{w: out}
		from := sum.n
		feed, said := agent.Follow(d.host.Says(who))
		var res proc.Result
		var runErr error
		spec := proc.Spec{Argv: []string{shell, "-c", cmd}, Dir: d.repo.Top, Env: env, Timeout: bound, Grace: roleGrace,
			Log: end, LogLimit: logLimit, Stdout: feed, Stderr: feed, Marker: effects.Mark(d.state.RunID)}
		if err := d.underKill(shutdown, func(kill context.Context, hurry <-chan struct{}) {
			spec.Hurry = hurry
			res, runErr = d.agents.Run(kill, spec)
		}); err != nil {
			return nil, false, err
		}
		said()
		if res.Ended == proc.Killed {
			fmt.Fprintf(out, "%sinterrupted\n", end.newline())
			return results, true, nil
		}
		r := gate.CommandResult{From: from, To: sum.n, Command: cmd, ExitCode: res.Code, Signal: res.Signal, TimedOut: res.Ended == proc.TimedOut,
			Duration: res.Duration, Output: []byte(res.Stdout.Text() + res.Stderr.Text())}
		switch {
		case res.Ended == proc.NotStarted && res.Err != nil:
			r.Error = res.Err.Error()
		case runErr != nil:
			r.Error = runErr.Error()
		}
		if r.Error != "" {
			fmt.Fprintf(out, "%s%s\n", end.newline(), r.Error)
		}
		if r.TimedOut {
			fmt.Fprintf(out, "%stimed out after %s\n", end.newline(), bound)
		}
		if _, err := fmt.Fprintf(out, "%sexit_code: %d\n\n", end.newline(), r.Code()); err != nil {
			return nil, false, d.host.Full(err)
		}
		results = append(results, r)
	}
	return results, false, nil
}

// spansOf are where the outputs of those that failed stand.
func spansOf(results []gate.CommandResult) []loop.OutputSpan {
	var out []loop.OutputSpan
	for _, r := range results {
		if r.Failed() {
			out = append(out, loop.OutputSpan{Command: r.Command, ExitCode: r.ExitCode, Signal: r.Signal, TimedOut: r.TimedOut, From: r.From, To: r.To})
		}
	}
	return out
}

// counted counts what is written.
type counted struct {
	w io.Writer
	n int64
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// lastByte remembers whether what was written ended a line.
type lastByte struct {
	w    io.Writer
	last byte
}

func (l *lastByte) Write(p []byte) (int, error) {
	if len(p) > 0 {
		l.last = p[len(p)-1]
	}
	return l.w.Write(p)
}

// newline is what has to come before the next line, once.
func (l *lastByte) newline() string {
	if l.last == '\n' || l.last == 0 {
		return ""
	}
	l.last = '\n'
	return "\n"
}

// runValidation runs the static checks and the commands of the validation gate.
func (d *driver) runValidation(shutdown context.Context) (loop.Fact, error) {
	v := d.loop.Validation
	if err := d.step(loop.ValidationStarted{Of: d.to(), Mode: v.Mode, Commands: v.Commands}); err != nil {
		return nil, err
	}
	started := d.host.Now(d.state)
	var pre *gate.PreflightResult
	if v.Preflight != nil {
		res, err := gate.Preflight(d.repo.Top, gate.PreflightSpec(*v.Preflight))
		if err != nil {
			return nil, err
		}
		pre = &res
	}
	out, err := d.host.File("validation-output", d.paths.File("validation-output.txt"))
	if err != nil {
		return nil, d.host.Full(err)
	}
	results, interrupted, err := d.commands(shutdown, "validation", v.Commands, v.Timeout, d.state.Pending.LimitMS, out)
	if err := errors.Join(err, out.Close()); err != nil {
		return nil, d.host.Full(err)
	}
	f := loop.GateEnded{Of: d.to(), Gate: "validation", DurationMS: d.host.Now(d.state).Sub(started).Milliseconds(), Interrupted: interrupted}
	if interrupted {
		f.Status = gate.StatusSkipped
		return f, nil
	}
	verdict := gate.Validation(pre, results)
	f.Status, f.OK, f.Details = verdict.Status(), verdict.OK, strings.Join(verdict.Failed, "; ")
	f.Results = d.paths.Rel(d.paths.File("validation-results.json"))
	at := d.host.Now(d.state)
	if err := d.host.Write("validation-results.json", verdict.ResultsJSON(d.o.LoopID, d.state.Iteration, at)); err != nil {
		return nil, err
	}
	return f, d.host.Write("validation-status.json", gate.StatusJSON(f.Status, f.Results, at))
}
