package temporal

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/host"
)

// many is a machine of any number of loops, each of which goes the way of one recorded journal up to its first question.
type many struct {
	b     *testing.B
	mu    sync.Mutex
	loops map[string]*recorded
	asked chan string    // the loops that have begun to wait
	after chan time.Time // when a loop has gone on after an answer
}

func (m *many) of(p host.Place) *recorded {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.loops[p.Loop]
}

func (m *many) Turn(ctx context.Context, t host.Turn) (host.Turned, error) {
	r := m.of(t.Place)
	out, err := r.Turn(ctx, t)
	switch {
	case err != nil:
	case out.Rest == host.Waits:
		out.Left = 24 * time.Hour
		m.asked <- t.Loop
	case slices.ContainsFunc(out.Lines, func(l host.Line) bool { return l.Line.Event == "recovery_resolved" }):
		m.after <- time.Now()
	}
	return out, err
}

func (m *many) Verb(context.Context, host.Verb) ([]byte, error) { return nil, nil }

// BenchmarkWaiting brings SUPERLOOP_BENCH_FLEET loops to a question on a real server, says what that takes, and how long an
// answer takes to be taken up. SUPERLOOP_BENCH_FLEET_DB is the server's file, "" keeps all in memory. The machines of the loops are played, so it measures the engine alone.
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
	quiet := log.NewStructuredLogger(slog.New(slog.DiscardHandler))
	var extra []string
	for _, s := range []string{"history.transferProcessorMaxPollRPS=2000", "history.timerProcessorMaxPollRPS=2000", "history.visibilityProcessorMaxPollRPS=2000", "matching.numTaskqueueReadPartitions=1", "matching.numTaskqueueWritePartitions=1"} {
		extra = append(extra, "--dynamic-config-value", s)
	}
	server, err := testsuite.StartDevServer(b.Context(), testsuite.DevServerOptions{ExistingPath: program, LogLevel: "error", ExtraArgs: extra, DBFilename: os.Getenv("SUPERLOOP_BENCH_FLEET_DB"),
		ClientOptions: &client.Options{DataConverter: payloads, FailureConverter: FailureConverter(payloads), Logger: quiet}})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = server.Stop() }()
	c := server.Client()
	m := &many{b: b, loops: map[string]*recorded{}, asked: make(chan string, n), after: make(chan time.Time, n)}
	worker.SetStickyWorkflowCacheSize(2000)
	machine := &Machine{Host: m, Gateways: [][]byte{public}, Fleet: "f", ID: "m1", Now: time.Now}
	for _, w := range []worker.Worker{Control(c, worker.Options{}), machine.Worker(c, 8, worker.Options{})} {
		if err := w.Start(); err != nil {
			b.Fatal(err)
		}
		defer w.Stop()
	}
	idle := [2]int{resident(b, serverPID(b, program)), resident(b, os.Getpid())}
	began, lines := time.Now(), linesOf(b, "rules1-human.jsonl")
	for i := range n {
		p := host.Place{Repo: "/srv/shop", Loop: fmt.Sprint("l", i)}
		r := &recorded{t: b, fold: loop.NewReplay(), most: 1000, lines: lines, begun: func(host.Rest) {}}
		m.mu.Lock()
		m.loops[p.Loop] = r
		m.mu.Unlock()
		if _, err := c.ExecuteWorkflow(b.Context(), client.StartWorkflowOptions{ID: WorkflowID("f", "m1", p), TaskQueue: ControlQueue}, WorkflowName, Args{Place: p, Machine: "m1", Gateways: [][]byte{public}}); err != nil {
			b.Fatal(err)
		}
	}
	var waiting []string
	for range n {
		waiting = append(waiting, <-m.asked)
	}
	b.ReportMetric(time.Since(began).Seconds(), "s-to-wait")
	b.ReportMetric(float64(resident(b, serverPID(b, program))-idle[0])/1024, "server-MiB")
	b.ReportMetric(float64(resident(b, os.Getpid())-idle[1])/1024, "worker-MiB")
	var took []time.Duration
	for _, name := range waiting[:min(100, n)] {
		p := host.Place{Repo: "/srv/shop", Loop: name}
		s := m.of(p).fold.State
		d, err := Decision{Decision: loop.Decision{Kind: loop.DecideAnswer, RunID: s.RunID, ID: s.Human.Question, Digest: s.Human.Digest, Method: loop.MethodReject}, Workflow: WorkflowID("f", "m1", p), By: "ann", At: time.Now()}.Sign(private)
		if err != nil {
			b.Fatal(err)
		}
		begun := time.Now()
		if _, err := c.UpdateWorkflow(b.Context(), client.UpdateWorkflowOptions{WorkflowID: d.Workflow, UpdateName: DecideUpdate, Args: []any{d}, WaitForStage: client.WorkflowUpdateStageAccepted}); err != nil {
			b.Fatal(err)
		}
		took = append(took, (<-m.after).Sub(begun))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-p50")
	b.ReportMetric(float64(took[len(took)*95/100].Microseconds())/1000, "ms-p95")
}

// serverPID returns the process of the server, which this process has started.
func serverPID(b *testing.B, program string) int {
	b.Helper()
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	for _, list := range lists {
		data, _ := os.ReadFile(list)
		for _, f := range strings.Fields(string(data)) {
			if exe, err := os.Readlink("/proc/" + f + "/exe"); err == nil && filepath.Base(exe) == filepath.Base(program) {
				pid, _ := strconv.Atoi(f)
				return pid
			}
		}
	}
	b.Fatal("the server has no process")
	return 0
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
