package main

import (
	"strings"
	"testing"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/host"
)

// TestVerbAgain: an engine that does not know whether a verb was carried out asks again. What was carried out is not done again, and
// counts as done; what somebody else has decided does not.
func TestVerbAgain(t *testing.T) {
	t.Parallel()
	n := enginesEnv(t, troubles[0], courses[2])
	stirred := make(chan struct{}, 99)
	desk, end := n.desk(func(host.Place) { stirred <- struct{}{} })
	defer end()
	at := host.Place{Repo: n.path("repo"), Loop: "l"}
	fold, seq := loop.NewReplay(), int64(0)
	took := func(out host.Turned, err error) host.Rest {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if out.State != nil {
			fold.State, seq = *out.State, out.Seq
		}
		for _, l := range out.Lines {
			if err := fold.Add(l.Event()); err != nil {
				t.Fatal(err)
			}
			seq++
		}
		return out.Rest
	}
	rests := func(want host.Rest) {
		t.Helper()
		for {
			e, _ := loop.Due(fold.State)
			if rest := took(desk.Turn(t.Context(), host.Turn{Place: at, Effect: e.ID, Since: seq})); rest == want {
				return
			} else if rest != host.GoesOn {
				<-stirred
			}
		}
	}
	verb := func(again bool, id, user string, args ...string) error {
		_, err := desk.Verb(t.Context(), host.Verb{Args: append(args, "--repo", at.Repo, "--loop", "l"), Of: at, By: host.By{User: user, Method: "signature"}, ID: id, Again: again})
		return err
	}
	took(desk.Turn(t.Context(), host.Turn{Place: at, Start: true, By: "ann"}))
	rests(host.Waits)
	question := fold.State.Human.Question
	reject := func(again bool, user string, method string) error {
		return verb(again, "0a", user, method, "--id", question)
	}
	if err := reject(true, "ann", "reject-recovery"); err != nil { // the try before has done nothing
		t.Fatal(err)
	}
	<-stirred
	for range 2 { // while the answer waits, and when another question is open
		if err := reject(true, "ann", "reject-recovery"); err != nil {
			t.Error(err)
		}
		for name, err := range map[string]error{"another answer": reject(false, "ann", "reject-recovery"), "another person": reject(true, "bob", "reject-recovery"), "the contrary": reject(true, "ann", "approve-recovery")} {
			if err == nil || !strings.Contains(err.Error(), "already decided") {
				t.Errorf("%s: %v", name, err)
			}
		}
		rests(host.Waits)
	}
	if fold.State.Human.Question == question {
		t.Error("the loop has not gone on")
	}
	cancelled := make(chan error, 1)
	go func() { cancelled <- verb(false, "0b", "ann", "cancel") }() // it waits until the loop has ended
	<-stirred
	rests(host.Ended)
	if err := <-cancelled; err != nil {
		t.Fatal(err)
	}
	if err := verb(true, "0b", "ann", "cancel"); err != nil {
		t.Error(err)
	}
	if err := verb(true, "0c", "ann", "cancel"); err == nil || !strings.Contains(err.Error(), "has ended already") {
		t.Error(err)
	}
	for event, want := range map[string]int{"approval_decided": 1, "loop_stop": 1} {
		got := 0
		for _, ev := range n.events() {
			if ev.Event == event {
				got++
			}
		}
		if got != want {
			t.Errorf("%d times %s", got, event)
		}
	}
}
