package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/host"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/local"
	"github.com/superloop/superloop/loop/temporal"
)

// trouble is what happens to the tests of a loop, and what operators say to it.
type trouble struct {
	name, tester, recovery, test string
	answer                       string // the verb that answers a question about a command
}

// mends has the implementer mend the tests in its second iteration.
const mends = `[ $SUPERLOOP_ITERATION = 1 ] || touch ok`

var troubles = []trouble{
	{name: "untested"},
	{name: "green", test: "true"},
	{name: "red, then mended", test: "test -f ok"},
	{name: "a listed command", test: "test -f ok", tester: "[ -f ok ] || propose 'touch ok'", recovery: `"auto_approve": ["touch ok"]`},
	{name: "an approved command", test: "test -f ok", tester: "[ -f ok ] || propose 'touch ok'", answer: "approve-recovery"},
	{name: "a rejected command", test: "test -f ok", tester: "[ -f ok ] || propose 'touch ok'", answer: "reject-recovery"},
	{name: "done by hand", test: "test -f ok", tester: "[ -f ok ] || propose 'touch ok'", answer: "resolve-recovery"},
	{name: "a denied command", test: "test -f ok", tester: "[ -f ok ] || propose 'touch ok'", recovery: `"on_unknown": "deny", "require_human": [], "auto_approve": ["true"]`},
	{name: "a fallback", test: "test -f ok", tester: `[ -f ok ] || FALLBACK='{"command": "touch ok"}' propose 'exit 4'`, recovery: `"auto_approve": ["exit 4", "touch ok"]`},
	{name: "a command that does not help", test: "test -f ok", tester: "[ -f ok ] || propose 'touch other'", recovery: `"auto_approve": ["touch other"]`},
	{name: "an invalid proposal", test: "test -f ok", tester: `[ -f ok ] || { echo '{' > "$dir/recovery.json"; }`},
}

// course is how a loop goes on besides.
type course struct {
	name, reviewer, implementer, loop string
	completion                        []string // the verbs that answer whether the loop is done
}

const promises = `echo '<promise>DONE</promise>'`

var courses = []course{
	{name: "to the end", reviewer: promises},
	{name: "approved", reviewer: promises, loop: `"approval": {"enabled": true, "require_on_completion": true}`, completion: []string{"approve"}},
	{name: "rejected, then approved", reviewer: promises, loop: `"approval": {"enabled": true, "require_on_completion": true}`, completion: []string{"reject", "approve"}},
	{name: "never done", reviewer: "true"},
	{name: "stuck", reviewer: "true", implementer: "git checkout -q work.txt 2>/dev/null || rm -f work.txt", loop: `"stuck": {"enabled": true, "threshold": 2}`},
	{name: "an open checklist", reviewer: promises, implementer: `[ $SUPERLOOP_ITERATION = 1 ] || echo '- [x] all' > list.md`, loop: `"checklists": ["list.md"]`},
	{name: "all gates", reviewer: promises, loop: `"evidence": {"enabled": true, "require_on_completion": true, "artifacts": ["work.txt"]}, "reviewer_packet": {"enabled": true}`},
	{name: "commits", reviewer: promises, loop: `"git": {"commit_strategy": "per_iteration"}`},
	{name: "a work tree", reviewer: promises, loop: `"git": {"worktree": true, "commit_strategy": "per_iteration"}`},
	{name: "a role that fails once", reviewer: promises, implementer: `[ $SUPERLOOP_ATTEMPT != 1 ] || exit 3`, loop: `"retry": {"backoff_seconds": "10ms"}`},
}

// pairs are the combinations that are played: each trouble with a loop that goes to its end, and with others.
func pairs() (out [][2]int) {
	for i := range troubles {
		for j := range courses {
			if j == 0 || i > 0 && (i+j)%2 == 0 || i == 4 {
				out = append(out, [2]int{i, j})
			}
		}
	}
	return out
}

