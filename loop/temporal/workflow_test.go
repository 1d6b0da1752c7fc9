package temporal

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/host"
)

var place = host.Place{Repo: "/work/shop", Loop: "shop"}

// recorded is a machine whose journal was recorded: each turn gives what was recorded of it, and of the cheap effects that follow, unless
// it answers one line at a time. It refuses a turn as desk does.
type recorded struct {
	t     testing.TB
	lines []loop.Line
	begun func(rest host.Rest) // the machine is about to answer with a loop that rests

	mu    sync.Mutex
	seq   int // events that the journal holds
	fold  *loop.Replay
	waits bool
	most  int // lines of an answer
	turns []host.Turn
	did   []string // the effects that were carried out
}

func record(t *testing.T, file string) *recorded {
	t.Helper()
	return &recorded{t: t, fold: loop.NewReplay(), most: 3, lines: linesOf(t, file)}
}

func linesOf(t testing.TB, file string) (lines []loop.Line) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	for raw := range bytes.Lines(data) {
		l, err := loop.ParseLine(bytes.TrimRight(raw, "\n"))
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
	}
	return lines
}

// on reads one event of the journal.
func (m *recorded) on() {
	if err := m.fold.Add(m.lines[m.seq]); err != nil {
		m.t.Error(err)
	}
	m.seq++
}

func (m *recorded) Turn(_ context.Context, t host.Turn) (out host.Turned, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turns = append(m.turns, t)
	if t.Start {
		for m.seq == 0 || len(m.fold.Owed) > 0 {
			m.on()
		}
		s := m.fold.State
		return host.Turned{State: &s, Seq: int64(m.seq)}, nil
	}
	e, do := loop.Due(m.fold.State)
	if int(t.Since) == m.seq && t.Effect != e.ID {
		return out, &host.Error{Text: fmt.Sprintf("after event %d the engine wants %q, and this machine %q", m.seq, t.Effect, e.ID), Final: true}
	}
	switch {
	case int(t.Since) != m.seq:
	case m.seq == len(m.lines):
		return host.Turned{Rest: host.Ended}, nil
	case (do == loop.DoTimer || do == loop.DoHuman) && !m.waits:
		m.waits = true
		out.Rest, out.Left = host.Waits, time.Hour
		m.begun(out.Rest)
		return out, nil
	default:
		m.waits = false
		m.did = append(m.did, fmt.Sprint(e.ID, " after ", m.seq))
		status := m.fold.State.Status
	events:
		for m.seq < len(m.lines) {
			m.on()
			now, nowDo := loop.Due(m.fold.State)
			switch {
			case len(m.fold.Owed) > 0 || now.ID == e.ID && nowDo == do && (m.fold.State.Status == status || m.fold.State.Status != loop.Paused):
				continue
			case m.most > 1 && nowDo == loop.DoStart && now.Kind.Cheap() && m.fold.State.Status != loop.Paused:
				e, do = now, nowDo
				m.did = append(m.did, fmt.Sprint(e.ID, " after ", m.seq))
				continue
			}
			break events
		}
	}
	to := min(int(t.Since)+m.most, m.seq)
	out.Lines, out.More = host.LinesOf(m.lines[t.Since:to]), to < m.seq
	switch {
	case out.More:
	case m.fold.State.Status.Ended() && m.seq == len(m.lines):
		out.Rest = host.Ended
	case m.fold.State.Status == loop.Paused:
		out.Rest = host.Paused
		m.begun(out.Rest)
	}
	return out, nil
}

func (m *recorded) Verb(context.Context, host.Verb) ([]byte, error) { return nil, nil }

