package escalation

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/text"
)

// State is where a question stands.
type State string

// The comment of the package shows how the states follow each other.
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

// facts are what a record in a state must say: by which answer it came there ("": none), whether it began and ended.
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
	// Bound is what the operator named of the question: "id", "digest", "both", or "" for what was pending then.
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
	// SupersededBy is the id of the question that took its place; Why says why it ended without an answer.
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
	// Binding must still hold before it begins (Drift). Nobody has judged what an operator's own command reads.
	Binding
}

// Run gives the approved command: the operator's own if there is one. ok is false if nothing is approved to run.
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
	// ID and Digest, at least 8 digits each, bind the answer to one question. Without both it answers what is pending.
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
	return map[[2]bool]string{{true, true}: "both", {true, false}: "id", {false, true}: "digest"}[[2]bool{a.ID != "", a.Digest != ""}]
}

// names reports whether the answer is for r.
func (a AnswerRequest) names(r Record) bool {
	return strings.HasPrefix(r.Question.ID, a.ID) && strings.HasPrefix(r.Digest, a.Digest)
}

// The transitions are pure: a record and a wish give a record or an error. The Store reads, asks them, and writes.

// ask makes the record of a new question.
func ask(q Question) (Record, error) {
	if err := q.check(); err != nil {
		return Record{}, fmt.Errorf("opening a question: %w", err)
	}
	digest, err := q.Digest()
	return Record{Question: q, Digest: digest, State: Pending}, err
}

// superseded ends a question that nothing has come of, for a newer one (by); by "" it is no longer asked.
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

// answered gives the record after an answer that check takes. The question has not lapsed: the caller has looked.
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
		if c == nil {
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

// refuses says why the question takes no answer; nil if it waits for one.
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

// check says what makes a record one that no Store has written.
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

// ErrNothingPending: there is no question to answer.
var ErrNothingPending = errors.New("nothing waits for a decision")

// DecidedError says that another answer was first.
type DecidedError struct {
	ID    string
	First Answer
	State State // of the question by now
}

func (e *DecidedError) Error() string {
	return fmt.Sprintf("already decided: %s by %s at %s; the question %.8s is %s now",
		e.First.Method, e.First.By, e.First.At.Format(time.RFC3339), e.ID, e.State)
}

// MismatchError says that the answer is for another question than the one that waits; it changed nothing.
type MismatchError struct {
	What, Given string // What is "id" or "digest", Given is what the answer named.
	ID, Digest  string // ID and Digest are those of the question that waits, "" if none does.
	Why         string // says what became of the question that was meant, "" if it is not known
}

func (e *MismatchError) Error() string {
	why := cmp.Or(e.Why, "no question of this loop has it")
	if e.ID != "" {
		why += fmt.Sprintf("; now waits %.8s (digest %.16s): look at it before you answer", e.ID, e.Digest)
	}
	return fmt.Sprintf("the %s %s is not that of the question that waits: %s", e.What, text.Display(text.Head(e.Given, 16)), why)
}

// ExpiredError says that the question's time is over. What was approved and has not begun does not begin any more.
type ExpiredError struct {
	ID      string
	Expires time.Time
}

func (e *ExpiredError) Error() string {
	return fmt.Sprintf("the question %.8s has expired at %s; the next run of the loop asks again", e.ID, e.Expires.Format(time.RFC3339))
}

// StateError says that a question is not in the state that a step needs.
type StateError struct {
	Step    string // "begin", "finish"
	ID      string // that was asked for
	State   State  // of that question; "" if it is not the loop's present one
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

// DamagedError says that there is a record that cannot be believed. It is taken neither for an answer nor for nothing.
type DamagedError struct {
	Path string
	Err  error
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("the question in %s cannot be believed: %v; nothing is done by it (to be asked again: stop the loop, move the file away, start it)",
		text.Display(e.Path), e.Err)
}

func (e *DamagedError) Unwrap() error { return e.Err }
