package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/control"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/layout"
)

// noMain has the test binary not call Main.
const noMain = "SUPERLOOP_TEST_NO_MAIN"

// TestMain makes the test binary the processes that superloop starts of itself.
func TestMain(m *testing.M) {
	if os.Getenv(noMain) == "" {
		Main()
	}
	os.Exit(m.Run())
}

// world is a repository with one loop, its private state, and what was seen of it.
type world struct {
	t      *testing.T
	top    string
	repo   string
	paths  layout.Paths
	o      Options
	logged *observer.ObservedLogs

	mu   sync.Mutex // guards what follows
	now  time.Time
	seen []journal.Event
	said []string
	fail map[string]error // by the step of the disk
	ops  []string         // the steps of the disk
	// on is called with each event after it is in the journal.
	on func(ev journal.Event, s loop.State)
}

// agentDone is an agent whose reviewer says that the work is done.
const agentDone = `[ "$SUPERLOOP_ROLE" != reviewer ] || echo '<promise>DONE</promise>'`

// agentHangs is an agent that runs until it is ended.
const agentHangs = `sleep 1000`

// newWorld makes a repository with a commit. loopKeys are added to the loop of the
// configuration, topKeys to its top.
func newWorld(t *testing.T, agent, loopKeys string, topKeys ...string) *world {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, top: top, repo: filepath.Join(top, "repo"), fail: map[string]error{}, now: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)}
	w.write("repo/spec.md", "build it\n")
	w.write("repo/.superloop/.gitignore", layout.Gitignore)
	w.agent(agent)
	w.configure(loopKeys, topKeys...)
	w.git("init", "-q")
	w.git("add", "-A")
	w.git("commit", "-q", "-m", "begin")
	w.paths, err = layout.NewPaths(w.repo, "l", filepath.Join(top, "state"))
	if err != nil {
		t.Fatal(err)
	}
	core, logged := observer.New(zap.DebugLevel)
	w.logged = logged
	disk := durable.OS().WithFault(func(op string) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ops = append(w.ops, op)
		return w.fail[op]
	})
	w.o = Options{Repo: w.repo, LoopID: "l", Version: "v-test", StateHome: filepath.Join(top, "state"), Disk: disk, Containment: proc.ProcessGroup,
		Environ:     []string{"PATH=" + os.Getenv("PATH"), "HOME=" + top, "GIT_CONFIG_GLOBAL=/dev/null"},
		Unprotected: true, Observer: w, Log: zap.New(core), Now: w.clock, Random: func() float64 { return 0.5 }}
	w.load()
	return w
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// pass moves the clock.
func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// write replaces a file below the top in one step.
func (w *world) write(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.top, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		w.t.Fatal(err)
	}
}

// under is a file of a directory as write takes it.
func (w *world) under(dir, name string) string {
	w.t.Helper()
	rel, err := filepath.Rel(w.top, filepath.Join(dir, name))
	if err != nil {
		w.t.Fatal(err)
	}
	return rel
}

// agentWorks is what every agent does first: it changes a file and leaves its report.
const agentWorks = `cat > /dev/null
echo "$SUPERLOOP_ROLE $SUPERLOOP_ITERATION" >> work.txt
case $SUPERLOOP_ROLE in planner) f=plan.md ;; implementer) f=implementer.md ;; tester) f=test-report.md ;; *) f=review.md ;; esac
echo "$SUPERLOOP_ROLE in iteration $SUPERLOOP_ITERATION" > "$SUPERLOOP_LOOP_DIR/$f"
`

func (w *world) agent(text string) { w.write("agent.sh", agentWorks+text+"\n") }

// configText is a configuration of the loop l. A key that is given replaces that of the same name.
func (w *world) configText(loopKeys string, topKeys ...string) string {
	w.t.Helper()
	merge := func(base, over string) map[string]any {
		out := map[string]any{}
		for _, text := range []string{base, "{" + over + "}"} {
			if err := json.Unmarshal([]byte(text), &out); err != nil {
				w.t.Fatalf("%v in %s", err, text)
			}
		}
		return out
	}
	l := merge(`{"id": "l", "spec_file": "spec.md", "completion_promise": "DONE", "completion": {"allow_ungated": true}, "max_iterations": 3, "roles": ["planner", "reviewer"]}`, loopKeys)
	top := merge(fmt.Sprintf(`{"runners": {"sh": {"command": ["sh", %q]}}, "recovery": {"enabled": false}}`, filepath.Join(w.top, "agent.sh")), strings.Join(topKeys, ","))
	top["loops"] = []any{l}
	data, err := json.MarshalIndent(top, "", " ")
	if err != nil {
		w.t.Fatal(err)
	}
	return string(data)
}

