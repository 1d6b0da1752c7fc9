package failures

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/classify"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/recovery/plan"
	"github.com/superloop/superloop/recovery/remedy"
	"github.com/superloop/superloop/roles/agent/class"
)

// Bounds of the part of a diagnosis that an event holds.
const (
	maxHints = 6
	maxLine  = 400 // bytes of a line of evidence
)

const testOutput = "test-output.txt" // the file in the loop's directory that holds the output of the tests

func (f *Performer) diagnose(ctx context.Context, e loop.Effect, s loop.State) (loop.Fact, error) {
	begun := f.Clock()
	c := loop.Classified{ID: e.ID, Source: e.Reason, Command: e.Command}
	if e.Reason == loop.FailedTests && mute(s) {
		return unknown(c, fmt.Sprintf("it ended with exit code %d without a word of output", s.TestOutputs[0].ExitCode)), nil
	}
	b, err := f.Rules.load(f.Journal)
	if err != nil {
		return nil, err
	}
	var in classify.Input
	var out output
	switch e.Reason {
	case loop.FailedRecovery:
		r := s.Recovery
		if r == nil || r.LastRun == nil {
			return unknown(c, "nothing is known of how the command ended"), nil
		}
		last := r.LastRun
		in = classify.Input{Source: e.Reason, Command: c.Command, Dir: filepath.Join(f.Repo.Top, r.Attempt.WorkingDir),
			Exit: classify.Exit{Code: last.ExitCode, Signal: last.Signal, TimedOut: last.Ended == "timeout", Duration: time.Duration(last.DurationMS) * time.Millisecond}}
		if last.LogFile != "" {
			out = whole(filepath.Join(f.Paths.Repo, last.LogFile))
		}
	default:
		if len(s.TestOutputs) == 0 {
			return unknown(c, "nothing is known of what the tests printed"), nil
		}
		in, out = f.failedCommand(s.TestOutputs[0])
		in.Source, c.Command = e.Reason, in.Command
	}
	c.ExitCode, c.Signal, c.TimedOut = in.Exit.Code, in.Exit.Signal, in.Exit.TimedOut
	failure, err := f.classify(ctx, b, in, out)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, nil // the next supervisor diagnoses it again
	case err != nil:
		f.Log.Warn("what failed could not be classified", zap.Error(err))
		return unknown(c, "it could not be looked at: "+err.Error()), nil
	}
	describeFailure(&c, failure)
	_, listed := f.Policies()[0].Listed(c.Command)
	resolved := remedy.Resolve(b.cat, failure, b.profile, remedy.Situation{Dir: f.Repo.Top, FailedCommand: c.Command, Timeout: f.Settings().Loop.Tests.Timeout,
		Listed: listed, Past: f.Past(failure.Signature)})
	c.Goal, c.Hints = resolved.Goal, resolved.Hints[:min(len(resolved.Hints), maxHints)]
	c.Options = remedy.Choices(resolved)
	c.Gate, _ = remedy.Gate(&resolved, f.Policies()[0])
	if f.endLeftovers(s, failure) {
		again := runAgain()
		if again.Withheld = remedy.Repeatable(failure, listed); again.Withheld == "" {
			again.ByItself, c.Gate = true, remedy.GateRetry
		}
		c.Options = append([]plan.Choice{again}, c.Options...)
	}
	c.DurationUS = f.Clock().Sub(begun).Microseconds()
	return c, nil
}

// mute reports whether the first failed test command printed nothing and exited by itself with a code from 1 to 125.
// Then there is no output to classify.
func mute(s loop.State) bool {
	all := s.TestOutputs
	return len(all) > 0 && all[0].From == all[0].To && !all[0].TimedOut && all[0].Signal == "" && all[0].ExitCode > 0 && all[0].ExitCode < 126
}

func unknown(c loop.Classified, why string) loop.Classified {
	c.Category, c.Why, c.Gate, c.Evidence = classify.CategoryUnknown, why, remedy.GateNone, []string{}
	return c
}

func describeFailure(c *loop.Classified, in classify.Failure) {
	c.Category, c.Handler, c.Layer = in.Category, in.Handler, string(in.Layer)
	c.Infra, c.Code, c.Weak, c.Confidence = in.Infra, in.Code, in.Weak, in.Confidence
	c.Signature, c.Why, c.Evidence = in.Signature, in.Why, []string{}
	for _, e := range in.Evidence {
		text := e.Text[:min(len(e.Text), maxLine)]
		if e.File != "" {
			text = fmt.Sprintf("%s:%d: %s", e.File, e.FileLine, text)
		}
		c.Evidence = append(c.Evidence, text)
	}
}

// output is the place of a failed command's output: a range of bytes in a file. The zero value means no output.
type output struct {
	file     string
	from, to int64 // bytes
}

func whole(file string) output { return output{file, 0, 1 << 62} }

