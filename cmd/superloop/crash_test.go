package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/journal"
)

// night is a repository with a loop of three iterations, and the program as a
// real process.
type testEnv struct {
	t    testing.TB
	root string // repo/, state/, bin/superloop
	env  []string
	told atomic.Value // what the implementer's model was last sent, where the model is played by askingOf
}

// threeIterations promises in its third iteration; every iteration changes a
// file, so there is something to commit.
const threeIterations = `{
  "version": 1,
  "turns": [
    {"role": "implementer", "steps": [
      {"write": {"path": "work-{iteration}.txt", "content": "done in {iteration}\n"}}, {"report": "wrote"}, {"last_message": "wrote"}]},
    {"role": "reviewer", "iteration": 3, "steps": [
      {"report": "fine"}, {"last_message": "<commit>Third\n\nAll is there.</commit> <promise>ALL DONE</promise>"}]}
  ],
  "default": [{"report": "{role} {iteration}"}, {"last_message": "{role} says nothing"}]
}`

func newTestEnv(t testing.TB, approval bool) *testEnv {
	t.Helper()
	return newTestEnvAt(t, t.TempDir(), approval)
}

func newTestEnvAt(t testing.TB, root string, approval bool) *testEnv {
	t.Helper()
	n := &testEnv{t: t, root: root}
	// Each iteration seals the journal, so that the sweeps meet every step of it, and all that comes after it.
	n.env = append(os.Environ(), "SUPERLOOP_TEST_SEAL=1", "XDG_STATE_HOME="+filepath.Join(root, "state"), "HOME="+root,
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.invalid",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.invalid")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	n.mkdir("bin")
	n.mkdir("repo/.superloop/specs")
	if err := os.Symlink(exe, n.path("bin/superloop")); err != nil {
		t.Fatal(err)
	}
	n.write("scenario.json", threeIterations)
	n.write("repo/.superloop/specs/l.md", "# Do it\n\n- [x] done\n")
	n.write("repo/.superloop/config.json", fmt.Sprintf(`{
  "runners": {"scripted": {"command": [%q, "__agent", %q], "args": []}},
  "loops": [{
    "id": "l", "spec_file": ".superloop/specs/l.md", "max_iterations": 6, "completion_promise": "ALL DONE",
    "checklists": [".superloop/specs/l.md"], "tests": {"mode": "every", "commands": ["test -f work-1.txt"]},
    "evidence": {"enabled": true, "require_on_completion": true, "artifacts": ["work-1.txt"]},
    "approval": {"enabled": %v, "require_on_completion": true},
    "reviewer_packet": {"enabled": true}, "stuck": {"enabled": true, "threshold": 2},
    "git": {"commit_strategy": "per_iteration"}, "roles": ["planner", "implementer", "tester", "reviewer"]
  }]
}`, n.path("bin/superloop"), n.path("scenario.json"), approval))
	n.git("init", "-q", "--template=") // without the samples of hooks: twenty files
	n.git("commit", "-q", "--allow-empty", "-m", "start")
	return n
}

func (n *testEnv) path(rel string) string { return filepath.Join(n.root, rel) }

func (n *testEnv) mkdir(rel string) {
	n.t.Helper()
	if err := os.MkdirAll(n.path(rel), 0o755); err != nil {
		n.t.Fatal(err)
	}
}

func (n *testEnv) write(rel, text string) {
	n.t.Helper()
	if err := os.WriteFile(n.path(rel), []byte(text), 0o644); err != nil {
		n.t.Fatal(err)
	}
}

