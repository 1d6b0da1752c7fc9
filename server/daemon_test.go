package server

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/control"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/local"
	"github.com/superloop/superloop/server/registry"
	"github.com/superloop/superloop/server/slots"
)

// TestMain makes the test binary the processes that superloop starts of itself.
func TestMain(m *testing.M) {
	local.Main()
	os.Exit(m.Run())
}

// fleet is some repositories, a registry, and a daemon.
type fleet struct {
	t    *testing.T
	top  string
	o    Options
	stop func() // ends the daemon and waits for it
	log  string // what the agents have done: repository, loop, role
}

// newFleet makes a fleet without repositories, whose daemon does not run yet.
func newFleet(t *testing.T, limits slots.Limits) *fleet {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{t: t, top: top, log: filepath.Join(top, "done"), stop: func() {}}
	f.o = Options{State: filepath.Join(top, "state", "superloop"), Disk: durable.OS(), Limits: limits, DrainTime: time.Minute, Log: zaptest.NewLogger(t), Prepare: f.prepare}
	t.Cleanup(func() { f.stop() })
	return f
}

// prepare reads the configuration anew, as the program does.
func (f *fleet) prepare(e registry.Entry) (local.Options, func(), error) {
	cfg, err := config.Load(filepath.Join(e.Repo, ".superloop", "config.json"))
	if err != nil {
		return local.Options{}, nil, err
	}
	return local.Options{Repo: e.Repo, LoopID: e.Loop, Config: cfg, Version: "v-test", StateHome: filepath.Dir(f.o.State), Disk: f.o.Disk, By: e.By,
		Containment: proc.ProcessGroup, Unprotected: true, Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + f.top, "GIT_CONFIG_GLOBAL=/dev/null"}}, func() {}, nil
}

