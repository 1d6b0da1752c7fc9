package loop

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// EffectKind names what an engine has to have done.
type EffectKind string

// The kinds. "Harmless" means that doing it twice changes nothing that matters: begun and without an outcome (Lost), it
// is done again. The others are those of Once.
const (
	// Record: append Event with Fields to the journal, in the same write as the input that gave it. Never pending,
	// nothing must precede it.
	Record EffectKind = "record"
	// RunRole: start the role's runner. role_start must be in the journal before the process is started; role_end,
	// role_timeout or role_failed is the outcome and must be synced before the next effect. A role that was running
	// when the supervisor died is started again, as the next attempt.
	RunRole EffectKind = "run_role"
	// RunTests: run the test commands. tests_start (tests_rerun_start when it is not the iteration's first run)
	// precedes them, tests_end is the outcome. Harmless.
	RunTests EffectKind = "run_tests"
	// CheckPromise: read the promise role's last message of this iteration and take the snapshot of the tree. Outcome
	// promise_checked. Harmless.
	CheckPromise EffectKind = "check_promise"
	// CheckChecklists, CheckPrerequisites, CollectEvidence: read files; their _start is recorded when they are issued.
	// Harmless.
	CheckChecklists    EffectKind = "check_checklists"
	CheckPrerequisites EffectKind = "check_prerequisites"
	CollectEvidence    EffectKind = "collect_evidence"
	// RunValidation: run the validation commands and the static checks. validation_start precedes it. Harmless.
	RunValidation EffectKind = "run_validation"
	CheckStuck    EffectKind = "check_stuck" // compare the tree with that of the last iteration. Harmless.
	// Commit: commit the iteration's work. Done twice it finds its own trailers and makes no second commit. Outcome
	// auto_commit_*.
	Commit EffectKind = "commit"
	// Report: write what people read of the iteration (gate summary, notes, run summary, timeline). Outcome
	// iteration_reported. Harmless.
	Report EffectKind = "report"
	// AskHuman: open an escalation about State.Human and wait for its answer, which costs nothing. recovery_escalated
	// (approval_requested for the completion of the loop) says that it is open, recovery_resolved (approval_decided) is
	// the outcome. Harmless: it is asked again.
	AskHuman EffectKind = "ask_human"
	// TakeProposal: move recovery.json out of the agent's reach and judge what it proposes. Outcome recovery_proposed,
	// recovery_invalid or recovery_denied (stale). Harmless: what a crash left half-way is found again.
	TakeProposal EffectKind = "take_proposal"
	// JudgeAttempt: judge the command of State.Recovery as things are now: it is the fallback, or its time has come.
	// Outcome recovery_proposed. Harmless.
	JudgeAttempt EffectKind = "judge_attempt"
	// ExecuteRecovery: run the command of State.Recovery in its sandbox. recovery_executing must be on the disk before
	// it is started, and is what the budget counts; recovery_executed or recovery_failed is the outcome. It is not
	// harmless: begun and without an outcome it is a question.
	ExecuteRecovery EffectKind = "execute_recovery"
	// CheckTool: find out whether the tool works that the last command has installed (Tool names its recipe). Outcome
	// tool_verified. Harmless.
	CheckTool EffectKind = "check_tool"
	// Diagnose: classify what has just failed by rules, and work out what may fix it here. Outcome failure_classified.
	// Harmless.
	Diagnose EffectKind = "diagnose"
	// Analyse: look for the cause of what the role (or the tests, reason "tests") has failed of again, with an agent if
	// there is one for it and no rule is sure; at Until at the latest it is given up. Outcome root_cause_analysed.
	// Harmless, but for what the agent costs.
	Analyse EffectKind = "analyse"
	Wait    EffectKind = "wait" // do nothing until Until. Outcome wait_over.
)

// Effect is one thing to do. It is a plain value; ID is unique in the loop's life, so that another engine can use it as
// an idempotency key.
type Effect struct {
	ID      string     `json:"id"`
	Kind    EffectKind `json:"kind"`
	Role    string     `json:"role,omitempty"`
	Attempt int        `json:"attempt,omitempty"`
	// Runner and Model are who is to do the role, "" is the performer's choice.
	Runner  string    `json:"runner,omitempty"`
	Model   string    `json:"model,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Command string    `json:"command,omitempty"` // what Diagnose is about, if not the tests
	Tool    string    `json:"tool,omitempty"`    // of CheckTool: the id of a recipe
	Until   time.Time `json:"until,omitzero"`
	LimitMS int64     `json:"limit_ms,omitempty"` // caps the effect's wall time by what the loop has left; 0 is no cap
	// MaxCostUSD caps what the role may spend by what the loop has left, where the runner can be told; 0 is no cap.
	MaxCostUSD float64         `json:"max_cost_usd,omitempty"`
	Event      string          `json:"event,omitempty"` // Event, Fields and Iteration are a Record's.
	Fields     json.RawMessage `json:"fields,omitempty"`
	Iteration  int             `json:"iteration,omitempty"`
}

// record makes a Record effect. Fields are marshalled here, once; they are our own structs and maps of plain values, so
// a failure is a programming error.
func record(event string, iteration int, fields any) Effect {
	raw, err := Encode(fields)
	if err != nil {
		panic(fmt.Sprintf("loop: fields of %s: %v", event, err))
	}
	return Effect{Kind: Record, Event: event, Fields: raw, Iteration: iteration}
}

// Do says what an engine has to do about the pending effect.
type Do string

// What is due.
const (
	DoNothing Do = "nothing" // the loop has ended
	DoStart   Do = "start"   // perform the effect
	DoTimer   Do = "timer"   // report WaitOver at Effect.Until
	DoHuman   Do = "human"   // wait for an answer; the request is open
)

// Due says what an engine has to do now. It depends on the state and on which effect the engine has under way: an
// effect that is due to start, has begun and is not under way has lost its performer, and the engine applies Lost
// instead.
func Due(s State) (Effect, Do) {
	p := s.Pending
	switch {
	case p == nil:
		return Effect{}, DoNothing
	case p.Kind == Wait:
		return *p, DoTimer
	case p.Kind == AskHuman && s.Begun:
		return *p, DoHuman
	}
	return *p, DoStart
}

// Once reports whether an effect of the kind may be performed a single time only: begun and without an outcome, it is
// never begun again by itself.
func (k EffectKind) Once() bool { return k == ExecuteRecovery || k == RunRole }

// Cheap reports whether an effect of the kind only reads and writes small files: an engine with a dear round trip may
// perform several in one.
func (k EffectKind) Cheap() bool {
	return slices.Contains([]EffectKind{CheckPromise, CheckChecklists, CheckPrerequisites, CollectEvidence, CheckStuck, Report, JudgeAttempt}, k)
}
