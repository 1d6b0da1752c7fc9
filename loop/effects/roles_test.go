package effects

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/roles/agent"
	"github.com/superloop/superloop/roles/agent/class"
	"github.com/superloop/superloop/roles/agent/cooldown"
)

const succeeds = "sweep, environment, fact role_start, run, lies, classify, overrule"

func TestRoleSucceeds(t *testing.T) {
	t.Parallel()
	inRoleWorld(t, func(t *testing.T, w *roleWorld) {
		files := w.host.RoleFiles(1, "planner", 1)
		base := filepath.Join(w.host.Paths.Loop, "logs", "iter-1", "planner")
		if files != (RoleFiles{base + ".prompt.md", base + ".log", base + ".last-message.md"}) {
			t.Fatalf("%+v", files)
		}
		w.write(files.Last, "of an earlier attempt")
		w.write(w.host.Paths.File("plan.md"), "old")
		var said []string
		w.host.Said = func(who, line string) { said = append(said, who+": "+line) }
		w.agent = func(ctx context.Context, spec proc.Spec) (proc.Result, error) {
			if w.read(files.Last) != "" || !strings.Contains(w.read(files.Prompt), "# ") {
				t.Error("the files are not as the agent needs them")
			}
			if ctx.Err() != nil {
				t.Error("it is to stop before it begins")
			}
			_, err := spec.Log.Write([]byte("hello s3cret-token\n"))
			spec.Stdout([]byte("hello\n"))
			w.write(w.host.Paths.File("plan.md"), "new")
			pass(2 * time.Second)
			return exited(0, "my last word\n"), err
		}
		w.lies = true
		hurry := make(chan struct{})
		e := w.effect("planner")
		e.Reason, e.MaxCostUSD = "why", 2
		at := w.host.Now(w.state)
		fact, err := w.roles.Perform(WithHurry(t.Context(), hurry), e, w.state)
		if err != nil {
			t.Fatal(err)
		}
		same(t, fact, loop.RoleEnded{Of: loop.To(e), Role: "planner", Runner: "one", Attempt: 1, Outcome: loop.OutcomeOK, DurationMS: 1500,
			LogFile: ".superloop/loops/l/logs/iter-1/planner.log", LastFile: ".superloop/loops/l/logs/iter-1/planner.last-message.md",
			OutputFile: "plan.md", Output: "fresh", Digest: "11507a0e2f5e69d5", Proposal: true})
		same(t, w.started, loop.RoleStarted{Of: loop.To(e), Role: "planner", Runner: "one", Attempt: 1, Reason: "why",
			PromptFile: ".superloop/loops/l/logs/iter-1/planner.prompt.md", LogFile: ".superloop/loops/l/logs/iter-1/planner.log",
			LastMessage: ".superloop/loops/l/logs/iter-1/planner.last-message.md"})
		w.order(succeeds)
		s := w.spec
		if s.Timeout != time.Minute || s.Inactivity != 10*time.Second || s.Grace != 15*time.Second || s.LogLimit != 64<<20 || s.Hurry != (<-chan struct{})(hurry) ||
			s.Dir != w.host.Repo.Top || s.Argv[0] != "/bin/agent-one" || s.Marker != "SUPERLOOP_MARK=run" {
			t.Errorf("%+v", s)
		}
		if got := w.read(files.Log); got != "hello <secret>\n" {
			t.Errorf("%q", got)
		}
		if got := w.read(files.Last); got != "my last word\n" {
			t.Errorf("%q", got)
		}
		line := `{"timestamp":"` + at.Format(time.RFC3339Nano) + `","run_id":"run","loop_id":"l","iteration":1,"role":"planner","attempt":1,"duration_ms":1500,` +
			`"runner":"one","model":null,"outcome":"ok","cost_usd":null,"session_id":null,"usage":null}` + "\n"
		if got := w.read(w.host.Paths.File("usage.jsonl")); got != line {
			t.Errorf("got  %swant %s", got, line)
		}
		if snap, err := w.roles.Snapshots.Store().Load(); err != nil || !snap.At.Equal(at.Add(2*time.Second)) {
			t.Errorf("%+v %v", snap, err)
		}
		if strings.Join(said, ",") != "planner: hello" || w.logs.Len() != 0 {
			t.Errorf("%v %v", said, w.logs.All())
		}
	})
}

