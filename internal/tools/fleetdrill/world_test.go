package fleetdrill

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/testkit"
)

// TestDrills runs each drill and logs its figures: SUPERLOOP_SLOW_TESTS=1 go test -v ./internal/tools/fleetdrill. It is skipped where Temporal's own
// command line, with its server for try-outs, is not on PATH.
func TestDrills(t *testing.T) {
	drills(t, testkit.Sample(0, 1, 1))
	w, err := newWorld(t, func(w *world, port int) error { return w.begin("dev", port) })
	defer w.end()
	if err != nil {
		t.Fatal(err)
	}
	loops, kills := testkit.Sample(2, 4, 20), testkit.Sample(1, 4, 100)
	for _, d := range []struct {
		name, what string
		run        func(w *world, loops, kills int) (string, error)
	}{
		{"worker", "kill -9 of the worker in the middle of roles", killWorker},
		{"steps", "kill -9 of the workers of four machines in the middle of what they do", killSteps},
		{"deciding", "kill -9 of the worker in the moment of a decision", killDeciding},
		{"server", "kill -9 of the server, with loops that wait and loops that run", killServer},
		{"control", "kill -9 of the control worker", killControl},
		{"busy", "decisions while a role has the only place of the worker", busy},
		{"lent", "a role that waits for a slot of its account, and a loop of another account", lent},
		{"nocontrol", "an answer while no control worker runs", noControl},
		{"answers", "fifty answers to one question at once", manyAnswers},
		{"forged", "a decision that no gateway has signed", forged},
		{"accounts", "an account that one machine has found to be limited", limitedElsewhere},
		{"approve", "the time from an approval to its effect", approveTime},
		{"deploy", "another build of the control worker, with loops that wait", deploy},
	} {
		t.Run(d.name, func(t *testing.T) {
			said, err := d.run(w, loops, kills)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %s", d.what, said)
		})
	}
}

// drills skips a drill of size 0, and one that has no server.
func drills(t *testing.T, size int) {
	t.Helper()
	if size == 0 {
		t.Skip("the drills of a fleet take minutes: SUPERLOOP_SLOW_TESTS=1 go test -v ./internal/tools/fleetdrill; some are for SUPERLOOP_SLOW_TESTS=all")
	}
	if _, err := exec.LookPath("temporal"); err != nil {
		t.Skip("the drills of a fleet need Temporal's server for try-outs: go install github.com/temporalio/cli/cmd/temporal@v1.5.1, which takes some minutes")
	}
}

// world is a machine with its fleet: a server, a control worker, a worker.
type world struct {
	top, bin string
	env      []string
	mu       sync.Mutex
	procs    map[string]*exec.Cmd
	more     []func() // what else is done at the end
	n        int
	worker   []string // more arguments of the worker
	within   []string // a command before each command
}

// newWorld makes a world with the server that serve starts at a port.
func newWorld(t *testing.T, serve func(w *world, port int) error) (*world, error) {
	top := t.TempDir()
	port, err := free()
	if err != nil {
		return &world{}, err
	}
	w := &world{top: top, bin: filepath.Join(top, "bin"), procs: map[string]*exec.Cmd{}}
	w.env = append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(top, "state"), "TEMPORAL_ADDRESS=127.0.0.1:"+strconv.Itoa(port), "PATH="+w.bin+":"+os.Getenv("PATH"),
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.invalid", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.invalid", "HOME="+top, "GOCACHE="+goenv("GOCACHE"), "GOMODCACHE="+goenv("GOMODCACHE"))
	for _, name := range []string{"superloop", "superloop-fleet"} {
		if out, err := w.cmd("go", "build", "-buildvcs=false", "-o", filepath.Join(w.bin, name), "../../../cmd/"+name).CombinedOutput(); err != nil {
			return w, fmt.Errorf("building %s: %w\n%s", name, err, out)
		}
	}
	if _, err := w.fleet("init", "--fleet", "drill"); err != nil {
		return w, err
	}
	if err := serve(w, port); err != nil {
		return w, err
	}
	for _, name := range []string{"control", "worker"} {
		if err := w.begin(name, port); err != nil {
			return w, err
		}
	}
	return w, nil
}

func goenv(name string) string {
	out, _ := exec.Command("go", "env", name).Output()
	return strings.TrimSpace(string(out))
}

