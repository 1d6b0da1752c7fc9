package execute

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/inputs"
	"github.com/superloop/superloop/recovery/learn"
	"github.com/superloop/superloop/recovery/sandbox"
	"github.com/superloop/superloop/recovery/undo"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case proc.SpawnerArg:
			os.Exit(proc.SpawnerMain())
		case sandbox.ShimArg:
			os.Exit(sandbox.ShimMain())
		}
	}
	goleak.VerifyTestMain(m)
}

var start = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// testEnv is an Executor on a repository of its own. Everything that matters
// happens in the order of steps.
type testEnv struct {
	*Executor
	t        testing.TB
	now      time.Time
	policies []*recovery.Policy
	warned   []string

	mu    sync.Mutex // guards what follows
	steps []string
	fail  map[string]error // by the step of the disk

	measured  int // how often Measure was called
	box       sandbox.Sandbox
	boxErr    error
	spec      sandbox.Spec // that the sandbox got
	run       func(ctx context.Context, s sandbox.Spec) (sandbox.Result, error)
	confirm   func(now Judgement) (string, error)
	intent    Intent
	intendErr error
}

// counted are the steps of the disk that are in steps.
var counted = map[string]string{"undo-manifest:rename": "keep", "undo-seal:rename": "seal", "undo-drop:remove": "drop", "learned:rename": "learn", "baseline:rename": "pin"}

func newEnv(t testing.TB, policies ...*recovery.Policy) *testEnv {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	e := &testEnv{t: t, now: start, policies: policies, fail: map[string]error{}, box: sandbox.Sandbox{Level: sandbox.LandlockMount}}
	repo, state, home := filepath.Join(top, "repo"), filepath.Join(top, "state"), filepath.Join(top, "home")
	for _, dir := range []string{repo, state, home, filepath.Join(top, "tmp")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	disk := durable.OS().WithFault(func(op string) error {
		e.mu.Lock()
		defer e.mu.Unlock()
		if what, ok := counted[op]; ok {
			e.steps = append(e.steps, what)
		}
		return e.fail[op]
	})
	e.Executor = &Executor{
		Repo: repo, StateDir: state, Ledger: inputs.Ledger{Disk: disk, Dir: state, Repo: repo}, Tmp: filepath.Join(top, "tmp"),
		Disk: disk, Undo: undo.Store{Disk: disk, Dir: filepath.Join(state, "undo"), Repo: repo},
		Learned: learn.Store{Disk: disk, Path: filepath.Join(state, "learned.json")}, Sandbox: e,
		Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "API_TOKEN=hunter2-hunter2", "EXTRA=1", "OTHER=2"}, Marker: "MARK=1",
		Policies: func() []*recovery.Policy { return e.policies }, Now: func() time.Time { return e.now },
		Warn: func(what string, err error) { e.warned = append(e.warned, what+": "+err.Error()) },
	}
	e.run = func(context.Context, sandbox.Spec) (sandbox.Result, error) {
		return sandbox.Result{Ended: proc.Exited}, nil
	}
	return e
}

func (e *testEnv) step(what string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.steps = append(e.steps, what)
}

// wantSteps compares what happened since the last time.
func (e *testEnv) wantSteps(want string) {
	e.t.Helper()
	if got := strings.Join(e.steps, " "); got != want {
		e.t.Errorf("steps %q, want %q", got, want)
	}
	e.steps = nil
}

func (e *testEnv) wantWarned(want ...string) {
	e.t.Helper()
	if len(want) != len(e.warned) {
		e.t.Errorf("warned of %q, want %q", e.warned, want)
		return
	}
	for i, w := range want {
		if !strings.Contains(e.warned[i], w) {
			e.t.Errorf("warned of %q, want %q", e.warned[i], w)
		}
	}
	e.warned = nil
}

// Measure and Run make it the sandbox.
func (e *testEnv) Measure(context.Context) (sandbox.Sandbox, error) {
	e.measured++
	return e.box, e.boxErr
}

