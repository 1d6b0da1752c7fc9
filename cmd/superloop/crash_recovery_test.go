package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/local"
)

// brokenEnv is a loop whose tests fail until a command has run that nobody has
// to approve, and that leaves a line in ran.txt each time it runs.
func brokenEnv(t *testing.T) *testEnv {
	n := newTestEnv(t, false)
	n.write("proposal.json", `{"version": 1, "timestamp": "2026-01-23T05:36:33Z", "category": "dependency", "severity": "blocking",
  "diagnosis": {"error_pattern": "x", "root_cause": "it is broken", "evidence": ["test-output.txt:1: x"]},
  "recovery": {"command": "echo ran >> ran.txt && touch fixed", "expected_outcome": "it works", "confidence": "high"}}`)
	n.write("agent.sh", `cat > /dev/null
echo x > made
case $SUPERLOOP_ROLE in planner) f=plan.md ;; implementer) f=implementer.md ;; tester) f=test-report.md ;; *) f=review.md ;; esac
echo "$SUPERLOOP_ROLE $(date +%s%N)" > "$SUPERLOOP_LOOP_DIR/$f"
case $SUPERLOOP_ROLE in
tester) [ -f fixed ] || cp "`+n.path("proposal.json")+`" "$SUPERLOOP_LOOP_DIR/recovery.json" ;;
reviewer) [ ! -f fixed ] || echo '<promise>DONE</promise>' ;;
esac
`)
	n.write("repo/.superloop/config.json", fmt.Sprintf(`{
  "runners": {"sh": {"command": ["sh", %q]}},
  "recovery": {"first_aid": false, "auto_approve": ["echo ran >> ran.txt && touch fixed"], "cooldown_seconds": 0, "max_auto_recoveries_per_run": 9},
  "loops": [{"id": "l", "spec_file": ".superloop/specs/l.md", "completion_promise": "DONE", "max_iterations": 6,
    "roles": ["tester", "reviewer"], "tests": {"commands": ["test -f fixed"]}}]
}`, n.path("agent.sh")))
	return n
}

// ran is how often the command ran.
func (n *testEnv) ran() int {
	data, err := os.ReadFile(n.path("repo/ran.txt"))
	if err != nil && !os.IsNotExist(err) {
		n.t.Fatal(err)
	}
	return strings.Count(string(data), "ran\n")
}

// executions are the ids of the commands that were about to be started, and how
// many outcomes each has.
func (n *testEnv) executions() (ids []string, outcomes map[string]int) {
	n.t.Helper()
	outcomes = map[string]int{}
	if _, err := os.Stat(n.path("repo/.superloop/loops/l/events.jsonl")); os.IsNotExist(err) {
		return nil, outcomes
	}
	for _, ev := range n.events() {
		fact, err := loop.DecodeFact(ev.Event, ev.Fields)
		if err != nil {
			n.t.Fatal(err)
		}
		switch f := fact.(type) {
		case loop.Executing:
			ids = append(ids, f.ID)
		case loop.Executed:
			outcomes[f.ID]++
		}
	}
	return ids, outcomes
}

// finishBroken runs until the loop is complete and answers when it asks. What was
// begun and has no outcome must be a question, and must not run again.
func (n *testEnv) finishBroken(what string) {
	n.t.Helper()
	answered := ""
	for range 5 {
		ids, outcomes := n.executions()
		before := n.ran()
		last := ""
		if len(ids) > 0 {
			last = ids[len(ids)-1]
		}
		open := last != answered && outcomes[last] == 0
		code, out := n.superloop(nil, "run", "--exit-on-escalation")
		switch {
		case open && code != exitHuman:
			n.t.Fatalf("%s: the command was begun, how it ended is not known, and run gave %d\n%s", what, code, out)
		case open && n.ran() != before:
			n.t.Fatalf("%s: the command was run again by itself, %d times in all\n%s", what, n.ran(), out)
		case code == exitOK:
			n.checkBroken(what)
			return
		case code != exitHuman:
			n.t.Fatalf("%s: run gave %d\n%s", what, code, out)
		}
		n.asksOfInterrupted(what, out)
		if code, out := n.superloop(nil, "kick", "--by", "eve"); code != exitOK {
			n.t.Fatalf("%s: kick gave %d\n%s", what, code, out)
		}
		if ids, _ = n.executions(); len(ids) > 0 {
			answered = ids[len(ids)-1]
		}
	}
	n.t.Fatalf("%s: never completed", what)
}

// asksOfInterrupted wants that the loop waits because of a command that nobody
// knows the end of, or that could not be started.
func (n *testEnv) asksOfInterrupted(what, out string) {
	n.t.Helper()
	all := n.events()
	i := slices.IndexFunc(all, func(ev journal.Event) bool { return ev.Event == "recovery_escalated" })
	if i < 0 || !strings.Contains(string(all[i].Fields), `"type":"recovery_failed"`) {
		n.t.Fatalf("%s: it waits for something else\n%s", what, out)
	}
}

