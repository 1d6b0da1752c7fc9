package notify

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// life is what happens to an outbox, in order.
type life struct {
	answers  []error
	attempts int
	steps    []step
}

type step struct {
	what, escalation string
	resolved         bool
	wait             time.Duration
}

func lives() *rapid.Generator[life] {
	return rapid.Custom(func(t *rapid.T) life {
		return life{
			answers:  rapid.SliceOfN(rapid.SampledFrom([]error{nil, &TemporaryError{Reason: "500"}, &TemporaryError{Reason: "429", RetryAfter: 3 * time.Hour}, &PermanentError{"404"}, errors.New("odd"), panics("oops")}), 0, 40).Draw(t, "answers"),
			attempts: rapid.IntRange(1, 12).Draw(t, "attempts"),
			steps: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
				return step{
					rapid.SampledFrom([]string{"enqueue", "enqueue", "enqueue", "wait", "wait", "restart", "gone", "back", "withdraw", "retry"}).Draw(t, "what"),
					rapid.SampledFrom([]string{"e1", "e2", "e3"}).Draw(t, "escalation"), rapid.Bool().Draw(t, "resolved"),
					time.Duration(rapid.Int64Range(0, int64(4*time.Hour)).Draw(t, "wait")),
				}
			}), 1, 30).Draw(t, "steps"),
		}
	})
}

// TestALongLife lets an outbox live through days of restarts, failures, changes of the configuration and withdrawals, in
// any order.
func TestALongLife(t *testing.T) {
	t.Parallel()
	root, n := t.TempDir(), 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		l := lives().Draw(rt, "life")
		var problem error
		synctest.Test(t, func(t *testing.T) { problem = l.live(t, filepath.Join(root, fmt.Sprint(n))) })
		if problem != nil {
			rt.Fatal(problem)
		}
	})
}

// live carries l out and says which promise was broken: a message is never sent after a success, "resolved" never before
// the end of "opened", and in the end nothing is pending and what failed says why.
func (l life) live(t *testing.T, dir string) error {
	s := &script{name: "n", answers: slices.Clone(l.answers)}
	o := Options{Dir: dir, Channels: []Notifier{s}, MaxAttempts: l.attempts}
	b, err := opening(o)
	if err != nil {
		return err
	}
	var enqueued []string
	for _, step := range l.steps {
		switch step.what {
		case "enqueue":
			m := opened(step.escalation)
			if step.resolved && slices.Contains(enqueued, m.ID) {
				m.ID, m.Kind = m.Escalation+":resolved", Resolved
			}
			if err := b.Enqueue(m, "n"); err == nil && !slices.Contains(enqueued, m.ID) {
				enqueued = append(enqueued, m.ID)
			}
		case "wait":
			pass(step.wait)
		case "restart":
			closeNow(t, b)
			if b, err = opening(o); err != nil {
				return err
			}
		case "gone":
			b.Configure(nil)
		case "back":
			b.Configure(o.Channels)
		case "withdraw":
			b.Withdraw(step.escalation)
		case "retry":
			b.Retry("n")
		}
	}
	b.Configure(o.Channels)
	pass(100 * time.Hour)
	closeNow(t, b)
	items, err := List(dir)
	if err != nil || len(items) != len(enqueued) {
		return fmt.Errorf("%d messages in the files, %d were enqueued (%v)", len(items), len(enqueued), err)
	}
	sent, success := s.ids(), map[string]bool{}
	for i, id := range sent {
		if success[id] {
			return fmt.Errorf("%s was sent after a success: %q", id, sent)
		}
		success[id] = i >= len(l.answers) || l.answers[i] == nil
	}
	for _, i := range items {
		if i.State == Pending || success[i.ID] != (i.State == Delivered) || i.State == Failed && i.Reason == "" {
			return fmt.Errorf("in the end: %+v (success %v)", i, success[i.ID])
		}
		first, last := slices.Index(sent, i.Escalation+":resolved"), slices.Index(sent, i.Escalation+":opened")
		if i.Kind == Opened && i.State == Delivered && first >= 0 && last > first {
			return fmt.Errorf("an answer came before its question: %q", sent)
		}
	}
	return nil
}
