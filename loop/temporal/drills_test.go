package temporal

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/host"
)

// played is a fleet with a real server and a machine that is played.
type played struct {
	t       *testing.T
	server  *server
	private ed25519.PrivateKey
	args    Args
	many    *many
	machine *Machine
	places  []host.Place
	runs    []client.WorkflowRun
	asked   chan string
}

// newPlayed makes a fleet of n loops that come to a question. The drill is skipped where Temporal's server for try-outs is not on PATH.
func newPlayed(t *testing.T, n int, more ...string) *played {
	program, err := exec.LookPath("temporal")
	if n == 0 || err != nil {
		t.Skip("the drill needs Temporal's server for try-outs on PATH, and minutes: SUPERLOOP_SLOW_TESTS=1 go test -v -run Drill ./loop/temporal")
	}
	public, private := gateway(t)
	payloads, err := Converter(Keys{Write: "1", All: map[string][]byte{"1": NewKey()}})
	if err != nil {
		t.Fatal(err)
	}
	p := &played{t: t, private: private, args: Args{Machine: "m1", Gateways: [][]byte{public}, BeatTimeout: 5 * time.Second}, asked: make(chan string, 100*n)}
	p.server = newServer(t, payloads, program, filepath.Join(t.TempDir(), "temporal.db"), more...)
	p.many = &many{loops: map[string]*recorded{}, asked: p.asked, after: make(chan time.Time, 100*n)}
	p.machine = &Machine{Host: p.many, Gateways: p.args.Gateways, Fleet: "f", ID: "m1", Now: time.Now}
	lines := linesOf(t, "rules1-human.jsonl")[:31] // one run, with one question
	for i := range n {
		p.places = append(p.places, p.many.loop(t, i, lines))
	}
	return p
}

func (p *played) begin(w worker.Worker) worker.Worker {
	p.t.Helper()
	if err := w.Start(); err != nil {
		p.t.Fatal(err)
	}
	return w
}

func (p *played) start(places []host.Place) {
	p.t.Helper()
	for _, at := range places {
		a := p.args
		a.Place = at
		run, err := p.server.client.ExecuteWorkflow(p.t.Context(), client.StartWorkflowOptions{ID: WorkflowID("f", "m1", at), TaskQueue: ControlQueue,
			WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING}, WorkflowName, a)
		if err != nil {
			p.t.Fatal(err)
		}
		p.runs = append(p.runs, run)
	}
}

// wait waits until all loops of places have asked.
func (p *played) wait(n int) {
	asked := map[string]bool{}
	for len(asked) < n {
		asked[<-p.asked] = true
	}
}

// answer answers the question of each loop.
func (p *played) answer(at host.Place) error {
	d := p.many.answer(p.t, at, p.private)
	h, err := p.server.client.UpdateWorkflow(p.t.Context(), client.UpdateWorkflowOptions{WorkflowID: d.Workflow, UpdateID: d.name(), UpdateName: DecideUpdate, Args: []any{d}, WaitForStage: client.WorkflowUpdateStageCompleted})
	if err == nil {
		err = h.Get(p.t.Context(), nil)
	}
	return err
}

// whole waits for the end of all loops and looks whether each has gone its way, once.
func (p *played) whole() {
	p.t.Helper()
	for i, run := range p.runs {
		var r Result
		if err := run.Get(p.t.Context(), &r); err != nil {
			p.t.Fatal(err)
		}
		m := p.many.of(p.places[i])
		if int(r.Seq) != len(m.lines) {
			p.t.Fatalf("loop %d has ended at event %d of %d", i, r.Seq, len(m.lines))
		}
		did := map[string]bool{}
		for _, effect := range m.did {
			if did[effect] {
				p.t.Fatalf("loop %d: %s was carried out twice", i, effect)
			}
			did[effect] = true
		}
	}
}

// TestServerDrill kills the server three times: while loops come to their questions, while all wait, and while they are answered.
func TestServerDrill(t *testing.T) {
	p := newPlayed(t, testkit.Sample(0, 60, 2000))
	for _, w := range []worker.Worker{Control(p.server.client, worker.Options{}), p.machine.Worker(p.server.client, worker.Options{MaxConcurrentActivityExecutionSize: 8}), p.machine.OrdersWorker(p.server.client, nil, worker.Options{})} {
		defer p.begin(w).Stop()
	}
	n := len(p.places)
	var back []time.Duration
	kill := func() {
		p.server.kill()
		back = append(back, p.server.start())
	}
	began := time.Now()
	p.start(p.places[:n/2])
	kill()
	p.start(p.places[n/2:])
	p.wait(n)
	all := time.Since(began)
	kill()
	var some sync.WaitGroup
	errs := make(chan error, n)
	places := make(chan host.Place)
	for range 8 {
		some.Go(func() {
			for at := range places {
				errs <- p.answer(at)
			}
		})
	}
	for i, at := range p.places {
		if i == n/2 {
			kill()
		}
		places <- at
	}
	close(places)
	some.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	p.whole()
	t.Logf("%d loops, all asked after %.0f s, 3 kills of the server: none lost, none carried out twice; the server answered after %.1f, %.1f and %.1f s", n, all.Seconds(), back[0].Seconds(), back[1].Seconds(), back[2].Seconds())
}

