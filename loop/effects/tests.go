package effects

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/gate"
	"github.com/superloop/superloop/roles/agent"
)

// Tests performs RunTests, RunValidation and RunFinal.
type Tests struct {
	*Host
	Journal Journal
	Tree    TestedTree
	Learner Learner
}

// Looker takes a snapshot of what git would commit, and gives its signature.
type Looker interface {
	Look(ctx context.Context, s loop.State) (string, error)
}

// Watcher is a Looker that also looks at all files that tests can read. See Tree.
type Watcher interface {
	Looker
	Files(ctx context.Context) (string, error)
	BeforeTests(ctx context.Context) error
	Before(ctx context.Context) error
	After(ctx context.Context, s loop.State) (string, error)
	AfterTests(ctx context.Context) (string, error)
}

// TestedTree is a work tree that also notes what the tests before the first role wrote.
type TestedTree interface {
	Watcher
	TestsWrote(ctx context.Context, s loop.State) error
}

// Learner notes the result of the tests for the recovery that has just ended: loop.Verified, loop.Ineffective,
// loop.Harmful or loop.Unverified. A Learner cannot make a test run fail.
type Learner interface {
	Learned(ctx context.Context, s loop.State, result string)
}

// Perform performs RunTests, RunValidation or RunFinal.
func (t *Tests) Perform(ctx context.Context, e loop.Effect, s loop.State) (loop.Fact, error) {
	switch e.Kind {
	case loop.RunTests:
		return t.run(ctx, e, s)
	case loop.RunValidation:
		return t.validate(ctx, e)
	case loop.RunFinal:
		return t.final(ctx, e)
	}
	return nil, fmt.Errorf("%q is no effect of the tests", e.Kind)
}

// run records the start of the tests, runs all test commands, and returns their verdict.
func (t *Tests) run(ctx context.Context, e loop.Effect, s loop.State) (loop.Fact, error) {
	rerun := e.Reason == loop.ReasonTreeChanged || e.Reason == loop.ReasonRecovery
	var then *testsThen // the verdict of the tests before the recovery that this run verifies
	if e.Reason == loop.ReasonRecovery && s.Recovery != nil {
		then = &testsThen{s.Gates.Tests, s.TestFailures, s.Recovery.PatternBefore}
	}
	tests := t.Settings().Loop.Tests
	s, err := t.Journal.Fact(loop.TestsStarted{Of: loop.To(e), Rerun: rerun, Mode: tests.Mode, Commands: tests.Commands, Reason: e.Reason})
	if err != nil {
		return nil, err
	}
	started := t.Now(s)
	if e.Reason == loop.ReasonBaseline {
		return t.baseline(ctx, e, s)
	}
	if err := t.Tree.BeforeTests(ctx); err != nil {
		return nil, err
	}
	results, interrupted, err := t.commands(ctx, s, "tests", "test-output.txt", tests.Commands, tests.Timeout, e.LimitMS)
	if err != nil {
		return nil, err
	}
	f := loop.TestsEnded{Of: loop.To(e), Rerun: rerun, DurationMS: t.Now(s).Sub(started).Milliseconds(), Reason: e.Reason, Interrupted: interrupted}
	if interrupted {
		f.Status, f.Details = gate.StatusSkipped, loop.ReasonInterrupted
		return f, nil
	}
	verdict := gate.TestStatus(results)
	f.Status, f.ExitCode, f.Failed = verdict.Status(), verdict.ExitCode, verdict.Failed
	f.Failures, f.Outputs = failed(results)
	f.Unreadable = unreadable(ctx, results)
	if then != nil {
		v := verifyRecovery(*then, testsThen{f.Status, f.Failures, t.PatternSeen(s.Recovery.Pattern)})
		f.Verification = &v
		t.Learner.Learned(ctx, s, v.Result)
	}
	if err := t.Write("test-status.json", verdict.StatusJSON(t.Now(s))); err != nil {
		return nil, err
	}
	if f.Tree, err = t.Tree.Look(ctx, s); err == nil && f.Status == gate.StatusOK { // red tests complete nothing
		f.Files, err = t.Tree.AfterTests(ctx)
	}
	return f, err
}

