package local

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/escalation/notify"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/control"
	"github.com/superloop/superloop/loop/effects"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/recovery"
)

// agentProposes is a tester that proposes a command which mends the tests.
const agentProposes = `case $SUPERLOOP_ROLE in
tester) [ -f fixed ] || cp "${0%/*}/proposal.json" "$SUPERLOOP_LOOP_DIR/recovery.json" ;;
reviewer) [ ! -f fixed ] || echo '<promise>DONE</promise>' ;;
esac`

const policyAsks = `"recovery": {"first_aid": false, "auto_approve": ["true"], "require_human": ["echo *"], "cooldown_seconds": 0}`

// newBroken is a loop whose tests fail until a command has run that an operator must approve.
func newBroken(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, agentProposes, `"roles": ["tester", "reviewer"], "tests": {"commands": ["test -f fixed"]}`, policyAsks)
	w.write("proposal.json", `{"version": 1, "timestamp": "2026-01-23T05:36:33Z", "category": "dependency", "severity": "blocking",
  "diagnosis": {"error_pattern": "x", "root_cause": "it is broken", "evidence": ["test-output.txt:1: x"]},
  "recovery": {"command": "echo ran >> ran.txt && touch fixed", "expected_outcome": "it works", "confidence": "high"}}`)
	w.o.ExitOnEscalation = true
	return w
}

func (w *world) ran() int {
	data, err := os.ReadFile(filepath.Join(w.repo, "ran.txt"))
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	return strings.Count(string(data), "ran\n")
}

// store is the escalations as another process finds them.
func (w *world) store() escalation.Store {
	return escalation.Store{Disk: w.o.Disk, Dir: w.paths.Questions(), Loop: "l", Now: w.clock}
}

// answer answers the question that is open. It is called from callbacks too.
func (w *world) answer(method escalation.Method) {
	_, err := w.store().Answer(context.Background(), escalation.AnswerRequest{Method: method, By: escalation.By{Channel: escalation.CLI, User: "eve"}})
	if err != nil {
		w.t.Errorf("answering: %v", err)
	}
}

func TestALoopLeavesForAPersonAndDoesWhatWasAnsweredMeanwhile(t *testing.T) {
	t.Parallel()
	w := newBroken(t)
	s := w.run(t.Context())
	if s.Status != loop.AwaitingHuman || s.Human == nil || w.ran() != 0 {
		t.Fatalf("%s, %+v, ran %d times", s.Status, s.Human, w.ran())
	}
	rec, err := w.store().Load()
	if err != nil || rec.State != escalation.Pending || rec.Question.ID != s.Human.Question {
		t.Fatalf("the question on the disk: %+v %v", rec, err)
	}
	// Nobody has answered: it leaves again, and asks nothing new.
	again := w.run(t.Context())
	if again.Human == nil || again.Human.Question != s.Human.Question || len(w.all("recovery_escalated")) != 1 {
		t.Fatalf("asked anew: %+v", again.Human)
	}
	w.answer(escalation.Approve)
	s = w.run(t.Context())
	w.ends(s, loop.Completed, loop.ReasonPromiseKept)
	if w.ran() != 1 {
		t.Errorf("the command ran %d times", w.ran())
	}
	w.inOrder("recovery_escalated", "loop_resume", "recovery_resolved", "recovery_executing", "recovery_executed", "tests_rerun_end", "loop_complete")
	if exists(filepath.Join(w.paths.Loop, recovery.ProposalFile)) {
		t.Error("the proposal is still where the agent wrote it")
	}
	if !exists(filepath.Join(w.paths.Common(), "inputs", "trusted")) {
		t.Error("what commands read was not pinned at the start")
	}
}

// phone is a way to an operator that keeps what it was told.
type phone struct {
	on  func() // is called for each message; nil: nothing
	mu  sync.Mutex
	got []notify.Message
}

func (p *phone) Name() string { return "phone" }

func (p *phone) Send(_ context.Context, m notify.Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.got = append(p.got, m)
	if p.on != nil {
		p.on()
	}
	return nil
}

func (p *phone) channels() effects.Channels {
	return effects.Channels{All: []notify.Notifier{p}, First: map[notify.Kind][]string{notify.Opened: {"phone"}, notify.Resolved: {"phone"}}}
}

func TestADeliveryThatCannotBeRecordedIsSaid(t *testing.T) {
	t.Parallel()
	w := newBroken(t)
	w.pass(time.Since(w.clock())) // as in TestAPersonIsTold
	w.o.ExitOnEscalation = false
	w.o.Channels = func(*config.Config) effects.Channels {
		return (&phone{on: func() { w.breaks("events:append", errNoRoom) }}).channels()
	}
	_, err := Run(t.Context(), w.o)
	wantError(t, err, "superloop run --loop l", "nothing that was recorded is lost")
}

func TestAPersonIsTold(t *testing.T) {
	t.Parallel()
	w := newBroken(t)
	w.pass(time.Since(w.clock())) // what has expired is not sent, by the clock of the system
	p, made := &phone{}, 0
	w.o.Channels = func(*config.Config) effects.Channels {
		made++
		return p.channels()
	}
	s := w.run(t.Context())
	if made != 1 {
		t.Errorf("the channels were made %d times for one configuration", made)
	}
	w.answer(escalation.Approve)
	w.ends(w.run(t.Context()), loop.Completed, loop.ReasonPromiseKept)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.got) != 2 || p.got[0].Kind != notify.Opened || p.got[1].Kind != notify.Resolved || p.got[0].Loop != "l" || s.Human == nil {
		t.Errorf("the operator was told %+v", p.got)
	}
}

