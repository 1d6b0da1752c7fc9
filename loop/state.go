package loop

import (
	"encoding/json"
	"slices"
	"time"
)

// StateVersion is the version of the JSON form of State. A reader refuses a larger version.
const StateVersion = 1

// CurrentRules is the version of the rules in Step. A loop keeps the version that it was started with (State.Rules)
// until a supervisor resumes it. A change in Step that would lead an old journal to another state gets a new version
// and keeps the old branch.
const CurrentRules = 1

// Status says what a loop is doing, in the words of state.json.
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

// Reasons. Events, state.json, messages and tests share these words. The comment of each names the status, or the
// effect, that it explains.
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
	ReasonCostUnknown   = "cost_unknown"         // limit_reached: superloop cannot enforce the budget
	ReasonRefused       = "rejected"             // failed: an operator refused the only way to go on
	ReasonCancelled     = "cancelled"            // cancelled
	ReasonInterrupted   = "interrupted"          // paused by a signal
	ReasonPaused        = "pause"                // paused by an operator
	ReasonOnce          = "once"                 // paused because one iteration was wanted
	ReasonRejected      = "approval_rejected"    // running again: an operator rejected the completion
	ReasonGatesChanged  = "gates_changed"        // running again: approved, but the tree had changed since
	ReasonTreeChanged   = "tree_changed"         // tests run again
	ReasonCrash         = "supervisor_ended"     // a role started again after a crash
	ReasonRetry         = "retry"                // a role started again after it failed
	ReasonLimitOver     = "rate_limit_over"      // a role started again after a wait
	ReasonAnswered      = "answered"             // a role started again, or tests ran again, after an operator acted
	ReasonNewSession    = "new_session"          // a role started again without its old session
	ReasonIteration     = "iteration"            // tests: the regular run of an iteration
	ReasonOnPromise     = "promise_or_checklist" // tests: in mode on_promise
	ReasonBaseline      = "baseline"             // tests: before the first role
	ReasonRecovery      = "recovery"             // tests: after a recovery that was executed
	ReasonCooldown      = "cooldown"             // a recovery waits until its cooldown is over
	ReasonRemediation   = "first_aid"            // a recovery by a remedy that rules know
)

// Types of escalations.
const (
	EscalationRunner = "runner_unavailable" // about a runner that only an operator can repair: a login, an account
	// EscalationApproval is about a command that the policy does not let run without approval. EscalationFailed is
	// about a command that ran and did not repair the failure.
	EscalationApproval   = "recovery_approval_required"
	EscalationFailed     = "recovery_failed"
	EscalationCompletion = "completion_approval" // about the completion of the loop, when all gates pass
)

// Plan is the part of a loop's configuration that the machine needs. loop_start and loop_resume carry it, so that a
// journal can be replayed without the configuration.
type Plan struct {
	SpecFile      string   `json:"spec_file"`
	Roles         []string `json:"roles"`
	MaxIterations int      `json:"max_iterations,omitempty"`
	MaxWallMS     int64    `json:"max_wall_ms,omitempty"`
	Promise       string   `json:"completion_promise"`
	Tests         string   `json:"tests_mode"` // every, on_promise, disabled
	Checklists    bool     `json:"checklists,omitempty"`
	// Validation is "", "every" or "on_promise". The Require flags say whether completion needs the gate.
	Validation           string `json:"validation,omitempty"`
	RequireValidation    bool   `json:"require_validation,omitempty"`
	Prerequisites        bool   `json:"prerequisites,omitempty"`
	RequirePrerequisites bool   `json:"require_prerequisites,omitempty"`
	Evidence             bool   `json:"evidence,omitempty"`
	RequireEvidence      bool   `json:"require_evidence,omitempty"`
	Approval             bool   `json:"approval,omitempty"`
	Final                bool   `json:"final,omitempty"`           // the tests run in a fresh checkout before completion
	StuckThreshold       int    `json:"stuck_threshold,omitempty"` // 0: no stuck gate
	// SameRed is how many iterations in a row may end with the same failing tests on the same files. 0 is no bound.
	SameRed int    `json:"same_red,omitempty"`
	Commit  string `json:"commit,omitempty"` // "", per_iteration, on_test_pass
	// Attempts is how many counted failures of one role in one iteration end the loop. BackoffMS is the wait in
	// milliseconds before the second attempt. It doubles for each later attempt, up to MaxBackoffMS.
	Attempts  int   `json:"attempts"`
	BackoffMS int64 `json:"backoff_ms"`
	// MaxCostUSD and MaxTokens are the most that a run may spend. 0 is no limit.
	MaxCostUSD float64 `json:"max_cost_usd,omitempty"`
	MaxTokens  int64   `json:"max_tokens,omitempty"`
	// Recovery says that superloop takes and judges proposals. Diagnosis says that rules look at failed tests before a
	// role does. Remediation says that the rules also repair what the policy lets them.
	Recovery    bool         `json:"recovery,omitempty"`
	Diagnosis   bool         `json:"diagnosis,omitempty"`
	Remediation bool         `json:"first_aid,omitempty"`
	Respond     *RespondPlan `json:"respond,omitempty"` // nil: superloop only runs a failed role again
	Completion  *Completion  `json:"completion,omitempty"`
}