// baseline runs all test commands before the first role, and returns whether they passed. Their output is not in the
// files of the tests, which roles read.
func (t *Tests) baseline(ctx context.Context, e loop.Effect, s loop.State) (loop.Fact, error) {
	tests, started := t.Settings().Loop.Tests, t.Now(s)
	results, interrupted, err := t.commands(ctx, s, "tests", "tests-baseline.txt", tests.Commands, tests.Timeout, e.LimitMS)
	if err != nil {
		return nil, err
	}
	verdict := gate.TestStatus(results)
	f := loop.TestsBaseline{Of: loop.To(e), DurationMS: t.Now(s).Sub(started).Milliseconds(), Interrupted: interrupted}
	if interrupted {
		return f, nil
	}
	f.Status, f.ExitCode, f.Failed = loop.BaselineRed, verdict.ExitCode, verdict.Failed
	f.Unreadable = unreadable(ctx, results)
	if verdict.Status() == gate.StatusOK {
		f.Status = loop.BaselineGreen
	}
	return f, t.Tree.TestsWrote(ctx, s)
}

// PatternSeen reports whether the error_pattern of a proposal occurs in the last output of the tests. It returns nil if
// it cannot tell.
func (h *Host) PatternSeen(pattern string) *bool {
	out, _, err := door.Ends(h.Paths.File("test-output.txt"), 1<<20, 1<<20)
	if err != nil {
		return nil
	}
	return patternIn(pattern, out)
}

// validate runs the static checks and the commands of the validation gate.
func (t *Tests) validate(ctx context.Context, e loop.Effect) (loop.Fact, error) {
	v := t.Settings().Loop.Validation
	s, err := t.Journal.Fact(loop.ValidationStarted{Of: loop.To(e), Mode: v.Mode, Commands: v.Commands})
	if err != nil {
		return nil, err
	}
	started := t.Now(s)
	var pre *gate.PreflightResult
	if v.Preflight != nil {
		res, err := gate.Preflight(t.Repo.Top, gate.PreflightSpec(*v.Preflight))
		if err != nil {
			return nil, err
		}
		pre = &res
	}
	watched := s.TestsFiles != "" && len(v.Commands) > 0
	if watched {
		if err := t.Tree.Before(ctx); err != nil {
			return nil, err
		}
	}
	results, interrupted, err := t.commands(ctx, s, "validation", "validation-output.txt", v.Commands, v.Timeout, e.LimitMS)
	if err != nil {
		return nil, err
	}
	f := loop.GateEnded{Of: loop.To(e), Gate: "validation", DurationMS: t.Now(s).Sub(started).Milliseconds(), Interrupted: interrupted}
	if interrupted {
		f.Status = gate.StatusSkipped
		return f, nil
	}
	verdict := gate.Validation(pre, results)
	f.Status, f.OK, f.Details = verdict.Status(), verdict.OK, strings.Join(verdict.Failed, "; ")
	f.Results = t.Paths.Rel(t.Paths.File("validation-results.json"))
	if watched {
		if f.Files, err = t.Tree.After(ctx, s); err != nil {
			return nil, err
		}
	}
	at := t.Now(s)
	if err := t.Write("validation-results.json", verdict.ResultsJSON(t.LoopID, s.Iteration, at)); err != nil {
		return nil, err
	}
	return f, t.Write("validation-status.json", gate.StatusJSON(f.Status, f.Results, at))
}

const maxPattern = 1000 // bounds a proposal's error_pattern, in bytes; superloop does not search for a longer one

// varying matches the parts of an output that do not count in the signature of a failure: times, numbers, addresses,
// hashes and the names of temporary files.
var varying = pattern.Lazy(`0x[0-9a-fA-F]+|[0-9a-fA-F]{8,}|/tmp/[^\s:'"]*|[0-9]+(\.[0-9]+)*`)

