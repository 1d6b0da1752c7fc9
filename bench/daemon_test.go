//go:build linux

package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// daemonVariable makes the benchmarks of the daemon run, and sets how many loops work in BenchmarkDaemon. Five times as
// many wait in BenchmarkDaemonWaiting, and BenchmarkDaemonTogether starts a fifth as often. The target is 200.
const daemonVariable = "SUPERLOOP_BENCH_DAEMON"

func daemonLoops(b *testing.B) int {
	b.Helper()
	n, err := strconv.Atoi(os.Getenv(daemonVariable))
	if err != nil || n < 10 {
		b.Skipf("it takes minutes; %s=200 runs it (10 at least)", daemonVariable)
	}
	return n
}

// fleet is some repositories with loops of a scripted agent, and a daemon that runs them.
type fleet struct {
	b         *testing.B
	exe, top  string
	env       []string
	repos     []string
	loops     int // of each repository
	daemon    *exec.Cmd
	log       bytes.Buffer
	processes int           // the most processes of superloop at once, without the daemon
	pss       int64         // KiB, the most memory that they had at once
	watched   chan struct{} // closed when the present daemon is not watched any more
}

// newFleet makes repositories with loops of these roles. more are keys of each loop.
func newFleet(b *testing.B, repos, loops int, roles, more string) *fleet {
	b.Helper()
	top, err := filepath.EvalSymlinks(b.TempDir())
	must(b, err)
	f := &fleet{b: b, top: top, loops: loops, exe: build(b, "github.com/superloop/superloop/cmd/superloop", "superloop")}
	f.env = append(os.Environ(), "HOME="+top, "XDG_STATE_HOME="+filepath.Join(top, "state"), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=b", "GIT_AUTHOR_EMAIL=b@example.invalid",
		"GIT_COMMITTER_NAME=b", "GIT_COMMITTER_EMAIL=b@example.invalid")
	agent := filepath.Join(top, "agent.sh")
	must(b, os.WriteFile(agent, []byte("cat > /dev/null\nfor f in implementer review; do date +%s%N > \"$SUPERLOOP_LOOP_DIR/$f.md\"; done\n"+
		"[ \"$SUPERLOOP_ROLE\" != reviewer ] || echo '<promise>DONE</promise>'\n"), 0o644))
	var all []string
	for i := range loops {
		all = append(all, fmt.Sprintf(`{"id": "l%d", "spec_file": "spec.md", "max_iterations": 3, "completion_promise": "DONE",
			"completion": {"allow_ungated": true, "require_change": false}, "respond": {"insist": []}, "roles": [%s]%s}`, i, roles, more))
	}
	for i := range repos {
		dir := filepath.Join(top, fmt.Sprintf("r%d", i))
		must(b, os.MkdirAll(filepath.Join(dir, ".superloop"), 0o755))
		must(b, os.WriteFile(filepath.Join(dir, "spec.md"), []byte("# nothing\n"), 0o644))
		must(b, os.WriteFile(filepath.Join(dir, ".superloop", "config.json"), fmt.Appendf(nil, `{"runners": {"sh": {"command": ["sh", %q], "args": []}}, "loops": [%s]}`,
			agent, strings.Join(all, ",")), 0o644))
		f.sh(dir, "git init -q --template= && git add -A && git commit -q -m x")
		f.repos = append(f.repos, dir)
	}
	b.Cleanup(func() { f.end(syscall.SIGKILL) })
	return f
}