// TestRoleIsNotStarted: what keeps a role from its work costs nothing.
func TestRoleIsNotStarted(t *testing.T) {
	t.Parallel()
	inRoleWorld(t, func(t *testing.T, w *roleWorld) {
		w.environment = loop.EnvironmentBroken{Why: "no disk"}
		fact, err := w.roles.Perform(t.Context(), w.effect("planner"), w.state)
		same(t, fact, w.environment)
		if err != nil {
			t.Error(err)
		}
		w.order("sweep, environment")
	})
	inRoleWorld(t, func(t *testing.T, w *roleWorld) {
		e, now := w.effect("planner"), time.Now().UTC()
		_, account := AgentOf(w.set.Config, config.Choice{Runner: "one"}, nil)
		if err := w.roles.Runners.Cooldowns.Set(cooldown.Cooldown{Account: account, Class: class.Limit, Kind: "five_hour", Text: "too much",
			Until: now.Add(time.Minute), Strikes: 2, By: "other"}); err != nil {
			t.Fatal(err)
		}
		fact, err := w.roles.Perform(t.Context(), e, w.state)
		same(t, fact, loop.Limited{Of: loop.To(e), Role: "planner", Runner: "one", Class: "rate_limited", Source: loop.SourceShared, By: "other",
			LimitFact: loop.LimitFact{Provider: account.Provider, Account: account.ID, Kind: "five_hour", Text: "too much", Until: now.Add(63 * time.Second), Strikes: 2, SharedUntil: now.Add(time.Minute)}})
		if err != nil || exists(w.host.Paths.Logs(1)) {
			t.Error(err)
		}
		w.order("sweep, environment")
	})
	inRoleWorld(t, func(t *testing.T, w *roleWorld) {
		now := time.Now().UTC()
		w.unfit("one", now.Add(time.Hour))
		w.unfit("two", now.Add(time.Minute))
		e := w.effect("implementer")
		fact, err := w.roles.Perform(t.Context(), e, w.state)
		same(t, fact, loop.Limited{Of: loop.To(e), Role: "implementer", Runner: "two", Class: loop.ReasonNobodyFit, Source: loop.SourceShared,
			LimitFact: loop.LimitFact{Provider: "generic", Text: "it failed", Until: now.Add(time.Minute)}})
		if err != nil {
			t.Error(err)
		}
		w.order("sweep, environment")
	})
}