func (n *testEnv) git(args ...string) string {
	n.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = n.path("repo"), n.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		n.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// superloop runs the program; env is added to its environment.
func (n *testEnv) superloop(env []string, args ...string) (code int, output string) {
	n.t.Helper()
	cmd := exec.Command(n.path("bin/superloop"), args...)
	cmd.Dir, cmd.Env = n.path("repo"), append(append([]string{}, n.env...), env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		n.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

func (n *testEnv) events() []journal.Event {
	n.t.Helper()
	var all []journal.Event
	err := journal.Read(n.path("repo/.superloop/loops/l/events.jsonl"), 0, func(ev journal.Event) error {
		all = append(all, ev)
		return nil
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return all
}

// check asserts that the night ended as an undisturbed one does.
func (n *testEnv) check(what string) {
	n.t.Helper()
	rep, err := journal.Verify(n.path("repo/.superloop/loops/l/events.jsonl"))
	if err != nil || rep.FirstBad != nil {
		n.t.Fatalf("%s: the journal: %v %v", what, err, rep.FirstBad)
	}
	var v loop.View
	data, err := os.ReadFile(n.path("repo/.superloop/loops/l/state.json"))
	if err == nil {
		err = json.Unmarshal(data, &v)
	}
	if err != nil || v.Status != loop.Completed || v.Iteration != 3 || v.Gates.Promise != "true" || v.Gates.Tests != "ok" ||
		v.Seq != rep.LastSeq || v.Stuck.Count != 0 {
		n.t.Fatalf("%s: state.json %s (%v), last seq %d", what, data, err, rep.LastSeq)
	}
	outcomes, good := map[string]int{}, map[string]int{}
	once := map[string]int{}
	for _, ev := range n.events() {
		fact, err := loop.DecodeFact(ev.Event, ev.Fields)
		if err != nil {
			n.t.Fatal(err)
		}
		if r, ok := fact.(loop.RoleEnded); ok {
			outcomes[fmt.Sprintf("%d/%s/%d", ev.Iteration, r.Role, r.Attempt)]++
			if r.Outcome == loop.OutcomeOK {
				good[fmt.Sprintf("%d/%s", ev.Iteration, r.Role)]++
			}
		}
		switch ev.Event {
		case "iteration_start", "iteration_end", "gates_evaluated", "loop_complete", "approval_decided":
			once[fmt.Sprintf("%s/%d", ev.Event, ev.Iteration)]++
		}
	}
	for key, count := range outcomes {
		if count != 1 {
			n.t.Fatalf("%s: attempt %s has %d outcomes", what, key, count)
		}
	}
	for key, count := range once {
		if count != 1 {
			n.t.Fatalf("%s: %s is in the journal %d times", what, key, count)
		}
	}
	for i := 1; i <= 3; i++ {
		for _, role := range []string{"planner", "implementer", "tester", "reviewer"} {
			if good[fmt.Sprintf("%d/%s", i, role)] != 1 {
				n.t.Fatalf("%s: %s succeeded %d times in iteration %d", what, role, good[fmt.Sprintf("%d/%s", i, role)], i)
			}
		}
		if once[fmt.Sprintf("iteration_end/%d", i)] != 1 {
			n.t.Fatalf("%s: no iteration_end for %d", what, i)
		}
		want := fmt.Sprintf("Superloop-Iteration: %d", i)
		if got := strings.Count(n.git("log", "--format=%B"), want); got != 1 {
			n.t.Fatalf("%s: %d commits of iteration %d", what, got, i)
		}
	}
	if dirty := n.git("status", "--porcelain", "--", ":!.superloop"); dirty != "" {
		n.t.Fatalf("%s: left uncommitted: %s", what, dirty)
	}
	for _, file := range []string{"timeline.md", "run-summary.json"} {
		data, err := os.ReadFile(n.path("repo/.superloop/loops/l/" + file))
		if err != nil {
			n.t.Fatalf("%s: %v", what, err)
		}
		if file == "timeline.md" && strings.Count(string(data), " iter=") != 3 {
			n.t.Fatalf("%s: timeline:\n%s", what, data)
		}
	}
	var sum struct{ Entries []struct{ Iteration int } }
	data, _ = os.ReadFile(n.path("repo/.superloop/loops/l/run-summary.json"))
	if err := json.Unmarshal(data, &sum); err != nil || len(sum.Entries) != 3 {
		n.t.Fatalf("%s: run-summary.json has %d entries (%v)", what, len(sum.Entries), err)
	}
}

// finish runs until the loop is complete, giving the approval when it is asked.
func (n *testEnv) finish(what string, approval bool) {
	n.t.Helper()
	for range 4 {
		code, out := n.superloop(nil, "run", "--unprotected", "--exit-on-escalation")
		switch {
		case code == exitOK:
			n.check(what)
			return
		case code == exitHuman && approval:
			if code, out := n.superloop(nil, "approve", "--by", "eve"); code != exitOK && code != exitNothing {
				n.t.Fatalf("%s: approve gave %d\n%s", what, code, out)
			}
		default:
			n.t.Fatalf("%s: run gave %d\n%s", what, code, out)
		}
	}
	n.t.Fatalf("%s: never completed", what)
}

// steps are the names of every physical step of an undisturbed night.
func steps(t *testing.T, approval bool) []string {
	n := newTestEnv(t, approval)
	list := n.path("steps")
	code, out := n.superloop([]string{"SUPERLOOP_TEST_STEPS=" + list}, "run", "--unprotected", "--exit-on-escalation")
	if approval && code == exitHuman || !approval && code == exitOK {
		data, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		n.finish("undisturbed", approval)
		return strings.Fields(string(data))
	}
	t.Fatalf("the undisturbed run gave %d\n%s", code, out)
	return nil
}

// killBeforeEvents kills a supervisor right before each step-th write of events of a
// run that may leave with a question, and has it finished; there are at least so many
// writes.
func killBeforeEvents(t *testing.T, step, least int, make func(*testing.T) *testEnv, finish func(*testEnv, string)) {
	t.Helper()
	finish(make(t), "undisturbed")
	for k := 1; ; k += step {
		n := make(t)
		code, _ := n.superloop([]string{fmt.Sprintf("SUPERLOOP_TEST_FAULT=events:append@%d=kill", k)}, "run", "--exit-on-escalation")
		finish(n, fmt.Sprintf("killed before write %d of events", k))
		if code != -1 { // it came to its end before that write
			if k < least {
				t.Fatalf("only %d writes of events", k)
			}
			return
		}
	}
}

// slow reports whether the long sweeps are asked for; .ci/run does.
func slow() bool { return testkit.Sample(0, 1, 1) > 0 }

// TestKillAtEveryRecordedStep kills the supervisor with SIGKILL right before
// each event is written, one night each, and runs it again: the same end, no
// attempt with two outcomes, no commit twice.
func TestKillAtEveryRecordedStep(t *testing.T) {
	for name, approval := range map[string]bool{"three iterations": false, "waiting for approval": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := steps(t, approval)
			appends := 0
			for _, s := range all {
				if s == "events:append" {
					appends++
				}
			}
			if appends < 40 {
				t.Fatalf("only %d writes of events in three iterations", appends)
			}
			for k := 1; k <= appends; k += testkit.Sample(9, 1, 1) {
				if !slow() && (approval && k < appends-5 || !approval && k%8 != 1) {
					continue // with approval the same as without
				}
				n := newTestEnv(t, approval)
				what := fmt.Sprintf("killed before write %d of events", k)
				if code, out := n.superloop([]string{fmt.Sprintf("SUPERLOOP_TEST_FAULT=events:append@%d=kill", k)},
					"run", "--unprotected", "--exit-on-escalation"); code != -1 {
					t.Fatalf("%s: it was not killed: %d\n%s", what, code, out)
				}
				n.finish(what, approval)
			}
		})
	}
}

// TestKillAtEveryWrite is the same for every physical step of any file, a
// sample of them unless the slow tests are asked for.
func TestKillAtEveryWrite(t *testing.T) {
	t.Parallel()
	all := steps(t, false)
	for k := 1; k <= len(all); k += testkit.Sample(1400, 11, 1) {
		n := newTestEnv(t, false)
		what := fmt.Sprintf("killed at step %d, %s", k, all[k-1])
		// Writes in the background move by a few steps from night to night, so the
		// last ones may not come.
		n.superloop([]string{fmt.Sprintf("SUPERLOOP_TEST_FAULT=*@%d=kill", k)}, "run", "--unprotected")
		n.finish(what, false)
	}
}

// TestFullAndBrokenDisk fails every operation, by its name, with no space, an
// I/O error and a short write: a clear error, no damaged file, and the loop goes
// on when the disk is well again.
func TestFullAndBrokenDisk(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, step := range steps(t, true) {
		if seen[step] {
			continue
		}
		seen[step] = true
		truth := strings.HasPrefix(step, "events:")
		for i, what := range []string{"enospc", "eio", "short"} {
			if n := testkit.Sample(401, 2, 1); (len(seen)+i)%n != 0 && !(truth && (slow() || i == 0 && len(seen)%24 == 0)) {
				continue
			}
			n := newTestEnv(t, false)
			name := step + "=" + what
			code, out := n.superloop([]string{"SUPERLOOP_TEST_FAULT=" + step + "@+=" + what}, "run", "--unprotected")
			if code != exitOK && !strings.Contains(out, "no space left") && !strings.Contains(out, "input/output error") {
				t.Fatalf("%s: exit %d without saying why\n%s", name, code, out)
			}
			if strings.Contains(out, "panic") || strings.Contains(out, "goroutine ") {
				t.Fatalf("%s: %s", name, out)
			}
			n.finish("after "+name, false)
		}
	}
	if len(seen) < 20 {
		t.Fatalf("only %d operations were seen", len(seen))
	}
}

// TestSupervisorKilledWhileARoleRuns: the role dies with its supervisor, and
// the next run says that it starts again.
func TestSupervisorKilledWhileARoleRuns(t *testing.T) {
	t.Parallel()
	n := newTestEnv(t, false)
	n.write("scenario.json", strings.Replace(threeIterations, `"default": [`, `"default": [{"say": "working"}, `, 1))
	hang := strings.Replace(threeIterations, `"turns": [`, `"turns": [{"role": "tester", "attempt": 1, "steps": [{"spawn": ["sleep", "1000"], "detach": true}, {"sleep_ms": 600000}]},`, 1)
	n.write("scenario.json", hang)
	cmd := exec.Command(n.path("bin/superloop"), "run")
	cmd.Dir, cmd.Env = n.path("repo"), n.env
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	err := journal.Follow(ctx, n.path("repo/.superloop/loops/l/events.jsonl"), 0, func(ev journal.Event) error {
		if ev.Event == "role_start" && strings.Contains(string(ev.Fields), `"tester"`) {
			return journal.ErrStop
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	deadline := time.Now().Add(patience)
	for {
		if _, locked, err := durable.Holder(n.path("repo/.superloop/loops/l/lock")); err == nil && !locked {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the lock is still held")
		}
	}
	n.write("scenario.json", threeIterations)
	n.finish("killed in a role", false)
	found := false
	for _, ev := range n.events() {
		if ev.Event == "loop_resume" && strings.Contains(string(ev.Fields), "role:tester/1") {
			found = true
		}
	}
	if !found {
		t.Fatal("loop_resume does not say what was interrupted")
	}
}
