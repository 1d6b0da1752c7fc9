package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/layout"
)

// askingEnv is a brokenEnv whose command only an operator may approve.
func askingEnv(t *testing.T) *testEnv {
	n := brokenEnv(t)
	data, err := os.ReadFile(n.path("repo/.superloop/config.json"))
	if err != nil {
		t.Fatal(err)
	}
	n.write("repo/.superloop/config.json", strings.Replace(string(data), `["echo ran >> ran.txt && touch fixed"]`, `[]`, 1))
	return n
}

// question is the record of what the loop asks.
func (n *testEnv) question() escalation.Record {
	n.t.Helper()
	paths, err := layout.NewPaths(n.path("repo"), "l", n.path("state"))
	if err != nil {
		n.t.Fatal(err)
	}
	rec, err := escalation.Store{Disk: durable.OS(), Dir: paths.Questions(), Loop: "l"}.Load()
	if err != nil {
		n.t.Fatal(err)
	}
	return rec
}

// ask runs the loop to its question.
func (n *testEnv) ask(env ...string) {
	n.t.Helper()
	if code, out := n.superloop(env, "run", "--exit-on-escalation"); code != exitHuman {
		n.t.Fatalf("run gave %d\n%s", code, out)
	}
}

// asked waits for the question that the journal tells of already.
func (n *testEnv) asked() escalation.Record {
	n.t.Helper()
	if code, out := n.superloop(nil, "approve-recovery", "--digest", "00000000"); code != exitNothing { // it waits for the record
		n.t.Fatalf("approving another question gave %d\n%s", code, out)
	}
	return n.question()
}

// follow waits for an event of the loop.
func (n *testEnv) follow(event string) {
	n.t.Helper()
	err := journal.Follow(n.t.Context(), n.path("repo/.superloop/loops/l/events.jsonl"), 0, func(ev journal.Event) error {
		if ev.Event == event {
			return journal.ErrStop
		}
		return nil
	})
	if err != nil {
		n.t.Fatal(err)
	}
}

// TestFiftyAnswers has fifty processes answer one question of a living supervisor
// at the same time: one answer counts, the command runs as often as that says, and
// everybody else is told whose it was.
func TestFiftyAnswers(t *testing.T) {
	t.Parallel()
	for name, verbs := range map[string][]string{
		"approvals": {"approve-recovery"}, "all three": {"approve-recovery", "reject-recovery", "resolve-recovery"}} {
		t.Run(name, func(t *testing.T) {
			n := askingEnv(t)
			run := exec.Command(n.path("bin/superloop"), "run")
			run.Dir, run.Env = n.path("repo"), n.env
			n.mkdir("repo/.superloop/loops/l")
			n.write("repo/.superloop/loops/l/events.jsonl", "")
			if err := run.Start(); err != nil {
				t.Fatal(err)
			}
			n.follow("recovery_escalated")
			digest := n.asked().Digest
			const people = 50
			var said [people]bytes.Buffer
			var all [people]*exec.Cmd
			for i := range people {
				cmd := exec.Command(n.path("bin/superloop"), verbs[i%len(verbs)], "--digest", digest, "--by", fmt.Sprintf("person-%d", i))
				cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = n.path("repo"), n.env, &said[i], &said[i]
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				all[i] = cmd
			}
			winner := -1
			for i, cmd := range all {
				var exit *exec.ExitError
				if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
					t.Fatal(err)
				}
				switch code := cmd.ProcessState.ExitCode(); {
				case code == exitOK && winner >= 0:
					t.Errorf("persons %d and %d both have decided", winner, i)
				case code == exitOK:
					winner = i
				case code != exitNothing:
					t.Errorf("person %d got %d: %s", i, code, said[i].String())
				}
			}
			if winner < 0 {
				t.Fatal("nobody has decided")
			}
			verb := strings.TrimSuffix(verbs[winner%len(verbs)], "-recovery")
			first := fmt.Sprintf("already decided: %s by cli:person-%d ", verb, winner)
			for i := range said {
				if i != winner && !strings.Contains(said[i].String(), first) {
					t.Errorf("person %d does not hear that person %d was first: %s", i, winner, said[i].String())
				}
			}
			n.decided(run, verb, fmt.Sprintf("cli:person-%d ", winner))
		})
	}
}

// decided wants that the loop did what that one operator said, and nothing else.
func (n *testEnv) decided(run *exec.Cmd, verb, by string) {
	n.t.Helper()
	want := 0
	if verb == "approve" {
		want = 1
		if err := run.Wait(); err != nil {
			n.t.Errorf("the run: %v", err)
		}
	} else { // the loop goes on, and may ask something else
		n.follow("recovery_resolved")
		_ = run.Process.Kill()
		_ = run.Wait() // it was killed
	}
	ids, _ := n.executions()
	if n.ran() != want || len(ids) != want {
		n.t.Errorf("%s: the command ran %d times, was begun %d times", verb, n.ran(), len(ids))
	}
	resolved := 0
	for _, ev := range n.events() {
		if ev.Event == "recovery_resolved" {
			resolved++
			if !strings.Contains(string(ev.Fields), by) {
				n.t.Errorf("the answer is %s, not that of %s", ev.Fields, by)
			}
		}
	}
	if resolved != 1 {
		n.t.Errorf("%d answers are in the journal", resolved)
	}
}

