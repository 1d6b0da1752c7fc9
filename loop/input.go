package loop

import (
	"time"

	"github.com/superloop/superloop/recovery/failures"
)

// Input is what Step takes: a fact, when it happened, and the envelope under which it stands in events.jsonl. Step has
// no clock: At is the only time that it knows.
type Input struct {
	At     time.Time
	LoopID string
	RunID  string
	Fact   Fact
}

// Fact is something that has happened. Its JSON fields are the own fields of its event.
type Fact interface {
	Event() string // Event is the name under which it stands in events.jsonl.
}

// Answer is a fact that answers an effect; Effect is that effect's id. A fact with an id that is not the pending
// effect's is late and changes nothing.
type Answer interface {
	Fact
	Effect() string
}

// Of is the id of the effect that a fact answers.
type Of struct {
	EffectID string `json:"effect_id,omitempty"`
}

// To is the id of e, for a fact that answers it.
func To(e Effect) Of { return Of{EffectID: e.ID} }

func (o Of) Effect() string { return o.EffectID }

// Started begins a loop, or begins it anew under a new run id.
type Started struct {
	Plan        Plan   `json:"plan"`
	Version     string `json:"version"`
	PID         int    `json:"pid"`
	SpecFile    string `json:"spec_file"`      // repeated beside the plan because scripts read it there
	Tree        string `json:"tree,omitempty"` // the signature of the work tree before the first role
	Containment string `json:"containment,omitempty"`
	Rules       int    `json:"rules,omitempty"` // those that the loop is started with; absent is 1
}

// Resumed: a supervisor takes the loop up where the journal ends.
type Resumed struct {
	Plan        Plan   `json:"plan"`
	Version     string `json:"version"`
	PID         int    `json:"pid"`
	Status      Status `json:"status"` // the status it was found in
	Reason      string `json:"reason,omitempty"`
	Interrupted string `json:"interrupted,omitempty"` // id of the effect that was under way
	Killed      []int  `json:"killed,omitempty"`      // pids of leftovers that were ended
	Containment string `json:"containment,omitempty"`
	Rules       int    `json:"rules,omitempty"` // those under which it goes on; absent: as before
}

// Lost: the pending effect had begun and nothing will tell its outcome: whoever performed it is gone.
type Lost struct {
	Why string `json:"reason,omitempty"`
	Of
}

// TestsStarted precedes a run of the test commands.
type TestsStarted struct {
	Rerun    bool     `json:"-"`
	Mode     string   `json:"mode"`
	Commands []string `json:"commands"`
	Reason   string   `json:"reason,omitempty"`
	Of
}

// TestsEnded is its outcome. ExitCode is the first failing command's.
type TestsEnded struct {
	Rerun       bool   `json:"-"`
	Status      string `json:"status"` // ok, failed, skipped
	ExitCode    int    `json:"exit_code"`
	DurationMS  int64  `json:"duration_ms"`
	Failed      string `json:"failed_command,omitempty"`
	Tree        string `json:"tree,omitempty"`
	Details     string `json:"details,omitempty"`
	Reason      string `json:"reason,omitempty"`
	Interrupted bool   `json:"interrupted,omitempty"`
	// Failures are the failing commands with a signature of what they printed.
	Failures     []TestFailure `json:"failures,omitempty"`
	Outputs      []OutputSpan  `json:"outputs,omitempty"`      // where what they printed stands in test-output.txt
	Verification *Verification `json:"verification,omitempty"` // what a run after a recovery says of it
	Of
}

// TestFailure is a command that failed. Signature is the same for the same failure: numbers, times, paths of temporary
// files and colours do not count.
type TestFailure struct {
	Command   string `json:"command"`
	ExitCode  int    `json:"exit_code"`
	Signature string `json:"signature"`
}

// OutputSpan is where the output of a command that failed stands.
type OutputSpan struct {
	Command  string `json:"command"`
	ExitCode int    `json:"exit_code"`
	Signal   string `json:"signal,omitempty"`
	TimedOut bool   `json:"timed_out,omitempty"`
	From     int64  `json:"from"`
	To       int64  `json:"to"`
}

// PromiseChecked: the promise role's last message was read.
type PromiseChecked struct {
	Expected    string  `json:"expected"`
	Text        *string `json:"text"`
	Matched     bool    `json:"matched"`
	Tree        string  `json:"tree,omitempty"`
	TreeChanged bool    `json:"tree_changed,omitempty"` // the tree is not the one that the tests judged
	Of
}

// GateEnded is the outcome of checklists, validation, prerequisites and evidence; Gate chooses the event.
type GateEnded struct {
	Gate        string `json:"-"` // checklist, validation, prerequisites, evidence
	Status      string `json:"status"`
	OK          bool   `json:"ok"`
	Details     string `json:"details,omitempty"`
	Results     string `json:"results_file,omitempty"`
	DurationMS  int64  `json:"duration_ms"`
	Interrupted bool   `json:"interrupted,omitempty"`
	Of
}

// ValidationStarted precedes the validation commands.
type ValidationStarted struct {
	Mode     string   `json:"mode"`
	Commands []string `json:"commands,omitempty"`
	Of
}

