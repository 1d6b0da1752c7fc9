package escalation

import (
	"context"
	"slices"
	"time"

	"github.com/superloop/superloop/internal/text"
)

// Tool is a use of a tool that an agent asks for. An approval lets exactly this run once. If the agent no longer waits, it
// is for the next request of the loop for the same thing.
type Tool struct {
	Name  string `json:"name"`
	Input []byte `json:"input_b64"` // the very bytes that would run, at most MaxInput
	Dir   string `json:"dir"`       // absolute, or "" if the agent did not say
	// Digest is that of the request (permit.Request.Digest), PolicyDigest that of the policy which left it to an operator.
	Digest       string `json:"digest"`
	PolicyDigest string `json:"policy_digest"`
	Session      string `json:"session,omitempty"`
	ToolUse      string `json:"tool_use_id,omitempty"`
	Agent        string `json:"agent,omitempty"` // the sub-agent, or ""
	// Until is when the agent is refused if nobody has answered. From then on the question waits without it. If the agent
	// asks again meanwhile, Record.HeldUntil is later.
	Until time.Time `json:"until"`
}

// AwaitingPermission is the sub-status of a loop that runs, and whose agent is held until an operator answers.
const AwaitingPermission = "awaiting_permission"

// Hold is what an agent is held for.
type Hold struct {
	What  string    `json:"what" doc:"the tool, and what it would do; foreign text, shortened"`
	Since time.Time `json:"since" doc:"when it was asked"`
	Until time.Time `json:"until" doc:"when the agent is refused if nobody has answered"`
}

// Hold returns what an agent is held for at a time, or nil. The agent has died if no supervisor holds the loop.
func (r Record) Hold(now time.Time) *Hold {
	q := r.Question
	if q.Tool == nil || r.State != Pending || !now.Before(r.HeldUntil) {
		return nil
	}
	what := string(q.Tool.Input)
	if q.Command != nil {
		what = string(q.Command.Text)
	}
	return &Hold{What: text.Line(q.Tool.Name+": "+what, maxShown), Since: q.Created, Until: r.HeldUntil}
}

const maxShown = 200 // bounds Hold.What, in bytes

// Hold notes that an agent is held until a time for the answer to a pending question that was asked before.
func (s Store) Hold(ctx context.Context, id string, until time.Time) (Record, error) {
	return s.step(ctx, "hold", id, Pending, func(r *Record, _ time.Time) { r.HeldUntil = stamp(until) })
}

// MaxInput is the largest input of a Tool, in bytes. An operator is shown all of it.
const MaxInput = 24 << 10

// complete returns the tool with foreign text shortened to its bounds.
func (t *Tool) complete() *Tool {
	if t == nil {
		return nil
	}
	c := *t
	c.Input, c.Until = slices.Clone(c.Input), stamp(c.Until)
	for _, s := range []*string{&c.Name, &c.Session, &c.ToolUse, &c.Agent} {
		*s = cut(*s, maxName)
	}
	return &c
}

// whole reports whether a question can hold the tool, or has none.
func (t *Tool) whole() bool {
	return t == nil || len(t.Input) <= MaxInput && isHex(t.Digest, 64) && isHex(t.PolicyDigest, 64) && t.Name != "" && len(t.Dir) <= maxPath && !t.Until.IsZero()
}
