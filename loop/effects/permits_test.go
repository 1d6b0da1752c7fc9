package effects

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/dirwatch"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/permit"
	"github.com/superloop/superloop/roles/agent"
)

// asker is the conversation with one agent, whose journal may be written from many goroutines.
type asker struct {
	*recHost
	*permits
	mu     sync.Mutex
	events []string
	moment func() // called whenever the time is asked for
}

func (a *asker) now() time.Time {
	a.mu.Lock()
	moment := a.moment
	a.mu.Unlock()
	if moment != nil {
		moment()
	}
	return time.Now()
}

func (a *asker) Fact(loop.Fact) (loop.State, error) {
	return loop.State{}, errors.New("no fact is written")
}

func (a *asker) Record(event string, fields any) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch f := fields.(type) {
	case askedFields:
		event = fmt.Sprint("asked ", f.Verdict, " ", f.Rule)
	case answeredFields:
		event = fmt.Sprint("answered ", f.Decision, " ", f.By)
	}
	a.events = append(a.events, strings.TrimSpace(event))
	return nil
}

func (a *asker) said() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Join(a.events, ", ")
}

func asking(t *testing.T, change func(*permit.Settings)) *asker {
	t.Helper()
	a := &asker{recHost: newRecHostAt(t, plainDir(t))}
	a.config.Permissions = permit.Defaults()
	a.config.Permissions.Mode, a.config.Permissions.Wait = permit.Enforce, 30*time.Second
	if change != nil {
		change(&a.config.Permissions)
	}
	a.Host.Clock = a.now
	a.again()
	return a
}

// again begins another run of an agent, perhaps with another supervisor.
func (a *asker) again() {
	a.t.Helper()
	p := &Permits{Host: a.recHost.Host, Journal: a, Outbox: a.recHost.outbox, Watches: dirwatch.NewWatches(a.t.Context())}
	x, err := p.begin(loop.State{RunID: "r1", Iteration: 1}, config.Role{Name: "implementer", Runner: "claude"}, agent.Request{Asked: a.config.Permissions.Mode, WorkDir: a.Host.Paths.Repo, LoopDir: a.Host.Paths.Loop})
	if err != nil {
		a.t.Fatal(err)
	}
	a.permits = x
}

func (a *asker) run(command string) permit.Request {
	return permit.Request{Kind: permit.Command, Tool: "Bash", Command: command, Input: []byte(command), Exact: true, Dir: a.recHost.Host.Paths.Repo}
}

// begun asks in a goroutine.
func (a *asker) begun(ctx context.Context, command string) <-chan permit.Answer {
	out := make(chan permit.Answer, 1)
	go func() { out <- a.ask(ctx, a.run(command)) }()
	return out
}

// pending waits for the question about a command.
func (a *asker) pending(command string) escalation.Record {
	a.t.Helper()
	for range 2000 {
		if rec, err := a.store().Load(); err == nil && rec.State == escalation.Pending && string(rec.Question.Tool.Input) == command {
			return rec
		}
		<-time.After(5 * time.Millisecond)
	}
	a.t.Fatalf("nobody is asked about %q: %s", command, a.said())
	return escalation.Record{}
}

func (a *asker) reply(rec escalation.Record, m escalation.Method) {
	a.t.Helper()
	if _, err := a.store().Answer(a.t.Context(), escalation.AnswerRequest{Method: m, Digest: rec.Digest, Note: "so", By: escalation.By{Channel: escalation.CLI, User: "ada"}}); err != nil {
		a.t.Fatal(err)
	}
}

func (a *asker) want(got permit.Answer, d permit.Decision, message string) {
	a.t.Helper()
	if got.Decision != d || !strings.Contains(got.Message, message) {
		a.t.Errorf("%+v, not %s %q", got, d, message)
	}
}

// Equal requests at the same time are one question; others are shown one after the other, up to a bound.
func TestPermitsAskOneAfterTheOther(t *testing.T) {
	t.Parallel()
	a := asking(t, func(s *permit.Settings) { s.MaxOpen = 2 })
	ctx := t.Context()
	first, second := a.begun(ctx, "make a"), a.begun(ctx, "make a")
	rec := a.pending("make a")
	third := a.begun(ctx, "make b")
	for a.waiting() < 2 {
		<-time.After(time.Millisecond)
	}
	a.want(a.ask(ctx, a.run("make c")), permit.Deny, "2 other requests wait")
	a.reply(rec, escalation.Approve)
	a.want(<-first, permit.Allow, "")
	a.want(<-second, permit.Allow, "")
	a.reply(a.pending("make b"), escalation.Reject)
	a.want(<-third, permit.Deny, "refused this: so")
	if got := a.said(); got != "asked human on_unknown, asked human on_unknown, answered approved cli:ada, asked human on_unknown, answered rejected cli:ada" {
		t.Error(got)
	}
	if a.counts.all != (loop.Permissions{Human: 4}) {
		t.Errorf("%+v", a.counts.all)
	}
	data, err := os.ReadFile(a.recHost.Host.Paths.File("escalation.json"))
	if err != nil || !strings.Contains(string(data), "tool_permission") {
		t.Errorf("%v %s", err, data)
	}
}

