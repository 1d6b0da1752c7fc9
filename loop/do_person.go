package loop

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// escalation is escalation.json.
type escalation struct {
	Timestamp time.Time         `json:"timestamp"`
	ID        string            `json:"id"`
	Digest    string            `json:"digest"`
	LoopID    string            `json:"loop_id"`
	RunID     string            `json:"run_id"`
	Iteration int               `json:"iteration"`
	Type      string            `json:"type"`
	Status    string            `json:"status"`
	Reason    string            `json:"reason"`
	Errors    []string          `json:"errors,omitempty"`
	Actions   map[string]string `json:"actions"`
	By        string            `json:"by,omitempty"`
	Note      string            `json:"note,omitempty"`
}

// askPerson puts the question where people see it and waits until one of them
// says that it is mended, which costs nothing.
func (d *driver) askPerson(shutdown context.Context) (Fact, error) {
	h := d.state.Human
	in, kicked := d.kick()
	if !kicked && d.restarted {
		// Whoever starts the loop again has mended it, or wants to know: asking
		// the provider costs nothing when it still refuses.
		in, kicked = Intent{By: "superloop run"}, true
	}
	d.restarted = false
	if kicked {
		if err := d.writeEscalation("resolved", in.By, in.Note); err != nil {
			return nil, err
		}
		if in.ID != "" {
			d.intents[in.ID] = true
		}
		return Resolved{ID: h.ID, By: in.By, Method: "manual", Note: in.Note, IntentID: in.ID}, nil
	}
	if !d.state.Begun {
		if err := d.writeEscalation("pending", "", ""); err != nil {
			return nil, err
		}
		if err := d.flushViews(); err != nil {
			return nil, err
		}
		return Escalated{Type: h.Type, Reason: h.Class, Awaiting: "human", ID: h.ID, Role: h.Role, Runner: h.Runner,
			Error: h.Text, Fix: h.Fix}, nil
	}
	select {
	case <-d.look:
	case <-shutdown.Done():
	}
	return nil, nil
}

func (d *driver) writeEscalation(status, by, note string) error {
	h := *d.state.Human
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s\x00%s", h.ID, h.Type, h.Class, h.Text))
	data, err := json.MarshalIndent(escalation{Timestamp: h.Since, ID: h.ID, Digest: hex.EncodeToString(sum[:16]),
		LoopID: d.o.LoopID, RunID: d.state.RunID, Iteration: d.state.Iteration, Type: h.Type, Status: status,
		Reason: fmt.Sprintf("The %s cannot run: runner %s, %s.", h.Role, h.Runner, h.Class), Errors: nonEmpty(h.Text),
		Actions: map[string]string{"manual": h.Fix, "retry": "superloop kick --loop " + d.o.LoopID}, By: by, Note: note}, "", "  ")
	if err != nil {
		return fmt.Errorf("writing escalation.json: %w", err)
	}
	return d.write("escalation.json", append(data, '\n'))
}

func nonEmpty(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}
