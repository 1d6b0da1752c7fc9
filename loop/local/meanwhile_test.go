package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/control"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/recovery/preflight"
)

// untilTold is the end of an agent that runs until tell was called.
const untilTold = `
while [ ! -f "${0%/*}/told" ]; do sleep 0.01; done
` + agentDone

func (w *world) tell() { w.write("told", "") }

// What comes while a role runs is in the journal before the role ends.
func TestAProposalIsSeenWhileItsRoleRuns(t *testing.T) {
	t.Parallel()
	w := newBroken(t)
	w.agent(`case $SUPERLOOP_ROLE in tester) [ -f fixed ] || cp "${0%/*}/proposal.json" "$SUPERLOOP_LOOP_DIR/recovery.json" ;; esac
while [ ! -f "${0%/*}/told" ]; do sleep 0.01; done`)
	w.when("recovery_seen", func(journal.Event, loop.State) { w.tell() })
	w.run(t.Context())
	w.inOrder("role_start", "recovery_seen", "role_end", "recovery_escalated")
	if f := w.one("recovery_seen"); f["role"] != "tester" || f["command"] != "echo ran >> ran.txt && touch fixed" || f["verdict"] != "human" {
		t.Errorf("seen %v", f)
	}
}

func TestWhatIsSeenAndCannotBeRecordedIsSaid(t *testing.T) {
	t.Parallel()
	w := newBroken(t)
	w.agent(`cp "${0%/*}/proposal.json" "$SUPERLOOP_LOOP_DIR/recovery.json"` + untilTold)
	ctx, stop := context.WithCancel(t.Context())
	w.when("role_start", func(journal.Event, loop.State) {
		w.breaks("events:append", errBroken)
		go func() {
			for ctx.Err() == nil && !w.warned("a proposal was seen and could not be recorded yet") {
				pause()
			}
			w.breaks("events:append", nil)
			w.tell()
		}()
	})
	s := w.run(ctx)
	stop()
	if s.Human == nil || !w.warned("a proposal was seen and could not be recorded yet") {
		t.Errorf("%s: %v", s.Status, w.names())
	}
}

func TestAChangedConfigurationIsSeenWhileARoleRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, untilTold, ``)
	w.when("role_start", func(journal.Event, loop.State) { w.configure(`"max_iterations": 2`) })
	seen := w.on
	w.on = func(ev journal.Event, s loop.State) {
		seen(ev, s)
		if ev.Event == "config_reloaded" {
			w.tell()
		}
	}
	w.ends(w.run(t.Context()), loop.Completed, loop.ReasonPromiseKept)
	if f := w.one("config_reloaded"); f["during"] != "planner" {
		t.Errorf("config_reloaded %v", f)
	}
	if len(w.all("config_change_held")) != 0 {
		t.Error("a change that was taken up was held too")
	}
}

func TestAgentsCannotChangeTheConfigurationWhereTheSystemAllowsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `echo {} > "$SUPERLOOP_REPO/.superloop/config.json" && : > "${0%/*}/changed"; ls "$SUPERLOOP_LOOP_DIR" > "${0%/*}/list"; `+agentDone, ``)
	w.o.Unprotected = false
	w.ends(w.run(t.Context()), loop.Completed, loop.ReasonPromiseKept)
	protected := w.one("config_loaded")["protection"] != "none"
	if changed := exists(filepath.Join(w.top, "changed")); changed == protected {
		t.Errorf("the protection is %v, and the configuration was changed: %v", w.one("config_loaded"), changed)
	}
	if !exists(filepath.Join(w.top, "list")) {
		t.Error("no agent ran")
	}
}

// An operator who kicks a waiting loop has mended what it waits for.
func TestAKickClearsWhatSpeaksAgainstTheRunner(t *testing.T) {
	t.Parallel()
	for _, run := range []struct {
		id      string
		circuit failures.Circuit
	}{{"of this run", failures.Closed}, {"", failures.OpenCut}} {
		w := newWorld(t, failsOnce, `"retry": {"attempts": 3, "backoff_seconds": 3000}`)
		store := preflight.Store[failures.Health]{Disk: durable.OS(), Path: w.paths.Health()}
		who := failures.Agent{Runner: "sh"}
		w.when("role_retry_wait", func(_ journal.Event, s loop.State) {
			h, err := store.Load()
			if err == nil && len(h.Breakers) > 0 {
				who = h.Breakers[0].Agent
			}
			_, err = store.Update(t.Context(), func(h *failures.Health) bool {
				h.Breakers = []failures.Breaker{{Agent: who, Circuit: failures.OpenCut, Until: w.clock().Add(1e15), Why: "broken"}}
				return true
			})
			if err != nil {
				t.Error(err)
			}
			if run.id != "" {
				w.submit(control.Intent{ID: "k1", Kind: control.IntentKick, By: "bob", RunID: s.RunID, At: w.clock()})
			} else {
				w.submit(control.Intent{ID: "c1", Kind: control.IntentCancel, By: "bob", RunID: s.RunID, At: w.clock()})
			}
		})
		w.run(t.Context())
		h, err := store.Load()
		if err != nil || h.Of(who).Circuit != run.circuit {
			t.Errorf("kicked %q: %+v %v", run.id, h, err)
		}
	}
}