// TestRecordedJournals drives the workflow along every recorded journal: at each point it wants what the machine wants, and it
// ends in the same state, with any number of events in an answer.
func TestRecordedJournals(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../testdata/*.jsonl")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		for _, most := range []int{1, 1000} {
			t.Run(fmt.Sprintf("%s/%d", filepath.Base(path), most), func(t *testing.T) {
				t.Parallel()
				m := record(t, filepath.Base(path))
				m.most = most
				env := environment(m)
				m.begun = func(rest host.Rest) {
					if rest == host.Paused {
						env.SignalWorkflow(ResumeSignal, nil)
					}
				}
				env.SetStartTime(m.lines[0].Timestamp) // so that what waits is in the future
				got := runs(t, env, Args{Place: place, Machine: "m1"})
				want := whole(t, m.lines)
				if got.Seq != int64(len(m.lines)) || got.Status != want.Status || got.Reason != want.Reason || got.Iteration != want.Iteration {
					t.Errorf("%+v\nthe journal leads to %s, %s in iteration %d", got, want.Status, want.Reason, want.Iteration)
				}
				if !reflect.DeepEqual(m.fold.State, want) {
					t.Errorf("the machine is elsewhere")
				}
			})
		}
	}
}

// other is a machine of a build whose check of the promise has another id. It answers about the check together with the role before it.
type other struct{ *recorded }

func (m other) Turn(ctx context.Context, t host.Turn) (host.Turned, error) {
	out, err := m.recorded.Turn(ctx, t)
	for i := range out.Lines {
		if out.Lines[i].Line.Event == "promise_checked" {
			out.Lines[i].Fields = bytes.Replace(out.Lines[i].Fields, []byte("/promise"), []byte("/vow"), 1)
		}
	}
	return out, err
}

// TestMachineOfAnotherBuild: an effect that the workflow does not know is noticed also where the workflow was not asked for it.
func TestMachineOfAnotherBuild(t *testing.T) {
	t.Parallel()
	m := record(t, "rules1-human.jsonl")
	m.most, m.begun = 1000, func(host.Rest) {}
	env := environment(other{m})
	env.SetStartTime(m.lines[0].Timestamp)
	env.ExecuteWorkflow(WorkflowName, Args{Place: place, Machine: "m1"})
	if err := env.GetWorkflowError(); err == nil || !strings.Contains(err.Error(), "the engine wants") || !strings.Contains(err.Error(), "/promise") {
		t.Error(err)
	}
}

// behind is a machine whose clock is ten minutes behind that of the engine: it waits for a time that has passed for the engine.
type behind struct {
	*recorded
	now   func() time.Time
	until time.Time
	asked int
}

func (m *behind) Turn(ctx context.Context, t host.Turn) (host.Turned, error) {
	if m.recorded.seq > 0 && m.now().Before(m.until) {
		m.asked++
		return host.Turned{Rest: host.Waits, Left: -10 * time.Minute}, nil
	}
	return m.recorded.Turn(ctx, t)
}

// TestClocksMayDiffer: a machine that wants to be asked again in the past is not asked all the time.
func TestClocksMayDiffer(t *testing.T) {
	t.Parallel()
	m := &behind{recorded: record(t, "rules1-human.jsonl")}
	m.recorded.begun = func(host.Rest) {}
	env := environment(m)
	env.SetStartTime(m.lines[0].Timestamp)
	m.now, m.until = env.Now, m.lines[0].Timestamp.Add(10*time.Minute)
	if got := runs(t, env, Args{Place: place, Machine: "m1"}); int(got.Seq) != len(m.lines) || m.asked < 2 || m.asked > 601 {
		t.Errorf("%+v after %d turns", got, m.asked)
	}
}

// whole folds a journal.
func whole(t *testing.T, lines []loop.Line) loop.State {
	t.Helper()
	r := loop.NewReplay()
	for _, l := range lines {
		if err := r.Add(l); err != nil {
			t.Fatal(err)
		}
	}
	return r.State
}

func environment(m Asked, gateways ...[]byte) *testsuite.TestWorkflowEnvironment {
	return environmentOf(&Machine{Host: m, Fleet: "f", ID: "m1", Gateways: gateways})
}

func environmentOf(m *Machine) *testsuite.TestWorkflowEnvironment {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	c, err := Converter(Keys{Write: "k1", All: map[string][]byte{"k1": NewKey()}})
	if err != nil {
		panic(err)
	}
	env.SetDataConverter(c)
	env.RegisterWorkflowWithOptions(Loop, workflow.RegisterOptions{Name: WorkflowName})
	env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: WorkflowID("f", "m1", place)})
	m.Now = env.Now
	m.Register(env)
	env.RegisterActivityWithOptions(m.verb, activity.RegisterOptions{Name: VerbName})
	return env
}

// runs runs the workflow to its end.
func runs(t *testing.T, env *testsuite.TestWorkflowEnvironment, a Args) (out Result) {
	t.Helper()
	env.SetTestTimeout(30 * time.Second)
	env.ExecuteWorkflow(WorkflowName, a)
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	if err := env.GetWorkflowResult(&out); err != nil {
		t.Fatal(err)
	}
	return out
}
