package fleetdrill

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/testkit"
)

// TestMoves drills loops that are bound to no machine, over two machines that share no directory.
func TestMoves(t *testing.T) {
	drills(t, testkit.Sample(0, 1, 1))
	w, err := newWorld(t, func(w *world, port int) error { return w.begin("dev", port) })
	defer w.end()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []struct {
		name, what string
		run        func(t *testing.T, w *world) (string, error)
	}{
		{"killed", "kill -9 of the worker that has a loop in a role", killHost},
		{"zombie", "a machine that is stopped, and goes on when another one has its loop", zombie},
		{"drain", "a machine that drains", drains},
		{"pushes", "kill -9 before, in and after a push", killPushes},
		{"apart", "a machine in a network of its own", apart},
		{"cut", "a machine that is cut off from the server, with a loop that is bound to it", cutBound},
		{"cut-unbound", "a machine that is cut off from the server, with an unbound loop", cutUnbound},
	} {
		t.Run(d.name, func(t *testing.T) {
			said, err := d.run(t, w)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %s", d.what, said)
		})
	}
}

// with returns an environment with other values.
func with(env []string, set ...string) []string {
	out := slices.DeleteFunc(slices.Clone(env), func(e string) bool {
		return slices.ContainsFunc(set, func(s string) bool {
			name, _, _ := strings.Cut(s, "=")
			return strings.HasPrefix(e, name+"=")
		})
	})
	return append(out, set...)
}

// member makes a machine with a private state and a home of its own, which takes loops of the pool.
func (w *world) member(t *testing.T, name, pool string, within, env []string) (*world, error) {
	m := &world{top: filepath.Join(w.top, name), bin: w.bin, procs: map[string]*exec.Cmd{}, worker: []string{"--pool", pool}, within: within}
	m.env = with(w.env, append([]string{"XDG_STATE_HOME=" + filepath.Join(m.top, "state"), "HOME=" + m.top}, env...)...)
	if err := os.MkdirAll(m.top, 0o700); err != nil {
		return m, err
	}
	invitation, err := w.fleet("invite")
	if err == nil {
		err = os.WriteFile(filepath.Join(m.top, "invitation"), []byte(invitation), 0o600)
	}
	if err == nil {
		_, err = m.fleet("init", "--join", filepath.Join(m.top, "invitation"))
	}
	if err == nil {
		err = m.begin("worker", 0)
	}
	t.Cleanup(m.end)
	return m, errors.Join(err, m.pids())
}

// pids writes down which processes a hook kills that kills this machine.
func (w *world) pids() error {
	c := w.procs["worker"]
	text := strconv.Itoa(c.Process.Pid)
	for _, child := range children(c.Process.Pid) {
		text += " " + strconv.Itoa(child)
	}
	return os.WriteFile(filepath.Join(w.top, "pids"), []byte(text+"\n"), 0o600)
}

// id is the machine's id in the fleet.
func (w *world) id() string {
	data, _ := os.ReadFile(filepath.Join(w.top, "state/superloop/fleet/fleet.json"))
	var f struct{ Machine string }
	_ = json.Unmarshal(data, &f)
	return f.Machine
}

// moving is a loop that is bound to no machine.
type moving struct {
	*drilled
	remote, url string
}

const movingAgent = `cat > /dev/null
echo "$SUPERLOOP_ITERATION $SUPERLOOP_ROLE $SUPERLOOP_ATTEMPT $HOME $$" >> TOP/LOOP.began
sleep SECONDS
case $SUPERLOOP_ROLE in planner) f=plan.md ;; implementer) f=implementer.md ;; tester) f=test-report.md ;; *) f=review.md ;; esac
echo "$SUPERLOOP_ROLE in $SUPERLOOP_ITERATION" > "$SUPERLOOP_LOOP_DIR/$f"
echo "$SUPERLOOP_ITERATION $SUPERLOOP_ROLE $SUPERLOOP_ATTEMPT" >> loose.txt
echo "$SUPERLOOP_ITERATION $SUPERLOOP_ROLE" >> done.txt
git add done.txt && git commit -q -m "step $SUPERLOOP_ITERATION $SUPERLOOP_ROLE $SUPERLOOP_ATTEMPT"
[ "$SUPERLOOP_ROLE$SUPERLOOP_ITERATION" != "reviewerLAST" ] || echo '<promise>DONE</promise>'
`

