package desk

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/control"
	"github.com/superloop/superloop/loop/host"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/local"
)

func TestMain(m *testing.M) {
	local.Main()
	os.Exit(m.Run())
}

// machine is a repository with the loop l, and a desk that has it.
type machine struct {
	t     *testing.T
	top   string
	place host.Place
	*host.Client
	stirred chan host.Place
	slot    func(host.Slot) // nil: each role begins at once
	ended   chan error
	close   func()
}

func newMachine(t *testing.T, agent, loopKeys string) *machine {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, top: top, place: host.Place{Repo: filepath.Join(top, "repo"), Loop: "l"}}
	m.write("repo/spec.md", "build it\n")
	m.write("agent.sh", `cat > /dev/null
echo "$SUPERLOOP_ROLE $SUPERLOOP_ITERATION $SUPERLOOP_ATTEMPT" >> work.txt
echo "$SUPERLOOP_ROLE $SUPERLOOP_ATTEMPT" >> "`+filepath.Join(top, "ran")+`"
case $SUPERLOOP_ROLE in planner) f=plan.md ;; *) f=review.md ;; esac
echo "$SUPERLOOP_ROLE" > "$SUPERLOOP_LOOP_DIR/$f"
`+agent+"\n")
	m.write("repo/.superloop/config.json", `{"runners": {"sh": {"command": ["sh", "`+filepath.Join(top, "agent.sh")+`"]}}, "recovery": {"enabled": false},
  "loops": [{"id": "l", "spec_file": "spec.md", "completion_promise": "DONE", "completion": {"allow_ungated": true}, "max_iterations": 3, "roles": ["planner", "reviewer"]`+loopKeys+`}]}`)
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=n", "-c", "user.email=e@example.com", "commit", "-q", "-m", "begin"}} {
		cmd := exec.Command("git", append([]string{"-C", m.place.Repo}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	m.open()
	t.Cleanup(func() { m.close() })
	return m
}

// open begins a desk, as a new process does.
func (m *machine) open() {
	in, to := io.Pipe()
	from, out := io.Pipe()
	m.stirred, m.ended = make(chan host.Place, 9), make(chan error, 1)
	go func() {
		err := Serve(context.Background(), in, out, Options{Prepare: m.prepare, Log: zap.NewNop(), Verb: func(_ context.Context, v host.Verb) ([]byte, error) {
			return nil, &host.Error{Text: strings.Join(v.Args, " "), Final: true}
		}})
		_ = out.Close()
		m.ended <- err
	}()
	m.Client = host.NewClient(to, from, func(p host.Place) { m.stirred <- p }, m.slot)
	m.close = func() {
		_ = m.Client.Close()
		if err := <-m.ended; err != nil {
			m.t.Error(err)
		}
	}
}

func (m *machine) prepare(p host.Place, by string) (local.Options, func(), error) {
	if p != m.place {
		return local.Options{}, nil, errors.New("no such loop")
	}
	cfg, err := config.Load(filepath.Join(p.Repo, ".superloop", "config.json"))
	return local.Options{Repo: p.Repo, LoopID: p.Loop, Config: cfg, Version: "v", StateHome: filepath.Join(m.top, "state"), Disk: durable.OS(), Containment: proc.ProcessGroup, Unprotected: true,
		Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + m.top, "GIT_CONFIG_GLOBAL=/dev/null"}, By: by}, func() {}, err
}

