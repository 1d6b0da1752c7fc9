package escalation

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/text"
)

// State is the state of a question.
type State string

// The package comment shows how the states follow each other.
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

// facts lists the properties that every record in a state has: the answer that led to it ("" means none), whether the
// command began, and whether the question ended.
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
	Expired:     {ended: true}, // Expired and Superseded are also possible after an approval
	Superseded:  {ended: true},
}

// Open reports whether the question can still change its state.
func (s State) Open() bool { return s == Pending || s == Approved || s == Executing }

// Method is the kind of an operator's answer.
type Method string

// The methods. Approve lets superloop run the command; for a question without a command it means "go on as proposed"
// (use the changed policy, try the runner again). Reject means that superloop does not run the command and the loop
// goes on. Resolve means that the operator has done the work by hand.
const (
	Approve Method = "approve"
	Reject  Method = "reject"
	Resolve Method = "resolve"
)

// leads maps each answer to the state that follows.
var leads = map[Method]State{Approve: Approved, Reject: Rejected, Resolve: Resolved}

// Channel says through which channel an answer came.
type Channel string

const (
	CLI   Channel = "cli"
	Slack Channel = "slack"
)

// By identifies the operator who answers, as far as the channel knows. superloop never records a rule as the operator.
type By struct {
	Channel Channel `json:"channel"`
	UID     *int    `json:"uid,omitempty"`    // the user of the system; nil if the channel does not know it
	User    string  `json:"user,omitempty"`   // the operator's name in the channel: a login, a Slack user id
	Method  string  `json:"method,omitempty"` // how the channel knows the operator: "process", "socket_mode", "signature"
}

// String returns a text such as "cli:alice (uid 1000)", in printable ASCII.
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

// Answer is the operator's answer. A question has only one.
type Answer struct {
	Method Method    `json:"method"`
	By     By        `json:"by"`
	At     time.Time `json:"at"`
	Note   string    `json:"note,omitempty"`
	// Bound says what of the question the operator named: "id", "digest", "both", or "" for none, which answers the
	// pending question.
	Bound string `json:"bound,omitempty"`
	Edit  *Edit  `json:"edit,omitempty"`
}

// Edit is the operator's own command. superloop runs it in the working directory of the proposed command.
type Edit struct {
	Text   []byte `json:"command_b64"`
	SHA256 string `json:"sha256"`
	Digest string `json:"digest"` // digest of command and directory (action.Digest)
}

// Outcome is the result of an approved question.
type Outcome struct {
	OK       bool   `json:"ok"`
	ExitCode *int   `json:"exit_code,omitempty"` // nil if no process ran, or a signal ended it
	Note     string `json:"note,omitempty"`      // one sentence
}