// moves starts a loop in a pool. url is where machines find its bare repository, "" for its path.
func (w *world) moves(pool, url string, iterations int, seconds float64) (*moving, error) {
	w.n++
	d := &moving{drilled: &drilled{w: w, name: fmt.Sprintf("m%d", w.n)}}
	d.repo, d.remote = filepath.Join(w.top, "clones", d.name), filepath.Join(w.top, "remotes", d.name+".git")
	if d.url = d.remote; url != "" {
		d.url = url + "/" + d.name + ".git"
	}
	script := strings.NewReplacer("LAST", strconv.Itoa(iterations), "SECONDS", fmt.Sprint(seconds), "TOP", w.top, "LOOP.began", d.name+".began").Replace(movingAgent)
	config := fmt.Sprintf(`{"runners": {"sh": {"command": ["sh", "agent.sh"]}}, "recovery": {"enabled": false},
  "loops": [{"id": %q, "spec_file": "spec.md", "completion_promise": "DONE", "completion": {"allow_ungated": true}, "max_iterations": %d, "retry": {"attempts": 10, "backoff_seconds": "10ms"}}]}`, d.name, iterations+1)
	for name, text := range map[string]string{"spec.md": "build it\n", "agent.sh": script, ".superloop/config.json": config} {
		path := filepath.Join(d.repo, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			return nil, err
		}
	}
	for _, args := range [][]string{{"init", "-q", "--bare", d.remote}, {"init", "-q", d.repo}, {"-C", d.repo, "add", "-A"}, {"-C", d.repo, "commit", "-q", "-m", "begin"}} {
		if out, err := w.cmd(append([]string{"git"}, args...)...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("git %v: %w\n%s", args, err, out)
		}
	}
	return d, nil
}

func (d *moving) start(pool string) error {
	_, err := d.w.fleet("start", "--repo", d.repo, "--loop", d.name, "--beat-timeout", "5s", "--unbound", "--remote", d.url, "--pool", pool, "--machine-gone-after", "10s")
	return err
}

func (d *moving) started(pool, url string, w *world, iterations int, seconds float64) (*moving, error) {
	d, err := w.moves(pool, url, iterations, seconds)
	if err == nil {
		err = d.start(pool)
	}
	return d, err
}

// status is what the fleet knows.
func (d *moving) status() (v struct{ Status, Machine string }) {
	out, _ := d.w.fleet("show", "--remote", d.url, "--loop", d.name)
	_ = json.Unmarshal([]byte(out), &v)
	return v
}

// began lists the attempts of roles that have begun, each with the home of its machine and its process.
func (d *moving) began() (out [][]string) {
	data, _ := os.ReadFile(filepath.Join(d.w.top, d.name+".began"))
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) == 5 {
			out = append(out, f)
		}
	}
	return out
}

// whole compares what the remote has with what the loop had to do.
func (d *moving) whole(iterations int) error {
	if err := await(5*time.Minute, "the loop completes", func() bool {
		s := d.status().Status
		return s != "" && s != "running" && s != "paused" && s != "pending"
	}); err != nil {
		return fmt.Errorf("%w: it is %s", err, d.status().Status)
	}
	if s := d.status().Status; s != "completed" {
		return fmt.Errorf("%s is %s", d.name, s)
	}
	out, err := d.w.cmd("git", "-C", d.remote, "log", "--format=%s", "refs/superloop/"+d.name+"/work").Output()
	if err != nil {
		return err
	}
	did := map[string]int{}
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) == 4 && f[0] == "step" {
			did[f[1]+" "+f[2]]++
			if did[line]++; did[line] > 1 {
				return fmt.Errorf("%s: attempt %q is committed twice", d.name, strings.TrimSpace(line))
			}
		}
	}
	for i := 1; i <= iterations; i++ {
		for _, role := range []string{"planner", "implementer", "tester", "reviewer"} {
			if did[fmt.Sprintf("%d %s", i, role)] != 1 {
				return fmt.Errorf("%s: %s of iteration %d is committed %d times", d.name, role, i, did[fmt.Sprintf("%d %s", i, role)])
			}
		}
	}
	seen := map[string]bool{}
	for _, b := range d.began() {
		attempt := strings.Join(b[:3], " ")
		if seen[attempt] {
			return fmt.Errorf("%s: attempt %q has begun twice", d.name, attempt)
		}
		seen[attempt] = true
	}
	return nil
}