func (m *machine) write(name, text string) {
	m.t.Helper()
	path := filepath.Join(m.top, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) ran() string {
	m.t.Helper()
	data, err := os.ReadFile(filepath.Join(m.top, "ran"))
	if err != nil && !os.IsNotExist(err) {
		m.t.Fatal(err)
	}
	return string(data)
}

// engine folds what the machine tells, as an engine does.
type engine struct {
	m    *machine
	fold *loop.Replay
	seq  int64
}

func (m *machine) adopt() *engine {
	m.t.Helper()
	t, err := m.Turn(m.t.Context(), host.Turn{Place: m.place, Start: true, By: "ann"})
	if err != nil || t.State == nil {
		m.t.Fatal(t, err)
	}
	e := &engine{m, loop.NewReplay(), t.Seq}
	e.fold.State = *t.State
	return e
}

func (e *engine) due() host.Turn {
	next, _ := loop.Due(e.fold.State)
	return host.Turn{Place: e.m.place, Effect: next.ID, Since: e.seq}
}

func (e *engine) took(t host.Turned, err error) host.Turned {
	e.m.t.Helper()
	if err != nil {
		e.m.t.Fatal(err)
	}
	for _, l := range t.Lines {
		if l.Seq != e.seq+1 {
			e.m.t.Fatalf("event %d after %d", l.Seq, e.seq)
		}
		if err := e.fold.Add(l.Event()); err != nil {
			e.m.t.Fatal(err)
		}
		e.seq = l.Seq
	}
	return t
}

// turn asks for what is due.
func (e *engine) turn() host.Turned {
	e.m.t.Helper()
	return e.took(e.m.Turn(e.m.t.Context(), e.due()))
}

// end takes turns until the loop rests.
func (e *engine) end(rest host.Rest) {
	e.m.t.Helper()
	for range 60 {
		if t := e.turn(); t.Rest != host.GoesOn && !t.More {
			if t.Rest != rest {
				e.m.t.Fatalf("it rests: %s (%s, %s)", t.Rest, e.fold.State.Status, e.fold.State.Reason)
			}
			return
		}
	}
	e.m.t.Fatal("it goes on for ever")
}

const done = `[ "$SUPERLOOP_ROLE" != reviewer ] || echo '<promise>DONE</promise>'`

// TestCheapEffectsTakeNoTurn: what only reads and writes small files comes with the answer about what was due before it.
func TestCheapEffectsTakeNoTurn(t *testing.T) {
	t.Parallel()
	m := newMachine(t, done, "")
	e := m.adopt()
	var asked []loop.EffectKind
	for rest := host.GoesOn; rest == host.GoesOn && len(asked) < 60; rest = e.turn().Rest {
		next, do := loop.Due(e.fold.State)
		if asked = append(asked, next.Kind); do == loop.DoStart && next.Kind.Cheap() {
			t.Errorf("the engine was asked for %s", next.Kind)
		}
	}
	if e.fold.State.Status != loop.Completed || len(asked) > 5 {
		t.Errorf("%s after the turns %v", e.fold.State.Status, asked)
	}
}

// TestOutcomeThatNobodyHeard: an effect whose outcome was lost on its way is not carried out again, also by another process.
func TestOutcomeThatNobodyHeard(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		m := newMachine(t, done, "")
		e := m.adopt()
		for range 60 {
			asked := e.due()
			if _, err := m.Turn(t.Context(), asked); err != nil { // nobody hears of it
				t.Fatal(err)
			}
			if restart {
				m.close()
				m.open()
			}
			before := m.ran()
			again := e.took(m.Turn(t.Context(), asked))
			if now := m.ran(); now != before && !restart {
				t.Fatalf("carried out again: %q, then %q", before, now)
			}
			if again.Rest == host.Ended {
				break
			}
		}
		if got := m.ran(); got != "planner 1\nreviewer 1\n" || e.fold.State.Status != loop.Completed {
			t.Errorf("restart %v: %q, %s", restart, got, e.fold.State.Status)
		}
	}
}

