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
	Proposal  *proposalView     `json:"recovery_proposal,omitempty"`
	Reason    string            `json:"reason"`
	Rule      string            `json:"rule,omitempty"`
	Errors    []string          `json:"errors,omitempty"`
	Actions   map[string]string `json:"actions"`
	By        string            `json:"by,omitempty"`
	Note      string            `json:"note,omitempty"`
}

// proposalView is what escalation.json shows of a proposal.
type proposalView struct {
	N         int    `json:"n"`
	Source    string `json:"source"`
	Digest    string `json:"digest"`
	File      string `json:"file"`
	Category  string `json:"category,omitempty"`
	Severity  string `json:"severity,omitempty"`
	Diagnosis struct {
		Pattern   string `json:"error_pattern,omitempty"`
		RootCause string `json:"root_cause,omitempty"`
	} `json:"diagnosis"`
	Recovery attemptView  `json:"recovery"`
	Fallback *attemptView `json:"fallback,omitempty"`
}

type attemptView struct {
	Command    string `json:"command"`
	WorkingDir string `json:"working_dir"`
	Timeout    int64  `json:"timeout_seconds"`
	Expected   string `json:"expected_outcome,omitempty"`
	Confidence string `json:"confidence,omitempty"`
}

func viewOfAttempt(a AttemptFact) attemptView {
	return attemptView{a.Command, a.WorkingDir, a.TimeoutMS / 1000, a.Expected, a.Confidence}
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
		f := Escalated{Type: h.Type, Reason: h.Class, Awaiting: "human", ID: h.ID, Role: h.Role, Runner: h.Runner,
			Error: h.Text, Fix: h.Fix}
		if r := d.state.Recovery; r != nil {
			f.Reason, f.N, f.Digest, f.Command, f.Rule = h.Text, r.N, r.Digest, r.Attempt.Command, r.Rule
		}
		return f, nil
	}
	select {
	case <-d.look:
	case <-d.newConfig:
	case <-shutdown.Done():
	}
	return nil, nil
}

func (d *driver) writeEscalation(status, by, note string) error {
	h := *d.state.Human
	if r := d.state.Recovery; r != nil {
		return d.writeRecoveryQuestion(h, *r, status, by, note)
	}
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

// writeRecoveryQuestion writes the question about a recovery.
func (d *driver) writeRecoveryQuestion(h HumanState, r RecoveryState, status, by, note string) error {
	p := proposalView{N: r.N, Source: r.Source, Digest: r.Digest, File: r.File, Category: r.Category, Severity: r.Severity,
		Recovery: viewOfAttempt(r.Attempt)}
	p.Diagnosis.Pattern, p.Diagnosis.RootCause = r.Pattern, r.RootCause
	if r.Else != nil {
		other := viewOfAttempt(*r.Else)
		p.Fallback = &other
	}
	sum := sha(fmt.Appendf(nil, "%s\x00%s\x00%s\x00%d\x00%s\x00%s", h.ID, r.Attempt.Command, r.Attempt.WorkingDir, r.Attempt.TimeoutMS, r.PolicyDigest, r.InputsDigest))
	data, err := json.MarshalIndent(escalation{Timestamp: h.Since, ID: h.ID, Digest: sum, LoopID: d.o.LoopID, RunID: d.state.RunID,
		Iteration: d.state.Iteration, Type: h.Type, Status: status, Proposal: &p, Reason: h.Text, Rule: r.Rule, Errors: r.Errors,
		Actions: map[string]string{"manual": "superloop kick --loop " + d.o.LoopID}, By: by, Note: note}, "", "  ")
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