// finishAsked runs until the loop is complete and approves whenever it asks. The
// command runs at most once for each approval, and what was begun and has no
// outcome is asked about before it runs again.
func (n *testEnv) finishAsked(what string, approvals int) {
	n.t.Helper()
	answered := ""
	for range 5 {
		ids, outcomes := n.executions()
		before, last := n.ran(), ""
		if len(ids) > 0 {
			last = ids[len(ids)-1]
		}
		open := last != answered && outcomes[last] == 0
		code, out := n.superloop(nil, "run", "--exit-on-escalation")
		switch {
		case n.ran() > approvals:
			n.t.Fatalf("%s: the command ran %d times with %d approvals\n%s", what, n.ran(), approvals, out)
		case open && (code != exitHuman || n.ran() != before):
			n.t.Fatalf("%s: the command was begun, how it ended is not known; run gave %d, it ran %d times and %d before\n%s", what, code, n.ran(), before, out)
		case code == exitOK:
			n.checkAsked(what, approvals)
			return
		case code != exitHuman:
			n.t.Fatalf("%s: run gave %d\n%s", what, code, out)
		}
		if rec := n.question(); rec.State != escalation.Pending {
			n.t.Fatalf("%s: the loop waits and its question is %s\n%s", what, rec.State, out)
		}
		if code, out := n.superloop(nil, "approve-recovery", "--by", "eve"); code != exitOK {
			n.t.Fatalf("%s: approve-recovery gave %d\n%s", what, code, out)
		}
		approvals++
		if ids, _ = n.executions(); len(ids) > 0 {
			answered = ids[len(ids)-1]
		}
	}
	n.t.Fatalf("%s: never completed", what)
}

func (n *testEnv) checkAsked(what string, approvals int) {
	n.t.Helper()
	rep, err := journal.Verify(n.path("repo/.superloop/loops/l/events.jsonl"))
	if err != nil || rep.FirstBad != nil {
		n.t.Fatalf("%s: the journal: %v %v", what, err, rep.FirstBad)
	}
	ids, outcomes := n.executions()
	if ran := n.ran(); ran < 1 || ran > len(ids) || len(ids) > approvals {
		n.t.Fatalf("%s: the command ran %d times, was begun %d times, approved %d times", what, ran, len(ids), approvals)
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
	if rec := n.question(); rec.State != escalation.Done {
		n.t.Fatalf("%s: the question is %s in the end", what, rec.State)
	}
}

// TestKillInAnApprovedRecovery kills the supervisor right before each event: of the
// run that comes to the question, and of the run that takes the approval up; and at
// each physical step of the question's record.
func TestKillInAnApprovedRecovery(t *testing.T) {
	t.Parallel()
	steps := func(n *testEnv, code int) []string {
		list := n.path("steps")
		if got, out := n.superloop([]string{"SUPERLOOP_TEST_STEPS=" + list}, "run", "--exit-on-escalation"); got != code {
			t.Fatalf("undisturbed run gave %d, want %d\n%s", got, code, out)
		}
		data, err := os.ReadFile(list)
		if err == nil {
			err = os.Remove(list)
		}
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(data))
	}
	approve := func(n *testEnv) {
		t.Helper()
		if code, out := n.superloop(nil, "approve-recovery", "--by", "eve"); code != exitOK {
			t.Fatalf("approve-recovery gave %d\n%s", code, out)
		}
	}
	n := askingEnv(t)
	asking := steps(n, exitHuman)
	approve(n)
	approved := steps(n, exitOK)
	n.checkAsked("undisturbed", 1)

	for k := range faults(asking) {
		n := askingEnv(t)
		n.superloop([]string{"SUPERLOOP_TEST_FAULT=" + k + "=kill"}, "run", "--exit-on-escalation")
		if n.ran() != 0 {
			t.Fatalf("asking, killed at %s: the command ran", k)
		}
		n.finishAsked("asking, killed at "+k, 0)
	}
	for k := range faults(approved) {
		n := askingEnv(t)
		n.ask()
		approve(n)
		n.superloop([]string{"SUPERLOOP_TEST_FAULT=" + k + "=kill"}, "run", "--exit-on-escalation")
		n.finishAsked("approved, killed at "+k, 1)
	}
}

// faults are the places at which to kill: the writes of events, the renames of the
// question's record, and others; all of them if the slow tests are asked for, else a
// sample.
func faults(steps []string) map[string]bool {
	out, seen := map[string]bool{}, map[string]int{}
	for i, s := range steps {
		seen[s]++
		if s == "escalation:rename" && seen[s]%testkit.Sample(3, 1, 1) == 0 || s == "events:append" && seen[s]%testkit.Sample(38, 1, 1) == 0 || i%testkit.Sample(900, 9, 1) == 0 {
			out[fmt.Sprintf("%s@%d", s, seen[s])] = true
		}
	}
	return out
}