// checkBroken asserts ranAsRecorded, and that the loop has completed.
func (n *testEnv) checkBroken(what string) {
	n.t.Helper()
	n.ranAsRecorded(what, 1)
	replay, err := local.Fold(n.path("repo/.superloop/loops/l/events.jsonl"))
	if err != nil {
		n.t.Fatal(err)
	}
	ids, _ := n.executions()
	s := replay.State
	if s.Status != loop.Completed || s.Recoveries.Used != len(ids) || s.Recovery != nil || s.Human != nil {
		n.t.Fatalf("%s: %s, %d recoveries used of %d begun, %+v", what, s.Status, s.Recoveries.Used, len(ids), s.Recovery)
	}
}

// ranAsRecorded asserts that the command ran at most once each time that it was
// recorded that it would, and at least so many times, and that its proposal was taken.
func (n *testEnv) ranAsRecorded(what string, least int) {
	n.t.Helper()
	rep, err := journal.Verify(n.path("repo/.superloop/loops/l/events.jsonl"))
	if err != nil || rep.FirstBad != nil {
		n.t.Fatalf("%s: the journal: %v %v", what, err, rep.FirstBad)
	}
	ids, outcomes := n.executions()
	if ran := n.ran(); ran < least || ran > len(ids) {
		n.t.Fatalf("%s: the command ran %d times, and %d times it was recorded that it would", what, ran, len(ids))
	}
	slices.Sort(ids)
	if len(slices.Compact(slices.Clone(ids))) != len(ids) {
		n.t.Fatalf("%s: an execution was begun twice: %v", what, ids)
	}
	for id, count := range outcomes {
		if count != 1 || !slices.Contains(ids, id) {
			n.t.Fatalf("%s: execution %s has %d outcomes", what, id, count)
		}
	}
	if _, err := os.Stat(n.path("repo/.superloop/loops/l/recovery.json")); err == nil {
		n.t.Fatalf("%s: the proposal lies there still", what)
	}
}

// remediationEnv is a brokenEnv in which no role proposes anything: rules know the
// remedy, and the remedy of the remedy.
func remediationEnv(t *testing.T) *testEnv {
	n := brokenEnv(t)
	n.write("agent.sh", `cat > /dev/null
echo x > made
case $SUPERLOOP_ROLE in planner) f=plan.md ;; implementer) f=implementer.md ;; tester) f=test-report.md ;; *) f=review.md ;; esac
echo "$SUPERLOOP_ROLE $(date +%s%N)" > "$SUPERLOOP_LOOP_DIR/$f"
[ "$SUPERLOOP_ROLE" != reviewer ] || [ ! -f fixed ] || echo '<promise>DONE</promise>'
`)
	n.write("repo/locked", "")
	n.write("repo/check", "[ -f fixed ] || { echo 'mytool: it is broken'; exit 1; }\n")
	n.write("repo/cure", "[ ! -f locked ] || { echo 'mytool: it is locked'; exit 1; }\necho ran >> ran.txt\ntouch fixed\n")
	n.mkdir(".config/superloop/recovery")
	n.write(".config/superloop/recovery/own.yaml", `layer: infra
handlers:
  - {id: own_broken, label: Broken, description: It is broken., category: environment, match: {any: ['^mytool: it is broken']},
     options: [{id: fix, label: Fix it, strategy: env_fix, recommended: true, confidence: 0.9, commands: [[sh, cure]]}]}
  - {id: own_locked, label: Locked, description: It is locked., category: environment, match: {any: ['^mytool: it is locked']},
     options: [{id: unlock, label: Unlock it, strategy: env_fix, recommended: true, confidence: 0.9, commands: [[rm, -f, locked]]}]}
`)
	n.write("repo/.superloop/config.json", fmt.Sprintf(`{
  "runners": {"sh": {"command": ["sh", %q]}},
  "recovery": {"auto_approve": ["sh cure", "rm -f locked"], "max_auto_recoveries_per_run": 20, "cooldown_seconds": 1},
  "loops": [{"id": "l", "spec_file": ".superloop/specs/l.md", "completion_promise": "DONE", "max_iterations": 6,
    "roles": ["tester", "reviewer"], "tests": {"commands": ["sh check"]}}]
}`, n.path("agent.sh")))
	return n
}

// brokenSteps are the names of every physical step of an undisturbed recovery.
func brokenSteps(t *testing.T, testEnv func(*testing.T) *testEnv) []string {
	n := testEnv(t)
	list := n.path("steps")
	if code, out := n.superloop([]string{"SUPERLOOP_TEST_STEPS=" + list}, "run", "--exit-on-escalation"); code != exitOK {
		t.Fatalf("the undisturbed run gave %d\n%s", code, out)
	}
	n.checkBroken("undisturbed")
	if n.ran() != 1 {
		t.Fatalf("undisturbed the command ran %d times", n.ran())
	}
	data, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(data))
}