func (w *world) cmd(argv ...string) *exec.Cmd {
	argv = append(slices.Clone(w.within), argv...)
	c := exec.Command(argv[0], argv[1:]...)
	c.Env = w.env
	return c
}

func (w *world) fleet(args ...string) (string, error) {
	out, err := w.cmd(append([]string{filepath.Join(w.bin, "superloop-fleet")}, args...)...).CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("superloop-fleet %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// begin begins a process of the fleet and waits until it is ready.
func (w *world) begin(name string, port int, more ...string) error {
	args := append([]string{filepath.Join(w.bin, "superloop-fleet"), name}, more...)
	if name == "worker" {
		args = append(args, w.worker...)
	}
	if name == "dev" {
		args = append(args, "--port", strconv.Itoa(port), "--db", filepath.Join(w.top, "temporal.db"))
	}
	c := w.cmd(args...)
	log, err := os.OpenFile(filepath.Join(w.top, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	c.Stderr, c.Stdout = log, log
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		return err
	}
	if w.procs == nil {
		w.procs = map[string]*exec.Cmd{}
	}
	w.procs[strings.Join(append([]string{name}, more...), " ")] = c
	want := map[string]string{"dev": "ok    the server answers", "control": "ok    a control worker", "worker": "ok    a worker"}[name]
	return await(time.Minute, "the "+name, func() bool {
		out, _ := w.fleet("doctor")
		return strings.Contains(out, want)
	})
}

// kill ends a process of the fleet, and all that it has started, as a crash does.
func (w *world) kill(name string) error {
	c := w.procs[name]
	var all []int
	if err := await(time.Minute, "the process of the "+name+" that is to be killed", func() bool { // doctor takes the worker before for the one that has just begun
		all = children(c.Process.Pid)
		return len(all) > 0 || name == "control"
	}); err != nil {
		return err
	}
	if name == "dev" || rand.IntN(2) == 0 { // the server is its child; and that of a worker can end before it or after it
		for _, child := range all {
			if err := syscall.Kill(child, syscall.SIGKILL); err != nil {
				return err
			}
		}
	}
	_ = c.Process.Kill() // it may have ended with its child
	_ = c.Wait()
	return nil
}

// children returns the processes that any thread of a process has started.
func children(pid int) (out []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		data, _ := os.ReadFile(list)
		for _, f := range strings.Fields(string(data)) {
			if n, err := strconv.Atoi(f); err == nil {
				out = append(out, n)
			}
		}
	}
	return out
}

func (w *world) port() int {
	for _, e := range w.env {
		if at, ok := strings.CutPrefix(e, "TEMPORAL_ADDRESS=127.0.0.1:"); ok {
			n, _ := strconv.Atoi(at)
			return n
		}
	}
	return 0
}

func (w *world) end() {
	for _, name := range []string{"worker", "control", "dev"} {
		if c := w.procs[name]; c != nil {
			_ = c.Process.Signal(syscall.SIGTERM)
			_ = c.Wait()
		}
	}
	for _, f := range w.more {
		f()
	}
}

func await(most time.Duration, what string, ok func() bool) error {
	for end := time.Now().Add(most); !ok(); {
		if time.Now().After(end) {
			return fmt.Errorf("%s: not within %s", what, most)
		}
		<-time.After(50 * time.Millisecond)
	}
	return nil
}

// drilled is a loop of a drill. Each role appends one line to a file of the repository and commits it, so that git tells what
// was done how often.
type drilled struct {
	w          *world
	name, repo string
}

const script = `cat > /dev/null
sleep ${DRILL_SECONDS:-0}
case $SUPERLOOP_ROLE in planner) f=plan.md ;; implementer) f=implementer.md ;; tester) f=test-report.md ;; *) f=review.md ;; esac
echo "$SUPERLOOP_ROLE in $SUPERLOOP_ITERATION" > "$SUPERLOOP_LOOP_DIR/$f"
echo "$SUPERLOOP_ITERATION $SUPERLOOP_ROLE" >> done.txt
git add done.txt && git commit -q -m "step $SUPERLOOP_ITERATION $SUPERLOOP_ROLE $SUPERLOOP_ATTEMPT"
[ "$SUPERLOOP_ROLE$SUPERLOOP_ITERATION" != "reviewerLAST" ] || echo '<promise>DONE</promise>'
`

// loop makes and starts a loop of so many iterations.
func (w *world) loop(iterations int, seconds float64, more string) (*drilled, error) {
	w.mu.Lock()
	w.n++
	d := &drilled{w: w, name: fmt.Sprintf("l%d", w.n)}
	w.mu.Unlock()
	d.repo = filepath.Join(w.top, "repos", d.name)
	agentText := strings.ReplaceAll(strings.ReplaceAll(script, "LAST", strconv.Itoa(iterations)), "${DRILL_SECONDS:-0}", fmt.Sprint(seconds))
	config := fmt.Sprintf(`{"runners": {"sh": {"command": ["sh", %q]}}, "recovery": {"enabled": false},
  "loops": [{"id": %q, "spec_file": "spec.md", "completion_promise": "DONE", "completion": {"allow_ungated": true}, "max_iterations": %d, "retry": {"backoff_seconds": "10ms"}%s}]}`,
		filepath.Join(d.repo, "agent.sh"), d.name, iterations+1, more)
	return d, d.start(agentText, config)
}

// start makes the repository of a loop, and starts it.
func (d *drilled) start(agentText, config string) error {
	for name, text := range map[string]string{"spec.md": "build it\n", "agent.sh": agentText, ".superloop/config.json": config} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(d.repo, name)), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(d.repo, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"commit", "-q", "-m", "begin"}} {
		if out, err := d.w.cmd(append([]string{"git", "-C", d.repo}, args...)...).CombinedOutput(); err != nil {
			return fmt.Errorf("git %v: %w\n%s", args, err, out)
		}
	}
	_, err := d.w.fleet("start", "--repo", d.repo, "--loop", d.name, "--beat-timeout", "5s")
	return err
}