// loggedOut is a loop whose agent is logged out until the file in is there.
func loggedOut(t *testing.T) *world {
	t.Helper()
	w := limited(t)
	w.agent(`if [ ! -f "${0%/*}/in" ]; then
	echo '{"type":"system","subtype":"init","session_id":"s-1","model":"m"}'
	echo '{"type":"result","subtype":"success","is_error":true,"api_error_status":401,"result":"Invalid API key","session_id":"s-1","total_cost_usd":0,"usage":{"input_tokens":0,"output_tokens":0}}'
	exit 1
fi
echo '{"type":"system","subtype":"init","session_id":"s-2","model":"m"}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"<promise>DONE</promise>","session_id":"s-2","total_cost_usd":0,"usage":{"input_tokens":1,"output_tokens":1}}'`)
	w.o.ExitOnEscalation = true
	return w
}

func TestWhoStartsALoopAgainHasMendedTheLogin(t *testing.T) {
	t.Parallel()
	w := loggedOut(t)
	s := w.run(t.Context())
	if s.Human == nil || s.Human.Type != loop.EscalationRunner {
		t.Fatalf("%s: %+v", s.Status, s.Human)
	}
	if info, err := os.Stat(w.paths.Questions()); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the questions: %v %v", info, err)
	}
	// Not mended: it is tried once more, and asked again.
	again := w.run(t.Context())
	if again.Human == nil || len(w.all("role_start")) != 2 {
		t.Fatalf("%s, %d role runs", again.Status, len(w.all("role_start")))
	}
	w.write("in", "")
	w.ends(w.run(t.Context()), loop.Completed, loop.ReasonPromiseKept)
	for _, f := range w.all("recovery_resolved") {
		if f["by"] != "superloop run" || f["method"] != "manual" {
			t.Errorf("resolved %v", f)
		}
	}
	if known, err := filepath.Glob(filepath.Join(w.paths.Cooldowns(), "account-*")); err != nil || len(known) != 0 {
		t.Errorf("limits %v %v", known, err)
	}
}

func TestWhatFailsAtTheEndIsSaidAndTheEndStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, agentDone, ``)
	w.when("loop_complete", func(journal.Event, loop.State) { w.breaks("iteration_notes:write", errNoRoom) })
	s, err := Run(t.Context(), w.o)
	wantError(t, err, "superloop run --loop l")
	w.ends(s, loop.Completed, loop.ReasonPromiseKept)
}

func TestNothingBeginsWhereGitCannot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, agentDone, ``)
	w.write("repo/.git/config", "[")
	_, err := Run(t.Context(), w.o)
	wantError(t, err, "config --list")
	if exists(w.paths.Events()) && len(w.names()) != 0 {
		t.Errorf("it began: %v", w.names())
	}
}

// The performer of failures is told of the environment of the last success, and of that now.
func TestTheEnvironmentOfTheLastSuccess(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `echo nothing`, `"max_iterations": 1`)
	w.ends(w.run(t.Context()), loop.LimitReached, loop.ReasonMaxIterations)
	w.pass(3600e9)
	d, err := open(t.Context(), w.o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	if err := d.fold(); err != nil {
		t.Fatal(err)
	}
	d.life = t.Context()
	d.equip()
	was, now := d.snapshots.Environment(d.state)
	if was.At.IsZero() || !now.At.After(was.At) {
		t.Errorf("was %+v, is %+v", was, now)
	}
	if file := d.host.RoleFiles(d.state.Iteration, "planner", 1).Log; filepath.Base(file) != "planner.log" || !exists(file) {
		t.Errorf("the log of the planner is %q", file)
	}
	if err := os.WriteFile(d.snapshots.Store().Path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if was, now = d.snapshots.Environment(d.state); !was.At.IsZero() || now.At.IsZero() || !w.warned("the environment of the last success cannot be read") {
		t.Errorf("was %+v, is %+v", was, now)
	}
}

func TestAJournalThatIsDamagedGivesWhatStandsBefore(t *testing.T) {
	t.Parallel()
	w := paused(t)
	data, err := os.ReadFile(w.paths.Events())
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(data), "\n")
	if err := os.WriteFile(w.paths.Events(), []byte(lines[0]+"garbage\n"+lines[2]), 0o644); err != nil {
		t.Fatal(err)
	}
	fold, err := Fold(w.paths.Events())
	wantError(t, err, "reading", "events.jsonl")
	if fold == nil || fold.Events != 1 || fold.State.RunID == "" {
		t.Errorf("it gives %s", fmt.Sprint(fold))
	}
}