// TestEngineOfAnotherVersion: an engine that wants something else than the machine, or knows more than its journal, is told so.
func TestEngineOfAnotherVersion(t *testing.T) {
	t.Parallel()
	m := newMachine(t, done, "")
	e := m.adopt()
	for name, bad := range map[string]host.Turn{"versions": {Place: m.place, Effect: "another", Since: e.seq}, "the journal ends before": {Place: m.place, Effect: e.due().Effect, Since: e.seq + 9}} {
		_, err := m.Turn(t.Context(), bad)
		if said, ok := errors.AsType[*host.Error](err); !ok || !said.Final || !strings.Contains(said.Text, name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := m.Turn(t.Context(), host.Turn{Place: host.Place{Repo: "/nowhere", Loop: "x"}, Start: true})
	if said, ok := errors.AsType[*host.Error](err); !ok || !said.Final || said.Text != "no such loop" {
		t.Errorf("a loop that is not there: %v", err)
	}
	if m.ran() != "" {
		t.Errorf("%q ran", m.ran())
	}
	if _, err := m.Verb(t.Context(), host.Verb{Args: []string{"kick", "--loop", "l"}}); err == nil || err.Error() != "kick --loop l" {
		t.Error(err)
	}
	e.end(host.Ended)
}

// TestTurnIsEnded: when the engine ends a turn, the agent ends, the loop is paused, and the next turn begins the role again.
func TestTurnIsEnded(t *testing.T) {
	t.Parallel()
	m := newMachine(t, `[ "$SUPERLOOP_ROLE" != planner ] || [ -e "$0.go" ] || sleep 1000`+"\n"+done, "")
	e := m.adopt()
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		for m.ran() == "" && ctx.Err() == nil {
			<-time.After(time.Millisecond)
		}
		m.write("agent.sh.go", "")
		stop()
	}()
	for ctx.Err() == nil {
		e.took(m.Turn(ctx, e.due()))
	}
	if e.fold.State.Status != loop.Paused {
		t.Fatalf("%s, %s", e.fold.State.Status, e.fold.State.Reason)
	}
	if _, held := local.Supervisor(m.paths()); held {
		t.Error("the loop is still held")
	}
	e.end(host.Ended)
	if got := m.ran(); got != "planner 1\nplanner 2\nreviewer 1\n" {
		t.Errorf("%q", got)
	}
}

func (m *machine) paths() layout.Paths {
	m.t.Helper()
	p, err := layout.NewPaths(m.place.Repo, m.place.Loop, filepath.Join(m.top, "state"))
	if err != nil {
		m.t.Fatal(err)
	}
	return p
}

// TestLoopThatWaits: a loop that waits is held without a process, turns about it change nothing, and what an operator does
// stirs it.
func TestLoopThatWaits(t *testing.T) {
	t.Parallel()
	m := newMachine(t, done, `, "approval": {"enabled": true, "require_on_completion": true}`)
	e := m.adopt()
	e.end(host.Waits)
	seq := e.seq
	for range 3 {
		if got := e.turn(); got.Rest != host.Waits || got.Left <= 0 || e.seq != seq {
			t.Fatalf("%+v", got)
		}
	}
	if _, held := local.Supervisor(m.paths()); !held {
		t.Error("the loop is not held")
	}
	if err := control.Submit(durable.OS(), m.paths(), control.Intent{ID: "c1", Kind: control.IntentCancel, By: "ann", RunID: e.fold.State.RunID, At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if p := <-m.stirred; p != m.place {
		t.Errorf("%v stirs", p)
	}
	e.end(host.Ended)
	if e.fold.State.Status != loop.Cancelled {
		t.Errorf("%s", e.fold.State.Status)
	}
}

// TestAnEventThatIsTooLong: an event that no engine carries is an error that says so, and stays.
func TestAnEventThatIsTooLong(t *testing.T) {
	t.Parallel()
	m := newMachine(t, done, `, "approval": {"enabled": true, "require_on_completion": true}`)
	e := m.adopt()
	e.end(host.Waits)
	j, err := journal.Open(durable.OS(), m.paths().Events(), journal.Options{Head: m.paths().Head()})
	if err != nil {
		t.Fatal(err)
	}
	fields := []byte(`{"note":"` + strings.Repeat("x", longestLine) + `"}`)
	if _, err := j.Append(false, journal.Event{Event: "note", LoopID: m.place.Loop, RunID: e.fold.State.RunID, Timestamp: time.Now(), Fields: fields}); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err = m.Turn(t.Context(), e.due())
		if said, ok := errors.AsType[*host.Error](err); !ok || !said.Final || !strings.Contains(said.Error(), "bytes") {
			t.Fatalf("%v", err)
		}
	}
}

// TestPausedByAnOperator: the loop is let go, and the next turn resumes it.
func TestPausedByAnOperator(t *testing.T) {
	t.Parallel()
	m := newMachine(t, done, "")
	e := m.adopt()
	if err := control.Submit(durable.OS(), m.paths(), control.Intent{ID: "p1", Kind: control.IntentPause, By: "ann", RunID: e.fold.State.RunID, At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	e.end(host.Paused)
	if _, held := local.Supervisor(m.paths()); held || m.ran() != "" {
		t.Errorf("held %v, %q ran", held, m.ran())
	}
	e.end(host.Ended)
}

// TestEndedByAnOperator: a loop that was cancelled while nobody had it stays cancelled, whatever the engine wanted.
func TestEndedByAnOperator(t *testing.T) {
	t.Parallel()
	m := newMachine(t, done, "")
	e := m.adopt()
	submit := func(kind string) {
		t.Helper()
		if err := control.Submit(durable.OS(), m.paths(), control.Intent{ID: kind, Kind: kind, By: "ann", RunID: e.fold.State.RunID, At: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	submit(control.IntentPause)
	e.end(host.Paused)
	submit(control.IntentCancel)
	o, release, err := m.prepare(m.place, "ann")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if err := local.Cancel(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	e.end(host.Ended)
	if got := m.ran(); got != "" || e.fold.State.Status != loop.Cancelled {
		t.Errorf("%q ran, and it is %s", got, e.fold.State.Status)
	}
	if v, err := local.LastView(m.paths()); err != nil || v.Status != loop.Cancelled || v.Seq != e.seq {
		t.Errorf("%+v %v", v, err)
	}
}
