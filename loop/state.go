package loop

import (
	"encoding/json"
	"slices"
	"time"
)

// StateVersion is the shape of State as it is written; a reader refuses a larger one.
const StateVersion = 1

// CurrentRules is the version of the rules in Step. A loop keeps the version that it was started with (State.Rules)
// until it is resumed. A change in Step that would lead an old journal elsewhere gets a new version and keeps the old
// branch.
const CurrentRules = 1

// Status is where a loop stands, in the words of state.json.
type Status string

// The statuses. The last five are ends: nothing happens in them until an operator runs the loop again.
const (
	Pending          Status = "pending"
	Running          Status = "running"
	Recovering       Status = "recovering"
	AwaitingHuman    Status = "awaiting_human"
	AwaitingApproval Status = "awaiting_approval"
	RateLimited      Status = "rate_limited"
	Paused           Status = "paused"
	Completed        Status = "completed"
	StuckEnd         Status = "stuck"
	LimitReached     Status = "limit_reached"
	Failed           Status = "failed"
	Cancelled        Status = "cancelled"
)

// Ended reports whether s is one of the ends.
func (s Status) Ended() bool {
	return slices.Contains([]Status{Completed, StuckEnd, LimitReached, Failed, Cancelled}, s)
}

// Reasons, the vocabulary that events, state.json, messages and tests share.
const (
	ReasonPromiseKept   = "promise_and_gates"    // completed
	ReasonApproved      = "approved"             // completed after an operator's approval
	ReasonMaxIterations = "max_iterations"       // limit_reached
	ReasonMaxWallTime   = "max_wall_time"        // limit_reached
	ReasonStuck         = "no_change"            // stuck
	ReasonRoleFailed    = "role_failed"          // failed
	ReasonNotStarted    = "runner_not_started"   // failed: retrying cannot help
	ReasonMisconfigured = "runner_misconfigured" // failed: retrying cannot help
	ReasonMaxCost       = "max_cost_usd"         // limit_reached
	ReasonMaxTokens     = "max_tokens"           // limit_reached
	ReasonCostUnknown   = "cost_unknown"         // limit_reached: the budget cannot be kept
	ReasonRefused       = "rejected"             // failed: an operator said no to the only way on
	ReasonCancelled     = "cancelled"            // cancelled
	ReasonInterrupted   = "interrupted"          // paused by a signal
	ReasonRejected      = "approval_rejected"    // running again
	ReasonGatesChanged  = "gates_changed"        // approved, but no longer true
	ReasonTreeChanged   = "tree_changed"         // tests run again
	ReasonCrash         = "supervisor_ended"     // a role started again after a crash
	ReasonRetry         = "retry"                // a role started again after it failed
	ReasonLimitOver     = "rate_limit_over"      // a role started again after a wait
	ReasonAnswered      = "answered"             // a role started again after an operator acted
	ReasonNewSession    = "new_session"          // a role started again without its old session
	ReasonIteration     = "iteration"            // tests, the regular run of an iteration
	ReasonOnPromise     = "promise_or_checklist" // tests, mode on_promise
	ReasonRecovery      = "recovery"             // tests, after a recovery that was executed
	ReasonCooldown      = "cooldown"             // a recovery that waits for its time
	ReasonRemediation   = "first_aid"            // a remedy that rules know of
)

// Types of escalations.
const (
	EscalationRunner = "runner_unavailable" // about a runner that only an operator can make work: a login, an account
	// EscalationApproval is about a command that the policy does not let run by itself, EscalationFailed about one that
	// ran and did not fix anything.
	EscalationApproval   = "recovery_approval_required"
	EscalationFailed     = "recovery_failed"
	EscalationCompletion = "completion_approval" // about the end of the loop: all gates pass
)

// Plan is what the machine needs of a loop's configuration. It travels in loop_start and loop_resume, so that a journal
// can be replayed by itself.
type Plan struct {
	SpecFile      string   `json:"spec_file"`
	Roles         []string `json:"roles"`
	MaxIterations int      `json:"max_iterations,omitempty"`
	MaxWallMS     int64    `json:"max_wall_ms,omitempty"`
	Promise       string   `json:"completion_promise"`
	Tests         string   `json:"tests_mode"` // every, on_promise, disabled
	Checklists    bool     `json:"checklists,omitempty"`
	// Validation is "", "every" or "on_promise"; the Require flags say whether completion needs the gate.
	Validation           string `json:"validation,omitempty"`
	RequireValidation    bool   `json:"require_validation,omitempty"`
	Prerequisites        bool   `json:"prerequisites,omitempty"`
	RequirePrerequisites bool   `json:"require_prerequisites,omitempty"`
	Evidence             bool   `json:"evidence,omitempty"`
	RequireEvidence      bool   `json:"require_evidence,omitempty"`
	Approval             bool   `json:"approval,omitempty"`
	StuckThreshold       int    `json:"stuck_threshold,omitempty"` // 0: no stuck gate
	Commit               string `json:"commit,omitempty"`          // "", per_iteration, on_test_pass
	// Attempts bounds the counted failures of one role in one iteration; BackoffMS is the wait before the second,
	// doubled for each later one, at most MaxBackoffMS.
	Attempts  int   `json:"attempts"`
	BackoffMS int64 `json:"backoff_ms"`
	// MaxCostUSD and MaxTokens bound what a run spends; 0 is no bound.
	MaxCostUSD float64 `json:"max_cost_usd,omitempty"`
	MaxTokens  int64   `json:"max_tokens,omitempty"`
	// Recovery: proposals are taken and judged. Remediation: what fails is looked at by rules first.
	Recovery    bool         `json:"recovery,omitempty"`
	Remediation bool         `json:"first_aid,omitempty"`
	Respond     *RespondPlan `json:"respond,omitempty"` // nil when a role that fails is only run again
}

