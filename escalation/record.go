package escalation

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/text"
)

// State is where a question stands.
type State string

// The states; the comment of the package shows how they follow each other.
const (
	Pending     State = "pending"
	Approved    State = "approved"
	Executing   State = "executing"
	Done        State = "done"
	Failed      State = "failed"
	Interrupted State = "interrupted"
	Rejected    State = "rejected"
	Resolved    State = "resolved"
	Expired     State = "expired"
	Superseded  State = "superseded"
)

// Open reports whether something may still happen to a question in this state.
func (s State) Open() bool { return s == Pending || s == Approved || s == Executing }

// Method is how a person answers.
type Method string

// The methods. Approve lets it be done; for a question without a command it says
// "go on as proposed" (take the changed policy, try the runner again). Reject:
// do not, and go on. Resolve: it is done, by hand.
const (
	Approve Method = "approve"
	Reject  Method = "reject"
	Resolve Method = "resolve"
)

// state is where a question goes by the answer, "" for an unknown method.
func (m Method) state() State {
	switch m {
	case Approve:
		return Approved
	case Reject:
		return Rejected
	case Resolve:
		return Resolved
	}
	return ""
}

// Channel is the way by which an answer came.
type Channel string

// The channels.
const (
	CLI   Channel = "cli"
	Slack Channel = "slack"
	HTTP  Channel = "http"
)

// By is the person who answers, as far as the channel knows. A rule is never
// recorded as one.
type By struct {
	Channel Channel `json:"channel"`
	// UID is the user of the system, nil where the channel does not know it.
	UID *int `json:"uid,omitempty"`
	// User is the channel's name for the person: a login, a Slack user id.
	User string `json:"user,omitempty"`
	// Method is how the channel knows: "process", "so_peercred", "bearer",
	// "socket_mode", "signature".
	Method string `json:"method,omitempty"`
}

// String is "cli:alice (uid 1000)", in printable ASCII.
func (b By) String() string {
	s := string(b.Channel)
	if b.User != "" {
		s += ":" + b.User
	}
	if b.UID != nil {
		s += " (uid " + strconv.Itoa(*b.UID) + ")"
	}
	return text.Display(s)
}

// Answer is what a person said, and the only answer there is.
type Answer struct {
	Method Method    `json:"method"`
	By     By        `json:"by"`
	At     time.Time `json:"at"`
	Note   string    `json:"note,omitempty"`
	// Bound is what of the question the person named: "id", "digest", "both", or
	// "" for whatever was pending at that moment.
	Bound string `json:"bound,omitempty"`
	// Edit is the command that the person put in the place of the proposed one.
	Edit *Edit `json:"edit,omitempty"`
}

// Edit is a person's own command. It runs where the proposed one would have.
type Edit struct {
	Text   []byte `json:"command_b64"`
	SHA256 string `json:"sha256"`
	// Digest is that of the attempt: command and directory
	// (action.Digest).
	Digest string `json:"digest"`
}

// Outcome is how an approved question ended.
type Outcome struct {
	OK bool `json:"ok"`
	// ExitCode is nil where nothing was run, or a signal ended it.
	ExitCode *int `json:"exit_code,omitempty"`
	// Note is one sentence for a person.
	Note string `json:"note,omitempty"`
}

// Record is a question and what became of it. It is a value; a Store's methods
// give the new one.
type Record struct {
	Question Question `json:"question"`
	// Digest is the Question's.
	Digest string `json:"digest"`
	State  State  `json:"state"`
	// Answer is nil until there is one.
	Answer *Answer `json:"answer,omitempty"`
	// Begun is when what was approved began, Ended when the record came to its
	// end; zero before.
	Begun   time.Time `json:"begun,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
	Outcome *Outcome  `json:"outcome,omitempty"`
	// SupersededBy is the id of the question that took its place; Why says in a
	// sentence why it ended without an answer.
	SupersededBy string `json:"superseded_by,omitempty"`
	Why          string `json:"why,omitempty"`
}

// Lapsed reports whether the question's time is over and nothing has begun.
func (r Record) Lapsed(now time.Time) bool {
	return (r.State == Pending || r.State == Approved) && !now.Before(r.Question.Expires)
}

// Run is what is to be executed once Begin has succeeded.
type Run struct {
	Text       []byte
	SHA256     string
	WorkingDir string
	Timeout    time.Duration
	// Source is the question's, or "human" for a person's own command; Attempt is
	// action.Digest.
	Source, Attempt string
	// Binding must still hold (Binding.Drift) before it begins. A person's own
	// command has no InputsDigest: nobody has judged what it reads.
	Binding
}

// Run gives the approved command: the person's if there is one. ok is false if
// nothing is approved, or there is no command.
func (r Record) Run() (run Run, ok bool) {
	c := r.Question.Command
	if c == nil || (r.State != Approved && r.State != Executing) {
		return Run{}, false
	}
	run = Run{Text: c.Text, SHA256: c.SHA256, WorkingDir: c.WorkingDir, Timeout: c.Timeout(), Source: c.Source,
		Attempt: c.Action().Digest, Binding: c.Binding}
	if e := r.Answer.Edit; e != nil {
		run.Text, run.SHA256, run.Attempt, run.Source = e.Text, e.SHA256, e.Digest, "human"
		run.InputsDigest = ""
	}
	return run, true
}

// AnswerRequest is an answer that is given.
type AnswerRequest struct {
	Method Method
	By     By
	Note   string
	// ID and Digest bind the answer to one question; at least 8 of their first
	// digits each. Without both it answers what is pending when the lock is had.
	ID, Digest string
	// Edit, with Approve, is run in the place of the proposed command.
	Edit *EditedCommand
}

// EditedCommand is what a person wants to run instead.
type EditedCommand struct{ Text []byte }

// check says what makes it no answer, whatever the question.
func (a AnswerRequest) check() error {
	if a.Method.state() == "" {
		return fmt.Errorf("answering: %q is no answer; it is approve, reject or resolve", a.Method)
	}
	switch a.By.Channel {
	case CLI, Slack, HTTP:
	default:
		return fmt.Errorf("answering: the channel is %q; it is cli, slack or http", a.By.Channel)
	}
	for _, given := range []struct{ name, value string }{{"id", a.ID}, {"digest", a.Digest}} {
		if v := given.value; v != "" && (len(v) < 8 || len(v) > 64 || !isHex(v, len(v))) {
			return fmt.Errorf("answering: the %s is %s; give 8 or more of its hexadecimal digits, as escalation.json has them",
				given.name, strconv.Quote(cut(v, 64)))
		}
	}
	if a.Edit != nil {
		if a.Method != Approve {
			return fmt.Errorf("answering: a corrected command goes with approve, not with %s", a.Method)
		}
		if err := runnable(a.Edit.Text); err != nil {
			return fmt.Errorf("answering: %w", err)
		}
	}
	return nil
}

func (a AnswerRequest) bound() string {
	switch {
	case a.ID != "" && a.Digest != "":
		return "both"
	case a.ID != "":
		return "id"
	case a.Digest != "":
		return "digest"
	}
	return ""
}

// names reports whether the answer is for r.
func (a AnswerRequest) names(r Record) bool {
	return strings.HasPrefix(r.Question.ID, a.ID) && strings.HasPrefix(r.Digest, a.Digest)
}
