package effects

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/worktree"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/execute"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/recovery/learn"
	"github.com/superloop/superloop/recovery/sandbox"
)

var (
	recStart = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	errRec   = errors.New("it does not work")
)

// recHost is the performers about recoveries, on directories of their own. What
// happens in an order that matters is in steps.
type recHost struct {
	*Host
	t          *testing.T
	now        time.Time
	config     *config.Config
	next       *config.Config
	journal    *recJournal
	executor   *recExecutor
	policies   *Policies
	outbox     *Outbox
	approvals  *Approvals
	recoveries *Recoveries
	logged     *observer.ObservedLogs

	tree     string // what Look gives
	files    string // what Files gives
	treeErr  error
	whole    bool
	believed []string // roles whose runners were believed in again
	views    int
	viewsErr error

	mu    sync.Mutex // guards what follows
	steps []string
	fail  map[string]error // by the step of the disk
	at    string           // the step of the disk before which then is called, once
	then  func()
}

func newRecHost(t *testing.T) *recHost {
	t.Helper()
	return newRecHostAt(t, t.TempDir())
}

func newRecHostAt(t *testing.T, top string) *recHost {
	t.Helper()
	top, err := filepath.EvalSymlinks(top)
	if err != nil {
		t.Fatal(err)
	}
	repo := filepath.Join(top, "repo")
	if err := os.Mkdir(repo, 0o755); err != nil {
		t.Fatal(err)
	}
	paths, err := layout.NewPaths(repo, "l", filepath.Join(top, "state"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{paths.Loop, paths.Private} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	core, logged := observer.New(zap.DebugLevel)
	r := &recHost{t: t, now: recStart, logged: logged, tree: "tree-1", fail: map[string]error{}, config: &config.Config{}}
	r.config.Recovery = []byte(`{"auto_approve": ["make deps"]}`)
	r.Host = &Host{LoopID: "l", Paths: paths, Log: zap.New(core), Clock: func() time.Time { return r.now },
		Moved: func(path, to string) { zap.New(core).Warn("moved", zap.String("path", path), zap.String("to", to)) },
		Settings: func() Settings {
			r.mu.Lock()
			defer r.mu.Unlock()
			return Settings{Config: r.config, Next: r.next}
		}}
	r.Disk = durable.OS().WithFault(func(op string) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if op == r.at {
			r.at = ""
			r.then()
		}
		return r.fail[op]
	})
	r.journal = &recJournal{host: r}
	r.policies = &Policies{Host: r.Host}
	r.executor = &recExecutor{host: r}
	r.outbox = &Outbox{Host: r.Host, Journal: r.journal}
	r.approvals = &Approvals{Host: r.Host, Journal: r.journal, Executor: r.executor, Outbox: r.outbox, Tree: r, Runners: r,
		Whole: func(context.Context, loop.State) bool { return r.whole },
		Views: func() error { r.views++; return r.viewsErr }}
	r.recoveries = &Recoveries{Host: r.Host, Journal: r.journal, Policies: r.policies, Executor: r.executor, Approvals: r.approvals}
	return r
}

// Look is the tree; Candidates and Believed are about the runners.
func (r *recHost) Look(context.Context, loop.State) (string, error) { return r.tree, r.treeErr }

func (r *recHost) Files(context.Context) (string, error)             { return r.files, r.treeErr }
func (r *recHost) BeforeTests(context.Context) error                 { return r.treeErr }
func (r *recHost) Before(context.Context) error                      { return r.treeErr }
func (r *recHost) After(context.Context, loop.State) (string, error) { return "", r.treeErr }
func (r *recHost) AfterTests(context.Context) (string, error)        { return "", r.treeErr }

func (r *recHost) Candidates(_ loop.State, role string) []failures.Candidate {
	return []failures.Candidate{{Agent: failures.Agent{Runner: "for-" + role}, Fit: true}}
}

func (r *recHost) Believed(_ loop.State, role string) { r.believed = append(r.believed, role) }

func (r *recHost) step(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.steps = append(r.steps, what)
}

func (r *recHost) wantSteps(want string) {
	r.t.Helper()
	if got := strings.Join(r.steps, ", "); got != want {
		r.t.Errorf("steps %q, want %q", got, want)
	}
	r.steps = nil
}

// git makes the repository one.
func (r *recHost) git() {
	r.t.Helper()
	cmd := exec.Command("git", "init", "-q", "--template=", "-b", "main", r.Paths.Repo)
	if out, err := cmd.CombinedOutput(); err != nil {
		r.t.Fatalf("%v: %s", err, out)
	}
	repo, err := worktree.Open(r.t.Context(), r.Paths.Repo, r.Paths.Git())
	if err != nil {
		r.t.Fatal(err)
	}
	r.Repo = repo
}

func (r *recHost) put(path, text string) {
	r.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// read is a file's text, "" if there is none.
func (r *recHost) read(path string) string {
	r.t.Helper()
	data, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		r.t.Fatal(err)
	}
	return string(data)
}

func (r *recHost) wantIn(text string, want ...string) {
	r.t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			r.t.Errorf("%q is not in:\n%s", w, text)
		}
	}
}

