package notify

import (
	"fmt"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/internal/text"
)

// Kind is what a message is about.
type Kind string

const (
	Opened           Kind = "escalation_opened"
	Resolved         Kind = "escalation_resolved"
	Reminder         Kind = "reminder"
	Aged             Kind = "aged" // nobody answered for long; for the second channel
	ConfigChangeHeld Kind = "config_change_held"
	Alert            Kind = "alert" // something is wrong, and nothing waits for an answer
	Test             Kind = "test"
)

// asks reports whether the message is worthless once its question has expired.
func (k Kind) asks() bool { return k == Opened || k == Reminder || k == Aged }

// Actions are complete command lines that a person can paste; "" is none.
type Actions struct {
	Approve string `json:"approve,omitempty"`
	Reject  string `json:"reject,omitempty"`
	Manual  string `json:"manual,omitempty"`
}

// Message is what a person is told. Every string of it may come from an agent.
// ID alone must be ours: it names the message (the escalation's id and the
// kind, and a number where a kind repeats), and two messages with the same ID
// are one message. Its command is for reading: secrets are taken out of it and it is
// cut, so it is no action.Action.
type Message struct {
	ID         string    `json:"id"`
	Escalation string    `json:"escalation_id,omitempty"` // what a button answers; messages of one escalation stay in order
	Kind       Kind      `json:"event"`
	Loop       string    `json:"loop_id,omitempty"`
	Repo       string    `json:"repo,omitempty"`
	Iteration  int       `json:"iteration,omitempty"`
	Type       string    `json:"escalation_type,omitempty"` // recovery_approval_required, ...; in JSON not "type", which Mattermost has a use of its own for
	Status     string    `json:"status,omitempty"`
	Reason     string    `json:"reason,omitempty"`
	Command    string    `json:"command,omitempty"`
	WorkingDir string    `json:"working_dir,omitempty"`
	Category   string    `json:"category,omitempty"`
	RootCause  string    `json:"root_cause,omitempty"`
	Digest     string    `json:"digest,omitempty"`
	Actions    Actions   `json:"actions,omitzero"`
	By         string    `json:"by,omitempty"`
	Note       string    `json:"note,omitempty"`
	Created    time.Time `json:"created,omitzero"`
	Expires    time.Time `json:"expires,omitzero"`
}

const (
	maxID      = 512
	maxField   = 8 << 10  // bytes
	maxCommand = 64 << 10 // bytes; as large as a whole recovery.json may be
)

// check says why m cannot be kept.
func (m Message) check() error {
	switch {
	case m.ID == "":
		return fmt.Errorf("a message needs an id")
	case len(m.ID) > maxID:
		return fmt.Errorf("the id of a message has %d bytes; %d is the bound", len(m.ID), maxID)
	case m.Kind == "":
		return fmt.Errorf("message %q has no kind", m.ID)
	}
	return nil
}

// texts are all fields that hold words.
func (m *Message) texts() []*string {
	return []*string{&m.Escalation, &m.Loop, &m.Repo, &m.Type, &m.Status, &m.Reason, &m.Command, &m.WorkingDir,
		&m.Category, &m.RootCause, &m.Digest, &m.Actions.Approve, &m.Actions.Reject, &m.Actions.Manual, &m.By, &m.Note}
}

// prepared takes known secrets out of m and bounds its fields, so that it can
// be kept and sent by anyone.
func (m Message) prepared(secrets *redact.Replacer) Message {
	for _, field := range m.texts() {
		bound := maxField
		if field == &m.Command {
			bound = maxCommand
		}
		*field = cut(secrets.String(strings.ToValidUTF8(*field, "\ufffd")), bound)
	}
	return m
}

// cut keeps at most limit bytes of s, and says so if that is not all.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	head := text.Head(s, limit)
	return fmt.Sprintf("%s [%d more bytes are left out]", head, len(s)-len(head))
}
