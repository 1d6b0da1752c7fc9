package escalation

import (
	"errors"
	"fmt"
	"time"

	"github.com/superloop/superloop/internal/text"
)

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

// MismatchError says that the answer is for another question than the one that
// waits; it changed nothing.
type MismatchError struct {
	// What is "id" or "digest", Given is what the answer named.
	What, Given string
	// ID and Digest are those of the question that waits, "" if none does.
	ID, Digest string
	// Why says what became of the question that was meant, "" if it is not known.
	Why string
}

func (e *MismatchError) Error() string {
	why := e.Why
	if why == "" {
		why = "no question of this loop has it"
	}
	if e.ID != "" {
		why += fmt.Sprintf("; now waits %.8s (digest %.16s): look at it before you answer", e.ID, e.Digest)
	}
	return fmt.Sprintf("the %s %s is not that of the question that waits: %s", e.What, text.Display(text.Head(e.Given, 16)), why)
}

// ExpiredError says that the time of the question is over. What was approved and
// had not begun by then does not begin any more.
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

// DamagedError says that there is a record that cannot be believed. It is never
// taken for an answer, and never for nothing.
type DamagedError struct {
	Path string
	Err  error
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("the question in %s cannot be believed: %v; nothing is done by it (to be asked again: stop the loop, move the file away, start it)",
		text.Display(e.Path), e.Err)
}

func (e *DamagedError) Unwrap() error { return e.Err }
