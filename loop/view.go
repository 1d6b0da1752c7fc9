package loop

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/superloop/superloop/recovery/failures"
)

// View is the content of loops/<id>/state.json, which scripts read. superloop computes it from the journal up to the
// event Seq and never bases a decision on it.
type View struct {
	Version    int            `json:"version"`
	LoopID     string         `json:"loop_id"`
	RunID      string         `json:"run_id"`
	Status     Status         `json:"status"`
	Reason     string         `json:"reason"`
	Detail     string         `json:"detail,omitempty"`
	Iteration  int            `json:"iteration"`
	Max        int            `json:"max_iterations,omitempty"`
	At         string         `json:"at,omitempty"`
	Role       string         `json:"role"`
	Attempt    int            `json:"attempt,omitempty"`
	Until      time.Time      `json:"until,omitzero"`
	Gates      Gates          `json:"gates"`
	LastGates  Gates          `json:"last_gates"`
	Stuck      Streak         `json:"stuck"`
	Approval   *ApprovalState `json:"approval,omitempty"`
	Limit      *LimitState    `json:"limit,omitempty"`
	Human      *HumanState    `json:"human,omitempty"`
	Recovery   *RecoveryState `json:"recovery,omitempty"`
	Seen       *Sighting      `json:"seen,omitempty"`
	Recoveries Recoveries     `json:"recoveries,omitzero"` // of the run so far
	// Diagnosis is what rules say about the failing tests. Remediation counts what the rules have done.
	Diagnosis   *Diagnosis    `json:"diagnosis,omitempty"`
	Remediation Remediation   `json:"first_aid,omitzero"`
	Response    *ResponseView `json:"response,omitempty"` // what superloop does about a failing role
	Spent       Spent         `json:"spent"`
	Seq         int64         `json:"seq"`
	PID         int           `json:"pid"`
	Rules       int           `json:"rules"`
	StartedAt   time.Time     `json:"started_at"`
	UpdatedAt   time.Time     `json:"updated_at"`
	EndedAt     time.Time     `json:"ended_at,omitzero"`
	ActiveMS    int64         `json:"active_ms"`
	ActiveSince time.Time     `json:"active_since,omitzero"` // when the present active period began
	Pending     *Effect       `json:"pending,omitempty"`
}

// ResponseView is the part of Response that state.json shows: all but the history.
type ResponseView struct {
	Policy      *failures.State   `json:"ladder,omitempty"`
	Cause       *Cause            `json:"cause,omitempty"`
	Environment *EnvironmentState `json:"ground,omitempty"`
}

func responseView(r Response) *ResponseView {
	if r.Policy == nil && r.Cause == nil && r.Environment == nil {
		return nil
	}
	return &ResponseView{r.Policy, r.Cause, r.Environment}
}

// RepoView is the content of .superloop/state.json: a summary of the repository's loops. It has the keys of the
// original program and a few more.
type RepoView struct {
	Version       int               `json:"version"`
	Active        bool              `json:"active"`
	LoopIndex     int               `json:"loop_index"`
	Iteration     int               `json:"iteration"`
	CurrentLoopID string            `json:"current_loop_id"`
	Status        Status            `json:"status"`
	UpdatedAt     time.Time         `json:"updated_at"`
	Loops         map[string]Status `json:"loops"`
}

// ViewOf computes the View of a state. pid is that of the supervisor, 0 if no supervisor runs.
func ViewOf(s State, seq int64, pid int) View {
	v := View{Version: StateVersion, LoopID: s.LoopID, RunID: s.RunID, Status: s.Status, Reason: s.Reason, Detail: s.Detail,
		Iteration: s.Iteration, Max: s.Plan.MaxIterations, At: s.At, Gates: s.Gates, LastGates: s.LastGates, Stuck: s.Stuck,
		Approval: s.Approval, Limit: s.Limit, Human: s.Human, Recovery: s.Recovery, Seen: s.Seen, Recoveries: s.Recoveries,
		Diagnosis: s.Diagnosis, Remediation: s.Remediation, Response: responseView(s.Response), Spent: s.Spent, Seq: seq, PID: pid, Rules: s.Rules,
		StartedAt: s.StartedAt, UpdatedAt: s.UpdatedAt, EndedAt: s.EndedAt, ActiveMS: s.ActiveMS, ActiveSince: s.ActiveSince, Pending: s.Pending}
	if p := s.Pending; p != nil && (p.Kind == RunRole || p.Kind == Wait || p.Kind == AskHuman) {
		v.Role, v.Attempt, v.Until = p.Role, p.Attempt, p.Until
	}
	return v
}

// RecoveryUsage is a line of usage.jsonl with kind "recovery": the result of one recovery. superloop writes it once,
// when the loop ends the recovery. It is for scripts that add up usage.jsonl. loop/stats reads the journal instead.
type RecoveryUsage struct {
	Kind       string    `json:"kind"`      // recovery
	Timestamp  time.Time `json:"timestamp"` // when the loop ended the recovery
	RunID      string    `json:"run_id"`
	LoopID     string    `json:"loop_id"`
	Iteration  int       `json:"iteration"`
	N          int       `json:"n"` // counts the proposals of the run, from 1
	Source     OrNull    `json:"source"`
	Category   OrNull    `json:"category"`
	Verdict    string    `json:"verdict"`     // auto, human, deny or invalid
	Rule       OrNull    `json:"rule"`        // the rule of the policy
	Result     string    `json:"result"`      // the result of the verification, "failed", or "not_run"
	Executions int       `json:"executions"`  // how many executions began
	DurationMS *int64    `json:"duration_ms"` // the wall time of the executions; null if nothing was executed
	// ResolutionMS is how long humans took to answer. It is null if nobody was asked or nobody has answered.
	ResolutionMS *int64 `json:"resolution_ms"`
}

// OrNull is a text whose JSON is null if the text is empty.
type OrNull string

// MarshalJSON returns the text as a JSON string, or null for "".
func (s OrNull) MarshalJSON() ([]byte, error) {
	if s == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(s))
}

// Results of a RecoveryUsage, in addition to the results of a Verification.
const (
	RecoveryFailed = "failed"  // a command failed, and no tests ran after it
	RecoveryNotRun = "not_run" // nothing was executed
)

// RecoveryUsageOf returns the line of the recovery that the fact f has just ended. It returns false if f ended no
// recovery, or if the proposal was stale and never judged.
func RecoveryUsageOf(before, after State, f Fact) (RecoveryUsage, bool) {
	r := before.Recovery
	if r == nil || after.Recovery != nil {
		return RecoveryUsage{}, false
	}
	u := RecoveryUsage{Kind: "recovery", Timestamp: after.UpdatedAt.UTC(), RunID: after.RunID, LoopID: after.LoopID, Iteration: before.Iteration, N: r.N, Source: OrNull(r.Source),
		Category: OrNull(r.Category), Verdict: r.Verdict, Rule: OrNull(r.Rule), Result: RecoveryNotRun, Executions: r.Tries, DurationMS: r.RanMS, ResolutionMS: r.AnsweredMS}
	switch f := f.(type) {
	case Proposed: // the policy denied the command
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
	case Executed: // the loop has no tests
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