func (f *fleet) sh(dir, line string) string {
	f.b.Helper()
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir, cmd.Env = dir, f.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		f.b.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// start says what the daemon is to run: all loops.
func (f *fleet) start(flags string) {
	f.b.Helper()
	for _, repo := range f.repos {
		f.sh(repo, f.exe+" start "+flags)
	}
}

// serve starts a daemon, and watches the memory of its helper processes.
func (f *fleet) serve(places int) {
	f.b.Helper()
	f.log.Reset()
	f.daemon = exec.Command(f.exe, "serve", "--max-parallel-loops", strconv.Itoa(places))
	f.daemon.Env, f.daemon.Stderr = f.env, &f.log
	must(f.b, f.daemon.Start())
	f.watched = make(chan struct{})
	go func(pid int, watched chan struct{}) {
		for {
			select {
			case <-watched:
				return
			case <-time.After(300 * time.Millisecond):
			}
			f.sample(pid)
		}
	}(f.daemon.Process.Pid, f.watched)
}

func (f *fleet) sample(daemon int) {
	exes, _ := filepath.Glob("/proc/[1-9]*/exe")
	n, sum := 0, int64(0)
	for _, link := range exes {
		if exe, _ := os.Readlink(link); exe != f.exe || strings.HasPrefix(link, fmt.Sprintf("/proc/%d/", daemon)) {
			continue
		}
		n++
		sum += field(filepath.Join(filepath.Dir(link), "smaps_rollup"), "Pss")
	}
	f.processes, f.pss = max(f.processes, n), max(f.pss, sum)
}

// field returns a number of a file of /proc, 0 if the process has ended.
func field(file, name string) int64 {
	text, _ := os.ReadFile(file)
	if m := regexp.MustCompile(`(?m)^` + name + `:\s+(\d+)`).FindSubmatch(text); m != nil {
		n, _ := strconv.ParseInt(string(m[1]), 10, 64)
		return n
	}
	return 0
}

func (f *fleet) rss(name string) float64 {
	return float64(field(fmt.Sprintf("/proc/%d/status", f.daemon.Process.Pid), name)) / 1024
}

// cpu is what the daemon has used so far, without its children.
func (f *fleet) cpu() time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", f.daemon.Process.Pid))
	must(f.b, err)
	_, rest, _ := strings.Cut(string(text), ") ")
	at := strings.Fields(rest)
	user, _ := strconv.Atoi(at[11])
	system, _ := strconv.Atoi(at[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// end ends the daemon, and returns what it and all its processes took.
func (f *fleet) end(how syscall.Signal) time.Duration {
	if f.daemon == nil {
		return 0
	}
	close(f.watched)
	_ = f.daemon.Process.Signal(how)
	_ = f.daemon.Wait()
	state := f.daemon.ProcessState
	f.daemon = nil
	return state.UserTime() + state.SystemTime()
}

// until waits until so many loops have these words in the file of the registry or in the daemon's view.
func (f *fleet) until(what string, ok func() bool) time.Duration {
	f.b.Helper()
	begin := time.Now()
	for !ok() {
		if time.Since(begin) > 15*time.Minute {
			f.b.Fatalf("never: %s\n%s", what, f.log.Bytes()[max(0, f.log.Len()-4000):])
		}
		<-time.After(20 * time.Millisecond)
	}
	return time.Since(begin)
}

// count returns how many loops the registry has with a wish.
func (f *fleet) count(wanted string) (n int) {
	files, _ := filepath.Glob(filepath.Join(f.top, "state/superloop/daemon/loops/*.json"))
	for _, file := range files {
		text, _ := os.ReadFile(file) // it is being replaced
		if bytes.Contains(text, fmt.Appendf(nil, `"wanted": %q`, wanted)) {
			n++
		}
	}
	return n
}

// phase returns with how many loops the daemon does this.
func (f *fleet) phase(name string) int {
	text, _ := os.ReadFile(filepath.Join(f.top, "state/superloop/daemon/state.json"))
	return bytes.Count(text, fmt.Appendf(nil, `"phase":%q`, name))
}

// journal calls each with every event of every loop.
func (f *fleet) journals(each func(name, event string, at time.Time)) {
	for _, repo := range f.repos {
		for i := range f.loops {
			id := fmt.Sprintf("l%d", i)
			text, err := os.ReadFile(filepath.Join(repo, ".superloop/loops", id, "events.jsonl"))
			must(f.b, err)
			for line := range bytes.Lines(text) {
				var ev struct {
					Event     string    `json:"event"`
					Timestamp time.Time `json:"timestamp"`
				}
				must(f.b, json.Unmarshal(line, &ev))
				each(repo+"#"+id, ev.Event, ev.Timestamp)
			}
		}
	}
}

// begun returns how long it took each loop from its place to its first role.
func (f *fleet) begun() (took []float64) {
	first := map[string]time.Time{}
	f.journals(func(name, event string, at time.Time) {
		if _, ok := first[name]; event == "role_start" && !ok {
			first[name] = at
		}
	})
	for line := range bytes.Lines(f.log.Bytes()) {
		var said struct {
			Msg, Repo, Loop string
			TS              time.Time
		}
		if json.Unmarshal(line, &said) == nil && said.Msg == "the loop works" {
			took = append(took, float64(first[said.Repo+"#"+said.Loop].Sub(said.TS))/1e6)
		}
	}
	slices.Sort(took)
	return took
}

// BenchmarkDaemon runs loops of two roles in one daemon with four places, and the same loops as processes of superloop
// run, four at a time.
func BenchmarkDaemon(b *testing.B) {
	n := daemonLoops(b)
	roles := `"implementer", "reviewer"`
	for b.Loop() {
		f := newFleet(b, 10, n/10, roles, "")
		f.start("")
		begin := time.Now()
		f.serve(4)
		f.until("all loops are completed", func() bool { return f.count("ended") == n })
		wall, peak := time.Since(begin), f.rss("VmHWM")
		cpu := f.end(syscall.SIGTERM)
		took := f.begun()

		g := newFleet(b, 10, n/10, roles, "")
		begin = time.Now()
		var mu sync.Mutex
		var alone []usage
		var all sync.WaitGroup
		places := make(chan struct{}, 4)
		for i := range n {
			places <- struct{}{}
			all.Go(func() {
				defer func() { <-places }()
				u := measure(b, g.repos[i%10], g.env[len(g.env)-7:], 0, g.exe, "run", "--loop", fmt.Sprintf("l%d", i/10))
				mu.Lock()
				defer mu.Unlock()
				alone = append(alone, u)
			})
		}
		all.Wait()
		wallAlone := time.Since(begin)
		var cpuAlone time.Duration
		for _, u := range alone {
			cpuAlone += u.cpu
		}
		each := func(d time.Duration) float64 { return float64(d) / 1e6 / float64(n) }
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(each(cpu), "ms-cpu/loop")
		b.ReportMetric(float64(cpu)/float64(cpuAlone), "cpu/run")
		b.ReportMetric(each(wall), "ms-wall/loop")
		b.ReportMetric(float64(wall)/float64(wallAlone), "wall/run")
		b.ReportMetric(peak, "MiB-daemon")
		b.ReportMetric(float64(f.pss)/1024, "MiB-helpers")
		b.ReportMetric(float64(f.processes), "helpers")
		b.ReportMetric(median(alone, func(u usage) float64 { return float64(u.rss) })/1024, "MiB-run")
		b.ReportMetric(took[len(took)/2], "ms-to-role-p50")
		b.ReportMetric(took[len(took)*95/100], "ms-to-role-p95")
	}
}

// BenchmarkDaemonWaiting has loops wait for approval, and restarts their daemon.
func BenchmarkDaemonWaiting(b *testing.B) {
	n := 5 * daemonLoops(b)
	for b.Loop() {
		f := newFleet(b, n/50, 50, `"reviewer"`, `, "approval": {"enabled": true, "require_on_completion": true}`)
		f.start("")
		f.serve(8)
		settled := f.until("all loops wait", func() bool { return f.phase("waiting") == n })
		idle := func(when string) {
			<-time.After(2 * time.Second)
			before := f.cpu()
			<-time.After(10 * time.Second)
			b.ReportMetric(f.rss("VmRSS"), "MiB-"+when)
			b.ReportMetric(f.rss("VmHWM"), "MiB-peak-"+when)
			b.ReportMetric(float64(f.cpu()-before)/1e8, "%cpu-"+when)
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(settled.Seconds(), "s-first")
		idle("first")
		f.end(syscall.SIGKILL)
		must(b, os.Remove(filepath.Join(f.top, "state/superloop/daemon/state.json")))
		f.serve(8)
		b.ReportMetric(f.until("all loops wait again", func() bool { return f.phase("waiting") == n }).Seconds(), "s-again")
		idle("again")
	}
}

// BenchmarkDaemonTogether starts 50 loops of one repository in the same moment, each in a work tree of its own.
func BenchmarkDaemonTogether(b *testing.B) {
	rounds := max(daemonLoops(b)/5, 1)
	for b.Loop() {
		f := newFleet(b, 1, 50, `"reviewer"`, `, "git": {"worktree": true}`)
		f.serve(0)
		begin := time.Now()
		for range rounds {
			f.start("--fresh")
			f.until("all loops are completed", func() bool { return f.count("ended") == 50 })
		}
		wall, peak := time.Since(begin), f.rss("VmHWM")
		var failed []string
		for line := range strings.Lines(f.log.String()) {
			if strings.Contains(line, `"level":"error"`) {
				failed = append(failed, line)
			}
		}
		completed := 0
		f.end(syscall.SIGTERM)
		f.journals(func(_, event string, _ time.Time) {
			if event == "loop_complete" {
				completed++
			}
		})
		if len(failed) > 0 || completed != 50*rounds {
			b.Errorf("%d of %d loops completed, %d errors\n%s", completed, 50*rounds, len(failed), failed)
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(wall.Seconds()/float64(rounds), "s/round")
		b.ReportMetric(peak, "MiB-daemon")
		b.ReportMetric(float64(f.pss)/1024, "MiB-helpers")
		b.ReportMetric(float64(f.processes), "helpers")
	}
}
