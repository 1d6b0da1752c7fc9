package effects

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/worktree"
)

var (
	errBoom = errors.New("boom")
	gateDay = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
)

// gateWorld is what the performers of the tests, the gates and the commits see of a
// world: real directories, a disk and ports that fail on demand, and one list of all
// that happened, in its order.
type gateWorld struct {
	t    *testing.T
	host *Host
	set  Settings
	now  time.Time
	log  []string
	said []string

	facts   []loop.Fact
	after   func(loop.State) loop.State // what a fact makes of the state
	state   loop.State
	fail    func(op string) error // a step on the disk
	steps   []string
	factErr error
	lookErr error
	lookSig string
	files   string // what Files and AfterTests give
	turns   []gateTurn
	specs   []proc.Spec
}

// gateTurn is how a command plays its part.
type gateTurn struct {
	out  string
	res  proc.Result
	err  error
	took time.Duration
	do   func(spec proc.Spec) // what the command does, if it is not nil
}

func newGateWorld(t *testing.T) *gateWorld {
	t.Helper()
	repo, state := t.TempDir(), t.TempDir()
	paths, err := layout.NewPaths(repo, "l", state)
	gateMust(t, err)
	for _, dir := range []string{paths.Loop, paths.Trees()} {
		gateMust(t, os.MkdirAll(dir, 0o755))
	}
	w := &gateWorld{t: t, now: gateDay, lookSig: "tree-2"}
	w.set.Config = &config.Config{}
	w.host = &Host{LoopID: "l", Paths: paths, Repo: &worktree.Repo{Top: paths.Repo}, Runner: w, Log: zap.NewNop(),
		Environ: []string{"PATH=" + os.Getenv("PATH")}, Settings: func() Settings { return w.set }, Clock: func() time.Time { return w.now },
		Said: func(who, line string) { w.said = append(w.said, who+": "+line) }}
	w.host.Disk = durable.OS().WithFault(func(op string) error {
		w.steps = append(w.steps, op)
		if w.fail != nil {
			return w.fail(op)
		}
		return nil
	})
	w.state = loop.State{Version: 1, LoopID: "l", RunID: "r1", Iteration: 3, UpdatedAt: gateDay,
		Plan: loop.Plan{Roles: []string{"planner", "reviewer"}, Promise: "DONE", Tests: "every", StuckThreshold: 3}}
	return w
}

func gateMust(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *gateWorld) Fact(f loop.Fact) (loop.State, error) {
	w.log = append(w.log, f.Event())
	w.facts = append(w.facts, f)
	if w.after != nil {
		w.state = w.after(w.state)
	}
	return w.state, w.factErr
}

func (w *gateWorld) Record(event string, _ any) error {
	w.log = append(w.log, "record "+event)
	return nil
}

func (w *gateWorld) Look(_ context.Context, s loop.State) (string, error) {
	w.log = append(w.log, "look at "+s.RunID)
	return w.lookSig, w.lookErr
}

func (w *gateWorld) TestsWrote(_ context.Context, s loop.State) error {
	w.log = append(w.log, "look at what the tests of "+s.RunID+" wrote")
	return w.lookErr
}

func (w *gateWorld) Files(context.Context) (string, error) { return w.files, w.lookErr }

func (w *gateWorld) BeforeTests(context.Context) error { w.log = append(w.log, "before"); return nil }

func (w *gateWorld) Before(context.Context) error { w.log = append(w.log, "before"); return nil }

func (w *gateWorld) After(context.Context, loop.State) (string, error) {
	w.log = append(w.log, "after")
	return w.files, nil
}

func (w *gateWorld) AfterTests(context.Context) (string, error) { return w.files, nil }

func (w *gateWorld) Learned(_ context.Context, s loop.State, result string) {
	w.log = append(w.log, "learned "+result+" of "+s.RunID)
}

func (w *gateWorld) Run(ctx context.Context, spec proc.Spec) (proc.Result, error) {
	w.log = append(w.log, "run "+spec.Argv[len(spec.Argv)-1])
	w.specs = append(w.specs, spec)
	if ctx.Err() != nil {
		return proc.Result{Ended: proc.Killed, Code: -1}, nil
	}
	turn := gateTurn{res: proc.Result{Ended: proc.Exited}}
	if len(w.turns) > 0 {
		turn, w.turns = w.turns[0], w.turns[1:]
	}
	if turn.do != nil {
		turn.do(spec)
	}
	_, _ = io.WriteString(spec.Log, turn.out)
	spec.Stdout([]byte(turn.out))
	turn.res.Stdout.Head = []byte(turn.out)
	turn.res.Duration = turn.took
	w.now = w.now.Add(turn.took)
	return turn.res, turn.err
}

// put writes a file of the repository, or of the loop's directory if it starts with @.
func (w *gateWorld) put(name, text string) string {
	w.t.Helper()
	path := filepath.Join(w.host.Paths.Repo, name)
	if own, ok := strings.CutPrefix(name, "@"); ok {
		path = w.host.Paths.File(own)
	}
	gateMust(w.t, os.MkdirAll(filepath.Dir(path), 0o755))
	gateMust(w.t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// file is a file of the loop's directory, "" if it is not there.
func (w *gateWorld) file(name string) string {
	w.t.Helper()
	data, err := os.ReadFile(w.host.Paths.File(name))
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	return string(data)
}

func gateEqual[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %#v\nwant %#v", what, got, want)
	}
}

// everyStep performs once to see the steps on the disk, and then once for each of
// them with a full disk there: each must be an error that names the way out once.
// Steps whose failure is no error are those of tolerated, by their beginning.
func everyStep(t *testing.T, world func(t *testing.T) (*gateWorld, func() error), tolerated ...string) {
	t.Helper()
	w, perform := world(t)
	w.steps = nil
	gateMust(t, perform())
	steps := slices.Clone(w.steps)
	if len(steps) == 0 {
		t.Fatal("nothing was written")
	}
	for i, step := range steps {
		if slices.ContainsFunc(tolerated, func(p string) bool { return strings.HasPrefix(step, p) }) {
			continue
		}
		w, perform := world(t)
		n := 0
		w.fail = func(string) error {
			n++
			if n == i+1 {
				return syscall.ENOSPC
			}
			return nil
		}
		err := perform()
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("step %d, %s: %v", i, step, err)
			continue
		}
		if n := strings.Count(err.Error(), "superloop run --loop l"); n != 1 {
			t.Errorf("step %d, %s: the way out is named %d times: %v", i, step, n, err)
		}
	}
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t)
	w.host.Said = nil
	w.set.Loop.Tests.Commands, w.turns = []string{"a"}, []gateTurn{{out: "x\n", res: exitedWith(0)}}
	if _, err := w.tests().Perform(t.Context(), runTests(""), w.state); err != nil || w.host.Says("tests") != nil {
		t.Error(err)
	}
}

func TestOnlyTheirOwnEffects(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t)
	for _, p := range []Performer{&Tests{Host: w.host}, &Gates{Host: w.host}} {
		if fact, err := p.Perform(t.Context(), loop.Effect{Kind: loop.Wait}, w.state); err == nil || fact != nil {
			t.Errorf("%T: %v, %v", p, fact, err)
		}
	}
}
