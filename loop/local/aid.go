package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/superloop/superloop/loop"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/recovery/cage"
	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/chain"
	"github.com/superloop/superloop/recovery/classify"
	"github.com/superloop/superloop/recovery/remedy"
	"github.com/superloop/superloop/recovery/respond"
	"github.com/superloop/superloop/roles/agent/class"
)

// aid is what rules know, ready to be asked. Reading and compiling it takes as
// long as a short test run, so it is begun beside the first role.
type aid struct {
	cat        *catalog.Catalog
	classifier *classify.Classifier
	profile    remedy.Profile
	problems   catalog.Problems
	err        error
}

// Bounds of what an event carries of a diagnosis.
const (
	maxHints    = 6
	maxProblems = 20
	maxLine     = 400 // bytes of a line of evidence
)

// aidDelay is how long tests run before what rules know is read beside them: those
// that fail at once mostly need none of it, and reading it takes a tenth of a second.
const aidDelay = time.Second

// prepareAid gives the function that reads what rules know, once, whoever calls
// it first.
func prepareAid(ctx context.Context, repo string, secrets *redact.Replacer) func() *aid {
	return sync.OnceValue(func() *aid {
		a := &aid{}
		a.cat, a.problems = catalog.Load(ctx, catalog.Options{UserDir: catalog.UserDir(), RepoDir: repo})
		a.classifier, a.err = classify.New(a.cat, classify.Options{Redact: secrets})
		a.profile = remedy.Detect(ctx, repo)
		return a
	})
}

// expectFailure has what rules know read beside something that takes its time and
// may fail; what is returned ends the expectation.
func (d *driver) expectFailure() (over func()) {
	if !d.state.Plan.FirstAid || d.aid != nil {
		return func() {}
	}
	load := d.aidLoader()
	timer := time.AfterFunc(aidDelay, func() { load() })
	return func() { timer.Stop() }
}

func (d *driver) aidLoader() func() *aid {
	if d.loadAid == nil {
		d.loadAid = prepareAid(d.life, d.repo.Top, cage.Secrets(d.host.Env()))
	}
	return d.loadAid
}

// rulesOfAid is what rules know; the first time it says what is wrong with a
// person's own files.
func (d *driver) rulesOfAid() (*aid, error) {
	if d.aid != nil {
		return d.aid, nil
	}
	a := d.aidLoader()()
	if a.err != nil {
		return nil, fmt.Errorf("reading what superloop knows of failures: %w", a.err)
	}
	var wrong []config.Problem
	for _, p := range a.problems.Errors() {
		if len(wrong) < maxProblems {
			wrong = append(wrong, config.Problem{Pointer: p.Pointer, Message: p.String()})
		}
	}
	if len(wrong) > 0 {
		if err := d.record("config_warning", map[string]any{"problems": wrong}); err != nil {
			return nil, err
		}
	}
	d.aid = a
	return a, nil
}

// diagnose has rules look at what has failed, and works out what may cure it.
func (d *driver) diagnose(ctx context.Context, e loop.Effect) (loop.Fact, error) {
	begun := time.Now()
	f := loop.Classified{ID: e.ID, Source: e.Reason, Command: e.Command}
	if e.Reason == loop.FailedTests && d.mute() {
		return unknown(f, fmt.Sprintf("it ended with exit code %d without a word of output", d.state.TestOutputs[0].ExitCode)), nil
	}
	a, err := d.rulesOfAid()
	if err != nil {
		return nil, err
	}
	in := classify.Input{Source: e.Reason, Dir: d.repo.Top, Merged: true, Probes: d.probes()}
	file, from, to := "", int64(0), int64(-1)
	switch e.Reason {
	case loop.FailedRecovery:
		r := d.state.Recovery
		if r == nil || r.LastRun == nil {
			return unknown(f, "nothing is known of how the command ended"), nil
		}
		last := r.LastRun
		in.Dir = filepath.Join(d.repo.Top, r.Attempt.WorkingDir)
		in.Exit = classify.Exit{Code: last.ExitCode, Signal: last.Signal, TimedOut: last.Ended == "timeout", Duration: ms(last.DurationMS)}
		if last.LogFile != "" {
			file = filepath.Join(d.paths.Repo, last.LogFile)
		}
	default:
		spans := d.state.TestOutputs
		if len(spans) == 0 {
			return unknown(f, "nothing is known of what the tests printed"), nil
		}
		span := spans[0]
		f.Command = span.Command
		in.Exit = classify.Exit{Code: span.ExitCode, Signal: span.Signal, TimedOut: span.TimedOut}
		file, from, to = d.paths.File("test-output.txt"), span.From, span.To
	}
	in.Command = f.Command
	f.ExitCode, f.Signal, f.TimedOut = in.Exit.Code, in.Exit.Signal, in.Exit.TimedOut
	if in.Exit.OK() { // what could not be started, say
		in.Exit.Code = 1
	}
	if file != "" {
		out, err := os.Open(file)
		if err != nil {
			d.log.Warn("what failed cannot be looked at", zap.Error(err))
		} else {
			defer out.Close()
			if to < 0 {
				to = 1 << 62
			}
			in.Stdout = io.NewSectionReader(out, from, to-from)
		}
	}
	failure, err := a.classifier.Classify(ctx, in)
	if err != nil {
		if ctx.Err() != nil {
			return nil, errors.Join(ctx.Err(), err)
		}
		d.log.Warn("what failed could not be classified", zap.Error(err))
		return unknown(f, "it could not be looked at: "+err.Error()), nil
	}
	describeFailure(&f, failure)
	plan := remedy.Resolve(a.cat, failure, a.profile, remedy.Situation{Dir: d.repo.Top, FailedCommand: f.Command, Timeout: d.loop.Tests.Timeout,
		Score: d.executor.Score(failure.Signature)})
	f.Goal, f.Hints = plan.Goal, plan.Hints[:min(len(plan.Hints), maxHints)]
	f.Options = remedy.Choices(plan)
	f.Gate, _ = remedy.Gate(&plan, d.policies.InForce()[0])
	if d.endLeftovers(failure) {
		f.Gate, f.Options = remedy.GateRetry, append([]chain.Choice{runAgain()}, f.Options...)
	}
	f.DurationUS = time.Since(begun).Microseconds()
	return f, nil
}

