package loop

import (
	"encoding/json"
	"time"
)

// RecoveryUsage is what became of one proposal, as a line of usage.jsonl: kind is "recovery", and there is neither a
// role nor tokens. It is written once, when the loop leaves the proposal behind. loop/stats reads the journal instead,
// which has all of it; this is for those who already add up usage.jsonl.
type RecoveryUsage struct {
	Timestamp time.Time // when the loop left it
	RunID     string
	LoopID    string
	Iteration int
	N         int // counts the proposals of the run, from 1
	Source    string
	Category  string
	// Verdict is auto, human, deny or invalid, Rule the policy's.
	Verdict, Rule string
	// Result is that of the verification, "failed", or "not_run".
	Result string
	// Executions counts how often a command of it was begun, DurationMS is their wall time; nil when none was.
	Executions int
	DurationMS *int64
	// ResolutionMS is how long people took to answer what they were asked about
	// it; nil when nobody was, or when there is no answer.
	ResolutionMS *int64
}

// Results of a RecoveryUsage besides those of a verification.
const (
	RecoveryFailed = "failed"  // a command did not end well, and no test judged it
	RecoveryNotRun = "not_run" // nothing was executed
)

// Line is the JSON object with a newline behind it. What is not told is null.
func (u RecoveryUsage) Line() ([]byte, error) {
	line, err := json.Marshal(struct {
		Kind         string    `json:"kind"`
		Timestamp    time.Time `json:"timestamp"`
		RunID        string    `json:"run_id"`
		LoopID       string    `json:"loop_id"`
		Iteration    int       `json:"iteration"`
		N            int       `json:"n"`
		Source       *string   `json:"source"`
		Category     *string   `json:"category"`
		Verdict      string    `json:"verdict"`
		Rule         *string   `json:"rule"`
		Result       string    `json:"result"`
		Executions   int       `json:"executions"`
		DurationMS   *int64    `json:"duration_ms"`
		ResolutionMS *int64    `json:"resolution_ms"`
	}{"recovery", u.Timestamp.UTC(), u.RunID, u.LoopID, u.Iteration, u.N, orNull(u.Source), orNull(u.Category), u.Verdict, orNull(u.Rule), u.Result,
		u.Executions, u.DurationMS, u.ResolutionMS})
	if err != nil {
		return nil, err
	}
	return append(line, '\n'), nil
}

// orNull is nil for what is not told.
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// RecoveryUsageOf is the line of a recovery that the loop has just left by a fact;
// false if it has left none, or one that was never judged.
func RecoveryUsageOf(before, after State, f Fact) (RecoveryUsage, bool) {
	r := before.Recovery
	if r == nil || after.Recovery != nil {
		return RecoveryUsage{}, false
	}
	u := RecoveryUsage{Timestamp: after.UpdatedAt, RunID: after.RunID, LoopID: after.LoopID, Iteration: before.Iteration, N: r.N, Source: r.Source,
		Category: r.Category, Verdict: r.Verdict, Rule: r.Rule, Result: RecoveryNotRun, Executions: r.Tries, DurationMS: r.RanMS, ResolutionMS: r.AnsweredMS}
	switch f := f.(type) {
	case Proposed: // it was denied
		u.N, u.Source, u.Category, u.Verdict, u.Rule = f.N, f.Source, f.Category, f.Verdict, f.Rule
	case ProposalInvalid:
		u.N, u.Verdict, u.Rule = before.Recoveries.Proposed+1, "invalid", f.Rule
		if u.Source = f.Role; f.Role == "" {
			u.Source = SourceSuperloop
		}
	case ProposalStale:
		return RecoveryUsage{}, false
	case TestsEnded:
		if u.Result = Unverified; f.Verification != nil {
			u.Result = f.Verification.Result
		}
	case Executed:
		u.DurationMS = plus(r.RanMS, f.DurationMS)
		u.Result = Unverified // there are no tests
	case ToolChecked:
		u.Result = Unverified
	case Resolved:
		if !r.AskedAt.IsZero() {
			u.ResolutionMS = plus(r.AnsweredMS, after.UpdatedAt.Sub(r.AskedAt).Milliseconds())
		}
		if r.Tries > 0 {
			u.Result = RecoveryFailed
		}
	default:
		if r.Tries > 0 {
			u.Result = RecoveryFailed
		}
	}
	return u, true
}
