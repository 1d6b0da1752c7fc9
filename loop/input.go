package loop

import (
	"encoding/json"
	"fmt"
	"strings"
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
func To(e Effect) Of        { return Of{EffectID: e.ID} }
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

// input is what the machine knows of an event that is a fact: the kind of effect without which the fact changes nothing
// ("" for none), how it is read, what it does (false: it does not fit the state), and whether it need not be on the disk
// before the engine goes on. A reader gives nil for a line that has the name of an input and is only a record of
// something that a fact implied.
type input struct {
	of   EffectKind
	read func(event string, fields json.RawMessage) (Fact, error)
	take func(t *turn, f Fact) bool
	lax  bool
}

// on is an input that take may refuse, does one that fits whenever its effect is pending. complete sets what only the
// event's name tells, and reports whether the line is an input of the machine.
func on[T Fact](of EffectKind, take func(t *turn, f T) bool, complete ...func(f *T, event string) bool) input {
	return input{of: of, take: func(t *turn, f Fact) bool { return take(t, f.(T)) }, read: func(event string, fields json.RawMessage) (Fact, error) {
		var f T
		if len(fields) > 0 {
			if err := json.Unmarshal(fields, &f); err != nil {
				return nil, fmt.Errorf("reading the fields of %s: %w", event, err)
			}
		}
		for _, c := range complete {
			if !c(&f, event) {
				return nil, nil
			}
		}
		return f, nil
	}}
}

func does[T Fact](of EffectKind, do func(t *turn, f T), complete ...func(f *T, event string) bool) input {
	return on(of, func(t *turn, f T) bool { do(t, f); return true }, complete...)
}

func lax(in input) input {
	in.lax = true
	return in
}

var inputs = map[string]input{
	"loop_start":  does("", (*turn).start),
	"loop_resume": does("", (*turn).resume),
	// The machine records its own ends under the same name; only a stop that came from outside is an input.
	"loop_stop":           on("", (*turn).stop, func(f *Stopped, _ string) bool { return f.Status == Paused || f.Status == Cancelled }),
	"effect_lost":         on("", func(t *turn, _ Lost) bool { return t.lost() }),
	"role_start":          lax(on(RunRole, begins[RoleStarted])),
	"role_end":            on(RunRole, (*turn).roleEnded),
	"role_timeout":        on(RunRole, (*turn).roleEnded),
	"role_failed":         on(RunRole, (*turn).roleEnded),
	"tests_start":         lax(on(RunTests, begins[TestsStarted])),
	"tests_rerun_start":   lax(on(RunTests, begins, func(f *TestsStarted, _ string) bool { f.Rerun = true; return true })),
	"tests_end":           lax(does(RunTests, (*turn).testsEnded)),
	"tests_rerun_end":     lax(does(RunTests, (*turn).testsEnded, func(f *TestsEnded, _ string) bool { f.Rerun = true; return true })),
	"promise_checked":     lax(does(CheckPromise, (*turn).promiseChecked)),
	"checklist_end":       lax(does(CheckChecklists, (*turn).gateEnded, gateName)),
	"validation_end":      lax(does(RunValidation, (*turn).gateEnded, gateName)),
	"prerequisites_end":   lax(does(CheckPrerequisites, (*turn).gateEnded, gateName)),
	"evidence_end":        lax(does(CollectEvidence, (*turn).gateEnded, gateName)),
	"validation_start":    lax(on(RunValidation, begins[ValidationStarted])),
	"stuck_checked":       lax(does(CheckStuck, (*turn).stuckChecked)),
	"auto_commit_success": does(Commit, passes, commitOutcome),
	"auto_commit_skipped": lax(does(Commit, passes, commitOutcome)),
	"auto_commit_failed":  lax(does(Commit, passes, commitOutcome)),
	"iteration_reported":  lax(does(Report, passes[Reported])),
	"approval_requested":  lax(on(AskHuman, (*turn).approvalRequested)),
	"approval_decided":    on(AskHuman, (*turn).approvalDecided),
	"wait_over":           lax(does(Wait, (*turn).waitOver)),
	// The machine records the limits that a role met under the same name.
	"rate_limit_wait": on(RunRole, (*turn).limited, func(f *Limited, _ string) bool { return f.Source == SourceShared }),
	// Without an id an operator is told of something, and not asked.
	"recovery_escalated": on(AskHuman, (*turn).escalated, func(f *Escalated, _ string) bool { return f.ID != "" }),
	"recovery_resolved":  on(AskHuman, (*turn).resolved),
	"recovery_seen":      lax(on(RunRole, (*turn).seen)),
	"recovery_proposed":  lax(on("", (*turn).proposed)), // what follows from a proposal is synced: the intent, the question
	"recovery_invalid":   does(TakeProposal, (*turn).proposalInvalid),
	// The verdict on a proposal is recorded under the same name.
	"recovery_denied":    lax(does("", (*turn).proposalStale, func(f *ProposalStale, _ string) bool { return f.Rule == RuleStale })),
	"recovery_executing": on(ExecuteRecovery, (*turn).executing),
	"recovery_executed":  on(ExecuteRecovery, (*turn).executed, hasOutcome),
	"recovery_failed":    on(ExecuteRecovery, (*turn).executed, hasOutcome),
	"config_reloaded":    lax(does("", (*turn).reconfigured)),
	// What a look at a tool found is recorded and decides nothing: the tests are the judge.
	"tool_verified":             lax(does(CheckTool, func(t *turn, _ ToolChecked) { t.succeededRun() })),
	"verify_self_repaired":      lax(does(CheckTool, func(t *turn, _ ToolChecked) { t.succeededRun() })),
	"verify_self_repair_failed": lax(does(CheckTool, func(t *turn, _ ToolChecked) { t.succeededRun() })),
	"failure_classified":        lax(does(Diagnose, (*turn).diagnosed, func(f *Classified, _ string) bool { return f.ID != "" })), // else nothing waited for it
	failures.EventPreflight:     lax(on(RunRole, (*turn).environmentBroken)),
	failures.EventAnalysed:      does(Analyse, (*turn).analysed),
}

// Synced reports whether a fact must be on the disk before the engine goes on: what cost money, what an operator said,
// and every end. What can be found out again by doing a harmless thing again need not be.
func Synced(f Fact) bool                    { return !inputs[f.Event()].lax }
func hasOutcome(f *Executed, _ string) bool { return f.Ended != endedInterrupted }

func gateName(f *GateEnded, event string) bool {
	f.Gate = strings.TrimSuffix(event, "_end")
	return true
}

func commitOutcome(f *CommitEnded, event string) bool {
	f.Outcome = strings.TrimPrefix(event, "auto_commit_")
	return true
}

// DecodeFact gives the fact that an event line is, or nil when the event is only a record of something that a fact
// implied.
func DecodeFact(event string, fields json.RawMessage) (Fact, error) {
	if in, ok := inputs[event]; ok {
		return in.read(event, fields)
	}
	return nil, nil
}
