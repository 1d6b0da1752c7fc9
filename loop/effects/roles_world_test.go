package effects

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/worktree"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/roles"
	"github.com/superloop/superloop/roles/agent/cooldown"
)

// roleWorld is what the performer of roles works in: real directories, a fake clock
// (that of synctest), a fake agent, and ports that write down what they are asked.
type roleWorld struct {
	t     *testing.T
	calls []string // of the ports, the journal and the agent, in their order
	logs  *observer.ObservedLogs
	host  *Host
	set   Settings
	disk  map[string]error // faults, by operation and step
	state loop.State
	roles *Roles

	sweepErr, factErr, treeErr error
	environment                loop.Fact
	lies                       bool
	silent                     bool // the agent leaves no report by itself
	classified                 *failures.Classified
	facts                      failures.Facts
	trees                      []string // signatures, one for each look
	policies                   []*recovery.Policy
	started                    loop.RoleStarted
	spec                       proc.Spec
	agent                      func(ctx context.Context, spec proc.Spec) (proc.Result, error)
}

var errBroken = errors.New("broken on purpose")

// exited is how a process ends that has said something.
func exited(code int, said string) proc.Result {
	return proc.Result{Ended: proc.Exited, Code: code, Duration: 1500 * time.Millisecond, Stdout: proc.Capture{Head: []byte(said), Bytes: int64(len(said))}}
}

func inRoleWorld(t *testing.T, f func(t *testing.T, w *roleWorld)) {
	t.Helper()
	repo, state := t.TempDir(), t.TempDir()
	synctest.Test(t, func(t *testing.T) { f(t, newRoleWorld(t, repo, state)) })
}

func newRoleWorld(t *testing.T, repo, state string) *roleWorld {
	t.Helper()
	paths, err := layout.NewPaths(repo, "l", state)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{paths.Loop, paths.Private} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	core, logs := observer.New(zap.DebugLevel)
	w := &roleWorld{t: t, logs: logs, disk: map[string]error{}, agent: func(context.Context, proc.Spec) (proc.Result, error) { return exited(0, "done\n"), nil }}
	w.set = Settings{Config: &config.Config{Runners: map[string]config.Runner{
		"one": {Command: []string{"/bin/agent-one"}, Env: map[string]string{"ONE_TOKEN": "s3cret-token"}},
		"two": {Command: []string{"/bin/agent-two"}},
		"cl":  {Command: []string{"claude"}, Adapter: "claude"},
	}}, Loop: config.Loop{ID: "l", SpecFile: ".superloop/specs/l.md", Respond: config.Respond{Systemic: config.Systemic{Window: time.Hour,
		MinRuns: 5, WarnRate: 0.2, CriticalRate: 0.5, SameCategory: 5, SilentRuns: 3}, Breaker: config.Breaker{Failures: 2, First: time.Minute, Most: time.Hour}},
		Roles: []config.Role{
			{Name: "planner", Runner: "one", Timeout: time.Minute, Inactivity: 10 * time.Second, Runners: []config.Choice{{Runner: "one"}}},
			{Name: "implementer", Runner: "one", Runners: []config.Choice{{Runner: "one", Permissions: "full"}, {Runner: "two", Model: "m", Tier: 2}}},
			{Name: "reviewer", Runner: "cl", Resume: true, Runners: []config.Choice{{Runner: "cl"}}},
		}}}
	w.host = &Host{LoopID: "l", Paths: paths, Repo: &worktree.Repo{Top: paths.Repo}, Environ: []string{"PATH=/nowhere"}, Clock: time.Now,
		Disk:   durable.OS().WithFault(func(op string) error { return w.disk[op] }),
		Random: func() float64 { return 0.5 }, Log: zap.New(core), Runner: w, Settings: func() Settings { return w.set }}
	w.state = loop.State{Version: loop.StateVersion, LoopID: "l", RunID: "run", Status: loop.Running, Iteration: 1, UpdatedAt: time.Now().UTC(),
		Plan: loop.Plan{Roles: []string{"planner", "implementer", "reviewer"}, MaxIterations: 9, Promise: "COMPLETE", Respond: &loop.RespondPlan{}}}
	runners := &Runners{Host: w.host, Cooldowns: cooldown.New(w.host.Disk, paths.Cooldowns())}
	w.roles = &Roles{Host: w.host, Journal: w, Runners: runners, Turns: &Turns{Host: w.host, Runners: runners}, Snapshots: &Snapshots{Host: w.host},
		Prompts: &Prompts{Host: w.host, Tree: w, Rules: func() []*recovery.Policy { return w.policies }}, Tree: w, Proposals: w, Failures: w}
	return w
}