// MaxBackoffMS caps the wait between two attempts of a failing role.
const MaxBackoffMS = 5 * 60 * 1000

// promiseRole is the role whose last message may hold the promise: the reviewer, or the last role of a loop that has
// none.
func (p Plan) PromiseRole() string {
	switch {
	case slices.Contains(p.Roles, "reviewer"):
		return "reviewer"
	case len(p.Roles) == 0:
		return ""
	}
	return p.Roles[len(p.Roles)-1]
}

// Gates are the verdicts of one iteration, in the words of gate-summary.txt. An empty one was not looked at.
type Gates struct {
	Promise       string `json:"promise,omitempty"`       // true, false
	Tests         string `json:"tests,omitempty"`         // ok, failed, skipped
	Checklist     string `json:"checklist,omitempty"`     // ok, remaining
	Validation    string `json:"validation,omitempty"`    // ok, failed, skipped
	Prerequisites string `json:"prerequisites,omitempty"` // ok, failed, skipped
	Evidence      string `json:"evidence,omitempty"`      // ok, failed, skipped
	Approval      string `json:"approval,omitempty"`      // skipped, pending, approved, rejected
}

// RoleResult is what the machine remembers of a role's last run in this iteration; prompts are rendered from it.
type RoleResult struct {
	Attempt    int    `json:"attempt"`
	Outcome    string `json:"outcome"`
	Output     string `json:"output,omitempty"`      // fresh, stale, missing, empty
	File       string `json:"output_file,omitempty"` // base name of the deliverable
	Digest     string `json:"output_digest,omitempty"`
	Runner     string `json:"runner,omitempty"`
	Error      string `json:"error,omitempty"`
	ExitCode   int    `json:"exit_code"`
	Signal     string `json:"signal,omitempty"`
	DurationMS int64  `json:"duration_ms"` // how long it ran
}

// Streak counts iterations without a change outside the ignore list.
type Streak struct {
	Count     int    `json:"streak"`
	Threshold int    `json:"threshold"`
	Tree      string `json:"tree,omitempty"`
}

// ApprovalState is the open or answered completion approval.
type ApprovalState struct {
	Status    string    `json:"status"` // pending, approved, rejected
	Iteration int       `json:"iteration"`
	Tree      string    `json:"tree,omitempty"`
	Requested time.Time `json:"requested_at"`
	By        string    `json:"by,omitempty"`
	Note      string    `json:"note,omitempty"`
}

// Spent is what a run has cost so far. What is unknown is counted apart and never taken for 0.
type Spent struct {
	Runs    int     `json:"runs"`
	CostUSD float64 `json:"cost_usd"`
	Tokens  int64   `json:"tokens"`
	// UnknownCost and UnknownTokens count the runs that did not tell.
	UnknownCost   int `json:"unknown_cost,omitempty"`
	UnknownTokens int `json:"unknown_tokens,omitempty"`
	// Blind names the role and runner whose turn ended well without telling what a bound is on; "" while there is none.
	Blind string `json:"blind,omitempty"`
	// Costs and Uses are the last costs and token counts of each role, oldest first, at most historyLength.
	Costs map[string][]float64 `json:"costs,omitempty"`
	Uses  map[string][]int64   `json:"uses,omitempty"`
}

// LimitState is the limit that a rate_limited loop waits for.
type LimitState struct {
	Role        string    `json:"role"`
	Runner      string    `json:"runner"`
	Provider    string    `json:"provider"`
	Account     string    `json:"account"`
	Class       string    `json:"class"`
	Text        string    `json:"text,omitempty"`
	ResetsAt    time.Time `json:"resets_at,omitzero"` // as the provider told; zero when it did not
	Until       time.Time `json:"until"`              // when the loop goes on
	Since       time.Time `json:"since"`
	SharedUntil time.Time `json:"shared_until,omitzero"` // that of LimitFact
}

// About is what a human is asked about. It decides what an answer does.
type About string

