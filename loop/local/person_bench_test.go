package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/dirwatch"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/effects"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/worktree"
	"github.com/superloop/superloop/recovery/action"
)

// waiter is a loop that waits for an operator: the driver as it is then, without what
// runs agents. All have one configuration, as the loops of a repository do.
type waiter struct {
	d     *driver
	fact  loop.Fact
	err   error
	woken time.Time
	done  chan struct{}
}

func newWaiter(b *testing.B, ctx context.Context, repo, state string, shared Options, n int) *waiter {
	b.Helper()
	id := fmt.Sprintf("loop-%d", n)
	paths, err := layout.NewPaths(repo, id, state)
	if err != nil {
		b.Fatal(err)
	}
	disk := shared.Disk
	d := &driver{o: shared, paths: paths, log: shared.Log, life: ctx, watches: shared.Watches, repo: &worktree.Repo{Top: paths.Repo}, intents: map[string]bool{}}
	d.o.LoopID = id
	for _, dir := range []string{paths.Control(), paths.Questions(), paths.Loop} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			b.Fatal(err)
		}
	}
	d.host = &effects.Host{LoopID: id, Paths: paths, Repo: d.repo, Disk: disk, Clock: time.Now, Log: shared.Log, Settings: d.settings}
	d.equip()
	rec, err := d.approvals.Store().Open(ctx, escalation.Question{Loop: id, Run: "run", Iteration: 1, Type: escalation.RecoveryApproval, Repo: repo,
		Reason: "nobody listed it", Command: &escalation.Command{Text: []byte("npm install"), WorkingDir: ".", TimeoutMS: 1000, Source: "tester",
			Binding: escalation.Binding{Dev: 1, Ino: 1, PolicyDigest: "p"}}})
	if err != nil {
		b.Fatal(err)
	}
	d.state = loop.State{Version: loop.StateVersion, LoopID: id, RunID: "run", Status: loop.AwaitingHuman, Begun: true, Iteration: 1,
		Pending: &loop.Effect{ID: "ask", Kind: loop.AskHuman}, Recovery: &loop.RecoveryState{N: 1, Attempt: action.Action{Command: "npm install"}},
		Human: &loop.HumanState{ID: "ask", About: loop.AboutRecovery, Type: loop.EscalationApproval, Question: rec.Question.ID, Digest: rec.Digest}}
	d.view = journal.NewProjection(disk, "state", paths.File("state.json"), 0o644, viewInterval)
	d.super = journal.NewProjection(disk, "repo-state", filepath.Join(paths.Loop, "repo.json"), 0o644, viewInterval)
	d.look = d.watches.Dir(ctx, paths.Control(), func(string) bool { return true })
	return &waiter{d: d, done: make(chan struct{})}
}

// wait does what drive does, up to the answer.
func (w *waiter) wait(ctx context.Context) {
	defer close(w.done)
	for ctx.Err() == nil && w.fact == nil && w.err == nil {
		if w.err = w.d.takeIntents(); w.err == nil {
			e, do := loop.Due(w.d.state)
			w.fact, w.err = w.d.carryOut(ctx, e, do)
		}
	}
	w.woken = time.Now()
}

// inUse is the memory in use when the stacks have shrunk to what they hold, by half
// with each collection.
func inUse() (heap, stack uint64) {
	for range 4 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc, m.StackInuse
}

// BenchmarkWaiting has a thousand loops of one process wait for an operator: what a
// waiting loop costs in memory and, while nobody answers, in processor time; and how
// long it takes from the beginning of an answer (which is written and flushed
// first) until its loop has it.
func BenchmarkWaiting(b *testing.B) {
	const loops = 1000
	for b.Loop() {
		ctx, stop := context.WithCancel(b.Context())
		repo, state := b.TempDir(), b.TempDir()
		shared := Options{Disk: durable.OS(), Now: time.Now, Config: &config.Config{}, Log: zap.NewNop(), Watches: dirwatch.NewWatches(ctx)}
		heap, stack := inUse()
		all := make([]*waiter, loops)
		var group sync.WaitGroup
		for i := range all {
			all[i] = newWaiter(b, ctx, repo, state, shared, i)
			group.Go(func() { all[i].wait(ctx) })
		}
		watchesAll(b, shared.Watches, 2*loops)
		heapNow, stackNow := inUse()
		b.ReportMetric(float64(heapNow-heap+stackNow-stack)/loops/1024, "KiB/loop")
		b.ReportMetric(float64(stackNow-stack)/loops/1024, "KiB-stack/loop")
		b.ReportMetric(idle(b), "ms-cpu/s-idle")

		var took []time.Duration
		for _, w := range all {
			begun := time.Now()
			if _, err := w.d.approvals.Store().Answer(ctx, escalation.AnswerRequest{Method: escalation.Approve, By: escalation.By{Channel: escalation.CLI, User: "eve"}}); err != nil {
				b.Fatal(err)
			}
			<-w.done
			f, ok := w.fact.(loop.Resolved)
			if w.err != nil || !ok || f.Method != loop.MethodApprove {
				b.Fatalf("%+v %v", w.fact, w.err)
			}
			took = append(took, w.woken.Sub(begun))
		}
		stop()
		group.Wait()
		slices.Sort(took)
		b.ReportMetric(float64(took[loops/2].Microseconds())/1e3, "ms-p50-answer-to-loop")
		b.ReportMetric(float64(took[loops*99/100].Microseconds())/1e3, "ms-p99-answer-to-loop")
	}
	b.ReportMetric(0, "ns/op")
}

// watchesAll waits until that many watch.
func watchesAll(b *testing.B, w *dirwatch.Watches, n int) {
	b.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for have := 0; have < n; <-tick.C {
		w.Mu.Lock()
		have = len(w.All)
		w.Mu.Unlock()
	}
}
