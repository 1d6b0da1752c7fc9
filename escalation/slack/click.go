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
	const unchanged = " Your click changed nothing"
	by := ""
	if o.By != "" {
		by = " by " + span(o.By, footerField)
	}
	said, known := map[Status]string{
		AlreadyDecided: "This was decided already" + by + "." + unchanged + ".",
		Outdated:       "This message is about a command that is no longer asked about; a newer question has taken its place." + unchanged + ".",
		Expired:        "This question has expired." + unchanged + ".",
		Unknown:        "This superloop does not know the question: it belongs to another one, or is long over." + unchanged + ".",
		Refused:        "superloop did not take this answer.",
		Foreign:        "You are not among the people who may answer superloop here." + unchanged + "; ask the owner of the repository to add your Slack user id.",
		Malformed:      "superloop could not read this button." + unchanged + "; use the lines for the terminal.",
	}[o.Status]
	switch {
	case o.Status == Accepted && a == Approve:
		said = "Approved. superloop runs the command once."
	case o.Status == Accepted && a == Reject:
		said = "Rejected. The command does not run."
	case o.Status == Accepted:
		said = "Details:"
	case !known:
		said = "superloop could not record your answer. Please try again, or use the lines for the terminal."
	}
	if o.Text != "" {
		said += "\n" + fenced(o.Text)
	}
	return said
}