// mute reports whether the first command of the tests that failed has ended by
// itself, in the way of a command that says no, and has printed nothing: then there
// is nothing to look at.
func (d *driver) mute() bool {
	all := d.state.TestOutputs
	return len(all) > 0 && all[0].From == all[0].To && !all[0].TimedOut && all[0].Signal == "" && all[0].ExitCode > 0 && all[0].ExitCode < 126
}

// probes look at the system for the classifier.
func (d *driver) probes() classify.Prober {
	return &classify.System{}
}

// unknown is a failure of which nothing is known.
func unknown(f loop.Classified, why string) loop.Classified {
	f.Category, f.Why, f.Gate, f.Evidence = classify.CategoryUnknown, why, remedy.GateNone, []string{}
	return f
}

// describeFailure copies what an event says of a failure.
func describeFailure(f *loop.Classified, in classify.Failure) {
	f.Category, f.Handler, f.Layer = in.Category, in.Handler, string(in.Layer)
	f.Infra, f.Code, f.Weak, f.Confidence = in.Infra, in.Code, in.Weak, in.Confidence
	f.Signature, f.Why, f.Evidence = in.Signature, in.Why, []string{}
	for _, e := range in.Evidence {
		text := e.Text[:min(len(e.Text), maxLine)]
		if e.File != "" {
			text = fmt.Sprintf("%s:%d: %s", e.File, e.FileLine, text)
		}
		f.Evidence = append(f.Evidence, text)
	}
}

// failedRole is the source of what a role's process failed of.
const failedRole = "role_process"

// classifyRole notes down what rules say of a role whose process failed without
// its adapter's knowing why: a full disk, a missing library, no memory. Nothing
// waits for it. The ladder is told what they say, and how many microseconds that
// has taken.
func (d *driver) classifyRole(ctx context.Context, e loop.Effect, f loop.RoleEnded, log string) (*respond.Ground, int64) {
	known := f.Outcome == loop.OutcomeOK || f.Outcome == loop.OutcomeInterrupted || f.Limit != nil || f.Class != "" && f.Class != string(class.Unknown) && f.Class != string(class.NoResult)
	if known || !d.state.Plan.FirstAid && d.state.Plan.Respond == nil {
		return nil, 0
	}
	begun := time.Now()
	failure, err := d.failureOfRole(ctx, roleFailure{f.Runner, f.ExitCode, f.Signal, f.Outcome, f.DurationMS}, log)
	if err != nil {
		d.log.Warn("a failed role was not classified", zap.Error(err))
		return nil, 0
	}
	c := loop.Classified{Source: failedRole, Role: e.Role, Command: f.Runner, ExitCode: f.ExitCode, Signal: f.Signal, TimedOut: f.Outcome == loop.OutcomeTimeout}
	describeFailure(&c, failure)
	c.DurationUS = time.Since(begun).Microseconds()
	if err := d.record("failure_classified", c); err != nil {
		d.log.Warn("what a role failed of was not recorded", zap.Error(err))
	}
	if c.Category == "timeout" || c.Category == classify.CategoryUnknown {
		return nil, c.DurationUS // that says how it ended, which the ladder knows
	}
	return &respond.Ground{Category: c.Category, Handler: c.Handler, Persistence: failure.Persistence, Infra: c.Infra, Code: c.Code, Signature: c.Signature}, c.DurationUS
}

// roleFailure is how a role's process has ended.
type roleFailure struct {
	runner     string
	code       int
	signal     string
	outcome    string
	durationMS int64
}

// failureOfRole is what rules say of a role's log.
func (d *driver) failureOfRole(ctx context.Context, f roleFailure, log string) (classify.Failure, error) {
	a, err := d.rulesOfAid()
	if err != nil {
		return classify.Failure{}, err
	}
	in := classify.Input{Source: failedRole, Command: f.runner, Dir: d.repo.Top, Merged: true, Probes: d.probes(),
		Exit: classify.Exit{Code: f.code, Signal: f.signal, TimedOut: f.outcome == loop.OutcomeTimeout, NotStarted: f.outcome == loop.OutcomeNotStarted, Duration: ms(f.durationMS)}}
	if in.Exit.OK() {
		in.Exit.Code = 1
	}
	if out, err := os.Open(log); err == nil {
		defer out.Close()
		in.Stdout = out
	}
	return a.classifier.Classify(ctx, in)
}
