package slack

import (
	"context"

	"github.com/superloop/superloop/escalation/notify"
)

// Action is what a button asks for.
type Action string

const (
	Approve Action = "approve"
	Reject  Action = "reject"
	Details Action = "details"
)

// Click is one press of a button by a user who may answer. UserID is what to
// record ("slack:U123"); UserName is what the user chose to be called.
type Click struct {
	ID       string // of the escalation
	Digest   string // what the user saw; an answer to anything else is void
	Action   Action
	UserID   string
	UserName string
	Team     string
}

// Status is what became of a click.
type Status string

const (
	// Accepted: this click decided it, or these are the details.
	Accepted       Status = "accepted"
	AlreadyDecided Status = "already_decided" // by Outcome.By
	Outdated       Status = "outdated"        // another command is pending now
	Expired        Status = "expired"
	Unknown        Status = "unknown" // no escalation of ours
	Refused        Status = "refused" // Outcome.Text says why
	// Failed: the answer could not be recorded; Outcome.Text says why.
	Failed Status = "failed"

	// Foreign, a user who may not answer, and Malformed, a click that is not
	// from a button of ours, never come from a Resolver.
	Foreign   Status = "foreign"
	Malformed Status = "malformed"
)

// Outcome is what a Resolver says of a click. Text is shown to the user, in a
// code block; for Details it is the details.
type Outcome struct {
	Status Status
	By     string // who decided before
	Text   string
	// Message, if set, takes the place of the message that was clicked: usually the Resolved one.
	Message *notify.Message
}

// Resolver carries a click out. It must be idempotent, bound to Click.Digest,
// and end when ctx does (30 s).
type Resolver func(ctx context.Context, c Click) Outcome

// words is the answer to the user.
func (o Outcome) words(a Action) string {
	by := ""
	if o.By != "" {
		by = " by " + span(o.By, footerField)
	}
	var said string
	switch o.Status {
	case Accepted:
		switch a {
		case Approve:
			said = "Approved. superloop runs the command once."
		case Reject:
			said = "Rejected. The command does not run."
		default:
			said = "Details:"
		}
	case AlreadyDecided:
		said = "This was decided already" + by + ". Your click changed nothing."
	case Outdated:
		said = "This message is about a command that is no longer asked about; a newer question has taken its place. Your click changed nothing."
	case Expired:
		said = "This question has expired. Your click changed nothing."
	case Unknown:
		said = "This superloop does not know the question: it belongs to another one, or is long over. Your click changed nothing."
	case Refused:
		said = "superloop did not take this answer."
	case Foreign:
		said = "You are not among the people who may answer superloop here. Your click changed nothing; ask the owner of the repository to add your Slack user id."
	case Malformed:
		said = "superloop could not read this button. Your click changed nothing; use the lines for the terminal."
	default:
		said = "superloop could not record your answer. Please try again, or use the lines for the terminal."
	}
	if o.Text != "" {
		said += "\n" + fenced(o.Text)
	}
	return said
}