func (w *world) all(n, iterations int, seconds float64, more string) (out []*drilled, err error) {
	for range n {
		d, err := w.loop(iterations, seconds, more)
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

// state is what state.json says.
type state struct {
	Status    string
	Iteration int
}

func (d *drilled) read() (v state) {
	data, _ := os.ReadFile(filepath.Join(d.repo, ".superloop/loops", d.name, "state.json"))
	_ = json.Unmarshal(data, &v)
	return v
}

func (d *drilled) status() string { return d.read().Status }

// whole compares what git holds with what the loop had to do.
func (d *drilled) whole(iterations int) error {
	out, err := d.w.cmd("git", "-C", d.repo, "log", "--format=%s").Output()
	if err != nil {
		return err
	}
	did := map[string]int{}
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) == 4 && f[0] == "step" {
			did[f[1]+" "+f[2]]++
			did[line]++
			if did[line] > 1 {
				return fmt.Errorf("%s: attempt %q was made twice", d.name, strings.TrimSpace(line))
			}
		}
	}
	for i := 1; i <= iterations; i++ {
		for _, role := range []string{"planner", "implementer", "tester", "reviewer"} {
			if did[fmt.Sprintf("%d %s", i, role)] == 0 {
				return fmt.Errorf("%s: %s of iteration %d is missing", d.name, role, i)
			}
		}
	}
	if out, err := d.w.cmd(filepath.Join(d.w.bin, "superloop"), "events", "--repo", d.repo, "--loop", d.name, "--verify").CombinedOutput(); err != nil {
		return fmt.Errorf("%s: the journal: %w\n%s", d.name, err, out)
	}
	return nil
}

// finished waits until all loops have completed and looks whether each is whole.
func finished(all []*drilled, iterations int, most time.Duration) error {
	err := await(most, "all loops completed", func() bool {
		return !slices.ContainsFunc(all, func(d *drilled) bool {
			return !slices.Contains([]string{"completed", "limit_reached", "stuck", "cancelled"}, d.status())
		})
	})
	if i := slices.IndexFunc(all, func(d *drilled) bool { return d.status() != "completed" }); err == nil && i >= 0 {
		err = fmt.Errorf("%s is %s", all[i].name, all[i].status())
	}
	if err != nil {
		count := map[string]int{}
		for _, d := range all {
			count[d.status()]++
		}
		return fmt.Errorf("%w; they are %v", err, count)
	}
	for _, d := range all {
		if err := d.whole(iterations); err != nil {
			return err
		}
	}
	return nil
}
