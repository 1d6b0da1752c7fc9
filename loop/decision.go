package loop

import "fmt"

// DecisionKind is what a human wants of a loop.
type DecisionKind string

// The kinds of decisions.
const (
	DecideAnswer   DecisionKind = "answer"    // answer what is asked
	DecideRetryNow DecisionKind = "retry_now" // do not wait any longer; what was asked for is mended
	DecideCancel   DecisionKind = "cancel"    // end the loop
)

// Decision is what a human has decided, before it is a fact.
type Decision struct {
	Kind  DecisionKind `json:"kind"`
	RunID string       `json:"run_id"` // the run that it is about
	// ID and Digest are those of the answered escalation; Method is the answer.
	ID     string `json:"id,omitempty"`
	Digest string `json:"digest,omitempty"`
	Method string `json:"method,omitempty"`
}

// Refusal is why a decision does not count.
type Refusal string

// The refusals.
const (
	RefusedEnded   Refusal = "ended"         // the loop has ended
	RefusedRun     Refusal = "other_run"     // it is about another run
	RefusedNothing Refusal = "nothing_waits" // nothing is asked, or waited for
	RefusedOther   Refusal = "other_question"
	RefusedChanged Refusal = "changed" // what was shown is not what would run
	RefusedMethod  Refusal = "unknown_method"
)

// RefusedError says why a decision does not count, for programs and for people.
type RefusedError struct {
	Refusal Refusal
	Why     string
}

func (e *RefusedError) Error() string { return e.Why }

func refuse(r Refusal, format string, args ...any) error {
	return &RefusedError{r, fmt.Sprintf(format, args...)}
}

// Check reports whether a decision may be given to a loop in this state. Its error is a *RefusedError. Whoever takes
// decisions in calls it; Step itself ignores an answer that does not fit.
func Check(s State, d Decision) error {
	h, p := s.Human, s.Pending
	switch {
	case s.Status.Ended():
		return refuse(RefusedEnded, "the loop is %s", s.Status)
	case d.RunID != s.RunID:
		return refuse(RefusedRun, "it is about the run %s, the loop is in %s", d.RunID, s.RunID)
	}
	switch d.Kind {
	case DecideCancel:
		return nil
	case DecideRetryNow:
		if p == nil || p.Kind != Wait && (p.Kind != AskHuman || h == nil || h.About == AboutCompletion) {
			return refuse(RefusedNothing, "the loop is %s and waits for nothing that can be had now", s.Status)
		}
		return nil
	}
	switch {
	case p == nil || p.Kind != AskHuman || h == nil || h.Question == "":
		return refuse(RefusedNothing, "the loop is %s, nobody is asked", s.Status)
	case d.ID != h.Question:
		return refuse(RefusedOther, "%s is not what is asked, that is %s", d.ID, h.Question)
	case d.Digest != "" && d.Digest != h.Digest:
		return refuse(RefusedChanged, "what was shown is not what is asked now")
	}
	switch d.Method {
	case MethodApprove, MethodReject, MethodManual:
		return nil
	}
	return refuse(RefusedMethod, "%q is no answer; %s, %s and %s are", d.Method, MethodApprove, MethodReject, MethodManual)
}