func TestALoopWaitsForAnAnswerAndAnAnswerWakesIt(t *testing.T) {
	t.Parallel()
	w := newBroken(t)
	w.o.ExitOnEscalation = false
	w.configure(`"max_iterations": 1, "roles": ["tester", "reviewer"], "tests": {"commands": ["test -f fixed"]}`, policyAsks) // it asks once
	w.load()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	answered := make(chan struct{})
	w.when("recovery_escalated", func(journal.Event, loop.State) {
		go func() {
			defer close(answered)
			for ctx.Err() == nil {
				if rec, err := w.store().Load(); err == nil && rec.State == escalation.Pending {
					<-time.After(2 * viewInterval) // the loop waits by now: nothing but the answer wakes it
					w.answer(escalation.Reject)
					return
				}
				pause()
			}
		}()
	})
	s := w.run(ctx)
	<-answered
	w.ends(s, loop.LimitReached, loop.ReasonMaxIterations)
	if f := w.all("recovery_resolved"); len(f) == 0 || f[0]["method"] != "reject" || w.ran() != 0 {
		t.Errorf("resolved %v, ran %d times", f, w.ran())
	}
}

// pause lets others work.
func pause() {
	timer := time.NewTimer(2 * time.Millisecond)
	<-timer.C
}

func TestAKickTellsALoopThatWhatItAskedForIsMended(t *testing.T) {
	t.Parallel()
	w := newBroken(t)
	s := w.run(t.Context())
	w.write("repo/fixed", "")
	w.submit(control.Intent{ID: "kick-1", Kind: control.IntentKick, By: "ann", Note: "by hand", RunID: s.RunID, At: w.now})
	s = w.run(t.Context())
	w.ends(s, loop.Completed, loop.ReasonPromiseKept)
	f := w.one("recovery_resolved")
	if f["by"] != "ann" || f["intent_id"] != "kick-1" || f["method"] != "manual" || w.ran() != 0 {
		t.Errorf("resolved %v, ran %d times", f, w.ran())
	}
	if len(w.intents()) != 0 || len(w.all("intent_ignored")) != 0 {
		t.Errorf("the intent is still there: %v; %v", w.intents(), w.all("intent_ignored"))
	}
}

func TestAQuestionIsOpenWhenTheSupervisorLeavesRightAfterItsEvent(t *testing.T) {
	t.Parallel()
	w := newBroken(t)
	w.o.ExitOnEscalation = false
	ctx, stop := context.WithCancel(t.Context())
	w.when("recovery_escalated", func(journal.Event, loop.State) { stop() })
	s := w.run(ctx)
	if s.Status != loop.AwaitingHuman {
		t.Fatalf("the loop is %s", s.Status)
	}
	rec, err := w.store().Load()
	if err != nil || rec.State != escalation.Pending || rec.Question.ID != s.Human.Question {
		t.Fatalf("an operator cannot answer: %+v %v", rec, err)
	}
	if f := w.one("loop_stop"); f["status"] != string(loop.Paused) {
		t.Errorf("loop_stop %v", f)
	}
}

func TestACancelledLoopWithdrawsItsQuestion(t *testing.T) {
	t.Parallel()
	w := newBroken(t)
	s := w.run(t.Context())
	w.submit(control.Intent{ID: "c", Kind: control.IntentCancel, By: "ann", Note: "enough", RunID: s.RunID, At: w.now})
	w.breaks("escalation:write", errNoRoom)
	wantError(t, Cancel(t.Context(), w.o), "superloop run --loop l")
	w.breaks("escalation:write", nil)
	if err := Cancel(t.Context(), w.o); err != nil {
		t.Fatal(err)
	}
	f := w.one("loop_stop")
	if f["status"] != "cancelled" || f["by"] != "ann" || f["note"] != "enough" || f["intent_id"] != "c" {
		t.Errorf("loop_stop %v", f)
	}
	if rec, err := w.store().Load(); err == nil && rec.State == escalation.Pending {
		t.Error("the question of a cancelled loop is still open")
	}
	if len(w.intents()) != 0 {
		t.Error("the intent is still there")
	}
	if v := w.view(); v.Status != loop.Cancelled {
		t.Errorf("state.json says %s", v.Status)
	}
	// Once more: somebody was faster.
	w.submit(control.Intent{ID: "c2", Kind: control.IntentCancel, By: "bob", RunID: s.RunID, At: w.now})
	n := len(w.all("loop_stop"))
	if err := Cancel(t.Context(), w.o); err != nil || len(w.all("loop_stop")) != n {
		t.Errorf("cancelled twice: %v", err)
	}
}

func TestAFreshRunWithdrawsTheQuestionOfTheLastOne(t *testing.T) {
	t.Parallel()
	w := newBroken(t)
	first := w.run(t.Context())
	w.o.Fresh = true
	second := w.run(t.Context())
	if second.Human == nil || second.Human.Question == first.Human.Question {
		t.Fatalf("asked %+v, before %+v", second.Human, first.Human)
	}
	rec, err := w.store().Load()
	if err != nil || rec.Question.ID != second.Human.Question {
		t.Errorf("%+v %v", rec, err)
	}
}
