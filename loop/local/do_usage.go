package local

import (
	"time"

	"github.com/superloop/superloop/loop"
)

// recoverySpan is what the supervisor has measured of the proposal that the loop
// deals with; a restart begins anew, loop/stats has all of it from the journal.
type recoverySpan struct {
	duration   *int64 // of its commands, in milliseconds
	resolution *int64 // until people had answered
	asked      time.Time
	open       bool
}

// tallyRecovery notes what a fact tells of the proposal that is dealt with, and
// writes its line of usage.jsonl when the loop leaves it.
func (d *driver) tallyRecovery(before loop.State, fact loop.Fact) error {
	now := d.state.UpdatedAt
	switch f := fact.(type) {
	case loop.Executed:
		d.span.duration = sum(d.span.duration, f.DurationMS)
	case loop.Escalated:
		d.span.asked, d.span.open = now, d.state.Recovery != nil
	case loop.Resolved:
		if d.span.open {
			d.span.resolution = sum(d.span.resolution, now.Sub(d.span.asked).Milliseconds())
		}
	}
	r := before.Recovery
	if r == nil || d.state.Recovery != nil {
		return nil
	}
	u := loop.RecoveryUsage{Timestamp: now, RunID: d.state.RunID, LoopID: d.o.LoopID, Iteration: before.Iteration, N: r.N, Source: r.Source,
		Category: r.Category, Verdict: r.Verdict, Rule: r.Rule, Result: loop.RecoveryNotRun, Executions: r.Tries,
		DurationMS: d.span.duration, ResolutionMS: d.span.resolution}
	d.span = recoverySpan{}
	switch f := fact.(type) {
	case loop.Proposed: // it was denied
		u.N, u.Source, u.Category, u.Verdict, u.Rule = f.N, f.Source, f.Category, f.Verdict, f.Rule
	case loop.ProposalInvalid:
		u.N, u.Source, u.Verdict, u.Rule = before.Recoveries.Proposed+1, source(f.Role), "invalid", f.Rule
	case loop.ProposalStale:
		return nil // it was never judged
	case loop.TestsEnded:
		if u.Result = loop.Unverified; f.Verification != nil {
			u.Result = f.Verification.Result
		}
	case loop.Executed:
		u.Result = loop.Unverified // there are no tests
	default:
		if r.Tries > 0 {
			u.Result = loop.RecoveryFailed
		}
	}
	line, err := u.Line()
	if err != nil {
		return err
	}
	return d.appendUsage(line)
}

func sum(total *int64, more int64) *int64 {
	if total != nil {
		more += *total
	}
	return &more
}