// classify classifies a failed command by rules. An output file that it cannot open counts as no output.
func (f *Performer) classify(ctx context.Context, b *book, in classify.Input, out output) (classify.Failure, error) {
	in.Merged, in.Probes = true, &classify.System{}
	if in.Exit.OK() { // for instance a command that could not be started
		in.Exit.Code = 1
	}
	if out.file != "" {
		file, _, err := door.Open(out.file)
		if err != nil {
			f.Log.Warn("what failed cannot be looked at", zap.Error(err))
		} else {
			defer file.Close()
			in.Stdout = io.NewSectionReader(file, out.from, out.to-out.from)
		}
	}
	return b.classifier.Classify(ctx, in)
}

// failedCommand returns the input of the classification for a failed test command, and the place of its output.
func (f *Performer) failedCommand(span loop.OutputSpan) (classify.Input, output) {
	return classify.Input{Source: loop.FailedTests, Command: span.Command, Dir: f.Repo.Top,
		Exit: classify.Exit{Code: span.ExitCode, Signal: span.Signal, TimedOut: span.TimedOut}}, output{f.Paths.File(testOutput), span.From, span.To}
}

// ClassifyRole classifies by rules a role whose process failed for a reason that its adapter does not know, and records
// the classification. log is the file of the role's output. ClassifyRole returns the classification if it is new to the
// failure policy, else nil, and the time that it took, in microseconds.
func (f *Performer) ClassifyRole(ctx context.Context, e loop.Effect, s loop.State, r loop.RoleEnded, log string) (*failures.Classified, int64) {
	known := r.Outcome == loop.OutcomeOK || r.Outcome == loop.OutcomeInterrupted || r.Limit != nil || r.Class != "" && r.Class != string(class.Unknown) && r.Class != string(class.NoResult)
	if known || !s.Plan.Remediation && s.Plan.Respond == nil {
		return nil, 0
	}
	begun := f.Clock()
	failure, err := f.failureOfRole(ctx, loop.RoleResult{Runner: r.Runner, ExitCode: r.ExitCode, Signal: r.Signal, Outcome: r.Outcome, DurationMS: r.DurationMS}, log)
	if err != nil {
		f.Log.Warn("a failed role was not classified", zap.Error(err))
		return nil, 0
	}
	c := loop.Classified{Source: loop.FailedRole, Role: e.Role, Command: r.Runner, ExitCode: r.ExitCode, Signal: r.Signal, TimedOut: overdue(r.Outcome)}
	describeFailure(&c, failure)
	c.DurationUS = f.Clock().Sub(begun).Microseconds()
	f.Warn("what a role failed of was not recorded", f.Journal.Record("failure_classified", c))
	if c.Category == "timeout" || c.Category == classify.CategoryUnknown || failure.Guessed() {
		return nil, c.DurationUS // the category is a guess, or only says how the role ended, which the failure policy knows already
	}
	return &failures.Classified{Category: c.Category, Handler: c.Handler, Persistence: failure.Persistence, Infra: c.Infra, Code: c.Code, Signature: c.Signature,
		Weak: c.Weak, Confidence: c.Confidence}, c.DurationUS
}

// overdue reports whether superloop ended the role at one of its deadlines. Then neither its exit code nor the words of
// its output tell why it failed.
func overdue(outcome string) bool {
	return outcome == loop.OutcomeTimeout || outcome == loop.OutcomeInactive
}

func (f *Performer) failureOfRole(ctx context.Context, r loop.RoleResult, log string) (classify.Failure, error) {
	b, err := f.Rules.load(f.Journal)
	if err != nil {
		return classify.Failure{}, err
	}
	return f.classify(ctx, b, classify.Input{Source: loop.FailedRole, Command: r.Runner, Dir: f.Repo.Top,
		Exit: classify.Exit{Code: r.ExitCode, Signal: r.Signal, TimedOut: overdue(r.Outcome), NotStarted: r.Outcome == loop.OutcomeNotStarted, Duration: time.Duration(r.DurationMS) * time.Millisecond}}, whole(log))
}

// endLeftovers ends processes that earlier runs of this repository's loops have left behind, if the failure is a port
// in use. It reports whether it ended any.
func (f *Performer) endLeftovers(s loop.State, failure classify.Failure) bool {
	if failure.Category != CategoryPort {
		return false
	}
	killed, runs := f.Processes.EndLeftovers(filepath.Dir(f.Paths.Loop), f.Paths.Loop, s.RunID)
	if len(killed) == 0 {
		return false
	}
	if err := f.Journal.Record("leftovers_ended", map[string]any{"pids": killed, "port": failure.Captures["port"], "of_runs": runs}); err != nil {
		f.Log.Warn("that leftovers were ended was not recorded", zap.Error(err))
	}
	return true
}

func runAgain() plan.Choice {
	return plan.Choice{Key: "superloop/leftovers/run_again", ID: "run_again", Label: "Run it again, now that what was left behind is gone",
		Strategy: "retry", Availability: "ready", Executor: "wrapper", Draft: action.Draft{Confidence: "high"}, WaitsMS: []int64{100, 2000}}
}
