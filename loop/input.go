package loop

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/failures"
)

// Input is what Step takes: a fact, the time at which it happened, and the ids of its line in events.jsonl. Step has no
// clock, so At is the only time that it knows.
type Input struct {
	At     time.Time
	LoopID string
	RunID  string
	Fact   Fact
}

// Fact is something that has happened. Its JSON fields are the event's own fields.
type Fact interface {
	Event() string // Event returns the name of the fact's event in events.jsonl.
}

// Answer is a fact that reports the outcome or the progress of an effect. Effect returns the id of that effect. If it
// is not the id of the pending effect, the fact is late and changes nothing.
type Answer interface {
	Fact
	Effect() string
}

// Of holds the id of the effect that a fact answers. Facts embed it.
type Of struct {
	EffectID string `json:"effect_id,omitempty"`
}

// To returns the Of of a fact that answers e.
func To(e Effect) Of        { return Of{EffectID: e.ID} }
func (o Of) Effect() string { return o.EffectID }

// Started begins a loop, or begins it again from the start under a new run id.
type Started struct {
	Plan        Plan   `json:"plan"`
	Version     string `json:"version"`
	PID         int    `json:"pid"`
	SpecFile    string `json:"spec_file"`      // the plan has it too; scripts read it here
	Tree        string `json:"tree,omitempty"` // the signature of the work tree before the first role
	Containment string `json:"containment,omitempty"`
	Rules       int    `json:"rules,omitempty"` // the rules that the loop starts with; absent means 1
}

// Resumed says that a supervisor continues the loop where the journal ends.
type Resumed struct {
	Plan        Plan   `json:"plan"`
	Version     string `json:"version"`
	PID         int    `json:"pid"`
	Status      Status `json:"status"` // the status in which the supervisor found the loop
	Reason      string `json:"reason,omitempty"`
	Interrupted string `json:"interrupted,omitempty"` // the id of the effect that was being performed
	Killed      []int  `json:"killed,omitempty"`      // the pids of leftover processes that the supervisor ended
	Containment string `json:"containment,omitempty"`
	// Rules is the version of the rules for the rest of the loop. Without it the version stays as it is.
	Rules int `json:"rules,omitempty"`
}

// Lost says that the pending effect had begun and that its outcome will never be reported, because its performer is
// gone.
type Lost struct {
	Why string `json:"reason,omitempty"`
	Of
}

// TestsStarted says that a run of the test commands begins.
type TestsStarted struct {
	Rerun    bool     `json:"-"`
	Mode     string   `json:"mode"`
	Commands []string `json:"commands"`
	Reason   string   `json:"reason,omitempty"`
	Of
}

// TestsEnded is the outcome of a run of the test commands. ExitCode is that of the first command that failed.
type TestsEnded struct {
	Rerun       bool   `json:"-"`
	Status      string `json:"status"` // ok, failed, skipped
	ExitCode    int    `json:"exit_code"`
	DurationMS  int64  `json:"duration_ms"`
	Failed      string `json:"failed_command,omitempty"`
	Tree        string `json:"tree,omitempty"`
	Files       string `json:"files,omitempty"` // the files as the tests found them, State.TestsFiles
	Details     string `json:"details,omitempty"`
	Reason      string `json:"reason,omitempty"`
	Interrupted bool   `json:"interrupted,omitempty"`
	// Failures are the commands that failed, each with a signature of its output.
	Failures []TestFailure `json:"failures,omitempty"`
	// Outputs say where test-output.txt has the outputs of the failed commands.
	Outputs      []OutputSpan  `json:"outputs,omitempty"`
	Verification *Verification `json:"verification,omitempty"` // after a recovery: whether it helped
	// Unreadable says which of the commands the shell cannot read as a command, and why. It is "" if it can read all.
	Unreadable string `json:"unreadable,omitempty"`
	Of
}

// TestFailure is a test command that failed. The same failure always has the same Signature: numbers, times, paths of
// temporary files and colours do not change it.
type TestFailure struct {
	Command   string `json:"command"`
	ExitCode  int    `json:"exit_code"`
	Signature string `json:"signature"`
}

// OutputSpan says where test-output.txt has the output of a command that failed: from byte From up to byte To.
type OutputSpan struct {
	Command  string `json:"command"`
	ExitCode int    `json:"exit_code"`
	Signal   string `json:"signal,omitempty"`
	TimedOut bool   `json:"timed_out,omitempty"`
	From     int64  `json:"from"`
	To       int64  `json:"to"`
}

// GateEnded is the outcome of one of the gates checklist, validation, prerequisites and evidence. Gate determines the
// name of the event.
type GateEnded struct {
	Gate        string `json:"-"` // checklist, validation, prerequisites, evidence
	Status      string `json:"status"`
	OK          bool   `json:"ok"`
	Details     string `json:"details,omitempty"`
	Results     string `json:"results_file,omitempty"`
	DurationMS  int64  `json:"duration_ms"`
	Interrupted bool   `json:"interrupted,omitempty"`
	Files       string `json:"files,omitempty"` // of validation: State.TestsFiles with what its commands wrote
	Of
}