func (a *asker) waiting() int {
	a.permits.mu.Lock()
	defer a.permits.mu.Unlock()
	return len(a.open)
}

// When nobody answers in time the agent goes on; an answer that comes later counts once, for the very same.
func TestPermitsParkTheQuestion(t *testing.T) {
	t.Parallel()
	a := asking(t, func(s *permit.Settings) { s.Wait = 0 })
	ctx := t.Context()
	a.want(a.ask(ctx, a.run("make a")), permit.Deny, "this is not a refusal")
	a.reply(a.pending("make a"), escalation.Approve)
	a.again() // the next run of an agent takes it, too
	a.want(a.ask(ctx, a.run("make a")), permit.Allow, "")
	a.want(a.ask(ctx, a.run("make a")), permit.Deny, "this is not a refusal")
	rec := a.pending("make a")
	other := a.run("make a")
	other.Input = []byte("make  a") // other bytes take its place
	a.want(a.ask(ctx, other), permit.Deny, "this is not a refusal")
	if _, err := a.store().Answer(ctx, escalation.AnswerRequest{Method: escalation.Approve, Digest: rec.Digest, By: escalation.By{Channel: escalation.CLI, User: "ada"}}); err == nil {
		t.Error("the question of before can be answered")
	}
	if got := a.said(); got != "asked human on_unknown, answered wait_over, answered granted cli:ada, asked human on_unknown, answered wait_over, asked human on_unknown, answered wait_over" {
		t.Error(got)
	}
}

// An agent that asks again for what nobody has answered is held again, and the question says so.
func TestPermitsHoldAgain(t *testing.T) {
	t.Parallel()
	a := asking(t, func(s *permit.Settings) { s.Wait = 0 })
	a.want(a.ask(t.Context(), a.run("make a")), permit.Deny, "this is not a refusal")
	rec := a.pending("make a")
	if rec.Hold(time.Now()) != nil {
		t.Errorf("%+v", rec)
	}
	a.config.Permissions.Wait = time.Minute
	a.again()
	got := a.begun(t.Context(), "make a")
	for rec.Hold(time.Now()) == nil {
		<-time.After(5 * time.Millisecond)
		rec = a.pending("make a")
	}
	a.reply(rec, escalation.Approve)
	a.want(<-got, permit.Allow, "")
}

// A question ends with the agent that asked, and nobody's approval brings it back.
func TestPermitsSupersede(t *testing.T) {
	t.Parallel()
	a := asking(t, nil)
	ctx, stop := context.WithCancel(t.Context())
	got := a.begun(ctx, "make a")
	rec := a.pending("make a")
	stop()
	a.want(<-got, permit.Deny, "nobody waits")
	if now, err := a.store().Load(); err != nil || now.State != escalation.Superseded {
		t.Errorf("%v %s", err, now.State)
	}
	// The supervisor dies, which the next one notices.
	got = a.begun(t.Context(), "make a")
	rec2 := a.pending("make a")
	left := a.permits
	a.again()
	if now, err := a.store().Load(); err != nil || now.State != escalation.Superseded {
		t.Errorf("%v %s", err, now.State)
	}
	a.permits = left
	a.want(<-got, permit.Deny, "withdrawn")
	for _, r := range []escalation.Record{rec, rec2} {
		if _, err := a.store().Answer(t.Context(), escalation.AnswerRequest{Method: escalation.Approve, Digest: r.Digest, By: escalation.By{Channel: escalation.CLI, User: "ada"}}); err == nil {
			t.Error("a question of a dead agent was answered")
		}
	}
}

// An agent that goes in the moment in which its approval is taken was not allowed anything, and the record says so.
func TestPermitsGoneInTheMoment(t *testing.T) {
	t.Parallel()
	a := asking(t, nil)
	ctx, stop := context.WithCancel(t.Context())
	got := a.begun(ctx, "make a")
	rec := a.pending("make a")
	var once sync.Once
	a.mu.Lock()
	a.moment = func() {
		if now, err := a.store().Load(); err == nil && now.State == escalation.Approved { // the supervisor is about to begin it
			once.Do(stop)
		}
	}
	a.mu.Unlock()
	a.reply(rec, escalation.Approve)
	a.want(<-got, permit.Deny, "")
	now, err := a.store().Load()
	if err != nil || now.State == escalation.Done || now.State.Open() {
		t.Errorf("%v %s %s", err, now.State, now.Why)
	}
	if got := a.said(); !strings.HasSuffix(got, "answered superseded") && !strings.HasSuffix(got, "answered superseded cli:ada") {
		t.Error(got)
	}
}