// Record is a question with its answer and outcome. It is a value: the methods of a Store return the new record.
type Record struct {
	Question Question `json:"question"`
	Digest   string   `json:"digest"` // Question.Digest
	State    State    `json:"state"`
	Answer   *Answer  `json:"answer,omitempty"` // nil if there is no answer yet
	// HeldUntil is when the agent that waits for the answer to a question with a Tool goes on without it; else zero.
	HeldUntil time.Time `json:"held_until,omitzero"`
	// Begun is the time at which the approved command began. Ended is the time at which the question ended. Both are
	// zero before.
	Begun   time.Time `json:"begun,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
	Outcome *Outcome  `json:"outcome,omitempty"`
	// SupersededBy is the id of the question that replaced this one. Why says why the question ended without an answer.
	SupersededBy string `json:"superseded_by,omitempty"`
	Why          string `json:"why,omitempty"`
}

// Lapsed reports whether the question's time is over before its command began.
func (r Record) Lapsed(now time.Time) bool {
	return (r.State == Pending || r.State == Approved) && !now.Before(r.Question.Expires)
}

// Run is the command that superloop executes after Begin has succeeded.
type Run struct {
	Text []byte
	// Binding must still hold when the command begins (Drift). InputsDigest is "" for an operator's own command,
	// because superloop has not judged its inputs.
	Binding
}

// Run returns the approved command, or the operator's own command if there is one. ok is false if the question has no
// approved command.
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

// The functions below make the transitions. They are pure: from a record and a request they make a new record or an
// error. The Store reads the old record and writes the new one.

// ask returns the record of a new question.
func ask(q Question) (Record, error) {
	if err := q.check(); err != nil {
		return Record{}, fmt.Errorf("opening a question: %w", err)
	}
	digest, err := q.Digest()
	r := Record{Question: q, Digest: digest, State: Pending}
	if q.Tool != nil {
		r.HeldUntil = q.Tool.Until
	}
	return r, err
}

// superseded ends a question whose command has not begun. by is the id of the newer question, or "" if the question is
// no longer needed.
func (r Record) superseded(by, why string, now time.Time) (Record, error) {
	if r.State != Pending && r.State != Approved {
		return r, &StateError{Step: "supersede", ID: r.Question.ID, State: r.State, Present: r.Question.ID}
	}
	r.State, r.SupersededBy, r.Why, r.Ended = Superseded, by, cut(why, maxText), stamp(now)
	return r, nil
}

// expired ends a question whose time is over.
func (r Record) expired(now time.Time) Record {
	r.State, r.Ended, r.Why = Expired, stamp(now), "nobody answered in time"
	if r.Answer != nil {
		r.Why = "it was approved, and did not begin in time"
	}
	return r
}

// answered returns the record after the answer a. The caller has called check, and the question has not lapsed.
func (r Record) answered(a AnswerRequest, now time.Time) (Record, error) {
	if !a.names(r) {
		return r, a.mismatch(r)
	}
	if err := r.refuses(); err != nil {
		return r, err
	}
	answer := &Answer{Method: a.Method, By: a.By, At: stamp(now), Note: cut(a.Note, maxText), Bound: a.bound()}
	answer.By.User, answer.By.Method = cut(a.By.User, maxName), cut(a.By.Method, maxName)
	if c := r.Question.Command; a.Edit != nil {
		if c == nil || r.Question.Tool != nil { // an agent runs its own command
			return r, fmt.Errorf("answering: this question (%s) has no command that could be corrected", r.Question.Type)
		}
		answer.Edit = &Edit{Text: slices.Clone(a.Edit.Text), SHA256: sum(a.Edit.Text), Digest: c.Action().With(string(a.Edit.Text)).Digest}
	}
	r.State, r.Answer = leads[a.Method], answer
	if !r.State.Open() {
		r.Ended = answer.At
	}
	return r, nil
}

// refuses returns the reason why the question takes no answer, or nil if it waits for one.
func (r Record) refuses() error {
	switch {
	case r.State == Pending:
		return nil
	case r.State == Expired:
		return &ExpiredError{r.Question.ID, r.Question.Expires}
	case r.Answer != nil:
		return &DecidedError{r.Question.ID, *r.Answer, r.State}
	}
	return fmt.Errorf("%w: the last question is %s", ErrNothingPending, r.State)
}

func (a AnswerRequest) mismatch(waits Record) *MismatchError {
	e := &MismatchError{What: "digest", Given: a.Digest}
	switch {
	case a.ID != "" && (a.Digest == "" || !strings.HasPrefix(waits.Question.ID, a.ID)):
		e.What, e.Given = "id", a.ID
	case a.ID != "":
		e.Why = "what is asked is not what was shown"
	}
	if waits.State == Pending {
		e.ID, e.Digest = waits.Question.ID, waits.Digest
	}
	return e
}

// check returns an error for a record that no Store can have written.
func (r Record) check() error {
	if err := r.Question.check(); err != nil {
		return err
	}
	digest, err := r.Question.Digest()
	if err != nil {
		return err
	}
	must, known := states[r.State]
	a, o := r.Answer, r.Outcome
	if a != nil && (r.State == Expired || r.State == Superseded) {
		must.answer = Approve
	}
	switch {
	case digest != r.Digest:
		return fmt.Errorf("its question has the digest %.16s and not %.16s", digest, r.Digest)
	case !known:
		return fmt.Errorf("its state is %q, which is none", r.State)
	case (a != nil) != (must.answer != "") || a != nil && a.Method != must.answer:
		return fmt.Errorf("it is %s, which does not fit its answer", r.State)
	case a != nil && (a.By.Channel == "" || a.At.IsZero()):
		return errors.New("its answer does not say who gave it and when")
	case a != nil && a.Edit != nil && (r.Question.Command == nil || a.Method != Approve || sum(a.Edit.Text) != a.Edit.SHA256 || runnable(a.Edit.Text) != nil):
		return errors.New("its answer holds a command that is none")
	case must.begun == r.Begun.IsZero():
		return fmt.Errorf("it is %s, which does not fit when it began", r.State)
	case must.ended == r.Ended.IsZero():
		return fmt.Errorf("it is %s, which does not fit when it ended", r.State)
	case (r.State == Done || r.State == Failed) != (o != nil) || o != nil && o.OK != (r.State == Done):
		return fmt.Errorf("it is %s, which does not fit its outcome", r.State)
	}
	return nil
}

// ErrNothingPending says that no question waits for an answer.
var ErrNothingPending = errors.New("nothing waits for a decision")

// DecidedError says that another answer came first.
type DecidedError struct {
	ID    string
	First Answer
	State State // the present state of the question
}

func (e *DecidedError) Error() string {
	return fmt.Sprintf("already decided: %s by %s at %s; the question %.8s is %s now",
		e.First.Method, e.First.By, e.First.At.Format(time.RFC3339), e.ID, e.State)
}

// MismatchError says that the answer is not for the question that waits. The answer changed nothing.
type MismatchError struct {
	What, Given string // which part of the answer does not match ("id" or "digest"), and its value
	ID, Digest  string // of the question that waits; "" if none does
	Why         string // what became of the question that the answer names; "" if that is not known
}

func (e *MismatchError) Error() string {
	why := cmp.Or(e.Why, "no question of this loop has it")
	if e.ID != "" {
		why += fmt.Sprintf("; now waits %.8s (digest %.16s): look at it before you answer", e.ID, e.Digest)
	}
	return fmt.Sprintf("the %s %s is not that of the question that waits: %s", e.What, text.Display(text.Head(e.Given, 16)), why)
}

// ExpiredError says that the question's time is over. An approved command that has not begun can no longer begin.
type ExpiredError struct {
	ID      string
	Expires time.Time
}

func (e *ExpiredError) Error() string {
	return fmt.Sprintf("the question %.8s has expired at %s; the next run of the loop asks again", e.ID, e.Expires.Format(time.RFC3339))
}

// StateError says that a question is not in the state that a step needs.
type StateError struct {
	Step    string // the step, such as "begin" or "finish"
	ID      string // the id that the caller named
	State   State  // the state of that question; "" if it is not the present one
	Present string // the id of the loop's present question, "" if there never was one
}

func (e *StateError) Error() string {
	why := fmt.Sprintf("it is %s", e.State)
	switch {
	case e.State == "" && e.Present == "":
		why = "no question was ever asked of the loop"
	case e.State == "":
		why = fmt.Sprintf("the loop's present one is %.8s", e.Present)
	}
	return fmt.Sprintf("cannot %s the question %.8s: %s", e.Step, e.ID, why)
}

// DamagedError says that a record is damaged or foreign. It counts neither as an answer nor as a missing record.
type DamagedError struct {
	Path string
	Err  error
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("the question in %s cannot be believed: %v; nothing is done by it (to be asked again: stop the loop, type: %s, start it)",
		text.Display(e.Path), e.Err, door.Aside(e.Path))
}

func (e *DamagedError) Unwrap() error { return e.Err }