// pair makes two machines of a pool and a loop, and waits until one of them, which is a, is in the role of a number.
func pair(t *testing.T, w *world, pool string, iterations int, seconds float64, role int) (a, b *world, d *moving, err error) {
	if a, err = w.member(t, pool+"-a", pool, nil, nil); err != nil {
		return a, b, d, err
	}
	if b, err = w.member(t, pool+"-b", pool, nil, nil); err != nil {
		return a, b, d, err
	}
	if d, err = d.started(pool, "", w, iterations, seconds); err != nil {
		return a, b, d, err
	}
	err = await(time.Minute, "the role", func() bool { return len(d.began()) >= role })
	if err == nil && d.began()[role-1][3] == b.top {
		a, b = b, a
	}
	return a, b, d, err
}

func killHost(t *testing.T, w *world) (string, error) {
	var took []time.Duration
	for n := range testkit.Sample(1, 2, 20) {
		a, b, d, err := pair(t, w, fmt.Sprintf("kill%d", n), 2, 2, 2)
		if err != nil {
			return "", err
		}
		agent, _ := strconv.Atoi(d.began()[1][4])
		began := time.Now()
		all := children(a.procs["worker"].Process.Pid)
		_ = a.procs["worker"].Process.Kill()
		for _, child := range all {
			_ = syscall.Kill(child, syscall.SIGKILL)
		}
		_ = a.procs["worker"].Wait()
		delete(a.procs, "worker")
		if err := await(time.Minute, "the next attempt on the other machine", func() bool { return len(d.began()) >= 3 }); err != nil {
			return "", err
		}
		took = append(took, time.Since(began))
		next := d.began()[2]
		if next[3] != b.top || next[0] != "1" || next[1] != "implementer" || next[2] != "2" {
			return "", fmt.Errorf("the next attempt is %v", next)
		}
		if data, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", agent)); err == nil && strings.Contains(string(data), "HOME="+a.top+"\x00") {
			return "", fmt.Errorf("the agent %d of the killed machine lives", agent)
		}
		if err := d.whole(2); err != nil {
			return "", err
		}
		b.end()
	}
	slices.Sort(took)
	return fmt.Sprintf("%d kills: the next attempt begins elsewhere after %.1f s (p50), %.1f s at most, of which the heartbeat timeout is 5 s; none lost, nothing committed twice", len(took), took[len(took)/2].Seconds(), took[len(took)-1].Seconds()), nil
}

// tree returns a process and all that descend from it.
func tree(pid int) []int {
	all := []int{pid}
	for _, child := range children(pid) {
		all = append(all, tree(child)...)
	}
	return all
}

func zombie(t *testing.T, w *world) (string, error) {
	a, b, d, err := pair(t, w, "zombie", 2, 3, 2)
	if err != nil {
		return "", err
	}
	stopped := tree(a.procs["worker"].Process.Pid)
	began := time.Now()
	for _, pid := range stopped {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			return "", err
		}
	}
	err = await(2*time.Minute, "the other machine has it", func() bool { return len(d.began()) >= 3 })
	took := time.Since(began)
	for _, pid := range stopped {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
	if err != nil {
		return "", err
	}
	if next := d.began()[2]; next[3] != b.top || next[2] != "2" {
		return "", fmt.Errorf("the next attempt is %v", next)
	}
	if err := d.whole(2); err != nil {
		return "", err
	}
	kept := ""
	err = await(time.Minute, "the local ref of the zombie", func() bool {
		trees, _ := filepath.Glob(filepath.Join(a.top, "state/superloop-fleet/*-"+d.name))
		if len(trees) == 1 {
			out, _ := w.cmd("git", "-C", trees[0], "for-each-ref", "--format=%(refname)", "refs/superloop-lost").Output()
			kept = strings.TrimSpace(string(out))
		}
		return kept != ""
	})
	if err != nil {
		return "", err
	}
	if log, _ := os.ReadFile(filepath.Join(a.top, "worker.log")); !strings.Contains(string(log), kept) {
		return "", fmt.Errorf("the log does not name %s", kept)
	}
	if out, _ := w.cmd("git", "-C", d.remote, "for-each-ref", "--format=%(refname)").Output(); len(strings.Fields(string(out))) != 2 {
		return "", fmt.Errorf("the remote has %s", out)
	}
	return fmt.Sprintf("taken over after %.1f s; the push of the zombie is refused, its work is kept under %s", took.Seconds(), kept), nil
}