func (w *world) configure(loopKeys string, topKeys ...string) {
	w.t.Helper()
	w.write("repo/.superloop/config.json", w.configText(loopKeys, topKeys...))
}

// load reads the configuration as it is now.
func (w *world) load() {
	w.t.Helper()
	cfg, err := config.Load(filepath.Join(w.repo, ".superloop", "config.json"))
	if err != nil {
		w.t.Fatal(err)
	}
	w.o.Config = cfg
}

func (w *world) git(args ...string) string {
	w.t.Helper()
	cmd := exec.Command("git", append([]string{"-C", w.repo, "-c", "user.name=n", "-c", "user.email=e@example.com", "-c", "init.defaultBranch=main"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// Event and Said make the world the observer of its loop.
func (w *world) Event(ev journal.Event, s loop.State) {
	w.mu.Lock()
	w.seen = append(w.seen, ev)
	on := w.on
	w.mu.Unlock()
	if on != nil {
		on(ev, s)
	}
}

func (w *world) Said(who, line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, who+": "+line)
}

// when calls f at the first event of that name; it must not block.
func (w *world) when(name string, f func(ev journal.Event, s loop.State)) {
	var once sync.Once
	w.on = func(ev journal.Event, s loop.State) {
		if ev.Event == name {
			once.Do(func() { f(ev, s) })
		}
	}
}

// breaks makes a step of the disk fail; a nil error mends it.
func (w *world) breaks(op string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail[op] = err
}

// run runs the loop to where Run leaves it, and wants no error.
func (w *world) run(ctx context.Context) loop.State {
	w.t.Helper()
	s, err := Run(ctx, w.o)
	if err != nil {
		w.t.Fatalf("Run: %v", err)
	}
	return s
}

// ends wants a status and a reason.
func (w *world) ends(s loop.State, status loop.Status, reason string) {
	w.t.Helper()
	if s.Status != status || s.Reason != reason {
		w.t.Fatalf("the loop is %s (%s, %s), want %s (%s)\n%s", s.Status, s.Reason, s.Detail, status, reason, strings.Join(w.names(), " "))
	}
}

// events is the journal.
func (w *world) events() []journal.Event {
	w.t.Helper()
	var out []journal.Event
	err := journal.Read(w.paths.Events(), 0, func(ev journal.Event) error {
		out = append(out, ev)
		return nil
	})
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	return out
}

func (w *world) names() []string {
	w.t.Helper()
	var out []string
	for _, ev := range w.events() {
		out = append(out, ev.Event)
	}
	return out
}

// all are the events of a name, their fields decoded.
func (w *world) all(name string) []map[string]any {
	w.t.Helper()
	var out []map[string]any
	for _, ev := range w.events() {
		if ev.Event == name {
			fields := map[string]any{}
			if err := json.Unmarshal(ev.Fields, &fields); err != nil {
				w.t.Fatal(err)
			}
			out = append(out, fields)
		}
	}
	return out
}

// one is the only event of a name.
func (w *world) one(name string) map[string]any {
	w.t.Helper()
	all := w.all(name)
	if len(all) != 1 {
		w.t.Fatalf("%d events %s, want 1: %v\n%v", len(all), name, all, w.names())
	}
	return all[0]
}

// inOrder wants events of these names, with others between them.
func (w *world) inOrder(names ...string) {
	w.t.Helper()
	rest := w.names()
	for _, name := range names {
		i := slices.Index(rest, name)
		if i < 0 {
			w.t.Fatalf("no %s, or not in its place, in %v", name, w.names())
		}
		rest = rest[i+1:]
	}
}

// submit puts an intent down as another process does.
func (w *world) submit(in control.Intent) {
	w.t.Helper()
	if err := control.Submit(durable.OS(), w.paths, in); err != nil {
		w.t.Error(err)
	}
}

// intents are the control files that are there.
func (w *world) intents() []string {
	w.t.Helper()
	ins, err := control.Submitted(w.paths)
	if err != nil {
		w.t.Fatal(err)
	}
	var files []string
	for _, in := range ins {
		files = append(files, in.File)
	}
	return files
}

func (w *world) view() loop.View {
	w.t.Helper()
	v, err := ReadView(w.paths)
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

// warned reports whether a message is in the log.
func (w *world) warned(message string) bool { return w.logged.FilterMessage(message).Len() > 0 }

// wantError wants an error with each of the words.
func wantError(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", words)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %q lacks %q", err, word)
		}
	}
}

var errBroken = errors.New("it does not work")

const errNoRoom = syscall.ENOSPC
