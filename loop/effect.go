package loop

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// EffectKind names what a performer does when it carries out an effect.
type EffectKind string

// The kinds of effects. "Harmless" means that doing the effect twice changes nothing that matters. When a harmless
// effect has begun and its outcome is missing (Lost), the engine performs it again. EffectKind.Once names the kinds
// that it never performs a second time.
const (
	// Record appends Event with Fields to the journal, in the same write as the input that implied it. A Record is
	// never pending, and nothing must precede it.
	Record EffectKind = "record"
	// RunRole starts the role's runner. role_start must be in the journal before the process is started. The outcome is
	// role_end, role_timeout or role_failed. The outcome must be on the disk before the next effect. If the supervisor
	// dies while a role runs, the role starts again as the next attempt.
	RunRole EffectKind = "run_role"
	// RunTests runs the test commands. tests_start precedes them, or tests_rerun_start if it is not the iteration's
	// first run. The outcome is tests_end or tests_rerun_end. Harmless.
	RunTests EffectKind = "run_tests"
	// CheckPromise reads the last message of the promise role in this iteration and takes the snapshot of the work
	// tree. The outcome is promise_checked. Harmless.
	CheckPromise EffectKind = "check_promise"
	// CheckChecklists, CheckPrerequisites and CollectEvidence read files. The machine records their start (such as
	// checklist_start) when it issues them. The outcomes are checklist_end, prerequisites_end and evidence_end.
	// Harmless.
	CheckChecklists    EffectKind = "check_checklists"
	CheckPrerequisites EffectKind = "check_prerequisites"
	CollectEvidence    EffectKind = "collect_evidence"
	// RunValidation runs the validation commands and the static checks. validation_start precedes them, and
	// validation_end is the outcome. Harmless.
	RunValidation EffectKind = "run_validation"
	// CheckTree looks at all files that tests can read, before the loop completes. The outcome is tree_checked. Harmless.
	CheckTree EffectKind = "check_tree"
	// RunFinal runs the tests in a fresh checkout of what is committed. final_start precedes them, and final_end is the
	// outcome. Harmless.
	RunFinal EffectKind = "run_final"
	// CheckStuck compares the work tree with the tree of the last iteration. The outcome is stuck_checked. Harmless.
	CheckStuck EffectKind = "check_stuck"
	// Commit commits the work of the iteration. A second Commit finds the record of the first one and makes no second
	// commit. The outcome is auto_commit_success, auto_commit_skipped or auto_commit_failed.
	Commit EffectKind = "commit"
	// Report writes the files about the iteration that people read: gate summary, notes, run summary, timeline. The
	// outcome is iteration_reported. Harmless.
	Report EffectKind = "report"
	// AskHuman opens an escalation for the question in State.Human and waits for its answer. Waiting costs nothing.
	// recovery_escalated says that the escalation is open, and recovery_resolved is the outcome. For the completion of
	// the loop the two are approval_requested and approval_decided. Harmless: superloop asks again.
	AskHuman EffectKind = "ask_human"
	// TakeProposal moves recovery.json out of the agent's reach and judges the proposal in it. The outcome is
	// recovery_proposed, recovery_invalid, recovery_skipped or recovery_denied (stale). Harmless: after a crash, the next TakeProposal
	// finds the file that the first one moved.
	TakeProposal EffectKind = "take_proposal"
	// JudgeAttempt judges the command of State.Recovery by the present facts. The command is a fallback or a remedy, or
	// its cooldown is over. The outcome is recovery_proposed. Harmless.
	JudgeAttempt EffectKind = "judge_attempt"
	// ExecuteRecovery runs the command of State.Recovery in its sandbox. recovery_executing must be on the disk before
	// the command starts, and the budget counts that event. The outcome is recovery_executed or recovery_failed. It is
	// not harmless: if it has begun and its outcome is missing, superloop asks a human.
	ExecuteRecovery EffectKind = "execute_recovery"
	// CheckTool checks whether the tool that the last command installed works. Tool names its recipe. The outcome is
	// tool_verified, verify_self_repaired or verify_self_repair_failed. Harmless.
	CheckTool EffectKind = "check_tool"
	// Diagnose classifies the last failure by rules and works out which remedies this system has for it. The outcome is
	// failure_classified. Harmless.
	Diagnose EffectKind = "diagnose"
	// Analyse looks for the root cause of a role that failed again, or of the tests if Reason is "tests". It asks an
	// agent if one is configured and no rule is sure. It gives up at Until at the latest. The outcome is
	// root_cause_analysed. Harmless, except for the cost of the agent.
	Analyse EffectKind = "analyse"
	// Wait does nothing until Until. The outcome is wait_over.
	Wait EffectKind = "wait"
)

