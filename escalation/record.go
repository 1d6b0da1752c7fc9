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

// facts are what a record in a state must say: by which answer it came there ("" is none), whether the command has
// begun, and whether the record has ended.
type facts struct {
	answer       Method
	begun, ended bool
}

var states = map[State]facts{
	Pending:     {},
	Approved:    {answer: Approve},
	Executing:   {answer: Approve, begun: true},
	Done:        {Approve, true, true},
	Failed:      {Approve, true, true},
	Interrupted: {Approve, true, true},
	Rejected:    {answer: Reject, ended: true},
	Resolved:    {answer: Resolve, ended: true},
	Expired:     {ended: true}, // these two also after an approval
	Superseded:  {ended: true},
}

// Open reports whether something may still happen to a question in this state.
func (s State) Open() bool { return s == Pending || s == Approved || s == Executing }

// Method is how an operator answers.
type Method string

// The methods. Approve lets it be done; for a question without a command it says "go on as proposed" (take the changed
// policy, try the runner again). Reject: do not, and go on. Resolve: it is done, by hand.
const (
	Approve Method = "approve"
	Reject  Method = "reject"
	Resolve Method = "resolve"
)

// leads is where a question goes by each answer.
var leads = map[Method]State{Approve: Approved, Reject: Rejected, Resolve: Resolved}

// Channel is the way by which an answer came.
type Channel string

// The channels.
const (
	CLI   Channel = "cli"
	Slack Channel = "slack"
)

// By is the operator who answers, as far as the channel knows. A rule is never recorded as one.
type By struct {
	Channel Channel `json:"channel"`
	UID     *int    `json:"uid,omitempty"`    // the user of the system, nil where the channel does not know it
	User    string  `json:"user,omitempty"`   // the channel's name for the operator: a login, a Slack user id
	Method  string  `json:"method,omitempty"` // how the channel knows: "process", "socket_mode", "signature"
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

// Answer is what an operator said, and the only answer there is.
type Answer struct {
	Method Method    `json:"method"`
	By     By        `json:"by"`
	At     time.Time `json:"at"`
	Note   string    `json:"note,omitempty"`
	// Bound is what of the question the operator named: "id", "digest", "both", or "" for whatever was pending at that
	// moment.
	Bound string `json:"bound,omitempty"`
	Edit  *Edit  `json:"edit,omitempty"`
}

// Edit is the operator's own command. It runs where the proposed one would have.
type Edit struct {
	Text   []byte `json:"command_b64"`
	SHA256 string `json:"sha256"`
	Digest string `json:"digest"` // of command and directory (action.Digest)
}

// Outcome is how an approved question ended.
type Outcome struct {
	OK       bool   `json:"ok"`
	ExitCode *int   `json:"exit_code,omitempty"` // nil where nothing was run, or a signal ended it
	Note     string `json:"note,omitempty"`      // one sentence
}

// Record is a question and what became of it. It is a value; a Store's methods give the new one.
type Record struct {
	Question Question `json:"question"`
	Digest   string   `json:"digest"` // the Question's
	State    State    `json:"state"`
	Answer   *Answer  `json:"answer,omitempty"` // nil until there is one
	// Begun is when what was approved began, Ended when the record came to its end; zero before.
	Begun   time.Time `json:"begun,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
	Outcome *Outcome  `json:"outcome,omitempty"`
	// SupersededBy is the id of the question that took its place; Why says in a sentence why it ended without an
	// answer.
	SupersededBy string `json:"superseded_by,omitempty"`
	Why          string `json:"why,omitempty"`
}

// Lapsed reports whether the question's time is over and nothing has begun.
func (r Record) Lapsed(now time.Time) bool {
	return (r.State == Pending || r.State == Approved) && !now.Before(r.Question.Expires)
}

// Run is what is to be executed once Begin has succeeded.
type Run struct {
	Text []byte
	// Binding must still hold (Binding.Drift) before it begins. An operator's own command has no InputsDigest: nobody
	// has judged what it reads.
	Binding
}

// Run gives the approved command: the operator's own if there is one. ok is false if nothing is approved, or there is
// no command.
func (r Record) Run() (run Run, ok bool) {
	c := r.Question.Command
	if c == nil || (r.State != Approved && r.State != Executing) {
		return Run{}, false
	}
	run = Run{c.Text, c.Binding}
	if e := r.Answer.Edit; e != nil {
		run.Text, run.InputsDigest = e.Text, ""
	}
	return run, true
}

// AnswerRequest is an answer that is given.
type AnswerRequest struct {
	Method Method
	By     By
	Note   string
	// ID and Digest bind the answer to one question; at least 8 of their first digits each. Without both it answers
	// what is pending when the lock is had.
	ID, Digest string
	Edit       *EditedCommand // Edit, with Approve, is run in the place of the proposed command
}

// EditedCommand is what an operator wants to run instead.
type EditedCommand struct{ Text []byte }

// check says what makes it no answer, whatever the question.
func (a AnswerRequest) check() error {
	for _, given := range [][2]string{{"id", a.ID}, {"digest", a.Digest}} {
		if v := given[1]; v != "" && (len(v) < 8 || len(v) > 64 || !isHex(v, len(v))) {
			return fmt.Errorf("answering: the %s is %q; give 8 or more of its hexadecimal digits, as escalation.json has them", given[0], cut(v, 64))
		}
	}
	switch {
	case leads[a.Method] == "":
		return fmt.Errorf("answering: %q is no answer; it is approve, reject or resolve", a.Method)
	case a.By.Channel != CLI && a.By.Channel != Slack:
		return fmt.Errorf("answering: the channel is %q; it is cli or slack", a.By.Channel)
	case a.Edit == nil:
		return nil
	case a.Method != Approve:
		return fmt.Errorf("answering: a corrected command goes with approve, not with %s", a.Method)
	}
	if err := runnable(a.Edit.Text); err != nil {
		return fmt.Errorf("answering: %w", err)
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
