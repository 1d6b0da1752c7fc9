package loop

import (
	"time"
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
func (d *driver) tallyRecovery(before State, fact Fact) error {
	now := d.state.UpdatedAt
	switch f := fact.(type) {
	case Executed:
		d.span.duration = sum(d.span.duration, f.DurationMS)
	case Escalated:
		d.span.asked, d.span.open = now, d.state.Recovery != nil
	case Resolved:
		if d.span.open {
			d.span.resolution = sum(d.span.resolution, now.Sub(d.span.asked).Milliseconds())
		}
	}
	r := before.Recovery
	if r == nil || d.state.Recovery != nil {
		return nil
	}
	u := RecoveryUsage{Timestamp: now, RunID: d.state.RunID, LoopID: d.o.LoopID, Iteration: before.Iteration, N: r.N, Source: r.Source,
		Category: r.Category, Verdict: r.Verdict, Rule: r.Rule, Result: RecoveryNotRun, Executions: r.Tries,
		DurationMS: d.span.duration, ResolutionMS: d.span.resolution}
	d.span = recoverySpan{}
	switch f := fact.(type) {
	case Proposed: // it was denied
		u.N, u.Source, u.Category, u.Verdict, u.Rule = f.N, f.Source, f.Category, f.Verdict, f.Rule
	case ProposalInvalid:
		u.N, u.Source, u.Verdict, u.Rule = before.Recoveries.Proposed+1, source(f.Role), "invalid", f.Rule
	case ProposalStale:
		return nil // it was never judged
	case TestsEnded:
		if u.Result = Unverified; f.Verification != nil {
			u.Result = f.Verification.Result
		}
	case Executed:
		u.Result = Unverified // there are no tests
	default:
		if r.Tries > 0 {
			u.Result = RecoveryFailed
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