// ValidationStarted says that the validation commands begin.
type ValidationStarted struct {
	Mode     string   `json:"mode"`
	Commands []string `json:"commands,omitempty"`
	Of
}

// StuckChecked says that superloop has compared the work tree with the tree of the last iteration.
type StuckChecked struct {
	Changed   int    `json:"changed"` // how many paths outside the ignore list have changed
	Ignored   int    `json:"ignored,omitempty"`
	Tree      string `json:"tree,omitempty"`
	Streak    int    `json:"streak"`
	Threshold int    `json:"threshold"`
	Triggered bool   `json:"triggered"`
	Action    string `json:"action,omitempty"`
	Reason    string `json:"reason,omitempty"`
	Of
}

// CommitEnded is the outcome of Commit. Outcome is "success", "skipped" or "failed" and determines the name of the
// event.
type CommitEnded struct {
	Outcome  string `json:"-"` // success, skipped, failed
	SHA      string `json:"sha,omitempty"`
	Subject  string `json:"subject,omitempty"`
	Strategy string `json:"strategy"`
	Source   string `json:"message_source,omitempty"` // reviewer, template
	Reason   string `json:"reason,omitempty"`
	Files    string `json:"files,omitempty"` // State.TestsFiles with what the pre-commit commands wrote
	// Left has the first changed files that were not committed because an attribute names a filter for them.
	Left []string `json:"left,omitempty"`
	Of
}

// CommitFailed is the outcome of a commit that git, a pre-commit command or the disk has refused.
const CommitFailed = "failed"

// Reported says that the files about an iteration that people read are on the disk.
type Reported struct {
	Summary string `json:"summary"` // the line of gate-summary.txt
	Of
}

// ApprovalRequested says that the escalation about the completion of the loop is open, and that its view approval.json
// is on the disk.
type ApprovalRequested struct {
	File string `json:"approval_file"`
	// ID and Digest are those of the escalation. Expires is when it lapses. superloop then asks again.
	ID      string    `json:"escalation_id,omitempty"`
	Digest  string    `json:"digest,omitempty"`
	Expires time.Time `json:"expires_at,omitzero"`
	Of
}

// ApprovalDecided is a human's answer to the escalation about the completion of the loop.
type ApprovalDecided struct {
	ID     string `json:"escalation_id,omitempty"`
	Status string `json:"status"` // approved, rejected
	By     string `json:"by"`
	Note   string `json:"note,omitempty"`
	// TreeChanged says that the work tree is no longer the tree that the human was asked to approve. The gates run once
	// more.
	TreeChanged bool `json:"tree_changed,omitempty"`
	Of
}

// WaitOver says that a Wait effect is over.
type WaitOver struct {
	ID string `json:"id"` // the id of the Wait effect
	// Reason is "" when the time of the wait has come, "kicked" when an operator ended the wait, and "cleared" when
	// another loop found that the limit is gone.
	Reason   string `json:"reason,omitempty"`
	By       string `json:"by,omitempty"`
	IntentID string `json:"intent_id,omitempty"`
	// Candidates are the runners that could take the role now, after a wait for a runner.
	Candidates []failures.Candidate `json:"candidates,omitempty"`
}

// Stopped says that the supervisor leaves (status paused) or that an operator cancels the loop (status cancelled).
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
func (TestsBaseline) Event() string     { return "tests_baseline" }
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

// input says how the machine treats one kind of event. If of is not "", an effect of that kind must be pending, or the
// fact changes nothing. read decodes the fact. It returns nil for a line that has the name of an input but only records
// a consequence of another fact. take applies the fact and reports false if the fact does not fit the state. lax says
// that the engine may go on before the fact is on the disk.
type input struct {
	of   EffectKind
	read func(event string, fields json.RawMessage) (Fact, error)
	take func(t *turn, f Fact) bool
	lax  bool
}