// A policy that becomes stricter while a question is open refuses it, and one that becomes looser does not answer it.
func TestPermitsFollowTheStricterPolicy(t *testing.T) {
	t.Parallel()
	a := asking(t, nil)
	got := a.begun(t.Context(), "make a")
	rec := a.pending("make a")
	looser := *a.config
	looser.Permissions.AutoApprove = []string{"make a"}
	a.set(&looser)
	<-time.After(200 * time.Millisecond)
	if now, _ := a.store().Load(); now.State != escalation.Pending {
		t.Errorf("%s", now.State)
	}
	stricter := *a.config
	stricter.Permissions.Deny = []string{"make *"}
	a.set(&stricter)
	a.reply(rec, escalation.Approve)
	a.want(<-got, permit.Deny, "the pattern")
}

func (a *asker) set(next *config.Config) {
	a.recHost.mu.Lock()
	defer a.recHost.mu.Unlock()
	a.next = next
}

// What is refused three times ends the run; what nobody answered does not count. What is too large is not asked.
func TestPermitsEndARunThatDoesNotGiveIn(t *testing.T) {
	t.Parallel()
	a := asking(t, func(s *permit.Settings) { s.Deny, s.Wait = []string{"rm *"}, 0 })
	var ended []string
	ctx := agent.WithEnd(t.Context(), func(why string) { ended = append(ended, why) })
	for range 4 {
		a.want(a.ask(ctx, a.run("make a")), permit.Deny, "not a refusal")
	}
	a.want(a.ask(ctx, a.run("rm a")), permit.Deny, "deny")
	a.want(a.ask(ctx, a.run("rm b")), permit.Deny, "deny")
	a.want(a.ask(ctx, a.run("rm a")), permit.Deny, "deny")
	if len(ended) > 0 {
		t.Errorf("%q", ended)
	}
	a.want(a.ask(ctx, a.run("rm a")), permit.Deny, "deny")
	if len(ended) != 1 || !strings.Contains(ended[0], "rm a") {
		t.Errorf("%q", ended)
	}
	large := permit.Request{Kind: permit.Write, Tool: "Write", Paths: []string{"/elsewhere"}, Input: make([]byte, escalation.MaxInput+1), Exact: true, Dir: "/"}
	a.want(a.ask(ctx, large), permit.Deny, "more than an operator can be shown")
	if a.counts.all != (loop.Permissions{Human: 5, Deny: 4}) {
		t.Errorf("%+v", a.counts.all)
	}
}

// Tools are counted by name as far as superloop knows them.
func TestPermitsCountTools(t *testing.T) {
	t.Parallel()
	var a requests
	for i := range 100 {
		a.add(permit.Request{Kind: permit.Command, Tool: "Bash"}, action.Auto)
		a.add(permit.Request{Kind: permit.Other, Tool: "Bash"}, action.Human)
		a.add(permit.Request{Kind: permit.MCP, Tool: fmt.Sprint("mcp__x__", i)}, action.Deny)
		a.add(permit.Request{Kind: permit.Read, Tool: fmt.Sprint("Read", i)}, action.Auto)
		a.add(permit.Request{Kind: permit.Write, Tool: "Wr\x1bite"}, action.Deny)
	}
	var f loop.RoleEnded
	a.tell(&f)
	if *f.Permissions != (loop.Permissions{Auto: 200, Human: 100, Deny: 200}) || f.PermissionTools["Bash"] != (loop.Permissions{Auto: 100}) || f.PermissionTools["mcp"] != (loop.Permissions{Deny: 100}) {
		t.Errorf("%+v", f)
	}
	if other := f.PermissionTools["other"]; len(f.PermissionTools) > maxTools+2 || other.Human != 100 || other.Deny != 100 || other.Auto < 60 {
		t.Errorf("%+v", f.PermissionTools)
	}
	(*requests)(nil).tell(&f)
}

// Observed agents are never told anything, and each thing is recorded once.
func TestPermitsObserve(t *testing.T) {
	t.Parallel()
	a := asking(t, func(s *permit.Settings) { s.Mode, s.Programs = permit.Observe, []string{"ls"} })
	for _, command := range []string{"ls", "make a", "make a", "make b"} {
		a.want(a.ask(t.Context(), a.run(command)), permit.Leave, "")
	}
	if got := a.said(); got != "asked human on_unknown, asked human on_unknown" || a.counts.all != (loop.Permissions{Auto: 1, Human: 3}) {
		t.Errorf("%s %+v", got, a.counts.all)
	}
}

func TestRealPath(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"out": "/usr", "gone": "/elsewhere/x", "rel": "../up", "loop": "loop"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{"/a": dir + "/a", "/a/b/c": dir + "/a/b/c", "/out/x": "/usr/x", "/out/../x": "/x", "/gone": "/elsewhere/x", "/gone/y": "/elsewhere/x/y",
		"/rel/z": filepath.Dir(dir) + "/up/z", "": dir} {
		if got := RealPath(dir + path); got != want {
			t.Errorf("%s: %s, not %s", path, got, want)
		}
	}
	if got := RealPath(dir + "/loop/x"); got != dir+"/loop/x" {
		t.Error(got)
	}
}