func drains(t *testing.T, w *world) (string, error) {
	a, b, d, err := pair(t, w, "drain", 1, 8, 2)
	if err != nil {
		return "", err
	}
	began := time.Now()
	if _, err := w.fleet("drain", "--machine", a.id(), "--deadline", "1s"); err != nil {
		return "", err
	}
	if err := await(time.Minute, "the loop goes on elsewhere", func() bool { n := d.began(); return n[len(n)-1][3] == b.top }); err != nil {
		return "", err
	}
	took := time.Since(began)
	if out, err := w.fleet("machines"); err != nil || !strings.Contains(out, "drains") {
		return "", fmt.Errorf("%s: %w", out, err)
	}
	if err := d.whole(1); err != nil {
		return "", err
	}
	if err := w.forget("--remote", d.url, "--loop", d.name); err != nil {
		return "", err
	}
	data, err := w.cmd("git", "-C", d.remote, "show", "refs/superloop/"+d.name+"/state:loop/events.jsonl").Output() // as any machine can read it
	if err != nil {
		return "", err
	}
	interrupted := strings.Count(string(data), `"outcome":"interrupted"`)
	if n := strings.Count(string(data), `"event":"role_failed"`); n != interrupted || n == 0 {
		return "", fmt.Errorf("%d roles failed, of which %d were interrupted", n, interrupted)
	}
	// The machine takes loops again when the order is taken back, and the other one drains; also a worker that begins later.
	b.end()
	if _, err := b.fleet("drain"); err != nil {
		return "", err
	}
	b.procs = map[string]*exec.Cmd{}
	if err := b.begin("worker", 0); err != nil {
		return "", err
	}
	if _, err := w.fleet("undrain", "--machine", a.id()); err != nil {
		return "", err
	}
	if d, err = d.started("drain", "", w, 1, 0); err == nil {
		err = d.whole(1)
	}
	if n := d.began(); err == nil && n[0][3] != a.top {
		err = errors.New("the machine that drains has taken a loop")
	}
	return fmt.Sprintf("a role is interrupted and the loop goes on elsewhere after %.1f s, with a deadline of 1 s; it counts for nothing", took.Seconds()), err
}

// killHook kills the machine that pushes, at each push of which the number says so.
const killHook = `#!/bin/sh
[ "$(basename "$0")" != reference-transaction ] || [ "$1" = prepared ] || exit 0
n=$(cat TOP/pushes 2>/dev/null || echo 0)
case $(basename "$0") in
pre-receive) n=$((n+1)); echo $n > TOP/pushes; when=0 ;;
reference-transaction) when=1 ;;
post-receive) when=2 ;;
esac
if [ $((n % 4)) = $when ] && [ $n -gt 2 ] && [ $n -lt MOST ] && ! grep -qx "$n" TOP/killed 2>/dev/null; then
  echo $n >> TOP/killed
  kill -9 $(cat "$HOME/pids")
fi
exit 0
`

func killPushes(t *testing.T, w *world) (string, error) {
	a, err := w.member(t, "push-a", "push", nil, nil)
	if err != nil {
		return "", err
	}
	b, err := w.member(t, "push-b", "push", nil, nil)
	if err != nil {
		return "", err
	}
	d, err := w.moves("push", "", 3, 0.1)
	if err != nil {
		return "", err
	}
	top := filepath.Join(w.top, "push-hook")
	if err := os.MkdirAll(top, 0o755); err != nil {
		return "", err
	}
	for _, name := range []string{"pre-receive", "reference-transaction", "post-receive"} {
		if err := os.WriteFile(filepath.Join(d.remote, "hooks", name), []byte(strings.NewReplacer("TOP", top, "MOST", strconv.Itoa(testkit.Sample(0, 16, 40))).Replace(killHook)), 0o755); err != nil {
			return "", err
		}
	}
	if err := d.start("push"); err != nil {
		return "", err
	}
	kills := 0
	err = await(8*time.Minute, "the loop completes", func() bool {
		for _, m := range []*world{a, b} {
			var ws syscall.WaitStatus
			if pid, _ := syscall.Wait4(m.procs["worker"].Process.Pid, &ws, syscall.WNOHANG, nil); pid > 0 {
				kills++
				if m.begin("worker", 0) != nil || m.pids() != nil {
					return true
				}
			}
		}
		return d.status().Status == "completed"
	})
	if err != nil {
		return "", err
	}
	if err := d.whole(3); err != nil {
		return "", err
	}
	pushes, _ := os.ReadFile(filepath.Join(top, "pushes"))
	if kills < 5 {
		return "", fmt.Errorf("%d kills in %s pushes", kills, pushes)
	}
	return fmt.Sprintf("%d kills in %s pushes: nothing lost, nothing begun or committed twice", kills, strings.TrimSpace(string(pushes))), nil
}

