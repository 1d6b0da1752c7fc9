package loop

import (
	"encoding/json"
	"time"

	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/failures"
)

// RoleStarted says that the role's process is about to start. The event is written before the process starts.
type RoleStarted struct {
	Role        string `json:"role"`
	Runner      string `json:"runner"`
	Model       string `json:"model,omitempty"`
	Attempt     int    `json:"attempt"`
	Reason      string `json:"reason,omitempty"`
	PromptFile  string `json:"prompt_file,omitempty"`
	LogFile     string `json:"log_file,omitempty"`
	LastMessage string `json:"last_message_file,omitempty"`
	// SessionID is the id that superloop has chosen for a new session, or the id of the session that the role resumes.
	SessionID string `json:"session_id,omitempty"`
	Resumed   bool   `json:"session_resumed,omitempty"`
	Of
}

// Outcomes of a role.
const (
	OutcomeOK          = "ok"
	OutcomeExit        = "exit"     // non-zero exit
	OutcomeSignal      = "signal"   // ended by a signal that superloop did not send
	OutcomeTimeout     = "timeout"  // the wall time limit ended it
	OutcomeInactive    = "inactive" // superloop ended it, because it printed nothing for too long
	OutcomeNotStarted  = "not_started"
	OutcomeLost        = "lost"        // the process that ran the role died
	OutcomeInterrupted = "interrupted" // the supervisor left; does not count as a failure
	OutcomeError       = "error"       // the CLI's own output says that it failed, whatever the exit code
	OutcomeUnfit       = "unfit"       // the process ended well, but the role did not leave its deliverable
)

// RoleEnded is the outcome of one attempt. Its event is role_end if the role succeeded, role_timeout if a deadline
// ended it, and role_failed otherwise.
type RoleEnded struct {
	Role       string   `json:"role"`
	Runner     string   `json:"runner"`
	Model      string   `json:"model,omitempty"`
	Attempt    int      `json:"attempt"`
	Outcome    string   `json:"outcome"`
	ExitCode   int      `json:"exit_code"`
	Signal     string   `json:"signal,omitempty"`
	DurationMS int64    `json:"duration_ms"`
	TimeoutMS  int64    `json:"timeout_ms,omitempty"`
	Usage      *Usage   `json:"usage,omitempty"`
	CostUSD    *float64 `json:"cost_usd,omitempty"`
	CostSource string   `json:"cost_source,omitempty"` // runner, or the name and date of the price table
	SessionID  string   `json:"session_id,omitempty"`
	// SessionTotals are the counters of the session, for CLIs that count by session.
	SessionTotals json.RawMessage `json:"session_totals,omitempty"`
	Category      string          `json:"category,omitempty"`
	// Class is a class.Class: the kind of failure that the CLI's stream reports.
	Class string     `json:"class,omitempty"`
	Limit *LimitFact `json:"limit,omitempty"` // with a class of failure that passes with time
	// Fix is the command that an operator types, with a class that needs one.
	Fix        string `json:"fix,omitempty"`
	Error      string `json:"error,omitempty"`
	Denied     int64  `json:"denied,omitempty"` // tool calls that the CLI's permissions refused
	Cut        string `json:"cut,omitempty"`    // finished or hopeless: why superloop ended the process early
	LogFile    string `json:"log_file,omitempty"`
	LogDropped int64  `json:"log_dropped_bytes,omitempty"`
	LastFile   string `json:"last_message_file,omitempty"`
	OutputFile string `json:"output_file,omitempty"`
	Output     string `json:"output_status,omitempty"`
	// Permissions counts what the agent has asked for, if it was asked about its tools. HeldMS is how long it was held for
	// answers; that is no active time of the loop.
	Permissions *Permissions `json:"permissions,omitempty"`
	// PermissionTools divides Permissions by the tools that superloop knows, MCP tools together as "mcp", and "other".
	PermissionTools map[string]Permissions `json:"permission_tools,omitempty"`
	HeldMS          int64                  `json:"held_ms,omitempty"`
	LeftBehind      int                    `json:"left_behind,omitempty"` // how many processes outlived the role and were ended
	Proposal        bool                   `json:"proposal,omitempty"`    // recovery.json was there when the role ended
	// Failure describes the failure for the failure policy. It is nil if the role did not fail or if no failure policy
	// is in force.
	Failure *FailureFact `json:"failure,omitempty"`
	// Alerts say that the failures concern more than this role.
	Alerts []failures.Alert `json:"alerts,omitempty"`
	// Digest is that of the role's report, if superloop compares it with the last report.
	Digest string `json:"output_digest,omitempty"`
	Of
}

