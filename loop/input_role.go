package loop

import (
	"encoding/json"
	"time"

	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/failures"
)

// RoleStarted is written before the role's process is started.
type RoleStarted struct {
	Role        string `json:"role"`
	Runner      string `json:"runner"`
	Model       string `json:"model,omitempty"`
	Attempt     int    `json:"attempt"`
	Reason      string `json:"reason,omitempty"`
	PromptFile  string `json:"prompt_file,omitempty"`
	LogFile     string `json:"log_file,omitempty"`
	LastMessage string `json:"last_message_file,omitempty"`
	// SessionID is that of a new session whose id superloop has chosen, or of the one that is resumed.
	SessionID string `json:"session_id,omitempty"`
	Resumed   bool   `json:"session_resumed,omitempty"`
	Of
}

// Outcomes of a role.
const (
	OutcomeOK          = "ok"
	OutcomeExit        = "exit"     // non-zero exit
	OutcomeSignal      = "signal"   // ended by a signal that was not ours
	OutcomeTimeout     = "timeout"  // wall time
	OutcomeInactive    = "inactive" // no output for too long
	OutcomeNotStarted  = "not_started"
	OutcomeLost        = "lost"        // the process that ran it died
	OutcomeInterrupted = "interrupted" // the supervisor leaves; not counted
	OutcomeError       = "error"       // the CLI itself says that it failed, whatever its exit code
	OutcomeUnfit       = "unfit"       // it ended well, and did not leave what was asked for
)

// RoleEnded is the outcome of one attempt. Its event is role_end when the role succeeded, role_timeout when a deadline
// ended it, role_failed otherwise.
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
	CostSource string   `json:"cost_source,omitempty"` // runner, or the price table with its date
	SessionID  string   `json:"session_id,omitempty"`
	// SessionTotals are the session's counters, for CLIs that count by session.
	SessionTotals json.RawMessage `json:"session_totals,omitempty"`
	Category      string          `json:"category,omitempty"`
	Class         string          `json:"class,omitempty"` // class.Class: what kind of failure the CLI's stream tells of
	Limit         *LimitFact      `json:"limit,omitempty"` // with a class that time fixes
	Fix           string          `json:"fix,omitempty"`   // what an operator types, with a class that needs one
	Error         string          `json:"error,omitempty"`
	Denied        int64           `json:"denied,omitempty"` // tool calls that the CLI's permissions refused
	Cut           string          `json:"cut,omitempty"`    // finished, hopeless: superloop ended the process early
	LogFile       string          `json:"log_file,omitempty"`
	LogDropped    int64           `json:"log_dropped_bytes,omitempty"`
	LastFile      string          `json:"last_message_file,omitempty"`
	OutputFile    string          `json:"output_file,omitempty"`
	Output        string          `json:"output_status,omitempty"`
	LeftBehind    int             `json:"left_behind,omitempty"` // processes that outlived it and were ended
	Proposal      bool            `json:"proposal,omitempty"`    // recovery.json lay there at its end
	// Failure is how it failed, for the failure policy; nil when it did not, or when nobody is to respond.
	Failure *FailureFact `json:"failure,omitempty"`
	// Alerts say that failures are more than this role's.
	Alerts []failures.Alert `json:"alerts,omitempty"`
	Digest string           `json:"output_digest,omitempty"` // that of the report, where it is compared with the last one
	Of
}

// Usage counts a run's tokens. The kinds are disjoint, but for Reasoning, which is a part of Output; nil is unknown.
type Usage struct {
	Input      *int64 `json:"input_tokens,omitempty"`
	Output     *int64 `json:"output_tokens,omitempty"`
	CacheRead  *int64 `json:"cache_read_input_tokens,omitempty"`
	CacheWrite *int64 `json:"cache_creation_input_tokens,omitempty"`
	Reasoning  *int64 `json:"reasoning_output_tokens,omitempty"`
}

// Total is the sum of the disjoint kinds; ok is false when none is known.
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

// LimitFact is a limit as it was met, and until when the loop waits for it.
type LimitFact struct {
	Provider string    `json:"provider"`
	Account  string    `json:"account"`
	Kind     string    `json:"kind,omitempty"` // the provider's word for the window
	Text     string    `json:"text,omitempty"`
	ResetsAt time.Time `json:"resets_at,omitzero"`
	Until    time.Time `json:"until"`
	Strikes  int       `json:"strikes,omitempty"` // how many in a row
	// SharedUntil is until when all loops of the machine take the account for limited; zero where they could not be
	// told. Earlier than that, its being forgotten says that the limit is gone.
	SharedUntil time.Time `json:"shared_until,omitzero"`
}

// SourceShared marks a Limited that is a fact: met by another loop or earlier. The machine's own records of limits that
// a role met have another source.
const (
	SourceShared = "shared"
	SourceRole   = "role"
)

// Limited: the pending role was not started, because the account that it draws on is known to be limited.
type Limited struct {
	Role   string `json:"role"`
	Runner string `json:"runner"`
	Class  string `json:"limit"`
	Source string `json:"source"`
	By     string `json:"by,omitempty"` // the loop that met it
	LimitFact
	Of
}

// Escalated: a question to an operator is in escalation.json.
type Escalated struct {
	Type     string `json:"type"`
	Reason   string `json:"reason"`
	Awaiting string `json:"awaiting"`
	ID       string `json:"escalation_id"`
	Role     string `json:"role,omitempty"`
	Runner   string `json:"runner,omitempty"`
	Error    string `json:"error,omitempty"`
	Fix      string `json:"fix,omitempty"`
	// Of a recovery: which, the digest of what an answer is bound to, and the policy's rule.
	N       int       `json:"n,omitempty"`
	Digest  string    `json:"digest,omitempty"`
	Command string    `json:"command,omitempty"`
	Rule    string    `json:"rule,omitempty"`
	Expires time.Time `json:"expires_at,omitzero"` // when the question lapses; it is asked again then
	Of
}

// Methods of an answer.
const (
	MethodApprove = "approve" // run what was proposed
	MethodReject  = "reject"  // go on without it
	MethodManual  = "manual"  // an operator has mended it
)

// Resolved is an operator's answer to what was escalated.
type Resolved struct {
	ID       string         `json:"escalation_id"`
	By       string         `json:"by"`
	Method   string         `json:"method"`
	Edit     *action.Action `json:"edited,omitempty"` // the operator's own command in the place of the proposed one
	Note     string         `json:"note,omitempty"`
	IntentID string         `json:"intent_id,omitempty"`
	// Candidates are who could go on with a role, when the question is about one.
	Candidates []failures.Candidate `json:"candidates,omitempty"`
	Of
}