// MaxBackoffMS is the longest wait between two attempts of a failing role, in milliseconds.
const MaxBackoffMS = 5 * 60 * 1000

// PromiseRole is the role whose last message may hold the promise: the reviewer, or the last role of a loop that has no
// reviewer.
func (p Plan) PromiseRole() string {
	switch {
	case slices.Contains(p.Roles, "reviewer"):
		return "reviewer"
	case len(p.Roles) == 0:
		return ""
	}
	return p.Roles[len(p.Roles)-1]
}

// Gates are the verdicts of one iteration, in the words of gate-summary.txt. "" means that the gate has no verdict yet.
type Gates struct {
	Promise       string `json:"promise,omitempty"`       // true, false
	Tests         string `json:"tests,omitempty"`         // ok, failed, skipped
	Checklist     string `json:"checklist,omitempty"`     // ok, remaining
	Validation    string `json:"validation,omitempty"`    // ok, failed, skipped
	Prerequisites string `json:"prerequisites,omitempty"` // ok, failed, skipped
	Evidence      string `json:"evidence,omitempty"`      // ok, failed, skipped
	Approval      string `json:"approval,omitempty"`      // skipped, pending, approved, rejected
	Change        string `json:"change,omitempty"`        // ok, none, whitespace, unknown; "": nobody asked
	Reports       string `json:"reports,omitempty"`       // ok, or FILE:VERDICT of the first report that is missing
	TestChange    string `json:"test_change,omitempty"`   // ok, none, unknown; "": nobody asked
	Tree          string `json:"tree,omitempty"`          // ok, changed, unseen: the files after the tests; "": nobody looked
	Final         string `json:"final,omitempty"`         // ok, failed: the tests in a fresh checkout; "": they did not run
}

// RoleResult is what the machine remembers of a role's last run in this iteration. Prompts show it.
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

// Streak counts the iterations in a row that changed no path outside the ignore list.
type Streak struct {
	Count     int    `json:"streak"`
	Threshold int    `json:"threshold"`
	Tree      string `json:"tree,omitempty"`
}

// ApprovalState is the approval of the completion of the loop, pending or decided.
type ApprovalState struct {
	Status    string    `json:"status"` // pending, approved, rejected
	Iteration int       `json:"iteration"`
	Tree      string    `json:"tree,omitempty"`
	Files     string    `json:"files,omitempty"`
	Requested time.Time `json:"requested_at"`
	By        string    `json:"by,omitempty"`
	Note      string    `json:"note,omitempty"`
}

// Spent is what a run has spent so far. Unknown costs and token counts are counted separately and never taken for 0.
type Spent struct {
	Runs    int     `json:"runs"`
	CostUSD float64 `json:"cost_usd"`
	Tokens  int64   `json:"tokens"`
	// UnknownCost and UnknownTokens count the role runs whose cost or whose tokens are not known.
	UnknownCost   int `json:"unknown_cost,omitempty"`
	UnknownTokens int `json:"unknown_tokens,omitempty"`
	// Blind is a sentence about a role and runner that ended well and did not report the cost or the tokens that a
	// budget limits. It is "" while there is no such role.
	Blind string `json:"blind,omitempty"`
	// Costs and Uses are the latest costs and token counts of each role, oldest first, at most historyLength of each.
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
	ResetsAt    time.Time `json:"resets_at,omitzero"` // as the provider reported it; zero if it did not
	Until       time.Time `json:"until"`              // when the loop goes on
	Since       time.Time `json:"since"`
	SharedUntil time.Time `json:"shared_until,omitzero"` // LimitFact.SharedUntil of the limit
}

// About says what a question to a human is about. It decides what an answer does.
type About string

// The subjects of questions to humans.
const (
	AboutRecovery   About = "recovery"   // the command of State.Recovery
	AboutRole       About = "role"       // a role that fails
	AboutPreflight  About = "preflight"  // an environment check that fails
	AboutTests      About = "same_tests" // tests that fail in the same way again and again
	AboutCommit     About = "commit"     // a commit that fails when everything else is done
	AboutCompletion About = "completion" // the completion of the loop
)

// HumanState is the question that a loop with status awaiting_human or awaiting_approval waits for.
type HumanState struct {
	About About `json:"about"`
	// ID is the id of the AskHuman effect. Question is the id of the escalation's record. The same effect may open
	// several escalations.
	ID       string    `json:"id"`
	Question string    `json:"question,omitempty"`
	Digest   string    `json:"digest,omitempty"`
	Type     string    `json:"type"`
	Class    string    `json:"class"` // of the runner's failure, or the policy's rule
	Role     string    `json:"role"`
	Runner   string    `json:"runner,omitempty"`
	Text     string    `json:"text,omitempty"`
	Fix      string    `json:"fix,omitempty"` // the command that the operator types
	Since    time.Time `json:"since"`
}