// apart lets one machine be a network namespace: it reaches the server and the repository by its only cable.
func apart(t *testing.T, w *world) (string, error) {
	space, outer, inner := fmt.Sprintf("sl%d", os.Getpid()), fmt.Sprintf("slo%d", os.Getpid()%100000), fmt.Sprintf("sli%d", os.Getpid()%100000)
	run := func(argv ...string) error {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w: %s", argv, err, out)
		}
		return nil
	}
	if err := run("ip", "netns", "add", space); err != nil {
		t.Skipf("a machine in a network of its own needs root and ip netns: %v", err)
	}
	t.Cleanup(func() { _ = run("ip", "netns", "del", space) })
	for _, argv := range [][]string{{"ip", "link", "add", outer, "type", "veth", "peer", "name", inner}, {"ip", "link", "set", inner, "netns", space},
		{"ip", "addr", "add", "10.213.77.1/30", "dev", outer}, {"ip", "link", "set", outer, "up"},
		{"ip", "netns", "exec", space, "ip", "addr", "add", "10.213.77.2/30", "dev", inner}, {"ip", "netns", "exec", space, "ip", "link", "set", inner, "up"}, {"ip", "netns", "exec", space, "ip", "link", "set", "lo", "up"}} {
		if err := run(argv...); err != nil {
			t.Skipf("a machine in a network of its own needs a pair of veth devices: %v", err)
		}
	}
	t.Cleanup(func() { _ = run("ip", "link", "del", outer) })
	to, err := forward("10.213.77.1:0", w.port())
	if err != nil {
		return "", err
	}
	t.Cleanup(func() { _ = to.Close() })
	l, err := net.Listen("tcp", "10.213.77.1:0")
	if err != nil {
		return "", err
	}
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	_ = l.Close()
	daemon := w.cmd("git", "daemon", "--reuseaddr", "--export-all", "--enable=receive-pack", "--listen=10.213.77.1", "--port="+port, "--base-path="+filepath.Join(w.top, "remotes"))
	daemon.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := daemon.Start(); err != nil {
		return "", err
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-daemon.Process.Pid, syscall.SIGKILL)
		_ = daemon.Wait()
	})
	url := "git://10.213.77.1:" + port
	a, err := w.member(t, "apart-a", "apart", nil, nil)
	if err != nil {
		return "", err
	}
	d, err := (*moving)(nil).started("apart", url, w, 2, 1)
	if err != nil {
		return "", err
	}
	if err := await(time.Minute, "the second role", func() bool { return len(d.began()) >= 2 }); err != nil {
		return "", err
	}
	b, err := w.member(t, "apart-b", "apart", []string{"ip", "netns", "exec", space}, []string{"TEMPORAL_ADDRESS=" + to.Addr().String()})
	if err != nil {
		return "", err
	}
	a.end() // the worker ends in the middle of a role, as on a machine that is switched off in order
	a.procs = nil
	if err := d.whole(2); err != nil {
		return "", err
	}
	first, last := d.began()[0], d.began()[len(d.began())-1]
	if first[3] != a.top || last[3] != b.top {
		return "", fmt.Errorf("the roles ran at %s and %s", first[3], last[3])
	}
	return fmt.Sprintf("the loop went from one to the other by %s; all %d roles are committed once", url, 8), nil
}

// forward passes connections on to a port of this machine's loopback.
func forward(at string, port int) (net.Listener, error) {
	l, err := net.Listen("tcp", at)
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				s, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(port))
				if err != nil {
					return
				}
				defer s.Close()
				go func() { _, _ = io.Copy(s, c); _ = s.Close() }()
				_, _ = io.Copy(c, s)
			}()
		}
	}()
	return l, nil
}