// What humans are asked about.
const (
	AboutRecovery   About = "recovery"   // the command of State.Recovery
	AboutRole       About = "role"       // a role that fails
	AboutPreflight  About = "preflight"  // an environment check that fails
	AboutTests      About = "same_tests" // tests that fail in the same way again and again
	AboutCompletion About = "completion" // the end of the loop
)

// HumanState is what a loop waits for that is awaiting_human or awaiting_approval.
type HumanState struct {
	About About `json:"about"`
	// ID names the place in the loop that asks, Question the record of what is asked; the same place may ask again.
	ID       string    `json:"id"`
	Question string    `json:"question,omitempty"`
	Digest   string    `json:"digest,omitempty"`
	Type     string    `json:"type"`
	Class    string    `json:"class"` // the runner's failure, or the policy's rule
	Role     string    `json:"role"`
	Runner   string    `json:"runner,omitempty"`
	Text     string    `json:"text,omitempty"`
	Fix      string    `json:"fix,omitempty"` // what to type
	Since    time.Time `json:"since"`
}

// SessionState is the conversation that a role can go on with.
type SessionState struct {
	ID     string          `json:"id"`
	Runner string          `json:"runner"`
	Totals json.RawMessage `json:"totals,omitempty"` // the session's counters, for CLIs that count by session
}

// State is everything that is needed to continue a loop: the fold of its inputs. It is a value; Step never changes the
// one that it is given.
type State struct {
	Version int    `json:"version"`
	Rules   int    `json:"rules"`
	LoopID  string `json:"loop_id"`
	RunID   string `json:"run_id"`
	Plan    Plan   `json:"plan"`

	Status    Status `json:"status"`
	Reason    string `json:"reason,omitempty"`
	Detail    string `json:"detail,omitempty"` // one sentence for an operator
	Iteration int    `json:"iteration"`
	At        string `json:"at,omitempty"` // the step of the iteration that the loop stands at (step.go)

	// Pending is the effect whose outcome is awaited; nil in an end. Begun says that the journal holds its start.
	Pending *Effect `json:"pending,omitempty"`
	Begun   bool    `json:"begun,omitempty"`

	// Attempt numbers the runs of the current role in this iteration, from 1, restarts after a crash included. Failures
	// counts those that count.
	Attempt  int `json:"attempt,omitempty"`
	Failures int `json:"failures,omitempty"`

	Roles     map[string]RoleResult `json:"roles,omitempty"`
	LastRoles map[string]RoleResult `json:"last_roles,omitempty"`
	Gates     Gates                 `json:"gates"`
	LastGates Gates                 `json:"last_gates"`
	TestsTree string                `json:"tests_tree,omitempty"` // tree that the tests judged
	// TestFailures are those of the iteration's last run of the tests.
	TestFailures []TestFailure  `json:"test_failures,omitempty"`
	TestOutputs  []OutputSpan   `json:"test_outputs,omitempty"`
	Tree         string         `json:"tree,omitempty"`    // tree after the last role
	Missing      []string       `json:"missing,omitempty"` // what the last completion lacked
	Stuck        Streak         `json:"stuck"`
	Approval     *ApprovalState `json:"approval,omitempty"`
	Limit        *LimitState    `json:"limit,omitempty"`     // set while rate_limited, or paused in it
	Human        *HumanState    `json:"human,omitempty"`     // set while awaiting_human
	Recovery     *RecoveryState `json:"recovery,omitempty"`  // the proposal that is dealt with
	Recoveries   Recoveries     `json:"recoveries,omitzero"` // what this run has done about proposals so far
	// Diagnosis is what rules say of the tests' last failure, nil when they pass; Aid counts what they have done.
	Diagnosis   *Diagnosis  `json:"diagnosis,omitempty"`
	Remediation Remediation `json:"first_aid,omitzero"`
	Response    Response    `json:"response,omitzero"` // what is known of failing roles, and what is done about them
	Seen        *Sighting   `json:"seen,omitempty"`    // a proposal that lies there while its role still runs
	// NextPlan takes the place of Plan when the next iteration begins.
	NextPlan *Plan                   `json:"next_plan,omitempty"`
	Sessions map[string]SessionState `json:"sessions,omitempty"` // the last conversations by role
	Spent    Spent                   `json:"spent"`
	// Recheck: the gates run once more after an approval that came when the tree had changed.
	Recheck   bool   `json:"recheck,omitempty"`
	HumanNote string `json:"human_note,omitempty"` // for the next planner

	StartedAt   time.Time `json:"started_at"`
	IterationAt time.Time `json:"iteration_at"`
	UpdatedAt   time.Time `json:"updated_at"`
	EndedAt     time.Time `json:"ended_at,omitzero"`
	// ActiveMS is the time that the loop was active (not waiting for an operator or for a limit, not without a
	// supervisor); ActiveSince is when it last became so.
	ActiveMS    int64     `json:"active_ms"`
	ActiveSince time.Time `json:"active_since,omitzero"`
}