// TestKillInARecovery kills the supervisor right before each event of a run with
// an automatic recovery, and right before every physical step, and runs it again:
// a sample of them unless the slow tests are asked for.
func TestKillInARecovery(t *testing.T) {
	t.Parallel()
	killThroughout(t, brokenEnv)
}

// TestKillInRemediation does the same while rules remediate: three commands on two
// levels.
func TestKillInRemediation(t *testing.T) {
	t.Parallel()
	killThroughout(t, remediationEnv)
}

func killThroughout(t *testing.T, testEnv func(*testing.T) *testEnv) {
	all := brokenSteps(t, testEnv)
	appends := 0
	for _, s := range all {
		if s == "events:append" {
			appends++
		}
	}
	if appends < 12 {
		t.Fatalf("only %d writes of events", appends)
	}
	kill := func(fault, what string) {
		n := testEnv(t)
		// Writes in the background move by a few steps from night to night, so the
		// last ones may not come.
		n.superloop([]string{"SUPERLOOP_TEST_FAULT=" + fault + "=kill"}, "run", "--exit-on-escalation")
		n.finishBroken(what)
	}
	for k := 1; k <= appends; k += testkit.Sample(120, 1, 1) {
		kill(fmt.Sprintf("events:append@%d", k), fmt.Sprintf("killed before write %d of events", k))
	}
	for k := 1; k <= len(all); k += testkit.Sample(len(all), 9, 1) {
		kill(fmt.Sprintf("*@%d", k), fmt.Sprintf("killed at step %d, %s", k, all[k-1]))
	}
}

// TestKillWhileACommandRuns: the command dies with its supervisor, and the next
// run asks instead of running it again.
func TestKillWhileACommandRuns(t *testing.T) {
	t.Parallel()
	n := brokenEnv(t)
	const quick, slow = "echo ran >> ran.txt && touch fixed", "echo ran >> ran.txt; sleep 1000; touch fixed"
	for _, file := range []string{"repo/.superloop/config.json", "proposal.json"} {
		data, err := os.ReadFile(n.path(file))
		if err != nil {
			t.Fatal(err)
		}
		n.write(file, strings.ReplaceAll(string(data), quick, slow))
	}
	p := exec.Command(n.path("bin/superloop"), "run")
	p.Dir, p.Env = n.path("repo"), n.env
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	err := journal.Follow(t.Context(), n.path("repo/.superloop/loops/l/events.jsonl"), 0, func(ev journal.Event) error {
		if ev.Event == "recovery_executing" {
			return journal.ErrStop
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait() // it was killed
	before := 0
	for range 2 {
		code, out := n.superloop(nil, "run", "--exit-on-escalation")
		if code != exitHuman {
			t.Fatalf("run gave %d\n%s", code, out)
		}
		n.asksOfInterrupted("killed while the command ran", out)
		if before = max(before, n.ran()); before > 1 {
			t.Fatalf("the command ran %d times", before)
		}
	}
	n.write("repo/fixed", "")
	if code, out := n.superloop(nil, "kick"); code != exitOK {
		t.Fatalf("kick gave %d\n%s", code, out)
	}
	if code, out := n.superloop(nil, "run", "--exit-on-escalation"); code != exitOK {
		t.Fatalf("run gave %d\n%s", code, out)
	}
}

// TestFullDiskInARecovery fails every operation of a run with a recovery, by its
// name, with no space, an I/O error and a short write: it says so, and goes on
// when the disk is well again without running anything twice.
func TestFullDiskInARecovery(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, step := range brokenSteps(t, brokenEnv) {
		if seen[step] {
			continue
		}
		seen[step] = true
		own := strings.HasPrefix(step, "events:") || strings.HasPrefix(step, "proposal") || strings.HasPrefix(step, "recovery") || strings.HasPrefix(step, "undo")
		for _, what := range []string{"enospc", "eio", "short"} {
			if n := testkit.Sample(32, 1, 1); what != "enospc" && !(own && slow()) || !own && !slow() || len(seen)%n != 0 {
				continue
			}
			n := brokenEnv(t)
			name := step + "=" + what
			code, out := n.superloop([]string{"SUPERLOOP_TEST_FAULT=" + step + "@+=" + what}, "run", "--exit-on-escalation")
			if code != exitOK && code != exitHuman && !strings.Contains(out, "no space left") && !strings.Contains(out, "input/output error") {
				t.Fatalf("%s: exit %d without saying why\n%s", name, code, out)
			}
			if strings.Contains(out, "panic") || strings.Contains(out, "goroutine ") {
				t.Fatalf("%s: %s", name, out)
			}
			n.finishBroken("after " + name)
		}
	}
	if len(seen) < 20 {
		t.Fatalf("only %d operations were seen", len(seen))
	}
}