func (r *recHost) noErr(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// wantErr wants the error of a fault, and for a full disk the next command.
func (r *recHost) wantErr(err, want error) {
	r.t.Helper()
	if !errors.Is(err, want) {
		r.t.Errorf("error %v, want %v", err, want)
	}
	if err != nil && durable.IsFull(want) && !strings.Contains(err.Error(), "superloop run --loop l") {
		r.t.Errorf("%q does not say what to do", err)
	}
}

// record is what is asked now.
func (r *recHost) record() escalation.Record {
	r.t.Helper()
	rec, err := r.approvals.Store().Load()
	r.noErr(err)
	return rec
}

// answer is a human's, by the command line.
func (r *recHost) answer(m escalation.Method, note, edit string) {
	r.t.Helper()
	a := escalation.AnswerRequest{Method: m, Note: note, By: escalation.By{Channel: escalation.CLI, User: "ada", Method: "process"}}
	if edit != "" {
		a.Edit = &escalation.EditedCommand{Text: []byte(edit)}
	}
	_, err := r.approvals.Store().Answer(r.t.Context(), a)
	r.noErr(err)
}

// asks performs AskHuman, and gives the state with what the machine notes of it.
func (r *recHost) asks(s loop.State) (loop.State, loop.Fact) {
	r.t.Helper()
	fact, err := r.approvals.Perform(r.t.Context(), *s.Pending, s)
	r.noErr(err)
	return recAsked(r.t, s, fact), fact
}

// opens has it asked and opened.
func (r *recHost) opens(s loop.State) loop.State {
	r.t.Helper()
	s, _ = r.asks(s)
	if fact, _ := r.look(s, nil); fact != nil {
		r.t.Fatalf("it has an answer: %+v", fact)
	}
	return s
}

// look is Answer.
func (r *recHost) look(s loop.State, m *Mended) (loop.Fact, time.Time) {
	r.t.Helper()
	fact, next, err := r.approvals.Answer(r.t.Context(), s, m)
	r.noErr(err)
	return fact, next
}

// recAsked is the state behind a fact that names a question.
func recAsked(t *testing.T, s loop.State, fact loop.Fact) loop.State {
	t.Helper()
	h := *s.Human
	switch f := fact.(type) {
	case loop.Escalated:
		h.Question, h.Digest = f.ID, f.Digest
	case loop.ApprovalRequested:
		h.Question, h.Digest = f.ID, f.Digest
	default:
		t.Fatalf("%T names no question: %+v", fact, fact)
	}
	s.Human = &h
	return s
}

// recAs is a fact of a type.
func recAs[F loop.Fact](t *testing.T, fact loop.Fact, err error) F {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	f, ok := fact.(F)
	if !ok {
		t.Fatalf("%T: %+v", fact, fact)
	}
	return f
}

// recJournal is a Journal that fails with err.
type recJournal struct {
	host    *recHost
	facts   []loop.Fact
	records []string
	fields  []any
	err     error
}

func (j *recJournal) Fact(f loop.Fact) (loop.State, error) {
	j.host.step(f.Event())
	if j.err == nil {
		j.facts = append(j.facts, f)
	}
	return loop.State{}, j.err
}

func (j *recJournal) Record(event string, fields any) error {
	if j.err == nil {
		j.records, j.fields = append(j.records, event), append(j.fields, fields)
	}
	return j.err
}

// recExecutor goes through an order as the real one does: it judges, has it
// confirmed, has the intent written, and runs.
type recExecutor struct {
	host     *recHost
	change   func(*execute.Judgement) // of the verdict
	judgeErr error
	judged   []action.Action
	budgets  []recovery.Budget
	orders   []execute.Order
	outcome  execute.Outcome // of the run
	err      error           // before anything
	run      func(execute.Order)
	learned  []learn.Outcome
	trusted  int
}

func (x *recExecutor) Judge(_ context.Context, a action.Action, b recovery.Budget) (execute.Judgement, error) {
	x.judged, x.budgets = append(x.judged, a), append(x.budgets, b)
	p := x.host.policies.InForce()[0]
	j := execute.Judgement{Policy: p, Inputs: "in-1", Diff: "the diff", Verdict: recovery.Verdict{Decision: action.Human, Rule: recovery.RuleUnknown, Reason: "no list names it", PolicyDigest: p.Digest}}
	j.Place = sandbox.Place{Repo: x.host.Paths.Repo, Dir: a.WorkingDir, DirID: sandbox.FileID{Dev: 1, Ino: 2}}
	if _, ok := p.Listed(a.Command); ok {
		j.Decision, j.Rule, j.Reason = action.Auto, recovery.RuleAutoApprove, "it is listed"
	}
	if x.change != nil {
		x.change(&j)
	}
	return j, x.judgeErr
}

func (x *recExecutor) Execute(ctx context.Context, o execute.Order) (execute.Outcome, error) {
	x.orders = append(x.orders, o)
	if x.err != nil {
		return execute.Outcome{}, x.err
	}
	now, err := x.Judge(ctx, o.Action, o.Budget)
	changed := ""
	switch {
	case err != nil || ctx.Err() != nil:
		return execute.Outcome{Now: now}, errors.Join(err, ctx.Err())
	case now.Decision == action.Invalid:
		changed = now.Reason
	case o.Confirm != nil:
		changed, err = o.Confirm(ctx, now)
	case now.Decision != action.Auto:
		changed = now.Reason
	default:
		changed = strings.Join(o.Basis.Drift(now.Basis()), "; ")
	}
	if err != nil || changed != "" {
		return execute.Outcome{Changed: changed, Now: now}, err
	}
	if err := o.Intend(execute.Intent{Judgement: now, Timeout: time.Minute, Network: sandbox.FullNetwork, Undo: execute.Kept{ID: "undo-1", Err: errRec}}); err != nil {
		return execute.Outcome{Now: now}, err
	}
	x.host.step("run")
	if x.run != nil {
		x.run(o)
	}
	out := x.outcome
	out.Now = now
	return out, nil
}

func (x *recExecutor) Trust(_ context.Context, _ execute.Judgement) error { x.trusted++; return nil }

func (x *recExecutor) Learn(_ context.Context, o learn.Outcome) { x.learned = append(x.learned, o) }

// names are the files of a directory.
func (r *recHost) names(dir string) []string {
	r.t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		r.t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	slices.Sort(out)
	return out
}

func recAction(command string) action.Action {
	return action.Draft{Command: command, WorkingDir: ".", TimeoutMS: 60_000, Expected: "it works", Confidence: "high"}.Action()
}

// recState is a loop that deals with a command.
func recState(kind loop.EffectKind, command string) loop.State {
	return loop.State{LoopID: "l", RunID: "run-1", Iteration: 3, Plan: loop.Plan{Roles: []string{"planner", "tester"}, Recovery: true},
		UpdatedAt: recStart.Add(-time.Minute), Pending: &loop.Effect{ID: "e-1", Kind: kind, Role: "tester"},
		Recovery: &loop.RecoveryState{Origin: loop.OriginProposal, N: 2, Role: "tester", Source: "tester", Digest: "d", File: "f", Category: "dependency",
			Severity: "blocking", RootCause: "cause", Pattern: "pattern", Evidence: []string{"line 1"}, Attempt: recAction(command)}}
}

// recQuestion is the same when a human is to approve it.
func recQuestion(command string) loop.State {
	s := recState(loop.AskHuman, command)
	s.Human = &loop.HumanState{About: loop.AboutRecovery, ID: "e-1", Type: loop.EscalationApproval, Class: recovery.RuleUnknown, Role: "tester", Text: "no list names it"}
	s.Recovery.Rule = recovery.RuleUnknown
	return s
}

func recDraft(command string) action.Draft {
	return action.Draft{Command: command, WorkingDir: "."}
}