func (w *roleWorld) called(what string) { w.calls = append(w.calls, what) }

func (w *roleWorld) Run(ctx context.Context, spec proc.Spec) (proc.Result, error) {
	w.called("run")
	w.spec = spec
	for _, kv := range spec.Env {
		if role, is := strings.CutPrefix(kv, "SUPERLOOP_ROLE="); is && !w.silent {
			if file, ok := roles.Deliverable(role); ok {
				w.write(w.host.Paths.File(file), role+"'s report\n")
			}
		}
	}
	return w.agent(ctx, spec)
}

func (w *roleWorld) Fact(f loop.Fact) (loop.State, error) {
	w.called("fact " + f.Event())
	w.started, _ = f.(loop.RoleStarted)
	s := w.state
	s.Begun = true
	return s, w.factErr
}

func (w *roleWorld) Record(event string, _ any) error {
	w.called("record " + event)
	return nil
}

func (w *roleWorld) Sweep(_ loop.Effect, s loop.State) (loop.State, error) {
	w.called("sweep")
	return s, w.sweepErr
}

func (w *roleWorld) Lies(loop.State) bool {
	w.called("lies")
	return w.lies
}

func (w *roleWorld) CheckEnvironment(context.Context, loop.Effect, loop.State, string) loop.Fact {
	w.called("environment")
	return w.environment
}

func (w *roleWorld) ClassifyRole(_ context.Context, _ loop.Effect, s loop.State, _ loop.RoleEnded, _ string) (*failures.Classified, int64) {
	w.called("classify")
	if !s.Begun {
		w.t.Error("the state that follows role_start is not used")
	}
	return w.classified, 7
}

func (w *roleWorld) Overrule(context.Context, loop.State, loop.RoleEnded) { w.called("overrule") }

func (w *roleWorld) Facts(context.Context, loop.State) failures.Facts {
	w.called("facts")
	return w.facts
}

func (w *roleWorld) Look(context.Context, loop.State) (string, error) {
	w.called("tree")
	if len(w.trees) == 0 {
		return "", w.treeErr
	}
	sig := w.trees[0]
	w.trees = w.trees[1:]
	return sig, w.treeErr
}

func (w *roleWorld) Branch(context.Context) string { return "main" }

// effect is that which the machine would give for a role.
func (w *roleWorld) effect(role string) loop.Effect {
	return loop.Effect{ID: "r1", Kind: loop.RunRole, Role: role, Attempt: 1}
}

// perform runs a role to its end.
func (w *roleWorld) perform(e loop.Effect) loop.RoleEnded {
	w.t.Helper()
	fact, err := w.roles.Perform(w.t.Context(), e, w.state)
	f, ok := fact.(loop.RoleEnded)
	if err != nil || !ok {
		w.t.Fatalf("%+v %v", fact, err)
	}
	return f
}

func (w *roleWorld) read(path string) string {
	w.t.Helper()
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Fatal(err)
	}
	return string(data)
}

func (w *roleWorld) write(path, text string) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// pass lets time pass.
func pass(d time.Duration) { <-time.After(d) }

// same compares by what is written of both, which leaves out how times were made.
func same(t *testing.T, got, want any) {
	t.Helper()
	g, err := json.MarshalIndent(got, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	x, err := json.MarshalIndent(want, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if string(g) != string(x) && !reflect.DeepEqual(got, want) {
		t.Errorf("got  %s\nwant %s", g, x)
	}
}

func (w *roleWorld) order(want string) {
	w.t.Helper()
	if got := strings.Join(w.calls, ", "); got != want {
		w.t.Errorf("calls: %s\nwant:  %s", got, want)
	}
}
