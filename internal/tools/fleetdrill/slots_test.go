package fleetdrill

import (
	"cmp"
	"errors"
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

// mostRoles is how many roles of the fleet may use the account of the drill.
const mostRoles = 2

// sharing is three machines whose loops share one account.
type sharing struct {
	w        *world
	machines []*world
	all      []*drilled
	held     *heldSlots
	seconds  string // the file that says how long a role takes
	rounds   int    // iterations of each loop
	line     *cable // leads the first machine to the server
	settled  func() // ends the watch of the locks
}

// newSharing begins loops on three machines, each of which may be silent for a time. A role takes so many seconds.
func newSharing(t *testing.T, loops, rounds int, beat, seconds string) *sharing {
	drills(t, rounds)
	w, err := newWorld(t, func(w *world, port int) error { return w.serve(port, suggests) })
	t.Cleanup(w.end)
	if err != nil {
		t.Fatal(err)
	}
	s := &sharing{w: w, rounds: rounds, held: &heldSlots{dir: filepath.Join(w.top, "held"), ended: map[string]time.Time{}}, seconds: filepath.Join(w.top, "seconds")}
	if err := os.Mkdir(s.held.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s.take(t, seconds)
	if s.line, err = newCable(t, w.port()); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		m, err := w.join(fmt.Sprint("shares", i))
		if err != nil {
			t.Fatal(err)
		}
		m.procs, m.worker = map[string]*exec.Cmd{}, []string{"--max-roles-per-account", strconv.Itoa(mostRoles), "--beat-timeout", beat}
		m.env = append(m.env, "ANTHROPIC_API_KEY=of-the-drill")
		if i == 0 {
			m.env = with(m.env, "TEMPORAL_ADDRESS="+s.line.Addr().String())
		}
		if err := m.begin("worker", 0); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.end)
		s.machines = append(s.machines, m)
	}
	stop := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { s.held.watch(stop) })
	s.settled = sync.OnceFunc(func() {
		close(stop)
		watching.Wait()
	})
	t.Cleanup(s.settled)
	for i := range loops {
		m := s.machines[i%3]
		d := &drilled{w: m, name: fmt.Sprintf("a%d", i), repo: filepath.Join(m.top, "repos", fmt.Sprintf("a%d", i))}
		if err := d.start(strings.NewReplacer("HELD", filepath.Join(s.held.dir, d.name), "SECONDS", s.seconds, "LAST", strconv.Itoa(rounds)).Replace(sharingAgent), fmt.Sprintf(`{"runners": {"sh": {"command": ["sh", %q], "adapter": "claude"}}, "recovery": {"enabled": false},
  "loops": [{"id": %q, "spec_file": "spec.md", "completion_promise": "DONE", "completion": {"allow_ungated": true}, "max_iterations": %d, "retry": {"attempts": 20, "backoff_seconds": "10ms"}}]}`,
			filepath.Join(d.repo, "agent.sh"), d.name, rounds+1)); err != nil {
			t.Fatal(err)
		}
		s.all = append(s.all, d)
	}
	return s
}

// suggests has the workflow of an account go on as a new run often.
const suggests = "limit.historyCount.suggestContinueAsNew=60"