// unfit opens the circuit of a runner until a time.
func (w *roleWorld) unfit(runner string, until time.Time) failures.Agent {
	w.t.Helper()
	model := map[string]string{"two": "m"}[runner]
	who, _ := AgentOf(w.set.Config, config.Choice{Runner: runner, Model: model}, nil)
	_, err := w.roles.Runners.HealthStore().Update(w.t.Context(), func(h *failures.Health) bool {
		h.Breakers = append(h.Breakers, failures.Breaker{Agent: who, Circuit: failures.OpenCut, Until: until, Why: "it failed", Trips: 1})
		return true
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return who
}

// TestRoleErrors: each write that fails ends the effect with its error, at that point.
func TestRoleErrors(t *testing.T) {
	t.Parallel()
	const before = "sweep, environment"
	for name, c := range map[string]struct {
		fault string
		prep  func(w *roleWorld)
		calls string
	}{
		"another effect":      {"", func(w *roleWorld) {}, ""},
		"sweep":               {"", func(w *roleWorld) { w.sweepErr = errBroken }, "sweep"},
		"prompt":              {"prompt:create", nil, before},
		"no such role":        {"", func(w *roleWorld) { w.host.Paths.Super = "\x00" }, before},
		"packet":              {"reviewer-packet:write", func(w *roleWorld) { w.set.Loop.ReviewerPacket = true }, before},
		"old last message":    {"last-message:remove", nil, before},
		"journal":             {"", func(w *roleWorld) { w.factErr = errBroken }, before + ", fact role_start"},
		"log":                 {"log:create", nil, before + ", fact role_start"},
		"own last message":    {"last-message:create", nil, "sweep, environment, fact role_start, run, lies, classify, overrule"},
		"usage":               {"usage:open", nil, "sweep, environment, fact role_start, run, lies, classify, overrule"},
		"last message in way": {"last-message:rename", func(w *roleWorld) { w.blockLastMessage() }, "sweep, environment, fact role_start, run, lies, classify, overrule"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inRoleWorld(t, func(t *testing.T, w *roleWorld) {
				e := w.effect("reviewer")
				w.state.Plan.Respond = nil
				w.set.Loop.Roles[2].Runner = "one"
				w.write(w.host.RoleFiles(1, "reviewer", 1).Last, "old")
				if c.fault != "" {
					w.disk[c.fault] = syscall.ENOSPC
				}
				if c.prep != nil {
					c.prep(w)
				}
				if name == "another effect" {
					e.Kind = loop.RunTests
				}
				fact, err := w.roles.Perform(t.Context(), e, w.state)
				if err == nil {
					t.Errorf("no error, %+v", fact)
				}
				if c.fault != "" && !strings.Contains(err.Error(), "superloop run --loop l") {
					t.Errorf("a full disk without the command to type: %v", err)
				}
				w.order(c.calls)
			})
		})
	}
}

// blockLastMessage has the agent leave a directory in the place of its last message.
func (w *roleWorld) blockLastMessage() {
	w.agent = func(context.Context, proc.Spec) (proc.Result, error) {
		if err := os.Mkdir(w.host.RoleFiles(1, "reviewer", 1).Last, 0o755); err != nil {
			w.t.Error(err)
		}
		return exited(0, "said\n"), nil
	}
}

func TestLastMessage(t *testing.T) {
	t.Parallel()
	inRoleWorld(t, func(t *testing.T, w *roleWorld) {
		w.blockLastMessage()
		w.set.Loop.Roles[2].Runner = "one"
		w.perform(w.effect("reviewer"))
		last := w.host.RoleFiles(1, "reviewer", 1).Last
		if got := w.read(last); got != "said\n" {
			t.Errorf("%q", got)
		}
		if aside, err := filepath.Glob(last + ".foreign-*"); len(aside) != 1 || err != nil {
			t.Error("what was in the way is gone", aside, err)
		}
	})
	inRoleWorld(t, func(t *testing.T, w *roleWorld) {
		last := w.host.RoleFiles(1, "planner", 1).Last
		w.agent = func(context.Context, proc.Spec) (proc.Result, error) {
			w.write(last, "from the file")
			return exited(0, "said\n"), nil
		}
		w.perform(w.effect("planner"))
		if got := w.read(last); got != "from the file" {
			t.Errorf("%q", got)
		}
		w.agent = func(context.Context, proc.Spec) (proc.Result, error) { return exited(0, ""), nil }
		w.perform(w.effect("planner"))
		if exists(last) {
			t.Error("nothing was said, and there is a last message")
		}
	})
}

func TestRoleRequest(t *testing.T) {
	t.Parallel()
	inRoleWorld(t, func(t *testing.T, w *roleWorld) {
		w.host.Fast = true
		e := w.effect("reviewer")
		e.Attempt, e.MaxCostUSD = 2, 1.5
		w.state.Iteration = 3
		role := config.Role{Name: "reviewer", Runner: "cl", Model: "m", Thinking: "high", Permissions: "full", Resume: true}
		files := w.host.RoleFiles(3, "reviewer", 2)
		if !strings.HasSuffix(files.Log, "iter-3/reviewer.attempt-2.log") {
			t.Error(files)
		}
		ask := func() agent.Request { return w.roles.request(e, w.state, role, w.set.Config.Runners["cl"], files) }
		got := ask()
		id := got.SessionID
		if !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(id) || ask().SessionID == id {
			t.Errorf("session %q", id)
		}
		for range 50 {
			if id := agent.NewSessionID(); id[14] != '4' || !strings.Contains("89ab", id[19:20]) {
				t.Errorf("%q is no random UUID", id)
			}
		}
		got.SessionID = ""
		same(t, got, agent.Request{CLI: agent.CLI{Command: []string{"claude"}, Adapter: "claude"}, Fast: true, PromptPath: files.Prompt, LastMessageFile: files.Last,
			WorkDir: w.host.Repo.Top, Repo: w.host.Paths.Repo, LoopDir: w.host.Paths.Loop, Loop: "l", RunID: "run", Role: "reviewer", Iteration: 3, Attempt: 2,
			Model: "m", Thinking: "high", Permissions: "full", MaxCostUSD: 1.5})
		w.state.Sessions = map[string]loop.SessionState{"reviewer": {ID: "s", Runner: "cl", Totals: json.RawMessage(`{"cost_usd":2}`)}}
		got = ask()
		if got.SessionID != "" || got.Resume == nil || got.Resume.ID != "s" || got.Resume.Totals == nil {
			t.Errorf("%+v", got)
		}
		start := w.roles.startOf(e, role, got, files)
		if start.SessionID != "s" || !start.Resumed {
			t.Errorf("%+v", start)
		}
		for name, s := range map[string]loop.SessionState{"another's": {ID: "s", Runner: "one"}, "none": {Runner: "cl"}} {
			w.state.Sessions["reviewer"] = s
			if got := ask(); got.Resume != nil || got.SessionID == "" {
				t.Errorf("%s: %+v", name, got)
			}
		}
		w.state.Sessions["reviewer"] = loop.SessionState{ID: "s", Runner: "cl"}
		role.Resume = false
		if got := ask(); got.Resume != nil {
			t.Error("it resumes although it is not to")
		}
		if got := w.roles.request(e, w.state, role, w.set.Config.Runners["one"], files); got.SessionID != "" {
			t.Error("this CLI chooses its session itself")
		}
	})
	if totalsOf(nil) != nil || totalsOf(json.RawMessage(`[]`)) != nil || totalsOf(json.RawMessage(`{}`)) == nil {
		t.Error("the counters of a session")
	}
}

func TestOutcome(t *testing.T) {
	t.Parallel()
	role := config.Role{Runner: "one", Model: "m", Timeout: 3 * time.Second, Inactivity: 2 * time.Second}
	e := loop.Effect{ID: "x", Role: "planner", Attempt: 2}
	all := func(f func(*loop.RoleEnded)) loop.RoleEnded {
		out := loop.RoleEnded{Of: loop.To(e), Role: "planner", Runner: "one", Model: "m", Attempt: 2}
		f(&out)
		return out
	}
	limited := agent.Learned{Structured: true, Class: class.Limit, ErrorText: "slow down", Denied: 3, SessionID: "s"}
	for name, c := range map[string]struct {
		res  agent.Result
		err  error
		want loop.RoleEnded
	}{
		"ok": {agent.Result{Proc: proc.Result{Ended: proc.Exited, Duration: time.Second, LogDropped: 4, LeftBehind: 5}}, nil,
			all(func(f *loop.RoleEnded) { f.Outcome, f.DurationMS, f.LogDropped, f.LeftBehind = "ok", 1000, 4, 5 })},
		"ok in the end": {agent.Result{Learned: agent.Learned{Class: class.Limit}, Proc: proc.Result{Ended: proc.Exited}}, nil, all(func(f *loop.RoleEnded) { f.Outcome = "ok" })},
		"ended early":   {agent.Result{Learned: agent.Learned{Structured: true, Done: true}, Cut: agent.CutFinished, Proc: proc.Result{Ended: proc.Killed}}, nil, all(func(f *loop.RoleEnded) { f.Outcome, f.Cut = "ok", "finished" })},
		"hopeless": {agent.Result{Learned: limited, Cut: agent.CutHopeless, Proc: proc.Result{Ended: proc.Killed, Signal: "SIGTERM", Code: -1}}, nil, all(func(f *loop.RoleEnded) {
			f.Outcome, f.Cut, f.Class, f.Category, f.Error, f.Denied, f.SessionID, f.Signal, f.ExitCode = "error", "hopeless", "rate_limited", "rate_limited", "slow down", 3, "s", "SIGTERM", -1
		})},
		"says that it failed": {agent.Result{Learned: agent.Learned{Structured: true}, Proc: proc.Result{Ended: proc.Exited}}, nil, all(func(f *loop.RoleEnded) { f.Outcome, f.Category = "error", "error" })},
		"exit":                {agent.Result{Proc: proc.Result{Ended: proc.Exited, Code: 3}}, nil, all(func(f *loop.RoleEnded) { f.Outcome, f.Category, f.ExitCode = "exit", "exit", 3 })},
		"signal": {agent.Result{Proc: proc.Result{Ended: proc.Exited, Code: -1, Signal: "SIGSEGV"}}, nil,
			all(func(f *loop.RoleEnded) {
				f.Outcome, f.Category, f.Signal, f.ExitCode = "signal", "signal", "SIGSEGV", -1
			})},
		"interrupted": {agent.Result{Learned: agent.Learned{Class: class.Network}, Proc: proc.Result{Ended: proc.Killed}}, nil, all(func(f *loop.RoleEnded) { f.Outcome = "interrupted" })},
		"timeout":     {agent.Result{Proc: proc.Result{Ended: proc.TimedOut}}, nil, all(func(f *loop.RoleEnded) { f.Outcome, f.Category, f.TimeoutMS = "timeout", "timeout", 3000 })},
		"inactive":    {agent.Result{Proc: proc.Result{Ended: proc.Inactive}}, nil, all(func(f *loop.RoleEnded) { f.Outcome, f.Category, f.TimeoutMS = "inactive", "inactive", 2000 })},
		"not started": {agent.Result{Proc: proc.Result{Ended: proc.NotStarted, Err: errBroken}}, nil, all(func(f *loop.RoleEnded) {
			f.Outcome, f.Category, f.Error = "not_started", "not_started", errBroken.Error()
		})},
		"no command": {agent.Result{}, errBroken, all(func(f *loop.RoleEnded) {
			f.Outcome, f.Category, f.Error, f.ExitCode = "not_started", "lost", errBroken.Error(), -1
			f.Category = "not_started"
		})},
		"lost": {agent.Result{Proc: proc.Result{Ended: "gone"}}, errBroken, all(func(f *loop.RoleEnded) { f.Outcome, f.Category, f.Error = "lost", "lost", errBroken.Error() })},
		"log":  {agent.Result{Proc: proc.Result{Ended: proc.Exited, LogErr: errBroken}}, nil, all(func(f *loop.RoleEnded) { f.Outcome, f.Error = "ok", "the log is not whole: "+errBroken.Error() })},
		"own word first": {agent.Result{Learned: agent.Learned{ErrorText: "said"}, MessageProblem: "a pipe", Proc: proc.Result{Ended: proc.Exited, LogErr: errBroken}}, nil,
			all(func(f *loop.RoleEnded) { f.Outcome, f.Error = "ok", "said" })},
		"message": {agent.Result{MessageProblem: "a pipe", Proc: proc.Result{Ended: proc.Exited}}, nil, all(func(f *loop.RoleEnded) { f.Outcome, f.Error = "ok", "a pipe" })},
	} {
		same(t, map[string]any{name: Outcome(e, role, c.res, c.err)}, map[string]any{name: c.want})
	}
}

// TestRoleTimeLimit: what ends a role tells whose limit it was.
// Conforms: 003-c1-timeout
func TestRoleTimeLimit(t *testing.T) {
	t.Parallel()
	inRoleWorld(t, func(t *testing.T, w *roleWorld) {
		w.agent = func(context.Context, proc.Spec) (proc.Result, error) {
			return proc.Result{Ended: proc.TimedOut, Code: -1}, nil
		}
		e := w.effect("planner")
		if f := w.perform(e); f.Category != "timeout" || f.TimeoutMS != 60000 {
			t.Errorf("%+v", f)
		}
		e.LimitMS = 5000
		if f := w.perform(e); f.Category != loop.ReasonMaxWallTime || f.TimeoutMS != 5000 || w.spec.Timeout != 5*time.Second {
			t.Errorf("%+v", f)
		}
		w.agent = func(context.Context, proc.Spec) (proc.Result, error) { return exited(1, ""), nil }
		if f := w.perform(e); f.Category != "exit" {
			t.Errorf("%+v", f)
		}
		w.agent = func(context.Context, proc.Spec) (proc.Result, error) { return proc.Result{}, errBroken }
		if f := w.perform(e); f.Outcome != loop.OutcomeLost && f.Outcome != loop.OutcomeNotStarted || !strings.Contains(f.Error, errBroken.Error()) {
			t.Errorf("%+v", f)
		}
		w.agent = func(context.Context, proc.Spec) (proc.Result, error) { return exited(0, ""), nil }
		w.disk["log:close"] = errBroken
		if f := w.perform(e); !strings.Contains(f.Error, "the log is not whole") {
			t.Errorf("%+v", f)
		}
	})
}

// Conforms: 004-metric-usage
func TestUsageOfRecovery(t *testing.T) {
	t.Parallel()
	inRoleWorld(t, func(t *testing.T, w *roleWorld) {
		u := Usage{w.host}
		if err := u.Recovery(w.state, w.state, loop.WaitOver{}); err != nil || exists(w.host.Paths.File("usage.jsonl")) {
			t.Error("a recovery that is none", err)
		}
		before := w.state
		before.Recovery = &loop.RecoveryState{N: 1}
		if err := u.Recovery(before, w.state, loop.WaitOver{}); err != nil {
			t.Fatal(err)
		}
		if got := w.read(w.host.Paths.File("usage.jsonl")); !strings.HasPrefix(got, `{"kind":"recovery"`) || strings.Count(got, "\n") != 1 {
			t.Errorf("%q", got)
		}
		w.disk["usage:open"] = errBroken
		if err := u.Recovery(before, w.state, loop.WaitOver{}); !errors.Is(err, errBroken) {
			t.Error(err)
		}
	})
}
