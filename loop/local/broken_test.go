package local

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/control"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/roles/agent"
	"github.com/superloop/superloop/roles/agent/cooldown"
)

// manySteps is a loop that touches the disk in many ways: tests, a work tree of its own.
const manySteps = `"tests": {"commands": ["true"]}, "git": {"worktree": true}`

// course is a way that a loop takes, from its beginning to completion.
type course struct {
	begin func(t *testing.T) *world
	// drive gives the first error on the way; without one the loop is complete.
	drive func(w *world) error
}

func drive(w *world) error {
	s, err := Run(w.t.Context(), w.o)
	if err == nil && s.Status != loop.Completed {
		w.t.Errorf("the loop is %s, and there is no error", s.Status)
	}
	return err
}

var courses = map[string]course{
	"tests and a work tree": {func(t *testing.T) *world { return newWorld(t, agentDone, manySteps) }, drive},
	"begun anew": {func(t *testing.T) *world {
		w := newWorld(t, agentDone, ``)
		w.ends(w.run(t.Context()), loop.Completed, loop.ReasonPromiseKept)
		w.o.Fresh = true
		return w
	}, drive},
	"interrupted": {func(t *testing.T) *world {
		w := newBroken(t)
		w.agent(agentHangs)
		ctx, stop := context.WithCancel(t.Context())
		w.when("role_start", func(journal.Event, loop.State) { stop() })
		w.ends(w.run(ctx), loop.Paused, loop.ReasonInterrupted)
		w.on = nil
		w.agent("touch fixed; " + agentDone)
		if err := os.RemoveAll(filepath.Join(w.paths.Common(), "inputs")); err != nil {
			t.Fatal(err)
		}
		w.write(w.under(w.paths.Trees(), "old"), "")
		return w
	}, drive},
	"an operator is asked": {newBroken, func(w *world) error {
		s, err := Run(w.t.Context(), w.o)
		if err != nil || s.Human == nil {
			return err
		}
		w.o.ExitOnEscalation = false
		if _, err := w.store().Answer(w.t.Context(), escalation.AnswerRequest{Method: escalation.Approve, By: escalation.By{Channel: escalation.CLI, User: "eve"}}); err != nil {
			return fmt.Errorf("superloop run --loop l: %w", err)
		}
		return drive(w)
	}},
}

// dispensable are the operations that a loop does without, and why. One stands for those
// that begin with its name and a dash.
var dispensable = map[string]string{
	"respond":   "the health of runners is learned anew",
	"log":       "what an agent printed is not what it did",
	"lock":      "a lock holds without the name of its holder",
	"head":      "the journal is whole without the anchor beside it",
	"learned":   "what helped is learned anew",
	"ended":     "what the run has changed stays a question",
	"undo":      "the command runs, and its record says that it cannot be undone",
	"undo-mark": "", "undo-parent": "", "undo-manifest": "", "undo-ref": "", "undo-seal": "",
}

// TestEachOperationOnTheDiskMayFail fails each operation that a loop does on the disk, in
// a run of its own: one step of it finds the disk full. A run says what to type next, but
// for the operations that it does without; when there is room again, the loop goes on to
// its end and its journal is whole.
func TestEachOperationOnTheDiskMayFail(t *testing.T) {
	t.Parallel()
	for course, c := range courses {
		t.Run(course, func(t *testing.T) {
			t.Parallel()
			clean := c.begin(t)
			clean.mu.Lock()
			clean.ops = nil
			clean.mu.Unlock()
			if err := c.drive(clean); err != nil {
				t.Fatal(err)
			}
			clean.mu.Lock()
			steps := map[string]string{} // one of each operation; the others are tested in internal/durable
			for _, op := range slices.Sorted(slices.Values(clean.ops)) {
				name, step, _ := strings.Cut(op, ":")
				if steps[name] == "" || step == "write" {
					steps[name] = op
				}
			}
			clean.mu.Unlock()
			if len(steps) < 12 {
				t.Fatalf("only %d operations: %v", len(steps), steps)
			}
			for n, name := range slices.Sorted(maps.Keys(steps)) {
				op := steps[name]
				if sample := testkit.Sample(59, 1, 1); (n+len(course))%sample != 0 && !strings.HasPrefix(name, "events") {
					continue // in another course, or in .ci/run
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					w := c.begin(t)
					w.breaks(op, errNoRoom)
					err := c.drive(w)
					kind, _, _ := strings.Cut(name, "-")
					switch why, ok := dispensable[kind]; {
					case err == nil && !ok:
						t.Errorf("%s failed, and nobody was told", op)
					case err != nil && ok:
						t.Errorf("%s failed. %s. And yet: %v", op, why, err)
					case err != nil:
						wantError(t, err, "superloop run --loop l")
					}
					w.breaks(op, nil)
					w.o.Fresh = false
					if err := c.drive(w); err != nil {
						t.Errorf("when there is room again: %v", err)
					}
					if s, err := Fold(w.paths.Events()); err != nil || s.State.Status != loop.Completed {
						t.Errorf("the journal: %v %v", s.State.Status, err)
					}
				})
			}
		})
	}
}