// repo makes a repository with loops of one role. Where held-<loop> lies in the top directory, its agent does not end.
func (f *fleet) repo(name string, loops ...string) string {
	f.t.Helper()
	dir := filepath.Join(f.top, name)
	f.write(name+"/spec.md", "build it\n")
	f.write("agent.sh", fmt.Sprintf(`cat > /dev/null
echo "$SUPERLOOP_LOOP" >> '%[1]s/began'
while [ -e '%[1]s'/held-$SUPERLOOP_LOOP ]; do sleep 0.02; done
echo "$SUPERLOOP_LOOP" >> '%[1]s/done'
echo $$ >> work.txt
echo fine > "$SUPERLOOP_LOOP_DIR/review.md"
echo '<promise>DONE</promise>'
`, f.top))
	f.configure(name, loops...)
	for _, args := range [][]string{{"init", "-q", "--template="}, {"-c", "user.name=n", "-c", "user.email=e@example.com", "commit", "-q", "--allow-empty", "-m", "begin"}} {
		cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			f.t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return dir
}

// configure writes the configuration of a repository. A loop whose name begins with "ask" wants its end approved.
func (f *fleet) configure(name string, loops ...string) {
	f.t.Helper()
	var all []string
	for _, l := range loops {
		all = append(all, fmt.Sprintf(`{"id": %q, "spec_file": "spec.md", "completion_promise": "DONE", "completion": {"allow_ungated": true}, "max_iterations": 3,
			"roles": ["reviewer"], "approval": {"enabled": %v, "require_on_completion": true}}`, l, strings.HasPrefix(l, "ask")))
	}
	f.write(name+"/.superloop/config.json", fmt.Sprintf(`{"runners": {"sh": {"command": ["sh", %q]}}, "recovery": {"enabled": false}, "loops": [%s]}`,
		filepath.Join(f.top, "agent.sh"), strings.Join(all, ",")))
}

func (f *fleet) write(name, text string) {
	f.t.Helper()
	path := filepath.Join(f.top, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) hold(loop string) { f.write("held-"+loop, "") }

func (f *fleet) free(loop string) {
	f.t.Helper()
	if err := os.Remove(filepath.Join(f.top, "held-"+loop)); err != nil {
		f.t.Fatal(err)
	}
}

// serve starts the daemon. f.stop ends it; drain asks it to leave and waits for it.
func (f *fleet) serve() (drain func()) {
	f.t.Helper()
	ctx, stop := context.WithCancel(f.t.Context())
	asked, ready, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	o := f.o
	o.Drain, o.Ready = asked, func() { close(ready) }
	go func() { done <- Run(ctx, o) }()
	wait := func() {
		if err := <-done; err != nil {
			f.t.Errorf("Run: %v", err)
		}
		f.stop = func() {}
	}
	f.stop = func() { stop(); wait() }
	<-ready
	return func() { close(asked); wait() }
}

func (f *fleet) paths(repo, loop string) layout.Paths {
	f.t.Helper()
	p, err := layout.NewPaths(filepath.Join(f.top, repo), loop, filepath.Dir(f.o.State))
	if err != nil {
		f.t.Fatal(err)
	}
	return p
}

func (f *fleet) store() registry.Store { return registry.Store{Disk: f.o.Disk, State: f.o.State} }

// want says in the registry what is wanted of a loop, as start and stop do.
func (f *fleet) want(repo, loop string, w registry.Wanted, priority int) {
	f.t.Helper()
	p := f.paths(repo, loop)
	view, _ := local.ReadView(p) // nothing before the first run
	e := registry.Entry{Repo: p.Repo, Loop: loop, Wanted: w, Priority: priority, By: "ann", Since: time.Now().UTC(), After: view.Seq}
	if err := f.store().Put(e); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) wanted(repo, loop string) registry.Wanted {
	e, err := f.store().Get(filepath.Join(f.top, repo), loop)
	if err != nil {
		f.t.Fatal(err)
	}
	return e.Wanted
}

// until waits until ok.
func (f *fleet) until(what string, ok func() bool) {
	f.t.Helper()
	late := time.NewTimer(2 * time.Minute)
	defer late.Stop()
	for !ok() {
		select {
		case <-late.C:
			view, err := ReadView(f.o.State)
			f.t.Fatalf("never: %s; the daemon: %+v %v", what, view, err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// does waits until the daemon does this with the loop.
func (f *fleet) does(repo, loop string, p phase) (v LoopView) {
	f.t.Helper()
	f.until(loop+" is "+string(p), func() bool {
		view, _ := ReadView(f.o.State)
		v, _ = view.Phase(filepath.Join(f.top, repo), loop)
		return v.Phase == string(p)
	})
	return v
}

// begins waits until the agent of a loop has begun for the n-th time.
func (f *fleet) begins(id string, n int) {
	f.t.Helper()
	f.until(id+" begins", func() bool {
		data, _ := os.ReadFile(filepath.Join(f.top, "began")) // nothing yet
		count := 0
		for _, begun := range strings.Fields(string(data)) {
			if begun == id {
				count++
			}
		}
		return count >= n
	})
}

// leaves waits until nobody supervises the loop, which has the status then.
func (f *fleet) leaves(repo, loop string, s loop.Status) {
	f.t.Helper()
	f.until(loop+" has left", func() bool {
		_, locked, err := durable.Holder(f.paths(repo, loop).Lock())
		return err == nil && !locked
	})
	if view := f.view(repo, loop); view.Status != s {
		f.t.Fatalf("%s is %s (%s), want %s", loop, view.Status, view.Reason, s)
	}
}

func (f *fleet) view(repo, loop string) loop.View {
	view, _ := local.ReadView(f.paths(repo, loop)) // nothing before the first run
	return view
}

// ended waits until the registry says that the loop has ended.
func (f *fleet) ended(repo, id string, s loop.Status) {
	f.t.Helper()
	f.until(id+" has ended", func() bool { return f.wanted(repo, id) == registry.Ended })
	f.leaves(repo, id, s)
}

// done lists the loops whose roles have ended, in order.
func (f *fleet) done() []string {
	data, _ := os.ReadFile(f.log) // nothing yet
	return strings.Fields(string(data))
}

func (f *fleet) answer(repo, id string) {
	f.t.Helper()
	store := escalation.Store{Disk: f.o.Disk, Dir: f.paths(repo, id).Questions(), Loop: id, Now: time.Now}
	if _, err := store.Answer(context.Background(), escalation.AnswerRequest{Method: escalation.Approve, By: escalation.By{Channel: escalation.CLI, User: "eve"}}); err != nil {
		f.t.Fatal(err)
	}
}

// events counts the events of a name in a loop's journal, which is whole.
func (f *fleet) events(repo, id, name string) (n int) {
	f.t.Helper()
	rep, err := journal.Verify(f.paths(repo, id).Events())
	if err == nil && rep.FirstBad != nil {
		err = fmt.Errorf("%+v", rep.FirstBad)
	}
	if err == nil {
		err = journal.Read(f.paths(repo, id).Events(), 0, func(ev journal.Event) error {
			if ev.Event == name {
				n++
			}
			return nil
		})
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return n
}

func TestALoopThatWaitsForAnAnswerTakesNoPlace(t *testing.T) {
	t.Parallel()
	f := newFleet(t, slots.Limits{Loops: 1})
	f.repo("r", "ask", "b")
	f.want("r", "ask", registry.Running, 0)
	f.serve()
	f.does("r", "ask", waiting)
	f.want("r", "b", registry.Running, 0)
	f.ended("r", "b", loop.Completed)
	f.answer("r", "ask")
	f.ended("r", "ask", loop.Completed)
	if got := f.done(); !slices.Equal(got, []string{"ask", "b"}) {
		t.Errorf("the roles ran: %v", got)
	}
}

// An answer that was given while no daemon ran is carried out once by the next daemon, and a question that nobody has
// answered stays the same.
func TestTheNextDaemonGoesOnWithAQuestion(t *testing.T) {
	t.Parallel()
	f := newFleet(t, slots.Limits{})
	f.repo("r", "ask")
	f.want("r", "ask", registry.Running, 0)
	f.serve()
	f.does("r", "ask", waiting)
	f.stop()
	question := f.view("r", "ask").Human.Question
	f.serve()
	f.does("r", "ask", waiting)
	f.stop()
	if now := f.view("r", "ask").Human; now == nil || now.Question != question {
		t.Fatalf("the question was %s, and is %+v", question, now)
	}
	f.answer("r", "ask")
	f.serve()
	f.ended("r", "ask", loop.Completed)
	if n := f.events("r", "ask", "role_start"); n != 1 {
		t.Errorf("%d roles ran", n)
	}
}

func TestAStoppedLoopGoesOnWhenItIsStarted(t *testing.T) {
	t.Parallel()
	f := newFleet(t, slots.Limits{})
	f.repo("r", "l")
	f.hold("l")
	f.want("r", "l", registry.Running, 0)
	f.serve()
	f.begins("l", 1)
	f.want("r", "l", registry.Stopped, 0)
	f.leaves("r", "l", loop.Paused)
	f.stop()
	f.serve()
	f.want("r", "l", registry.Running, 0)
	f.begins("l", 2)
	// Started in the moment in which it is stopped: the last word counts.
	f.want("r", "l", registry.Stopped, 0)
	f.want("r", "l", registry.Running, 0)
	f.free("l")
	f.ended("r", "l", loop.Completed)
}

// A pause of an operator holds, also if the daemon is killed before it has noted it in the registry.
func TestAPausedLoopStaysPaused(t *testing.T) {
	t.Parallel()
	f := newFleet(t, slots.Limits{})
	f.repo("r", "l")
	f.hold("l")
	f.want("r", "l", registry.Running, 0)
	f.serve()
	f.begins("l", 1)
	wish := control.Intent{ID: "p", Kind: control.IntentPause, By: "ann", RunID: f.view("r", "l").RunID, At: time.Now()}
	if err := control.Submit(f.o.Disk, f.paths("r", "l"), wish); err != nil {
		t.Fatal(err)
	}
	before, err := f.store().Get(filepath.Join(f.top, "r"), "l")
	if err != nil {
		t.Fatal(err)
	}
	f.write("agent.sh", `cat > /dev/null; echo l >> `+f.log+`; echo x >> work.txt; echo fine > "$SUPERLOOP_LOOP_DIR/review.md"`+"\n")
	f.free("l")
	f.until("it is paused", func() bool { return f.wanted("r", "l") == registry.Paused })
	f.leaves("r", "l", loop.Paused)
	f.stop()
	if err := f.store().Put(before); err != nil { // as a daemon leaves it that is killed here
		t.Fatal(err)
	}
	f.serve()
	f.until("the next daemon has noted it", func() bool { return f.wanted("r", "l") == registry.Paused })
	f.leaves("r", "l", loop.Paused)
	if n := f.events("r", "l", "loop_resumed"); n != 0 {
		t.Errorf("it went on %d times", n)
	}
}

// A daemon that is killed right behind the end of a loop owes it the result and the views; the next one makes them.
func TestTheNextDaemonConcludes(t *testing.T) {
	t.Parallel()
	f := newFleet(t, slots.Limits{})
	f.repo("r", "l")
	f.hold("l")
	f.want("r", "l", registry.Running, 0)
	f.serve()
	f.begins("l", 1)
	wanted, err := f.store().Get(filepath.Join(f.top, "r"), "l")
	if err != nil {
		t.Fatal(err)
	}
	stale, err := os.ReadFile(f.paths("r", "l").File("state.json"))
	if err != nil {
		t.Fatal(err)
	}
	f.free("l")
	f.ended("r", "l", loop.Completed)
	f.stop()
	f.write("r/.superloop/loops/l/state.json", string(stale))
	result := f.paths("r", "l").File("result.md")
	if err := os.Remove(result); err != nil {
		t.Fatal(err)
	}
	if err := f.store().Put(wanted); err != nil {
		t.Fatal(err)
	}
	f.serve()
	f.ended("r", "l", loop.Completed)
	if _, err := os.Stat(result); err != nil {
		t.Error(err)
	}
	if now, err := os.ReadFile(f.paths("r", "l").File("state.json")); err != nil || !strings.Contains(string(now), `"status":"completed"`) && !strings.Contains(string(now), `"status": "completed"`) {
		t.Errorf("state.json: %s %v", now, err)
	}
	if got := f.done(); len(got) != 1 {
		t.Errorf("the roles ran: %v", got)
	}
}

func TestABrokenConfigurationIsTriedAgain(t *testing.T) {
	t.Parallel()
	f := newFleet(t, slots.Limits{})
	f.repo("r", "l")
	f.repo("gone", "l")
	f.want("r", "l", registry.Running, 0)
	f.want("gone", "l", registry.Running, 0)
	f.write("r/.superloop/config.json", "{")
	if err := os.RemoveAll(filepath.Join(f.top, "gone")); err != nil {
		t.Fatal(err)
	}
	f.serve()
	for repo, why := range map[string]string{"r": "config.json", "gone": "no such file"} {
		if v := f.does(repo, "l", failing); !strings.Contains(v.Why, why) || !v.Until.After(v.Since) {
			t.Errorf("%s: %+v", repo, v)
		}
	}
	f.configure("r", "l")
	f.want("r", "l", registry.Running, 0) // an operator who has mended it need not wait for the next try
	f.ended("r", "l", loop.Completed)
}

// What the journal says decides what a daemon does with a loop whose end or pause an earlier one could not note.
func TestStanding(t *testing.T) {
	t.Parallel()
	f := newFleet(t, slots.Limits{})
	f.repo("r", "ask")
	d := &daemon{o: f.o, store: f.store()}
	e := registry.Entry{Repo: filepath.Join(f.top, "r"), Loop: "ask"}
	if was, err := d.standing(e); err != nil || was != (standing{}) {
		t.Errorf("never run: %+v %v", was, err)
	}
	f.want("r", "ask", registry.Running, 0)
	f.serve()
	f.does("r", "ask", waiting)
	f.stop()
	view := f.view("r", "ask")
	for what, c := range map[string]struct {
		after int64
		fresh string
		want  standing
	}{
		"taken up again":                {0, "", standing{woken: true}},
		"started by an operator":        {view.Seq, "", standing{}},
		"to be begun anew":              {0, view.RunID, standing{fresh: true}},
		"begun anew, and taken up then": {0, "another", standing{woken: true}},
	} {
		e.After, e.FreshOf = c.after, c.fresh
		if was, err := d.standing(e); err != nil || was != c.want {
			t.Errorf("%s: %+v %v", what, was, err)
		}
	}
}

func TestALoopOfAnotherSupervisorIsForeign(t *testing.T) {
	t.Parallel()
	f := newFleet(t, slots.Limits{})
	f.repo("r", "l")
	o, _, err := f.prepare(registry.Entry{Repo: filepath.Join(f.top, "r"), Loop: "l"})
	if err != nil {
		t.Fatal(err)
	}
	held, err := local.Hold(o)
	if err != nil {
		t.Fatal(err)
	}
	f.want("r", "l", registry.Running, 0)
	f.serve()
	if v := f.does("r", "l", foreign); !strings.Contains(v.Why, fmt.Sprint(os.Getpid())) {
		t.Errorf("%+v", v)
	}
	held.Release()
	f.ended("r", "l", loop.Completed)
}

func TestAHigherPriorityIsServedFirst(t *testing.T) {
	t.Parallel()
	f := newFleet(t, slots.Limits{Loops: 1})
	f.repo("r", "first", "low", "high")
	f.hold("first")
	f.want("r", "first", registry.Running, 0)
	f.serve()
	f.does("r", "first", working)
	f.want("r", "low", registry.Running, 0)
	f.does("r", "low", queued)
	f.want("r", "high", registry.Running, 5)
	f.until("both wait", func() bool { return f.does("r", "low", queued).Ahead == 1 })
	f.free("first")
	f.ended("r", "low", loop.Completed)
	if got := f.done(); !slices.Equal(got, []string{"first", "high", "low"}) {
		t.Errorf("in the order %v", got)
	}
}

// After a restart the loop that worked goes on first, then who was wanted first; a loop that has ended meanwhile takes no
// place.
func TestARestartKeepsTheOrder(t *testing.T) {
	t.Parallel()
	f := newFleet(t, slots.Limits{Loops: 1})
	ids := []string{"works", "d", "a", "c", "b", "e"}
	f.repo("r", ids...)
	f.hold("works")
	f.want("r", "works", registry.Running, 0)
	f.serve()
	f.begins("works", 1)
	for _, id := range ids[1:] {
		f.want("r", id, registry.Running, 0)
		f.does("r", id, queued)
	}
	f.want("r", "works", registry.Running, 0) // the youngest wish
	f.stop()
	f.free("works")
	f.serve()
	f.ended("r", "e", loop.Completed)
	if got := f.done(); !slices.Equal(got, ids) {
		t.Errorf("in the order %v, want %v", got, ids)
	}
}

// A daemon that is replaced lets the running role end, and begins nothing: neither a loop that waits for a place nor a
// role that waits for one.
func TestADrainedDaemonBeginsNothing(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string]slots.Limits{"loops": {Loops: 1}, "roles": {Roles: 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, limits)
			f.repo("r", "first", "second")
			f.hold("first")
			f.want("r", "first", registry.Running, 0)
			drain := f.serve()
			f.begins("first", 1)
			f.want("r", "second", registry.Running, 0)
			f.does("r", "second", queued)
			left := make(chan struct{})
			go func() { drain(); close(left) }()
			f.until("the second has left", func() bool {
				view, _ := ReadView(f.o.State)
				_, there := view.Phase(filepath.Join(f.top, "r"), "second")
				return !there
			})
			f.free("first")
			<-left
			if got := f.done(); !slices.Equal(got, []string{"first"}) {
				t.Errorf("the roles ran: %v", got)
			}
			f.serve()
			f.ended("r", "second", loop.Completed)
			f.ended("r", "first", loop.Completed)
		})
	}
}

// A daemon that is replaced answers until it has let go, and no longer: the next one listens where it did.
func TestADrainedDaemonAnswersNoLonger(t *testing.T) {
	t.Parallel()
	f := newFleet(t, slots.Limits{})
	begun, held := make(chan struct{}), false
	f.o.Answer = func(ctx context.Context) {
		close(begun)
		<-ctx.Done()
		_, held = Daemon(f.o.State)
	}
	drain := f.serve()
	<-begun
	drain()
	if _, alive := Daemon(f.o.State); alive || !held {
		t.Errorf("the lock is held %v, and was %v when the answers ended", alive, held)
	}
}

// Only one daemon runs on a state.
func TestASecondDaemonIsRefused(t *testing.T) {
	t.Parallel()
	f := newFleet(t, slots.Limits{})
	f.serve()
	err := Run(t.Context(), f.o)
	if by, alive := Daemon(f.o.State); err == nil || !alive || !strings.Contains(err.Error(), by.String()) {
		t.Errorf("%v, held by %s", err, by)
	}
}