// signatureLines is the number of lines at the end of an output that go into its signature. The first lines of many
// test runners differ in each run.
const signatureLines = 60

// signature returns a hash of an output. Two outputs that report the same failure have the same signature.
func signature(output []byte) string {
	lines := strings.Split(text.Uncoloured(string(output)), "\n")
	h := sha256.New()
	kept := 0
	for i := len(lines) - 1; i >= 0 && kept < signatureLines; i-- {
		line := strings.TrimSpace(lines[i])
		if line == "" {
			continue
		}
		kept++
		h.Write(append(varying().ReplaceAll([]byte(line), []byte("0")), '\n'))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// failed returns the commands that failed, and the places of their outputs in the output file.
func failed(results []gate.CommandResult) (all []loop.TestFailure, spans []loop.OutputSpan) {
	for _, r := range results {
		if r.Failed() {
			all = append(all, loop.TestFailure{Command: r.Command, ExitCode: r.Code(), Signature: signature(r.Output)})
			spans = append(spans, loop.OutputSpan{Command: r.Command, ExitCode: r.ExitCode, Signal: r.Signal, TimedOut: r.TimedOut, From: r.From, To: r.To})
		}
	}
	return all, spans
}

// testsThen holds what was known of the tests at one time: before a recovery, or after it.
type testsThen struct {
	status   string // ok, failed, skipped, or "" when they had not run
	failures []loop.TestFailure
	matched  *bool // whether the proposal's error_pattern is in the output; nil: not known
}

// verifyRecovery compares the tests before and after a recovery and returns the result of the recovery. It looks for
// new failures first. Then it checks whether the failure that the recovery was for is gone.
func verifyRecovery(then, now testsThen) loop.Verification {
	v := loop.Verification{Before: then.String(), After: now.String()}
	set := func(result, why string) loop.Verification {
		v.Result, v.Why = result, why
		return v
	}
	fresh := newFailures(then.failures, now.failures)
	gone := newFailures(now.failures, then.failures)
	ran := then.status == gate.StatusOK || then.status == gate.StatusFailed
	switch {
	case now.status == gate.StatusOK && then.status == gate.StatusOK:
		return set(loop.Unverified, "the tests passed before it too")
	case now.status == gate.StatusOK:
		return set(loop.Verified, "the tests pass")
	case now.status != gate.StatusFailed:
		return set(loop.Unverified, "the tests did not run")
	case ran && len(fresh) > 0:
		return set(loop.Harmful, "passed before it and fails now: "+strings.Join(fresh, ", "))
	case now.matched != nil && !*now.matched && then.matched != nil && *then.matched:
		return set(loop.Verified, "the failure that it was for is gone; the tests fail for another reason")
	case !ran && now.matched != nil && *now.matched:
		return set(loop.Ineffective, "the failure that it was for is there")
	case !ran:
		return set(loop.Unverified, "the tests fail, and had not run before it")
	case slices.Equal(then.failures, now.failures):
		return set(loop.Ineffective, "the same failure")
	case then.matched != nil && *then.matched && now.matched != nil && *now.matched:
		return set(loop.Ineffective, "the failure that it was for is still there")
	case len(gone) > 0:
		return set(loop.Verified, "passes now: "+strings.Join(gone, ", "))
	}
	return set(loop.Unverified, "the tests fail in another way than before")
}

func (t testsThen) String() string {
	if t.status != gate.StatusFailed {
		return t.status
	}
	names := loop.Map(t.failures, func(f loop.TestFailure) string { return fmt.Sprintf("%s (%d)", f.Command, f.ExitCode) })
	return t.status + ": " + strings.Join(names, ", ")
}

// newFailures returns the commands that fail in b and do not fail in a.
func newFailures(a, b []loop.TestFailure) []string {
	var out []string
	for _, f := range b {
		if !slices.ContainsFunc(a, func(o loop.TestFailure) bool { return o.Command == f.Command }) {
			out = append(out, f.Command)
		}
	}
	return out
}

// patternIn reports whether a regular expression matches an output. It returns nil if the pattern is empty, too long or
// invalid, or if there is no output.
func patternIn(pattern, output string) *bool {
	if pattern == "" || len(pattern) > maxPattern || output == "" {
		return nil
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil
	}
	found := re.MatchString(output)
	return &found
}

const (
	commandLog   = 64 << 20         // bounds the output of one command in the output file, in bytes
	commandGrace = 15 * time.Second // time between TERM and KILL for the processes of a command
)

// commands runs shell commands one after the other, each as a process tree of its own, and writes their output to one
// of the loop's files. Each command may take timeout, and all commands together may take leftMS milliseconds (0: no
// bound). interrupted reports that ctx ended before the commands did.
func (h *Host) commands(ctx context.Context, s loop.State, who, file string, cmds []string, timeout time.Duration, leftMS int64) (results []gate.CommandResult, interrupted bool, err error) {
	out, err := h.File(strings.TrimSuffix(file, filepath.Ext(file)), h.Paths.File(file))
	if err != nil {
		return nil, false, err
	}
	defer func() { err = h.Full(errors.Join(err, out.Close())) }()
	env := agent.Environment(h.Env(), h.Request(s, who, 1))
	shell, err := proc.LookPath("bash", env)
	if err != nil {
		shell, err = proc.LookPath("sh", env)
	}
	if err != nil {
		return nil, false, fmt.Errorf("running the %s: %w", who, err)
	}
	begun := h.Clock()
	end, secrets := &printed{w: out}, agent.Secrets(h.Env(), nil)
	for _, cmd := range cmds {
		limit := leftMS
		if limit > 0 {
			limit = max(1, limit-h.Clock().Sub(begun).Milliseconds())
		}
		bound, _ := capTimeout(timeout, limit)
		fmt.Fprintf(end, "$ %s\n", cmd)
		from := end.n
		feed, said := agent.Follow(h.Says(who), secrets)
		masked := secrets.Writer(end)
		res, runErr := h.Runner.Run(ctx, proc.Spec{Argv: []string{shell, "-c", cmd}, Dir: h.Repo.Top, Env: env, Timeout: bound,
			Grace: commandGrace, Hurry: Hurry(ctx), Log: masked, LogLimit: commandLog, Sift: h.Sift, Stdout: feed, Stderr: feed, Marker: Mark(s.RunID)})
		said()
		if err := masked.Close(); err != nil {
			return nil, false, err
		}
		if res.Ended == proc.Killed {
			fmt.Fprintf(end, "%sinterrupted\n", end.newline())
			return results, true, nil
		}
		r := gate.CommandResult{From: from, To: end.n, Command: cmd, ExitCode: res.Code, Signal: res.Signal, TimedOut: res.Ended == proc.TimedOut,
			Duration: res.Duration, Output: []byte(secrets.String(res.Stdout.Text() + res.Stderr.Text()))}
		if res.Ended == proc.NotStarted && res.Err != nil {
			runErr = res.Err
		}
		if runErr != nil {
			r.Error = runErr.Error()
			fmt.Fprintf(end, "%s%s\n", end.newline(), r.Error)
		}
		if r.TimedOut {
			fmt.Fprintf(end, "%stimed out after %s\n", end.newline(), bound)
		}
		if _, err := fmt.Fprintf(end, "%sexit_code: %d\n\n", end.newline(), r.Code()); err != nil {
			return nil, false, err
		}
		results = append(results, r)
	}
	return results, false, nil
}

// printed is a writer that counts the bytes written to it and remembers the last one.
type printed struct {
	w    io.Writer
	n    int64
	last byte
}

func (p *printed) Write(b []byte) (int, error) {
	if len(b) > 0 {
		p.last = b[len(b)-1]
	}
	n, err := p.w.Write(b)
	p.n += int64(n)
	return n, err
}

// newline returns the line break that must precede the next line, or "" if the output is at the start of a line.
func (p *printed) newline() string {
	if p.last == '\n' || p.last == 0 {
		return ""
	}
	return "\n"
}