// Effect is one thing to do, as a plain value. ID is unique in the loop's life, so an engine can use it as an
// idempotency key.
type Effect struct {
	ID      string     `json:"id"`
	Kind    EffectKind `json:"kind"`
	Role    string     `json:"role,omitempty"`
	Attempt int        `json:"attempt,omitempty"`
	// Runner and Model say who performs the role. If they are "", the performer chooses.
	Runner  string    `json:"runner,omitempty"`
	Model   string    `json:"model,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Command string    `json:"command,omitempty"` // of Diagnose: the command that failed, "" for the tests
	Tool    string    `json:"tool,omitempty"`    // of CheckTool: the id of the tool's recipe
	Until   time.Time `json:"until,omitzero"`
	// LimitMS is the most wall time that the effect may take, from what the loop has left. 0 is no limit.
	LimitMS int64 `json:"limit_ms,omitempty"`
	// MaxCostUSD is the most that the role may spend, from what the loop has left. It binds only if the runner accepts
	// a limit. 0 is no limit.
	MaxCostUSD float64         `json:"max_cost_usd,omitempty"`
	Event      string          `json:"event,omitempty"` // Event, Fields and Iteration are set for a Record only
	Fields     json.RawMessage `json:"fields,omitempty"`
	Iteration  int             `json:"iteration,omitempty"`
}

// record makes a Record effect. It encodes the fields once. They are structs of this package and maps of plain values,
// so an error of the encoder is a programming error, and record panics.
func record(event string, iteration int, fields any) Effect {
	raw, err := Encode(fields)
	if err != nil {
		panic(fmt.Sprintf("loop: fields of %s: %v", event, err))
	}
	return Effect{Kind: Record, Event: event, Fields: raw, Iteration: iteration}
}

// Do says how the engine treats the pending effect.
type Do string

// The values of Do.
const (
	DoNothing Do = "nothing" // the loop has ended
	DoStart   Do = "start"   // perform the effect
	DoTimer   Do = "timer"   // report WaitOver when Effect.Until has come
	DoHuman   Do = "human"   // wait for an answer; the request is open
)

// Due returns the pending effect and says what the engine does about it now. It depends on the state only. The engine
// itself knows whether it is performing the effect. If an effect is due to start, has begun and nobody is performing
// it, its performer is gone, and the engine applies Lost instead.
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

// Kinds returns the kinds of the effects that an engine performs: all but Record.
func Kinds() []EffectKind {
	return []EffectKind{RunRole, RunTests, CheckPromise, CheckChecklists, CheckPrerequisites, CollectEvidence, RunValidation, CheckTree, RunFinal, CheckStuck,
		Commit, Report, AskHuman, TakeProposal, JudgeAttempt, ExecuteRecovery, CheckTool, Diagnose, Analyse, Wait}
}

// Once reports whether an effect of this kind may be performed only one time. If such an effect has begun and its
// outcome is missing, superloop does not begin it again under the same id: a role gets a new attempt, and a human
// decides about a command.
func (k EffectKind) Once() bool { return k == ExecuteRecovery || k == RunRole }

// Cheap reports whether an effect of this kind only reads and writes small files. An engine with expensive round trips
// may perform several of them in one round trip.
func (k EffectKind) Cheap() bool {
	return slices.Contains([]EffectKind{CheckPromise, CheckChecklists, CheckPrerequisites, CollectEvidence, CheckTree, CheckStuck, Report, JudgeAttempt}, k)
}
