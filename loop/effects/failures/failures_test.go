package failures

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/effects"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/worktree"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/classify"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/recovery/learn"
	"github.com/superloop/superloop/recovery/preflight"
	"github.com/superloop/superloop/roles/agent/cooldown"
)

// ownRules are an operator's own.
const ownRules = `layer: infra
handlers:
  - id: stale_index
    label: The index is stale
    description: The index is older than what it indexes.
    category: environment
    confidence: 0.8
    match: {any: ['^mytool: the index (?P<path>\S+ )?is stale']}
    options:
      - {id: refresh, label: Make the index anew, strategy: env_fix, recommended: true, confidence: 0.9, commands: [[./refresh]]}
    examples:
      - {tool: mytool 1, command: ./check, exit_code: 1, stderr: "mytool: the index is stale"}
    counter_examples:
      - {tool: mytool 1, command: ./check, exit_code: 1, stderr: "mytool: no index"}
recipes:
  - id: mytool
    label: My tool
    cli: mytool
    category: core
    install: {script: [[./get-tool]]}
    post_env: PATH=$HOME/bin:$PATH
`

const theirRules = `recipes:
  - id: theirs
    label: Their tool
    cli: theirs
    category: core
    install: {script: [[./get-tool]]}
`

// testBook is read once for all tests.
var testBook = sync.OnceValue(func() *book {
	dir, err := os.MkdirTemp("", "rules")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	repo := filepath.Join(dir, "repo", ".superloop", "recovery")
	err = errors.Join(os.MkdirAll(repo, 0o755), os.WriteFile(filepath.Join(dir, "own.yaml"), []byte(ownRules), 0o644),
		os.WriteFile(filepath.Join(repo, "theirs.yaml"), []byte(theirRules), 0o644))
	if err != nil {
		panic(err)
	}
	b := &book{}
	var problems catalog.Problems
	b.cat, problems = catalog.Load(context.Background(), catalog.Options{UserDir: dir, RepoDir: filepath.Join(dir, "repo")})
	if errs := problems.Errors(); len(errs) > 0 {
		panic(errs[0].String())
	}
	if b.classifier, b.err = classify.New(b.cat, classify.Options{}); b.err != nil {
		panic(b.err)
	}
	return b
})

type line struct {
	event  string
	fields map[string]any
}

// failuresWorld is a Performer and all that it stands on.
type failuresWorld struct {
	t *testing.T
	*Performer
	s    loop.State
	set  effects.Settings
	at   time.Time
	tick time.Duration // how much later each look at the clock is
	// What happened, in order: events of the journal, questions, steps of the disk.
	events []string
	lines  []line
	// recordErr fails what is written to the journal, fault a step of the disk.
	recordErr error
	fault     func(op string) error

	policy     *recovery.Policy
	scored     []string
	past       func(string) learn.Past
	candidates []failures.Candidate
	asked      []effects.AgentQuestion
	answer     func(context.Context) (loop.RoleEnded, string, error)
	was, now   failures.Snapshot
	ran        []proc.Spec
	run        func(context.Context, proc.Spec) (proc.Result, error)
	swept      []string
	sweep      map[string][]int
}

