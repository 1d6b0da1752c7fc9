package loop

import (
	"cmp"
	"encoding/json"
	"time"
)

// RecoveryUsage is what became of one proposal, as a line of usage.jsonl of kind "recovery". It is written once, when
// the loop leaves the proposal behind. It is for scripts that add up usage.jsonl; loop/stats reads the journal.
type RecoveryUsage struct {
	Timestamp    time.Time `json:"timestamp"` // when the loop left it
	RunID        string    `json:"run_id"`
	LoopID       string    `json:"loop_id"`
	Iteration    int       `json:"iteration"`
	N            int       `json:"n"` // counts the proposals of the run, from 1
	Source       OrNull    `json:"source"`
	Category     OrNull    `json:"category"`
	Verdict      string    `json:"verdict"`       // auto, human, deny or invalid
	Rule         OrNull    `json:"rule"`          // the policy's
	Result       string    `json:"result"`        // that of the verification, "failed", or "not_run"
	Executions   int       `json:"executions"`    // how often a command of it was begun
	DurationMS   *int64    `json:"duration_ms"`   // their wall time; nil when none was
	ResolutionMS *int64    `json:"resolution_ms"` // how long people took to answer; nil when nobody was asked, or has answered
}

// OrNull is a text whose JSON is null when it is empty.
type OrNull string

// MarshalJSON gives the text, or null.
func (s OrNull) MarshalJSON() ([]byte, error) {
	if s == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(s))
}

// Results of a RecoveryUsage besides those of a verification.
const (
	RecoveryFailed = "failed"  // a command did not end well, and no test judged it
	RecoveryNotRun = "not_run" // nothing was executed
)

// Line is the JSON object with a newline behind it. What is not told is null.
func (u RecoveryUsage) Line() ([]byte, error) {
	u.Timestamp = u.Timestamp.UTC()
	line, err := json.Marshal(struct {
		Kind string `json:"kind"`
		RecoveryUsage
	}{"recovery", u})
	return append(line, '\n'), err
}

// RecoveryUsageOf is the line of a recovery that the loop has just left by a fact; false if it has left none, or one
// that was never judged.
func RecoveryUsageOf(before, after State, f Fact) (RecoveryUsage, bool) {
	r := before.Recovery
	if r == nil || after.Recovery != nil {
		return RecoveryUsage{}, false
	}
	u := RecoveryUsage{Timestamp: after.UpdatedAt, RunID: after.RunID, LoopID: after.LoopID, Iteration: before.Iteration, N: r.N, Source: OrNull(r.Source),
		Category: OrNull(r.Category), Verdict: r.Verdict, Rule: OrNull(r.Rule), Result: RecoveryNotRun, Executions: r.Tries, DurationMS: r.RanMS, ResolutionMS: r.AnsweredMS}
	switch f := f.(type) {
	case Proposed: // it was denied
		u.N, u.Source, u.Category, u.Verdict, u.Rule = f.N, OrNull(f.Source), OrNull(f.Category), f.Verdict, OrNull(f.Rule)
	case ProposalInvalid:
		u.N, u.Verdict, u.Rule = before.Recoveries.Proposed+1, "invalid", OrNull(f.Rule)
		u.Source = OrNull(cmp.Or(f.Role, SourceSuperloop))
	case ProposalStale:
		return RecoveryUsage{}, false
	case TestsEnded:
		if u.Result = Unverified; f.Verification != nil {
			u.Result = f.Verification.Result
		}
	case Executed: // and there are no tests
		u.DurationMS, u.Result = plus(r.RanMS, f.DurationMS), Unverified
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