// TestLongDrill has the workflow go the way of a long journal of superloop run, which SUPERLOOP_DRILL_JOURNAL names, with the
// limits of the server's own history: at each of its events it wants what superloop run did, and the loop is continued in as many runs as the server asks for.
func TestLongDrill(t *testing.T) {
	file := os.Getenv("SUPERLOOP_DRILL_JOURNAL")
	if file == "" {
		t.Skip("SUPERLOOP_DRILL_JOURNAL names no journal")
	}
	p := newPlayed(t, 1)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var lines []loop.Line
	for raw := range bytes.Lines(data) {
		l, err := loop.ParseLine(bytes.TrimRight(raw, "\n"))
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
	}
	p.places = []host.Place{p.many.loop(t, 0, lines)}
	for _, w := range []worker.Worker{Control(p.server.client, worker.Options{}), p.machine.Worker(p.server.client, worker.Options{MaxConcurrentActivityExecutionSize: 8}), p.machine.OrdersWorker(p.server.client, nil, worker.Options{})} {
		defer p.begin(w).Stop()
	}
	began := time.Now()
	p.start(p.places)
	p.whole()
	runs, err := p.server.client.CountWorkflow(t.Context(), &workflowservice.CountWorkflowExecutionsRequest{Query: fmt.Sprintf("WorkflowId = %q", p.runs[0].GetID())})
	if err != nil {
		t.Fatal(err)
	}
	iterations := p.many.of(p.places[0]).fold.State.Iteration
	t.Logf("%d iterations, %d events, %d runs of the workflow, in %.0f s: each event is that of superloop run", iterations, len(lines), runs.Count, time.Since(began).Seconds())
}

// TestDeployDrill lets a new build of the control worker take over while loops wait that the old one has begun.
func TestDeployDrill(t *testing.T) {
	p := newPlayed(t, testkit.Sample(0, 30, 500))
	defer p.begin(p.machine.Worker(p.server.client, worker.Options{MaxConcurrentActivityExecutionSize: 8})).Stop()
	defer p.begin(p.machine.OrdersWorker(p.server.client, nil, worker.Options{})).Stop()
	control := func(build string) worker.Worker {
		v := worker.WorkerDeploymentVersion{DeploymentName: "superloop-f", BuildID: build}
		w := p.begin(Control(p.server.client, worker.Options{DeploymentOptions: worker.DeploymentOptions{UseVersioning: true, Version: v}}))
		for {
			_, err := p.server.client.WorkerDeploymentClient().GetHandle(v.DeploymentName).SetCurrentVersion(t.Context(), client.WorkerDeploymentSetCurrentVersionOptions{BuildID: build, IgnoreMissingTaskQueues: true})
			if err == nil {
				return w
			}
			select {
			case <-t.Context().Done():
				t.Fatal(err)
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
	n := len(p.places)
	fresh := n / 10
	old := control("old")
	p.start(p.places[fresh:])
	p.wait(n - fresh)
	defer control("new").Stop()
	p.start(p.places[:fresh])
	p.wait(fresh)
	began := time.Now()
	old.Stop() // as a program that is replaced by another one: nothing of a loop is in its memory any more
	defer control("old").Stop()
	p.places = append(slices.Clone(p.places[fresh:]), p.places[:fresh]...) // in the order of their starts
	var took []time.Duration
	for _, i := range rand.Perm(n) {
		one := time.Now()
		if err := p.answer(p.places[i]); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(one))
	}
	p.whole()
	for i, run := range p.runs {
		want := "old"
		if i >= n-fresh {
			want = "new"
		}
		d, err := p.server.client.DescribeWorkflow(t.Context(), run.GetID(), run.GetRunID())
		if err != nil {
			t.Fatal(err)
		}
		if got := d.RawResponse.WorkflowExecutionInfo.GetVersioningInfo().GetDeploymentVersion().GetBuildId(); got != want {
			t.Errorf("%s was to stay with the build %s and has %q", run.GetID(), want, got)
		}
		if err := p.failed(t.Context(), run); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d loops of the old build that waited, %d of the new one: each ended with the build that had begun it, no task of a workflow failed; the first answer took %.1f s, all %.0f s", n-fresh, fresh, took[0].Seconds(), time.Since(began).Seconds())
}

// failed looks whether a history holds a task that a worker could not do, as with TMPRL1100.
func (p *played) failed(ctx context.Context, run client.WorkflowRun) error {
	it := p.server.client.GetWorkflowHistory(ctx, run.GetID(), run.GetRunID(), false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			return err
		}
		if f := e.GetWorkflowTaskFailedEventAttributes(); f != nil {
			return fmt.Errorf("%s: %s %s", run.GetID(), f.Cause, f.Failure.GetMessage())
		}
	}
	return nil
}
