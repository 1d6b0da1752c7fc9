package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/journal"
)

// failingEnv is a loop of one iteration that goes up every step of the failure policy: the
// planner dies of a lock that a listed command removes; the implementer fails with
// one runner, then with the other, superloop looks for its cause, and at last an operator
// has it.
func failingEnv(t *testing.T) *testEnv {
	n := newTestEnv(t, false)
	n.write("agent.sh", `cat > /dev/null
case $SUPERLOOP_ROLE in
planner)
	if [ -e .git/index.lock ]; then
		echo "fatal: Unable to create '$PWD/.git/index.lock': File exists." >&2
		exit 128
	fi
	echo r > "$SUPERLOOP_LOOP_DIR/plan.md" ;;
implementer)
	if [ ! -e "`+n.path("mended")+`" ]; then
		echo "panic: assignment to entry in nil map $1"
		exit 2
	fi
	echo r > "$SUPERLOOP_LOOP_DIR/implementer.md" ;;
reviewer) echo r > "$SUPERLOOP_LOOP_DIR/review.md"; echo x > made; echo '<promise>DONE</promise>' ;;
esac
`)
	lock, old := n.path("repo/.git/index.lock"), time.Now().Add(-time.Hour) // a young one may be somebody's
	n.write("repo/.git/index.lock", "")
	if err := os.Chtimes(lock, old, old); err != nil {
		t.Fatal(err)
	}
	n.write("repo/.superloop/config.json", fmt.Sprintf(`{
  "runners": {"one": {"command": ["sh", %[1]q, "of one"]}, "two": {"command": ["sh", %[1]q, "of two"]}},
  "recovery": {"auto_approve": ["rm -f .git/index.lock"], "cooldown_seconds": 0, "max_auto_recoveries_per_run": 9},
  "loops": [{"id": "l", "spec_file": ".superloop/specs/l.md", "completion_promise": "DONE", "completion": {"allow_ungated": true}, "max_iterations": 3, "retry": {"backoff_seconds": "10ms"},
    "roles": {"planner": {"runner": "one"}, "implementer": {"runners": ["one", "two"]}, "reviewer": {"runner": "two"}}}]
}`, n.path("agent.sh")))
	return n
}

// finishFailing runs until the loop is complete; when it asks an operator mends what is
// wrong and says so.
func (n *testEnv) finishFailing(what string) {
	n.t.Helper()
	for range 6 {
		code, out := n.superloop(nil, "run", "--exit-on-escalation")
		if code == exitOK {
			n.failingIsWhole(what, out)
			return
		}
		if code != exitHuman {
			n.t.Fatalf("%s: run gave %d\n%s", what, code, out)
		}
		if n.lastType() == "role_failure" {
			n.write("mended", "")
		} else if err := os.Remove(n.path("repo/.git/index.lock")); err != nil && !os.IsNotExist(err) { // the command that was under way is an operator's now
			n.t.Fatal(err)
		}
		if code, out := n.superloop(nil, "resolve-recovery", "--loop", "l", "--by", "eve", "--note", "mended"); code != exitOK {
			n.t.Fatalf("%s: resolve-recovery gave %d\n%s", what, code, out)
		}
	}
	n.t.Fatalf("%s: never completed", what)
}

// lastType is the type of the last question.
func (n *testEnv) lastType() string {
	n.t.Helper()
	last := ""
	for _, ev := range n.events() {
		fact, err := loop.DecodeFact(ev.Event, ev.Fields)
		if err != nil {
			n.t.Fatal(err)
		}
		if f, ok := fact.(loop.Escalated); ok {
			last = f.Type
		}
	}
	return last
}

// failingIsWhole: every attempt has one outcome, no step was left out or gone twice,
// and the journal is whole.
func (n *testEnv) failingIsWhole(what, out string) {
	n.t.Helper()
	rep, err := journal.Verify(n.path("repo/.superloop/loops/l/events.jsonl"))
	if err != nil || rep.FirstBad != nil {
		n.t.Fatalf("%s: the journal: %v %v", what, err, rep.FirstBad)
	}
	outcomes, good, bad := map[string]int{}, map[string]int{}, map[string]int{}
	for _, r := range n.roleEnds() {
		outcomes[fmt.Sprintf("%s/%d", r.Role, r.Attempt)]++
		switch r.Outcome {
		case loop.OutcomeOK:
			good[r.Role]++
		case loop.OutcomeInterrupted:
		default:
			bad[r.Role]++
		}
	}
	for key, count := range outcomes {
		if count != 1 {
			n.t.Fatalf("%s: attempt %s has %d outcomes", what, key, count)
		}
	}
	if good["planner"] != 1 || good["implementer"] != 1 || good["reviewer"] != 1 || n.count("iteration_start") != 1 {
		n.t.Fatalf("%s: %v good, %d iterations\n%s", what, good, n.count("iteration_start"), out)
	}
	if bad["planner"] != 1 || bad["implementer"] != 3 || n.count("failure_detected") != 4 {
		n.t.Fatalf("%s: %v failed, %d failures were detected\n%s\n%s", what, bad, n.count("failure_detected"), out, n.story())
	}
	if n.count("root_cause_analysed") < 2 || n.count("runner_reassigned") == 0 {
		n.t.Fatalf("%s: %d analyses, %d reassignments\n%s", what, n.count("root_cause_analysed"), n.count("runner_reassigned"), out)
	}
}

// story is the journal, an event a line: what led to a rare failure of these tests cannot be had again.
func (n *testEnv) story() string {
	n.t.Helper()
	var b strings.Builder
	for _, ev := range n.events() {
		fmt.Fprintf(&b, "%d %s %s %s\n", ev.Seq, ev.Timestamp.Format("15:04:05.000"), ev.Event, ev.Fields)
	}
	return b.String()
}

// TestKillInTheFailurePolicy kills the supervisor right before each event of a run that
// goes up every step of the failure policy: it always goes on to the same end.
func TestKillInTheFailurePolicy(t *testing.T) {
	t.Parallel()
	killBeforeEvents(t, testkit.Sample(140, 1, 1), 20, failingEnv, (*testEnv).finishFailing)
}