// What cannot be done before the loop begins is an error, and nothing has begun.
func TestErrorsBeforeTheLoopBegins(t *testing.T) {
	t.Parallel()
	for op, prepare := range map[string]func(w *world){
		"temps:remove":      func(w *world) { w.write(w.under(w.paths.Loop, ".x.json.tmp-1"), "") },
		"gitignore:create":  func(w *world) { _ = os.Remove(filepath.Join(w.paths.Super, ".gitignore")) },
		"events:append":     func(*world) {},
		"trust:create":      func(*world) {},
		"repo-state:create": func(*world) {},
	} {
		w := newWorld(t, agentDone, ``)
		prepare(w)
		w.breaks(op, errNoRoom)
		_, err := Run(t.Context(), w.o)
		if err == nil {
			t.Errorf("%s fails, and there is no error", op)
			continue
		}
		wantError(t, err, "superloop run --loop l", "nothing that was recorded is lost")
		if exists(w.paths.Events()) && op != "repo-state:create" && slices.Contains(w.names(), "role_start") {
			t.Errorf("%s fails, and roles ran: %v", op, w.names())
		}
		w.breaks(op, nil)
		w.ends(w.run(t.Context()), loop.Completed, loop.ReasonPromiseKept)
	}
}

// A supervisor that is gone in the middle of a role leaves a line without an outcome.
func TestARoleWhoseSupervisorDiedRunsAgainAsTheNextAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, agentDone, ``)
	w.when("role_start", func(journal.Event, loop.State) { w.breaks("events:append", errBroken) })
	if _, err := Run(t.Context(), w.o); err == nil {
		t.Fatal("the journal was written")
	}
	w.on = nil
	w.breaks("events:append", nil)
	w.ends(w.run(t.Context()), loop.Completed, loop.ReasonPromiseKept)
	if f := w.one("loop_resume"); f["interrupted"] == nil || f["reason"] != loop.ReasonCrash || f["status"] != "running" {
		t.Errorf("loop_resume %v", f)
	}
	starts := w.all("role_start")
	if len(starts) != 3 || starts[0]["role"] != "planner" || starts[1]["role"] != "planner" || starts[1]["attempt"] != 2.0 || starts[2]["attempt"] != 1.0 {
		t.Errorf("role_start %v", starts)
	}
}

// limited is a loop whose first run of an agent meets a limit for an hour.
func limited(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, `if mkdir "${0%/*}/met" 2> /dev/null; then
	echo '{"type":"system","subtype":"init","session_id":"s-1","model":"m"}'
	echo '{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":'$(($(date +%s) + 3600))',"rateLimitType":"five_hour"},"session_id":"s-1"}'
	echo '{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"result":"limit","session_id":"s-1","total_cost_usd":0,"usage":{"input_tokens":0,"output_tokens":0}}'
	exit 1
fi
echo '{"type":"system","subtype":"init","session_id":"s-2","model":"m"}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"<promise>DONE</promise>","session_id":"s-2","total_cost_usd":0,"usage":{"input_tokens":1,"output_tokens":1}}'`, ``)
	w.now = time.Now().UTC().Truncate(time.Millisecond) // the memory of limits has the clock of the machine
	w.write("repo/.superloop/config.json", strings.Replace(w.configText(``), `"command": [`, `"adapter": "claude", "command": [`, 1))
	w.load()
	w.o.Environ = append(w.o.Environ, "ANTHROPIC_API_KEY=k")
	return w
}

func TestAKickEndsTheWaitForALimitAndForgetsIt(t *testing.T) {
	t.Parallel()
	w := limited(t)
	var waits loop.State
	w.when("rate_limit_wait", func(_ journal.Event, s loop.State) {
		waits = s
		w.submit(control.Intent{ID: "k-1", Kind: control.IntentKick, By: "ann", RunID: s.RunID})
	})
	w.ends(w.run(t.Context()), loop.Completed, loop.ReasonPromiseKept)
	if waits.Status != loop.RateLimited || waits.Limit == nil || waits.Limit.Until.Before(w.now.Add(time.Hour)) {
		t.Errorf("%s until %+v", waits.Status, waits.Limit)
	}
	if f := w.one("rate_limit_over"); f["reason"] != "kicked" || f["by"] != "ann" {
		t.Errorf("rate_limit_over %v", f)
	}
	if f := w.all("wait_over"); len(f) != 1 || f[0]["intent_id"] != "k-1" {
		t.Errorf("wait_over %v", f)
	}
	if len(w.intents()) != 0 {
		t.Error("the wish is still there")
	}
}

func TestALimitThatCannotBeForgottenIsStillThere(t *testing.T) {
	t.Parallel()
	w := limited(t)
	w.when("rate_limit_wait", func(_ journal.Event, s loop.State) {
		w.breaks("cooldown:remove", errNoRoom)
		w.submit(control.Intent{ID: "k-1", Kind: control.IntentKick, By: "ann", RunID: s.RunID})
	})
	_, err := Run(t.Context(), w.o)
	wantError(t, err, "superloop run --loop l", "nothing that was recorded is lost")
	w.breaks("cooldown:remove", nil)
	if len(w.all("rate_limit_over")) != 0 || len(w.intents()) != 1 {
		t.Errorf("the wait is over: %v, the wishes are %v", w.names(), w.intents())
	}
	w.ends(w.run(t.Context()), loop.Completed, loop.ReasonPromiseKept)
	if f := w.one("rate_limit_over"); f["by"] != "ann" || len(w.intents()) != 0 {
		t.Errorf("rate_limit_over %v, the wishes are %v", f, w.intents())
	}
}

func TestALimitThatIsLiftedElsewhereEndsTheWait(t *testing.T) {
	t.Parallel()
	w := limited(t)
	w.when("rate_limit_wait", func(_ journal.Event, s loop.State) {
		account := agent.Account{Provider: s.Limit.Provider, ID: s.Limit.Account}
		if err := cooldown.New(durable.OS(), w.paths.Cooldowns()).Clear(account); err != nil {
			t.Error(err)
		}
	})
	w.ends(w.run(t.Context()), loop.Completed, loop.ReasonPromiseKept)
	if f := w.one("rate_limit_over"); f["reason"] != "cleared" || f["by"] != nil {
		t.Errorf("rate_limit_over %v", f)
	}
}