// on makes an input that take may refuse. Each complete function sets fields of the fact that only the event's name
// tells, and reports whether the line is an input of the machine.
func on[T Fact](of EffectKind, take func(t *turn, f T) bool, complete ...func(f *T, event string) bool) input {
	return input{of: of, take: func(t *turn, f Fact) bool { return take(t, f.(T)) }, read: func(event string, fields json.RawMessage) (Fact, error) {
		var f T
		if len(fields) > 0 {
			if err := text.Decode(fields, &f); err != nil {
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

// does makes an input that fits whenever an effect of its kind is pending.
func does[T Fact](of EffectKind, do func(t *turn, f T), complete ...func(f *T, event string) bool) input {
	return on(of, func(t *turn, f T) bool { do(t, f); return true }, complete...)
}

// lax sets the field lax of an input.
func lax(in input) input {
	in.lax = true
	return in
}

// inputs are all events that are inputs of the machine, by name.
var inputs = map[string]input{
	"loop_start":  does("", (*turn).start),
	"loop_resume": does("", (*turn).resume),
	// The machine records the ends that it decides on under the same name. Only a stop from outside is an input.
	"loop_stop":           on("", (*turn).stop, func(f *Stopped, _ string) bool { return f.Status == Paused || f.Status == Cancelled }),
	"operator_note":       does("", (*turn).noted),
	"effect_lost":         on("", func(t *turn, _ Lost) bool { return t.lost() }),
	"role_start":          lax(on(RunRole, begins[RoleStarted])),
	"role_end":            on(RunRole, (*turn).roleEnded),
	"role_timeout":        on(RunRole, (*turn).roleEnded),
	"role_failed":         on(RunRole, (*turn).roleEnded),
	"tests_start":         lax(on(RunTests, begins[TestsStarted])),
	"tests_rerun_start":   lax(on(RunTests, begins, func(f *TestsStarted, _ string) bool { f.Rerun = true; return true })),
	"tests_end":           lax(does(RunTests, (*turn).testsEnded)),
	"tests_rerun_end":     lax(does(RunTests, (*turn).testsEnded, func(f *TestsEnded, _ string) bool { f.Rerun = true; return true })),
	"tests_baseline":      lax(does(RunTests, (*turn).baselineTested)),
	"final_start":         lax(on(RunFinal, begins[FinalStarted])),
	"final_end":           lax(does(RunFinal, (*turn).finalEnded)),
	"tree_checked":        lax(does(CheckTree, (*turn).treeChecked)),
	"promise_checked":     lax(does(CheckPromise, (*turn).promiseChecked)),
	"checklist_end":       lax(does(CheckChecklists, (*turn).gateEnded, gateName)),
	"validation_end":      lax(does(RunValidation, (*turn).gateEnded, gateName)),
	"prerequisites_end":   lax(does(CheckPrerequisites, (*turn).gateEnded, gateName)),
	"evidence_end":        lax(does(CollectEvidence, (*turn).gateEnded, gateName)),
	"validation_start":    lax(on(RunValidation, begins[ValidationStarted])),
	"stuck_checked":       lax(does(CheckStuck, (*turn).stuckChecked)),
	"auto_commit_success": does(Commit, (*turn).committed, commitOutcome),
	"auto_commit_skipped": lax(does(Commit, (*turn).committed, commitOutcome)),
	"auto_commit_failed":  lax(does(Commit, (*turn).committed, commitOutcome)),
	"iteration_reported":  lax(does(Report, passes[Reported])),
	"approval_requested":  lax(on(AskHuman, (*turn).approvalRequested)),
	"approval_decided":    on(AskHuman, (*turn).approvalDecided),
	"wait_over":           lax(does(Wait, (*turn).waitOver)),
	// The machine records a limit that a role met under the same name.
	"rate_limit_wait": on(RunRole, (*turn).limited, func(f *Limited, _ string) bool { return f.Source == SourceShared }),
	// An escalation without an id only informs an operator. It asks nothing.
	"recovery_escalated": on(AskHuman, (*turn).escalated, func(f *Escalated, _ string) bool { return f.ID != "" }),
	"recovery_resolved":  on(AskHuman, (*turn).resolved),
	"recovery_seen":      lax(on(RunRole, (*turn).seen)),
	// What follows from a proposal is synced: the intent of the execution and the question.
	"recovery_proposed": lax(on("", (*turn).proposed)),
	"recovery_invalid":  does(TakeProposal, (*turn).proposalInvalid),
	// The machine records the policy's refusal of a proposal under the same name.
	"recovery_denied":    lax(does("", (*turn).proposalStale, func(f *ProposalStale, _ string) bool { return f.Rule == RuleStale })),
	"recovery_skipped":   lax(does(TakeProposal, (*turn).proposalSkipped)),
	"recovery_executing": on(ExecuteRecovery, (*turn).executing),
	"recovery_executed":  on(ExecuteRecovery, (*turn).executed, hasOutcome),
	"recovery_failed":    on(ExecuteRecovery, (*turn).executed, hasOutcome),
	"config_reloaded":    lax(does("", (*turn).reconfigured)),
	// The machine records the result of a tool check and decides nothing by it. The tests decide whether the recovery
	// helped.
	"tool_verified":             lax(does(CheckTool, func(t *turn, _ ToolChecked) { t.succeededRun() })),
	"verify_self_repaired":      lax(does(CheckTool, func(t *turn, _ ToolChecked) { t.succeededRun() })),
	"verify_self_repair_failed": lax(does(CheckTool, func(t *turn, _ ToolChecked) { t.succeededRun() })),
	// A failure_classified without an id is only a record: no effect waits for it.
	"failure_classified":    lax(does(Diagnose, (*turn).diagnosed, func(f *Classified, _ string) bool { return f.ID != "" })),
	failures.EventPreflight: lax(on(RunRole, (*turn).environmentBroken)),
	failures.EventAnalysed:  does(Analyse, (*turn).analysed),
}

// Synced reports whether a fact must be on the disk before the engine goes on. It must be if money was spent, if an
// operator decided something, and at every end. It need not be if a harmless effect can find the same out again.
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

// DecodeFact decodes the fact of an event. It returns nil if the event is no input of the machine but only a record of
// what a fact implied.
func DecodeFact(event string, fields json.RawMessage) (Fact, error) {
	if in, ok := inputs[event]; ok {
		return in.read(event, fields)
	}
	return nil, nil
}
