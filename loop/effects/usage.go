package effects

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/superloop/superloop/loop"
)

// usageFile is what every run of an agent, and every recovery, has cost: one line of JSON each.
const usageFile = "usage.jsonl"

// Usage appends to usage.jsonl.
type Usage struct{ *Host }

// Turn appends the line of one run of an agent, in the original's shape. Tokens and
// cost are null where the runner does not tell them.
func (u Usage) Turn(s loop.State, f loop.RoleEnded, started time.Time) error {
	line, err := json.Marshal(struct {
		Timestamp  time.Time   `json:"timestamp"`
		RunID      string      `json:"run_id"`
		LoopID     string      `json:"loop_id"`
		Iteration  int         `json:"iteration"`
		Role       string      `json:"role"`
		Attempt    int         `json:"attempt"`
		DurationMS int64       `json:"duration_ms"`
		Runner     string      `json:"runner"`
		Model      *string     `json:"model"`
		Outcome    string      `json:"outcome"`
		CostUSD    *float64    `json:"cost_usd"`
		CostSource string      `json:"cost_source,omitempty"`
		SessionID  *string     `json:"session_id"`
		Usage      *loop.Usage `json:"usage"`
	}{started, s.RunID, u.LoopID, s.Iteration, f.Role, f.Attempt, f.DurationMS, f.Runner,
		orNull(f.Model), f.Outcome, f.CostUSD, f.CostSource, orNull(f.SessionID), f.Usage})
	if err != nil {
		return fmt.Errorf("making a line of %s: %w", usageFile, err)
	}
	return u.Append("usage", usageFile, append(line, '\n'))
}

// Recovery appends the line of a recovery that the loop has just left, if the fact
// that led from one state to the other has ended one.
func (u Usage) Recovery(before, after loop.State, fact loop.Fact) error {
	r, left := loop.RecoveryUsageOf(before, after, fact)
	if !left {
		return nil
	}
	line, err := r.Line()
	if err != nil {
		return err
	}
	return u.Append("usage", usageFile, line)
}