// Permissions counts the requests of an agent by what was decided: by a rule or a grant, by an operator or for want of
// one, by a refusal of a rule.
type Permissions struct {
	Auto  int `json:"auto"`
	Human int `json:"human"`
	Deny  int `json:"deny"`
}

// Usage counts the tokens of a run. The kinds are disjoint, except that Reasoning is a part of Output. nil means
// unknown.
type Usage struct {
	Input      *int64 `json:"input_tokens,omitempty"`
	Output     *int64 `json:"output_tokens,omitempty"`
	CacheRead  *int64 `json:"cache_read_input_tokens,omitempty"`
	CacheWrite *int64 `json:"cache_creation_input_tokens,omitempty"`
	Reasoning  *int64 `json:"reasoning_output_tokens,omitempty"`
}

// Total returns the sum of the disjoint kinds. ok is false if no kind is known.
func (u *Usage) Total() (n int64, ok bool) {
	if u == nil {
		return 0, false
	}
	for _, p := range []*int64{u.Input, u.Output, u.CacheRead, u.CacheWrite} {
		if p != nil {
			n, ok = n+*p, true
		}
	}
	return n, ok
}

// LimitFact is a limit of a provider that a role met, and the time until which the loop waits for it.
type LimitFact struct {
	Provider string    `json:"provider"`
	Account  string    `json:"account"`
	Kind     string    `json:"kind,omitempty"` // the provider's name for the time window
	Text     string    `json:"text,omitempty"`
	ResetsAt time.Time `json:"resets_at,omitzero"`
	Until    time.Time `json:"until"`
	Strikes  int       `json:"strikes,omitempty"` // how often in a row the account met the limit
	// SharedUntil is the time until which all loops of the machine treat the account as limited. It is zero if
	// superloop could not tell the other loops. If the shared file forgets the limit before that time, the limit is
	// gone.
	SharedUntil time.Time `json:"shared_until,omitzero"`
}

// Sources of a Limited. With SourceShared it is a fact: another loop, or an earlier run, met the limit. With SourceRole
// the machine records a limit that a role of this loop met.
const (
	SourceShared = "shared"
	SourceRole   = "role"
)

// Limited says that superloop did not start the pending role, because the role's account is known to be limited.
type Limited struct {
	Role   string `json:"role"`
	Runner string `json:"runner"`
	Class  string `json:"limit"`
	Source string `json:"source"`
	By     string `json:"by,omitempty"` // the loop that met the limit
	LimitFact
	Of
}

// Escalated says that a question to an operator is open and that escalation.json holds it.
type Escalated struct {
	Type     string `json:"type"`
	Reason   string `json:"reason"`
	Awaiting string `json:"awaiting"`
	ID       string `json:"escalation_id"`
	Role     string `json:"role,omitempty"`
	Runner   string `json:"runner,omitempty"`
	Error    string `json:"error,omitempty"`
	Fix      string `json:"fix,omitempty"`
	// For a recovery: N is its number, Digest the digest that an answer is bound to, Rule the rule of the policy.
	N       int       `json:"n,omitempty"`
	Digest  string    `json:"digest,omitempty"`
	Command string    `json:"command,omitempty"`
	Rule    string    `json:"rule,omitempty"`
	Expires time.Time `json:"expires_at,omitzero"` // when the question lapses; superloop then asks again
	Of
}

// Methods of an answer.
const (
	MethodApprove = "approve" // run the proposed command
	MethodReject  = "reject"  // go on without the command
	MethodManual  = "manual"  // an operator has repaired it by hand
)

// Resolved is an operator's answer to an escalation.
type Resolved struct {
	ID       string         `json:"escalation_id"`
	By       string         `json:"by"`
	Method   string         `json:"method"`
	Edit     *action.Action `json:"edited,omitempty"` // the operator's own command, which replaces the proposed one
	Note     string         `json:"note,omitempty"`
	IntentID string         `json:"intent_id,omitempty"`
	// Candidates are the runners that could take the role now, if the question is about a role.
	Candidates []failures.Candidate `json:"candidates,omitempty"`
	Of
}
