package temporal

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/host"
)

// many is a machine of any number of loops, each of which goes the way of one recorded journal up to its first question.
type many struct {
	mu    sync.Mutex
	loops map[string]*recorded
	asked chan string              // the loops that have begun to wait
	after chan time.Time           // when a loop has gone on after an answer
	takes map[string]time.Duration // how long each effect of a loop takes that is active and asks nobody
}

func (m *many) of(p host.Place) *recorded {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.loops[p.Loop]
}

func (m *many) Turn(ctx context.Context, t host.Turn) (host.Turned, error) {
	r := m.of(t.Place)
	pause := m.takes[t.Loop]
	if pause > 0 {
		select {
		case <-ctx.Done():
			return host.Turned{}, ctx.Err()
		case <-time.After(pause/2 + rand.N(pause)):
		}
	}
	out, err := r.Turn(ctx, t)
	switch {
	case err != nil || pause > 0:
	case out.Rest == host.Waits:
		out.Left = 24 * time.Hour
		m.asked <- t.Loop
	case slices.ContainsFunc(out.Lines, func(l host.Line) bool { return l.Line.Event == "recovery_resolved" }):
		m.after <- time.Now()
	}
	return out, err
}

// loop makes a loop that is played.
func (m *many) loop(t testing.TB, i int, lines []loop.Line) host.Place {
	p := host.Place{Repo: "/srv/shop", Loop: fmt.Sprint("l", i)}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.loops[p.Loop] = &recorded{t: t, fold: loop.NewReplay(), most: 1000, lines: lines, begun: func(host.Rest) {}}
	return p
}

// answer returns the answer that the journal of a loop goes on with.
func (m *many) answer(t testing.TB, p host.Place, key []byte) Decision {
	t.Helper()
	r := m.of(p)
	r.mu.Lock()
	s := r.fold.State
	r.mu.Unlock()
	d, err := Decision{Decision: loop.Decision{Kind: loop.DecideAnswer, RunID: s.RunID, ID: s.Human.Question, Digest: s.Human.Digest, Method: loop.MethodReject}, Workflow: WorkflowID("f", "m1", p), By: "ann", At: time.Now()}.Sign(key)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (m *many) Verb(context.Context, host.Verb) ([]byte, error) { return nil, nil }

// BenchmarkWaiting brings SUPERLOOP_BENCH_FLEET loops to a question on a real server, says what that takes, and how long an
// answer takes to be taken up while SUPERLOOP_BENCH_FLEET_ACTIVE other loops work, an effect every six seconds each. SUPERLOOP_BENCH_FLEET_DB is the server's file, "" keeps all in memory. The machines of the loops are played, so it measures the engine alone.
func BenchmarkWaiting(b *testing.B) {
	n, _ := strconv.Atoi(os.Getenv("SUPERLOOP_BENCH_FLEET"))
	program, err := exec.LookPath("temporal")
	if n == 0 || err != nil {
		b.Skip("SUPERLOOP_BENCH_FLEET says how many loops; the program temporal has to be on PATH")
	}
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		b.Fatal(err)
	}
	payloads, err := Converter(Keys{Write: "1", All: map[string][]byte{"1": NewKey()}})
	if err != nil {
		b.Fatal(err)
	}
	server := newServer(b, payloads, program, os.Getenv("SUPERLOOP_BENCH_FLEET_DB"))
	c := server.client
	m := &many{loops: map[string]*recorded{}, asked: make(chan string, n), after: make(chan time.Time, n)}
	active, _ := strconv.Atoi(os.Getenv("SUPERLOOP_BENCH_FLEET_ACTIVE"))
	m.takes = map[string]time.Duration{}
	for i := range active {
		m.takes[fmt.Sprint("l", n+i)] = 6 * time.Second
	}
	machine := &Machine{Host: m, Gateways: [][]byte{public}, Fleet: "f", ID: "m1", Now: time.Now}
	for _, w := range []worker.Worker{Control(c, worker.Options{}), machine.Worker(c, worker.Options{MaxConcurrentActivityExecutionSize: 8 + active}), machine.OrdersWorker(c, nil, worker.Options{})} {
		if err := w.Start(); err != nil {
			b.Fatal(err)
		}
		defer w.Stop()
	}
	idle := [2]int{resident(b, server.cmd.Process.Pid), resident(b, os.Getpid())}
	began, lines := time.Now(), linesOf(b, "rules1-human.jsonl")
	start := func(i int) {
		p := m.loop(b, i, lines)
		if _, err := c.ExecuteWorkflow(b.Context(), client.StartWorkflowOptions{ID: WorkflowID("f", "m1", p), TaskQueue: ControlQueue}, WorkflowName, Args{Place: p, Machine: "m1", Gateways: [][]byte{public}}); err != nil {
			b.Fatal(err)
		}
	}
	for i := range n {
		start(i)
	}
	var waiting []string
	for range n {
		waiting = append(waiting, <-m.asked)
	}
	b.ReportMetric(time.Since(began).Seconds(), "s-to-wait")
	b.ReportMetric(float64(resident(b, server.cmd.Process.Pid)-idle[0])/1024, "server-MiB")
	b.ReportMetric(float64(resident(b, os.Getpid())-idle[1])/1024, "worker-MiB")
	for i := range active {
		start(n + i)
	}
	var took []time.Duration
	for _, name := range waiting[:min(100, n)] {
		p := host.Place{Repo: "/srv/shop", Loop: name}
		d := m.answer(b, p, private)
		begun := time.Now()
		if _, err := c.UpdateWorkflow(b.Context(), client.UpdateWorkflowOptions{WorkflowID: d.Workflow, UpdateName: DecideUpdate, Args: []any{d}, WaitForStage: client.WorkflowUpdateStageAccepted}); err != nil {
			b.Fatal(err)
		}
		took = append(took, (<-m.after).Sub(begun))
		<-m.asked // what follows on an answer costs more than the answer: at its next question the loop is at rest
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-p50")
	b.ReportMetric(float64(took[len(took)*95/100].Microseconds())/1000, "ms-p95")
	b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "ms-most")
}

// resident returns the resident memory of a process, in KiB.
func resident(b *testing.B, pid int) int {
	b.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, _ := strconv.Atoi(strings.Fields(rest)[0])
			return n
		}
	}
	b.Fatal("no VmRSS")
	return 0
}
