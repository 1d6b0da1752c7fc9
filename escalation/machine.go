package escalation

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/text"
)

// The transitions are pure: a record and a wish give a record or an error. The Store reads, asks them, and writes.

// ask makes the record of a new question.
func ask(q Question) (Record, error) {
	if err := q.check(); err != nil {
		return Record{}, fmt.Errorf("opening a question: %w", err)
	}
	digest, err := q.Digest()
	return Record{Question: q, Digest: digest, State: Pending}, err
}

// superseded ends a question that nothing has come of, for a newer one (by) or because it is no longer asked (by is
// "").
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

// answered gives the record after an answer that check takes. The caller has made sure that the question has not
// lapsed.
func (r Record) answered(a AnswerRequest, now time.Time) (Record, error) {
	if !a.names(r) {
		return r, a.mismatch(r)
	}
	if err := r.refuses(); err != nil {
		return r, err
	}
	answer := &Answer{Method: a.Method, By: a.By, At: stamp(now), Note: cut(a.Note, maxText), Bound: a.bound()}
	answer.By.User, answer.By.Method = cut(a.By.User, maxName), cut(a.By.Method, maxName)
	if a.Edit != nil {
		c := r.Question.Command
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

// ExpiredError says that the time of the question is over. What was approved and had not begun by then does not begin
// any more.
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

// DamagedError says that there is a record that cannot be believed. It is never taken for an answer, and never for
// nothing.
type DamagedError struct {
	Path string
	Err  error
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("the question in %s cannot be believed: %v; nothing is done by it (to be asked again: stop the loop, move the file away, start it)",
		text.Display(e.Path), e.Err)
}

func (e *DamagedError) Unwrap() error { return e.Err }