func (e *testEnv) Run(ctx context.Context, s sandbox.Spec) (sandbox.Result, error) {
	e.step("run")
	e.spec = s
	return e.run(ctx, s)
}

func (e *testEnv) put(name, text string) {
	e.t.Helper()
	path := filepath.Join(e.Repo, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		e.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		e.t.Fatal(err)
	}
}

func (e *testEnv) git(args ...string) {
	e.t.Helper()
	home := e.t.TempDir()
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1"}
	argv := append([]string{"git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org"}, args...)
	if _, err := (proc.Tool{Dir: e.Repo, Env: env}).Run(e.t.Context(), argv...); err != nil {
		e.t.Fatal(err)
	}
}

func (e *testEnv) commit() {
	e.t.Helper()
	e.git("init", "-q", "--template=", "-b", "main")
	e.git("add", "-A")
	e.git("commit", "-q", "-m", "x")
}

func (e *testEnv) pin(first bool) {
	e.t.Helper()
	if err := e.Pin(e.t.Context(), e.lockFile(), first); err != nil {
		e.t.Fatal(err)
	}
}

// lockFile is the lock of a run, which nobody holds: each pin takes the last one for dead.
func (e *testEnv) lockFile() string { return filepath.Join(e.StateDir, "lock") }

func (e *testEnv) judge(a action.Action, b recovery.Budget) Judgement {
	e.t.Helper()
	j, err := e.Judge(e.t.Context(), a, b)
	if err != nil {
		e.t.Fatal(err)
	}
	return j
}

// order is an order by the policy, as it is judged now.
func (e *testEnv) order(a action.Action) Order {
	e.t.Helper()
	o := Order{Action: a, Basis: e.judge(a, recovery.Budget{}).Basis(), Label: undo.Label{Loop: "l", Run: "r", Recovery: 7}, Signature: "sig", Option: "h/opt"}
	o.Intend = func(in Intent) error {
		e.step("intend")
		e.intent = in
		return e.intendErr
	}
	return o
}

// human is the same order as a human has approved it.
func (e *testEnv) human(a action.Action) Order {
	e.t.Helper()
	o := e.order(a)
	o.Basis = Basis{}
	o.Confirm = func(_ context.Context, now Judgement) (string, error) {
		e.step("confirm")
		if e.confirm == nil {
			return "", nil
		}
		return e.confirm(now)
	}
	return o
}

func (e *testEnv) execute(o Order) Outcome {
	e.t.Helper()
	out, err := e.Execute(e.t.Context(), o)
	if err != nil {
		e.t.Fatal(err)
	}
	return out
}

// sets are the undo sets that are there.
func (e *testEnv) sets() []undo.Kept {
	e.t.Helper()
	all, err := e.Undo.List()
	if err != nil {
		e.t.Fatal(err)
	}
	return all
}

func (e *testEnv) learned() []learn.Entry {
	e.t.Helper()
	m, err := e.Learned.Load()
	if err != nil {
		e.t.Fatal(err)
	}
	return m.Entries
}

// noTemps fails if a directory for temporary files is left.
func (e *testEnv) noTemps() {
	e.t.Helper()
	left, err := os.ReadDir(e.Tmp)
	if err != nil || len(left) != 0 {
		e.t.Errorf("left: %v %v", left, err)
	}
}

func command(text string) action.Action {
	return action.Draft{Command: text, WorkingDir: ".", TimeoutMS: 60_000}.Action()
}

// policy lists commands, with what else is to be different from the defaults.
func policy(t testing.TB, change func(*recovery.Settings), commands ...string) *recovery.Policy {
	t.Helper()
	s := recovery.Defaults()
	s.AutoApprove = slices.Clone(commands)
	if change != nil {
		change(&s)
	}
	p, problems := recovery.Compile(s)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return p
}