// take says how long each role takes that begins from now on.
func (s *sharing) take(t *testing.T, seconds string) {
	if err := os.WriteFile(s.seconds, []byte(seconds+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// ends waits until all loops have ended, and looks at how many roles were at work in one moment.
func (s *sharing) ends(t *testing.T) (roles int) {
	t.Helper()
	if err := finished(s.all, s.rounds, 10*time.Minute); err != nil {
		t.Fatal(err)
	}
	s.settled()
	most, roles, err := s.held.overlap()
	if err != nil || most != mostRoles || s.held.most != mostRoles {
		t.Fatalf("%d and %d roles were at work at the same time, of %d; %v", most, s.held.most, mostRoles, err)
	}
	var said string
	if err := await(time.Minute, "no account is used", func() bool {
		said, err = s.w.fleet("accounts")
		return err == nil && strings.Count(said, "\n") == 1
	}); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	return roles
}

// TestSlots kills the workers, and the control worker, at random moments: SUPERLOOP_SLOW_TESTS=1 go test -v -run TestSlots ./internal/tools/fleetdrill.
func TestSlots(t *testing.T) {
	kills := testkit.Sample(0, 4, 60)
	s := newSharing(t, 9, testkit.Sample(0, 3, 20), "5s", "0.6")
	if err := await(time.Minute, "all slots are used", func() bool { return s.held.now() == mostRoles }); err != nil {
		t.Fatal(err)
	}
	said, err := s.w.fleet("accounts")
	if err != nil || !strings.Contains(said, "uses 1 of 2") || !strings.Contains(said, "waits, 0 before it") {
		t.Errorf("%s\n%v", said, err)
	}
	listed, err := s.w.fleet("list")
	if err != nil || !strings.Contains(listed, "waits for a slot of account anthropic/") {
		t.Errorf("%s\n%v", listed, err)
	}
	var killed, ended []time.Duration
	for i := range kills {
		if i%4 == 2 { // what gives the slots out is killed, too
			if err := errors.Join(s.w.kill("control"), s.w.begin("control", 0)); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(time.Duration(rand.IntN(2500)) * time.Millisecond)
		var m *world
		if err := await(time.Minute, "a role on a machine that is to be killed", func() bool {
			m = s.machines[rand.IntN(3)]
			return s.held.of(m) > 0
		}); err != nil {
			t.Fatal(err)
		}
		took := &killed
		if i%4 == 1 { // it says that its roles have left
			took = &ended
			worker := m.procs["worker"]
			if err := errors.Join(worker.Process.Signal(syscall.SIGTERM), worker.Wait()); err != nil {
				t.Fatal(err)
			}
		} else if err := m.kill("worker"); err != nil {
			t.Fatal(err)
		}
		if began := time.Now(); i%4 != 3 {
			if err := await(time.Minute, "the slots of a machine that is gone are free", func() bool { return s.held.of(m) == 0 && s.held.now() == mostRoles }); err != nil {
				t.Fatal(err)
			}
			*took = append(*took, time.Since(began).Round(100*time.Millisecond))
		}
		if err := m.begin("worker", 0); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d roles of 9 loops on 3 machines, %d of them killed or ended: never more than %d at work; all slots were used again after %v where a worker was killed and stayed away, and after %v where it had ended", s.ends(t), kills, mostRoles, killed, ended)
}

// TestSlotsCutOff cuts a machine off for longer than it may be silent, and then kills the server for such a time, while roles are
// at work that take longer.
func TestSlotsCutOff(t *testing.T) {
	s := newSharing(t, 6, testkit.Sample(0, 0, 2), "20s", "90")
	work := func() {
		t.Helper()
		if err := await(2*time.Minute, "roles that take long", func() bool { return s.held.longer(2*time.Second) == mostRoles }); err != nil {
			t.Fatal(err)
		}
	}
	quiet := func(what string) {
		t.Helper()
		<-time.After(24 * time.Second)
		if n := s.held.now(); n != mostRoles {
			t.Errorf("%d roles were at work while %s", n, what)
		}
	}
	if work(); s.held.of(s.machines[0]) == 0 {
		t.Fatal("the first loop is on the first machine, and has no slot")
	}
	s.line.cut.Lock()
	quiet("a machine was cut off")
	s.line.cut.Unlock()
	work()
	_ = s.w.procs["dev"].Process.Kill()
	_ = s.w.procs["dev"].Wait()
	quiet("there was no server")
	s.take(t, "0.6")
	if err := s.w.serve(s.w.port(), suggests); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d roles; a machine cut off, and the server away, for 24 s each, where a machine may be silent for 20 s: never more than %d at work", s.ends(t), mostRoles)
}

// sharingAgent is an agent that holds a lock as long as any process of it lives, and writes down when it begins and ends.
const sharingAgent = `cat > /dev/null
lock="HELD-$SUPERLOOP_ITERATION-$SUPERLOOP_ROLE-$SUPERLOOP_ATTEMPT"
exec 9> "$lock"
flock 9
echo "begins $(date +%s%N)" >> "$lock"
sleep $(cat SECONDS)
case $SUPERLOOP_ROLE in planner) f=plan.md ;; implementer) f=implementer.md ;; tester) f=test-report.md ;; *) f=review.md ;; esac
echo "$SUPERLOOP_ROLE in $SUPERLOOP_ITERATION" > "$SUPERLOOP_LOOP_DIR/$f"
echo "$SUPERLOOP_ITERATION $SUPERLOOP_ROLE" >> done.txt
git add done.txt && git commit -q -m "step $SUPERLOOP_ITERATION $SUPERLOOP_ROLE $SUPERLOOP_ATTEMPT"
said=
[ "$SUPERLOOP_ROLE$SUPERLOOP_ITERATION" != "reviewerLAST" ] || said='<promise>DONE</promise>'
echo "ends $(date +%s%N)" >> "$lock"
echo '{"type":"result","subtype":"success","is_error":false,"result":"'"$said"'","session_id":"s"}'
`

// heldSlots looks at the locks of agents.
type heldSlots struct {
	dir string

	mu    sync.Mutex
	ended map[string]time.Time // when nothing of an agent lived any more that had begun
	live  []string
	most  int
}

// watch looks at all locks, again and again.
func (h *heldSlots) watch(stop <-chan struct{}) {
	for {
		files, _ := os.ReadDir(h.dir)
		var live []string
		h.mu.Lock()
		for _, f := range files {
			if !h.ended[f.Name()].IsZero() {
				continue
			}
			file, err := os.Open(filepath.Join(h.dir, f.Name()))
			if err != nil {
				continue
			}
			info, _ := file.Stat()
			if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
				live = append(live, f.Name())
			} else if info != nil && info.Size() > 0 {
				h.ended[f.Name()] = time.Now()
			}
			_ = file.Close()
		}
		h.live, h.most = live, max(h.most, len(live))
		h.mu.Unlock()
		select {
		case <-stop:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (h *heldSlots) now() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.live)
}

// longer counts the agents that have lived for a time.
func (h *heldSlots) longer(d time.Duration) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range h.live {
		if info, err := os.Stat(filepath.Join(h.dir, id)); err == nil && time.Since(info.ModTime()) > d {
			n++
		}
	}
	return n
}

// of counts the agents of a machine.
func (h *heldSlots) of(m *world) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range h.live {
		name, _, _ := strings.Cut(id, "-")
		if _, err := os.Stat(filepath.Join(m.top, "repos", name)); err == nil {
			n++
		}
	}
	return n
}

// overlap returns how many agents were at work in the same moment, by what they have written down. One that was killed has
// ended when its lock was free.
func (h *heldSlots) overlap() (most, roles int, err error) {
	type moment struct {
		at   int64
		more int
	}
	var all []moment
	for id, ended := range h.ended {
		data, err := os.ReadFile(filepath.Join(h.dir, id))
		if err != nil {
			return 0, 0, err
		}
		at, end := int64(0), ended.UnixNano()
		for line := range strings.Lines(string(data)) {
			what, text, _ := strings.Cut(strings.TrimSpace(line), " ")
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return 0, 0, fmt.Errorf("%s: %w", id, err)
			}
			if what == "begins" && at == 0 {
				at = n
			} else if what == "ends" {
				end = n
			}
		}
		roles++
		all = append(all, moment{at, 1}, moment{end, -1})
	}
	slices.SortFunc(all, func(a, b moment) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.more, b.more)) })
	sum := 0
	for _, m := range all {
		sum += m.more
		most = max(most, sum)
	}
	return most, roles, nil
}