// StuckChecked: the tree was compared with that of the last iteration.
type StuckChecked struct {
	Changed   int    `json:"changed"` // paths outside the ignore list
	Ignored   int    `json:"ignored,omitempty"`
	Tree      string `json:"tree,omitempty"`
	Streak    int    `json:"streak"`
	Threshold int    `json:"threshold"`
	Triggered bool   `json:"triggered"`
	Action    string `json:"action,omitempty"`
	Reason    string `json:"reason,omitempty"`
	Of
}

// CommitEnded: outcome "success", "skipped" or "failed" chooses the event.
type CommitEnded struct {
	Outcome  string `json:"-"`
	SHA      string `json:"sha,omitempty"`
	Subject  string `json:"subject,omitempty"`
	Strategy string `json:"strategy"`
	Source   string `json:"message_source,omitempty"` // reviewer, template
	Reason   string `json:"reason,omitempty"`
	Of
}

// Reported: what people read of an iteration is on disk.
type Reported struct {
	Summary string `json:"summary"` // the line of gate-summary.txt
	Of
}

// ApprovalRequested: the escalation about the completion is made, and its view approval.json is on disk.
type ApprovalRequested struct {
	File string `json:"approval_file"`
	// ID and Digest are the escalation's, Expires is when it lapses; it is asked again then.
	ID      string    `json:"escalation_id,omitempty"`
	Digest  string    `json:"digest,omitempty"`
	Expires time.Time `json:"expires_at,omitzero"`
	Of
}

// ApprovalDecided is a human's answer to it.
type ApprovalDecided struct {
	ID     string `json:"escalation_id,omitempty"`
	Status string `json:"status"` // approved, rejected
	By     string `json:"by"`
	Note   string `json:"note,omitempty"`
	// TreeChanged: what was to be approved is no longer there, or the human has changed it; the gates run once more.
	TreeChanged bool `json:"tree_changed,omitempty"`
	Of
}

// WaitOver: the time of a Wait effect has come.
type WaitOver struct {
	ID string `json:"id"` // of the effect
	// Reason is "" when its time has come, kicked when an operator did not want to wait, cleared when another loop found
	// that the limit is gone.
	Reason   string `json:"reason,omitempty"`
	By       string `json:"by,omitempty"`
	IntentID string `json:"intent_id,omitempty"`
	// Candidates are who could go on with a role, after a wait for one who can.
	Candidates []failures.Candidate `json:"candidates,omitempty"`
}

// Stopped: the supervisor leaves or an operator cancels. Status is paused or cancelled.
type Stopped struct {
	Status   Status `json:"status"`
	Reason   string `json:"reason"`
	By       string `json:"by,omitempty"`
	Note     string `json:"note,omitempty"`
	IntentID string `json:"intent_id,omitempty"`
}

func (Started) Event() string           { return "loop_start" }
func (Resumed) Event() string           { return "loop_resume" }
func (RoleStarted) Event() string       { return "role_start" }
func (PromiseChecked) Event() string    { return "promise_checked" }
func (ValidationStarted) Event() string { return "validation_start" }
func (StuckChecked) Event() string      { return "stuck_checked" }
func (Reported) Event() string          { return "iteration_reported" }
func (ApprovalRequested) Event() string { return "approval_requested" }
func (ApprovalDecided) Event() string   { return "approval_decided" }
func (WaitOver) Event() string          { return "wait_over" }
func (Stopped) Event() string           { return "loop_stop" }
func (Lost) Event() string              { return "effect_lost" }
func (w WaitOver) Effect() string       { return w.ID }
func (Limited) Event() string           { return "rate_limit_wait" }
func (Escalated) Event() string         { return "recovery_escalated" }
func (Resolved) Event() string          { return "recovery_resolved" }
func (c CommitEnded) Event() string     { return "auto_commit_" + c.Outcome }
func (g GateEnded) Event() string       { return g.Gate + "_end" }

func (r RoleEnded) Event() string {
	switch r.Outcome {
	case OutcomeOK:
		return "role_end"
	case OutcomeTimeout, OutcomeInactive:
		return "role_timeout"
	}
	return "role_failed"
}

func (t TestsStarted) Event() string {
	if t.Rerun {
		return "tests_rerun_start"
	}
	return "tests_start"
}

func (t TestsEnded) Event() string {
	if t.Rerun {
		return "tests_rerun_end"
	}
	return "tests_end"
}

// Synced reports whether a fact must be on the disk before the driver goes on: what cost money, what an operator said, and
// every end. What can be found out again by doing a harmless thing again need not be.
func Synced(f Fact) bool {
	switch f := f.(type) {
	case RoleStarted, TestsStarted, ValidationStarted, WaitOver, Reported, ApprovalRequested:
		return false
	case PromiseChecked, StuckChecked, TestsEnded, Classified, ToolChecked, EnvironmentBroken:
		return false
	case GateEnded, Seen, Reconfigured, ProposalStale, Proposed:
		return false // what follows from a proposal is synced: the intent, the question
	case CommitEnded:
		return f.Outcome == "success"
	}
	return true
}
