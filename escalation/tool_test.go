package escalation

import (
	"strings"
	"testing"
	"time"
)

// An agent is held while its question is open and its time is not over; it may ask again later.
func TestHold(t *testing.T) {
	t.Parallel()
	s, now := newStore(t)
	q := asking(idA, "npm ci\x1b[2J; ls")
	q.Type, q.Tool = ToolPermission, aTool()
	rec := mustOpen(t, s, q)
	h := rec.Hold(created)
	if h == nil || h.What != "Bash: npm ci; ls" || !h.Since.Equal(created) || !h.Until.Equal(created.Add(time.Minute)) {
		t.Fatalf("%+v", h)
	}
	if rec.Hold(h.Until) != nil {
		t.Error("it is held when its time is over")
	}
	now.at = created.Add(time.Hour)
	rec, err := s.Hold(t.Context(), idA, created.Add(2*time.Hour))
	check(t, err)
	kept, err := s.Load()
	if check(t, err); rec.Hold(now.at) == nil || kept.Hold(now.at) == nil || kept.Digest != rec.Digest {
		t.Errorf("%+v, %+v", rec, kept)
	}
	rec, err = s.Answer(t.Context(), AnswerRequest{Method: Approve, By: alice})
	if check(t, err); rec.Hold(created.Add(time.Hour)) != nil {
		t.Error("it is held when it was answered")
	}
	if _, err := s.Hold(t.Context(), idA, created.Add(3*time.Hour)); err == nil || !strings.Contains(err.Error(), "hold") {
		t.Errorf("%v", err)
	}
	if other := mustOpen(t, s, sample(idB)); other.Hold(created) != nil {
		t.Error("a question without a tool holds an agent")
	}
}