// TestEngines plays every combination once with superloop run and once as a workflow on Temporal's test environment, whose
// machine is the real program. The journals hold the same events, but for what differs from one run to the next.
func TestEngines(t *testing.T) {
	t.Parallel()
	engines(t, testkit.Sample(3, 100, 100), inTestEnvironment)
}

// TestEnginesOnAServer does so with a real server.
func TestEnginesOnAServer(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("temporal")
	if err != nil || !slow() {
		t.Skip("set SUPERLOOP_SLOW_TESTS=1, as .ci/run does, with Temporal's command line on PATH: go install github.com/temporalio/cli/cmd/temporal@v1.5.1, which takes some minutes")
	}
	payloads, err := temporal.Converter(temporal.Keys{Write: "1", All: map[string][]byte{"1": temporal.NewKey()}})
	if err != nil {
		t.Fatal(err)
	}
	quiet := log.NewStructuredLogger(slog.New(slog.DiscardHandler))
	server, err := testsuite.StartDevServer(t.Context(), testsuite.DevServerOptions{ExistingPath: program, LogLevel: "error",
		ClientOptions: &sdk.Options{DataConverter: payloads, FailureConverter: temporal.FailureConverter(payloads), Logger: quiet}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	control := temporal.Control(server.Client(), worker.Options{})
	if err := control.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(control.Stop)
	engines(t, testkit.Sample(0, 9, 100), func(n *testEnv, m *temporal.Machine, a temporal.Args, stirred <-chan struct{}) temporal.Result {
		return n.onServer(server.Client(), m, a, stirred)
	})
}

// engine runs a workflow to its end. Something is received from stirred when the loop has something to do.
type engine func(n *testEnv, m *temporal.Machine, a temporal.Args, stirred <-chan struct{}) temporal.Result

// engines plays so many of the combinations, at most all.
func engines(t *testing.T, most int, play engine) {
	all := pairs()
	if len(all) < 60 {
		t.Fatalf("only %d combinations", len(all))
	}
	for k, p := range all {
		if k%max(1, len(all)/most) != 0 {
			continue
		}
		tr, co := troubles[p[0]], courses[p[1]]
		t.Run(tr.name+"/"+co.name, func(t *testing.T) {
			t.Parallel()
			here, there := enginesEnv(t, tr, co), enginesEnv(t, tr, co)
			here.runLocally(tr, co)
			result := there.runAsWorkflow(tr, co, play)
			a, b := here.comparable(), there.comparable()
			for i := range max(len(a), len(b)) {
				if i >= len(a) || i >= len(b) || a[i] != b[i] {
					t.Fatalf("event %d differs\nsuperloop run: %s\nTemporal:      %s", i, strings.Join(a[min(i, len(a)):min(i+2, len(a))], "\n               "), strings.Join(b[min(i, len(b)):min(i+2, len(b))], "\n               "))
				}
			}
			if !slices.ContainsFunc(a, func(line string) bool {
				return strings.HasPrefix(line, "loop_") && !strings.HasPrefix(line, "loop_start")
			}) {
				t.Errorf("the loop has no end: %s", a[len(a)-1])
			}
			v, err := local.LastView(there.paths())
			if err != nil || result.Status != v.Status || result.Iteration != v.Iteration || result.Seq != v.Seq {
				t.Errorf("the workflow says %+v, the machine %s in iteration %d at event %d (%v)", result, v.Status, v.Iteration, v.Seq, err)
			}
		})
	}
}

func enginesEnv(t *testing.T, tr trouble, co course) *testEnv {
	n := newTestEnv(t, false)
	n.env = append(n.env, "WORK="+n.root, "SUPERLOOP_TEST_SEAL=0")
	agent, err := os.ReadFile("testdata/agent.sh")
	if err != nil {
		t.Fatal(err)
	}
	n.write("agent.sh", string(agent))
	n.write("tester.sh", tr.tester+"\n")
	n.write("reviewer.sh", co.reviewer+"\n")
	n.write("implementer.sh", mends+"\n"+co.implementer+"\n")
	n.write("repo/list.md", "- [ ] all\n")
	config := fmt.Sprintf(`{"runners": {"sh": {"command": ["sh", %q]}}, "recovery": {"cooldown_seconds": 0%s},
  "loops": [{"id": "l", "spec_file": ".superloop/specs/l.md", "completion_promise": "DONE", "completion": {"allow_ungated": true}, "max_iterations": 3,
    "roles": ["implementer", "tester", "reviewer"]`, n.path("agent.sh"), map[bool]string{true: ", "}[tr.recovery != ""]+tr.recovery)
	if tr.test != "" {
		config += fmt.Sprintf(`, "tests": {"commands": [%q]}`, tr.test)
	}
	if co.loop != "" {
		config += ", " + co.loop
	}
	n.write("repo/.superloop/config.json", config+"}]}\n")
	n.git("add", ".")
	n.git("commit", "-q", "-m", "begin")
	return n
}

// answers what the loop asks, as its operator does. asked counts the questions about the completion of the loop.
func (n *testEnv) answers(tr trouble, co course, asked *int) {
	n.t.Helper()
	var q struct{ Type string }
	data, err := os.ReadFile(n.path("repo/.superloop/loops/l/escalation.json"))
	if err == nil {
		err = json.Unmarshal(data, &q)
	}
	if err != nil {
		n.t.Fatal(err)
	}
	verb := []string{tr.answer}
	if q.Type == loop.EscalationCompletion {
		verb = map[string][]string{"approve": {"approve"}, "reject": {"approve", "--reject"}}[co.completion[min(*asked, len(co.completion)-1)]]
		*asked++
	} else if verb[0] == "" {
		n.t.Fatalf("nobody has an answer to %s", data)
	}
	if verb[0] == "resolve-recovery" {
		n.write("repo/ok", "")
	}
	if code, out := n.superloop(nil, append(verb, "--loop", "l", "--by", "eve")...); code != exitOK {
		n.t.Fatalf("%v gave %d\n%s", verb, code, out)
	}
}

// paths are those of the loop.
func (n *testEnv) paths() layout.Paths {
	n.t.Helper()
	p, err := layout.NewPaths(n.path("repo"), "l", n.path("state"))
	if err != nil {
		n.t.Fatal(err)
	}
	return p
}

func (n *testEnv) runLocally(tr trouble, co course) {
	n.t.Helper()
	asked := 0
	for range 10 {
		code, out := n.superloop(nil, "run", "--exit-on-escalation")
		switch code {
		case exitHuman:
			n.answers(tr, co, &asked)
		case exitOK, exitLimit, exitStuck:
			return
		default:
			n.t.Fatalf("run gave %d\n%s", code, out)
		}
	}
	n.t.Fatal("it asks for ever")
}

// onMachine is the machine of a workflow: the real program, and an operator who answers what it asks.
type onMachine struct {
	*host.Client
	asks func()
}

func (m onMachine) Turn(ctx context.Context, t host.Turn) (host.Turned, error) {
	out, err := m.Client.Turn(ctx, t)
	if err == nil && out.Rest == host.Waits {
		m.asks()
	}
	return out, err
}

// desk starts the process that carries out loops for an engine. The function that it returns ends the process.
func (n *testEnv) desk(stirred func(host.Place)) (*host.Client, func()) {
	n.t.Helper()
	cmd := exec.Command(n.path("bin/superloop"), "__host")
	cmd.Dir, cmd.Env, cmd.Stderr = n.path("repo"), n.env, os.Stderr
	to, err := cmd.StdinPipe()
	if err != nil {
		n.t.Fatal(err)
	}
	from, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		n.t.Fatal(err)
	}
	desk := host.NewClient(to, from, stirred, nil)
	return desk, func() {
		_ = desk.Close()
		<-desk.Gone()
		if err := cmd.Wait(); err != nil {
			n.t.Error(err)
		}
	}
}

func (n *testEnv) runAsWorkflow(tr trouble, co course, play engine) (out temporal.Result) {
	n.t.Helper()
	m, args := &temporal.Machine{Fleet: "f", ID: n.root, Now: time.Now}, temporal.Args{Place: host.Place{Repo: n.path("repo"), Loop: "l"}, By: "ann"}
	stirred := make(chan struct{}, 99)
	desk, end := n.desk(func(host.Place) { stirred <- struct{}{} })
	defer end()
	asked := 0
	args.Machine, m.Host = m.ID, onMachine{desk, func() { n.answers(tr, co, &asked) }}
	out = play(n, m, args, stirred)
	if rep, err := journal.Verify(n.paths().Events()); err != nil || rep.FirstBad != nil || rep.LastSeq != out.Seq {
		n.t.Fatalf("the journal: %v %+v", err, rep)
	}
	return out
}

// inTestEnvironment is Temporal's test environment. It has no time to wait for, so nothing has to stir it.
func inTestEnvironment(n *testEnv, m *temporal.Machine, a temporal.Args, _ <-chan struct{}) (out temporal.Result) {
	n.t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(2 * time.Minute)
	payloads, err := temporal.Converter(temporal.Keys{})
	if err != nil {
		n.t.Fatal(err)
	}
	env.SetDataConverter(payloads)
	env.RegisterWorkflowWithOptions(temporal.Loop, workflow.RegisterOptions{Name: temporal.WorkflowName})
	m.Register(env)
	env.ExecuteWorkflow(temporal.WorkflowName, a)
	if err := env.GetWorkflowError(); err != nil {
		n.t.Fatal(err)
	}
	if err := env.GetWorkflowResult(&out); err != nil {
		n.t.Fatal(err)
	}
	return out
}

// onServer runs a workflow on a real server, with a worker of its own for the machine.
func (n *testEnv) onServer(c sdk.Client, m *temporal.Machine, a temporal.Args, stirred <-chan struct{}) (out temporal.Result) {
	n.t.Helper()
	id := temporal.WorkflowID(m.Fleet, m.ID, a.Place)
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			select {
			case <-stirred:
				_ = c.SignalWorkflow(context.Background(), id, "", temporal.StirSignal, nil) // it may have ended
			case <-ended:
				return
			}
		}
	}()
	w := m.Worker(c, worker.Options{MaxConcurrentActivityExecutionSize: 4})
	if err := w.Start(); err != nil {
		n.t.Fatal(err)
	}
	defer w.Stop()
	run, err := c.ExecuteWorkflow(n.t.Context(), sdk.StartWorkflowOptions{ID: id, TaskQueue: temporal.ControlQueue}, temporal.WorkflowName, a)
	if err == nil {
		err = run.Get(n.t.Context(), &out)
	}
	if err != nil {
		n.t.Fatal(err)
	}
	return out
}

// comparable returns the events without what differs from one run to the next. A loop that was left while it waited has a
// loop_resume, and a loop_stop where its supervisor has ended, whichever engine it has.
func (n *testEnv) comparable() (out []string) {
	n.t.Helper()
	for _, ev := range n.events() {
		if ev.Event == "loop_resume" || ev.Event == "loop_stop" && strings.Contains(string(ev.Fields), `"paused"`) || ev.Event == "config_loaded" ||
			ev.Event == "recovery_seen" { // the proposal was seen before its role had ended, or not
			continue
		}
		line := fmt.Sprintf("%s %d %s", ev.Event, ev.Iteration, ev.Fields)
		line = strings.ReplaceAll(line, n.root, "ROOT")
		for _, v := range volatile {
			line = v.re.ReplaceAllString(line, v.as)
		}
		out = append(out, line)
	}
	return out
}
