package loop

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/superloop/superloop/internal/testkit"
)

// In every state that a loop reaches, and in every one in which a supervisor can leave it, the move that Next names is
// taken and changes the state; and Next names none only where the loop is completed or goes on by itself.
func TestTheNextMoveIsTaken(t *testing.T) {
	t.Parallel()
	seen := map[Move]int{}
	for seed := range uint64(testkit.Sample(60, 10_000, 10_000)) {
		p := &play{t: t, seed: seed, now: t0}
		plan := p.plan()
		p.give(Started{Plan: plan, Rules: CurrentRules})
		p.each = func() {
			states := []State{p.s}
			if left, _ := Step(p.s, Input{At: p.now, Fact: Stopped{Status: Paused, Reason: ReasonInterrupted}}); left.Status == Paused {
				states = append(states, left)
			}
			if gone, _ := Step(p.s, Input{At: p.now, Fact: Stopped{Status: Cancelled, Reason: ReasonCancelled}}); gone.Status == Cancelled {
				states = append(states, gone)
			}
			for _, s := range states {
				for _, supervised := range []bool{true, false} {
					m := s.next(supervised)
					seen[m]++
					if why := p.refused(s, m, supervised); why != "" {
						t.Fatalf("seed %d, %s at %s, pending %+v, supervised %v: the move is %q, but %s", seed, s.Status, s.At, s.Pending, supervised, m, why)
					}
				}
			}
		}
		p.each()
		p.run()
		p.each()
	}
	for _, m := range []Move{MoveNone, MoveTake, MoveRun, MoveWait, MoveCommand, MoveQuestion, MoveApprove, MoveRetryNow} {
		if seen[m] == 0 {
			t.Errorf("no state has the move %q; the worlds are too kind: %v", m, seen)
		}
	}
}

// next is the move in a state whose question, if it has an id, is open.
func (s State) next(supervised bool) Move {
	return ViewOf(s, 1, 0).Next(Circumstances{Supervised: supervised && !s.Status.Ended() && s.Status != Paused, Open: s.Human != nil && s.Human.Question != ""})
}

// refused says why a move does not help in a state, or "".
func (p *play) refused(s State, m Move, supervised bool) string {
	_, do := Due(s)
	supervised = supervised && !s.Status.Ended() && s.Status != Paused
	decision := Decision{Kind: DecideAnswer, RunID: s.RunID, Method: MethodManual}
	if h := s.Human; h != nil {
		decision.ID, decision.Digest = h.Question, h.Digest
	}
	var fact Fact
	switch m {
	case MoveNone:
		if supervised && (do == DoStart || do == DoTimer || do == DoHuman && s.Human.Question == "") {
			return ""
		}
		return "the loop goes on with nothing"
	case MoveTake:
		if s.Status != Completed {
			return "it is not completed"
		}
		return ""
	case MoveRun:
		if supervised {
			return "a supervisor runs it"
		}
		next, _ := Step(s, Input{At: p.now, LoopID: "l", RunID: "r", Fact: Resumed{Plan: s.Plan, Status: s.Status, Rules: CurrentRules}})
		switch _, do := Due(next); {
		case do == DoHuman && next.Begun && next.Human.Type != EscalationRunner: // else the start of a run says that the runner is repaired
			return "the next run only waits"
		case do == DoNothing && !next.Status.Ended():
			return "the next run does nothing"
		}
		return ""
	case MoveWait, MoveRetryNow:
		if err := Check(s, Decision{Kind: DecideRetryNow, RunID: s.RunID}); err != nil {
			return err.Error()
		}
		fact = WaitOver{ID: s.Pending.ID, Reason: "kicked", Candidates: p.candidates()}
		if m == MoveRetryNow {
			fact = Resolved{Of: To(*s.Pending), ID: s.Human.Question, Method: MethodManual, By: "eve", Candidates: p.candidates()}
		}
	case MoveCommand, MoveQuestion:
		fact = Resolved{Of: To(*s.Pending), ID: s.Human.Question, Method: MethodManual, By: "eve", Candidates: p.candidates()}
	case MoveApprove:
		fact = ApprovalDecided{Of: To(*s.Pending), ID: s.Human.Question, Status: "approved", By: "eve"}
	}
	if m != MoveWait && m != MoveRetryNow {
		if err := Check(s, decision); err != nil {
			return err.Error()
		}
	}
	next, _ := Step(s, Input{At: p.now, LoopID: "l", RunID: "r", Fact: fact})
	return changed(s, next)
}

func changed(before, after State) string {
	before.UpdatedAt, after.UpdatedAt = t0, t0
	if reflect.DeepEqual(before, after) {
		return fmt.Sprintf("it leaves the loop %s as it was", before.Status)
	}
	return ""
}