func newFailuresWorld(t *testing.T) *failuresWorld {
	t.Helper()
	w := &failuresWorld{t: t, at: time.Now().UTC().Truncate(time.Second)}
	repo := t.TempDir()
	paths, err := layout.NewPaths(repo, "one", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{paths.Loop, paths.Private, filepath.Dir(paths.Preventions())} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w.write(filepath.Join(paths.Repo, "refresh"), "#!/bin/sh\n")
	if w.policy, _ = recovery.Compile(recovery.Settings{Enabled: true, AutoApprove: []string{"./refresh"}}); w.policy == nil {
		t.Fatal("no policy")
	}
	disk := durable.OS().WithFault(func(op string) error {
		if w.fault == nil {
			return nil
		}
		return w.fault(op)
	})
	w.set.Config = &config.Config{Runners: map[string]config.Runner{"doctor": {Command: []string{"doctor"}}}}
	host := &effects.Host{LoopID: "one", Paths: paths, Repo: &worktree.Repo{Top: paths.Repo}, Disk: disk, Runner: w, Environ: []string{"PATH=/bin:/usr/bin", "MY_TOKEN=verysecretvalue"},
		Settings: func() effects.Settings { return w.set }, Log: zap.NewNop(),
		Clock: func() time.Time { w.at = w.at.Add(w.tick); return w.at }, Random: func() float64 { return 0 }}
	w.Performer = &Performer{Host: host, Journal: w, Rules: &Rules{read: testBook}, Policies: func() []*recovery.Policy { return []*recovery.Policy{w.policy} },
		Past: w.Past, Candidates: w.Candidates, Environment: w.Environment, Ask: w.Ask,
		Cooldowns: cooldown.New(durable.OS(), paths.Cooldowns()),
		Processes: ProcessTable{Dir: filepath.Join(repo, "no-proc"), Sweep: func(m string) []int { w.swept = append(w.swept, m); return w.sweep[m] }}}
	w.now = failures.Snapshot{FreeMB: -1, FreeInodes: -1}
	w.s = loop.State{LoopID: "one", RunID: "run-1", Iteration: 3, StartedAt: w.at.Add(-time.Hour), UpdatedAt: w.at.Add(-time.Minute),
		Plan: loop.Plan{Roles: []string{"planner", "implementer"}, Remediation: true, Respond: &loop.RespondPlan{Preflight: true}}}
	return w
}

func (w *failuresWorld) Fact(f loop.Fact) (loop.State, error) {
	w.t.Errorf("a fact %s that answers nothing", f.Event())
	return w.s, nil
}

func (w *failuresWorld) Record(event string, fields any) error {
	if w.recordErr != nil {
		return w.recordErr
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		w.t.Fatal(err)
	}
	l := line{event: event}
	if err := json.Unmarshal(raw, &l.fields); err != nil {
		w.t.Fatal(err)
	}
	w.events, w.lines = append(w.events, event), append(w.lines, l)
	return nil
}

func (w *failuresWorld) Past(signature string) func(string) learn.Past {
	w.scored = append(w.scored, signature)
	return w.past
}

func (w *failuresWorld) Candidates(s loop.State, role string) []failures.Candidate {
	if s.RunID != w.s.RunID || role != "implementer" {
		w.t.Errorf("candidates of %s in %s", role, s.RunID)
	}
	return w.candidates
}

func (w *failuresWorld) LogFile(s loop.State, role string, attempt int) string {
	return w.RoleFiles(s.Iteration, role, attempt).Log
}

func (w *failuresWorld) Environment(loop.State) (was, now failures.Snapshot) { return w.was, w.now }

func (w *failuresWorld) Ask(ctx context.Context, s loop.State, q effects.AgentQuestion) (loop.RoleEnded, string, error) {
	if s.RunID != w.s.RunID {
		w.t.Errorf("asked in %s", s.RunID)
	}
	w.events, w.asked = append(w.events, "ask"), append(w.asked, q)
	return w.answer(ctx)
}

func (w *failuresWorld) Run(ctx context.Context, spec proc.Spec) (proc.Result, error) {
	w.ran = append(w.ran, spec)
	return w.run(ctx, spec)
}

// write makes a file, and its directory.
func (w *failuresWorld) write(path, text string) {
	w.t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755)); err != nil {
		w.t.Fatal(err)
	}
}

// printed has the tests have printed a text, of one command that ended with 1.
func (w *failuresWorld) printed(command, before, text, after string) {
	w.t.Helper()
	w.write(w.Paths.File("test-output.txt"), before+text+after)
	from := int64(len(before))
	w.s.TestOutputs = []loop.OutputSpan{{Command: command, ExitCode: 1, From: from, To: from + int64(len(text))}}
}

func (w *failuresWorld) said(events ...string) {
	w.t.Helper()
	if !slices.Equal(w.events, events) {
		w.t.Errorf("%v, want %v", w.events, events)
	}
}

// did performs an effect that has an outcome.
func did[F loop.Fact](w *failuresWorld, e loop.Effect) F {
	w.t.Helper()
	fact, err := w.Perform(w.t.Context(), e, w.s)
	if err != nil {
		w.t.Fatal(err)
	}
	f, ok := fact.(F)
	if !ok {
		w.t.Fatalf("%#v", fact)
	}
	return f
}

func (w *failuresWorld) learned() failures.Preventions {
	w.t.Helper()
	ps, err := preflight.Store[failures.Preventions]{Path: w.Paths.Preventions()}.Load()
	if err != nil {
		w.t.Fatal(err)
	}
	return ps
}

func gone() context.Context {
	ctx, stop := context.WithCancel(context.Background())
	stop()
	return ctx
}

var errTest = errors.New("the test says so")

func TestPerformsOnlyFailures(t *testing.T) {
	t.Parallel()
	w := newFailuresWorld(t)
	fact, err := w.Perform(t.Context(), loop.Effect{Kind: loop.Commit}, w.s)
	if fact != nil || err == nil {
		t.Errorf("%v %v", fact, err)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