// SessionState is the agent CLI's session that a role can resume.
type SessionState struct {
	ID     string          `json:"id"`
	Runner string          `json:"runner"`
	Totals json.RawMessage `json:"totals,omitempty"` // the counters of the session, for CLIs that count by session
}

// State is everything that superloop needs to continue a loop. It is computed from the inputs of the loop alone. It is
// a value, and Step never changes the State that it is given.
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
	At        string `json:"at,omitempty"` // the step of the iteration that the loop has reached (step.go)

	// Pending is the effect whose outcome the loop waits for. It is nil in an end. Begun says that the journal holds
	// the start of the effect.
	Pending *Effect `json:"pending,omitempty"`
	Begun   bool    `json:"begun,omitempty"`

	// Attempt numbers the runs of the current role in this iteration, from 1, including restarts after a crash.
	// Failures counts the runs that failed by the fault of the role or its runner.
	Attempt  int `json:"attempt,omitempty"`
	Failures int `json:"failures,omitempty"`

	Roles     map[string]RoleResult `json:"roles,omitempty"`
	LastRoles map[string]RoleResult `json:"last_roles,omitempty"`
	Gates     Gates                 `json:"gates"`
	LastGates Gates                 `json:"last_gates"`
	TestsTree string                `json:"tests_tree,omitempty"` // the tree on which the tests ran
	// TestsFiles is the signature of all files that tests can read, as the tests of this iteration found them. Files is
	// the one of the last look. UnseenFiles stands for too many files.
	TestsFiles string `json:"tests_files,omitempty"`
	Files      string `json:"files,omitempty"`
	// TestFailures are the failures of the last run of the tests in this iteration.
	TestFailures []TestFailure    `json:"test_failures,omitempty"`
	TestOutputs  []OutputSpan     `json:"test_outputs,omitempty"`
	Baseline     string           `json:"tests_baseline,omitempty"` // green, red; "": the tests did not run before the first role
	Tree         string           `json:"tree,omitempty"`           // tree after the last role
	Missing      []string         `json:"missing,omitempty"`        // the gates that the last iteration lacked for completion
	Reports      []string         `json:"reports,omitempty"`        // digests of the reports of earlier iterations, the newest last
	Stuck        Streak           `json:"stuck"`
	SameRed      SameRed          `json:"same_red,omitzero"`
	Looked       map[string]Sight `json:"looked,omitempty"` // what each role has last seen of failing tests
	Approval     *ApprovalState   `json:"approval,omitempty"`
	Limit        *LimitState      `json:"limit,omitempty"`     // set while rate_limited, or paused in it
	Human        *HumanState      `json:"human,omitempty"`     // set while awaiting_human or awaiting_approval
	Recovery     *RecoveryState   `json:"recovery,omitempty"`  // the recovery that the loop is in
	Recoveries   Recoveries       `json:"recoveries,omitzero"` // the recoveries of this run so far
	// Counted is the N of the last recovery that has used a unit of the budget.
	Counted int `json:"counted,omitempty"`
	// Diagnosis is what rules say about the last failure of the tests. It is nil when the tests pass. Remediation
	// counts what the rules have done.
	Diagnosis   *Diagnosis  `json:"diagnosis,omitempty"`
	Remediation Remediation `json:"first_aid,omitzero"`
	Response    Response    `json:"response,omitzero"` // what the run knows about failing roles and does about them
	Seen        *Sighting   `json:"seen,omitempty"`    // a proposal of a role that still runs
	// NextPlan replaces Plan when the next iteration begins.
	NextPlan *Plan                   `json:"next_plan,omitempty"`
	Sessions map[string]SessionState `json:"sessions,omitempty"` // the last session of each role
	Spent    Spent                   `json:"spent"`
	// Recheck says that the gates run once more, because an approval came after the tree had changed.
	Recheck   bool   `json:"recheck,omitempty"`
	Passes    int    `json:"passes,omitempty"`     // how often the gates ran again in this iteration because files had changed
	HumanNote string `json:"human_note,omitempty"` // an operator's note with an answer, for the next planner
	Notes     []Note `json:"notes,omitempty"`      // what operators want the roles to know

	StartedAt   time.Time `json:"started_at"`
	IterationAt time.Time `json:"iteration_at"`
	UpdatedAt   time.Time `json:"updated_at"`
	EndedAt     time.Time `json:"ended_at,omitzero"`
	// ActiveMS is the time, in milliseconds, in which the loop was active: it did not wait for an operator or for a
	// limit, and it had a supervisor. ActiveSince is when the present active period began.
	ActiveMS    int64     `json:"active_ms"`
	ActiveSince time.Time `json:"active_since,omitzero"`
}
