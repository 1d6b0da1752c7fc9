package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/loop/journal"
)

// holders is an agent, or a test, that leaves processes behind. Nothing marks them, and each holds a lock for ever.
const holders = `env -i "PATH=$PATH" setsid flock --shared '%[1]s' sleep 1000 > /dev/null 2>&1 &
(env -i "PATH=$PATH" setsid sh -c "trap '' TERM INT HUP; flock --shared '%[1]s' sleep 1000" > /dev/null 2>&1 &)
`

// TestNoOrphanAfterRandomKills kills the supervisor of an ordinary user at moments that chance chooses, and its helper
// processes before, with or after it, or stops them first. Whatever is killed, nothing that an agent or a test has
// started outlives the supervisor, the journal is whole, and the next run goes on.
func TestNoOrphanAfterRandomKills(t *testing.T) {
	t.Parallel()
	if ok, err := condition("user"); err != nil || !ok {
		t.Skip("an ordinary user gets no namespaces here")
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0))
	n := newTestEnv(t, false)
	script, err := os.ReadFile("testdata/user.sh")
	if err != nil {
		t.Fatal(err)
	}
	n.write("user.sh", string(script))
	n.write("agent.sh", "cat > /dev/null\n"+fmt.Sprintf(holders, n.path("held"))+
		`echo $$ >> work.txt; for r in plan implementer test-report review; do date +%s%N > "$SUPERLOOP_LOOP_DIR/$r.md"; done; exec sleep 0.1`)
	n.write("check.sh", fmt.Sprintf(holders, n.path("held"))+"sleep 0.1; exit 1")
	n.write("repo/.superloop/config.json", fmt.Sprintf(`{
  "runners": {"sh": {"command": ["sh", %q]}},
  "loops": [{"id": "l", "spec_file": ".superloop/specs/l.md", "max_iterations": 10000, "completion_promise": "ALL DONE",
    "tests": {"commands": [%q]}, "respond": {"enabled": false}, "roles": ["implementer", "reviewer"]}]
}`, n.path("agent.sh"), "sh '"+n.path("check.sh")+"'"))
	n.write("held", "")
	held, err := os.Open(n.path("held"))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	free := func() bool {
		defer func() { _ = unix.Flock(int(held.Fd()), unix.LOCK_UN) }()
		return unix.Flock(int(held.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
	}
	alive := 0                        // the rounds in which something could have been left
	window := 1500 * time.Millisecond // a slow machine needs more until something is there to be left
	for round := 0; round < killRounds() || alive < killRounds()/3; round++ {
		if round == 20*killRounds() {
			t.Fatalf("in %d of %d rounds something could have been left", alive, round)
		}
		cmd := exec.Command("sh", n.path("user.sh"), n.path("bin/superloop"), "run")
		cmd.Dir, cmd.Env = n.path("repo"), n.env
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Duration(chance.Int64N(int64(window))))
		if !free() {
			alive++
		} else {
			window = min(window+window/8, patience)
		}
		helpers := childrenOf(t, cmd.Process.Pid)
		way := chance.IntN(5)
		act := func(s unix.Signal, pids ...int) {
			for _, pid := range pids {
				_ = unix.Kill(pid, s) // it may have ended by itself
			}
		}
		switch way {
		case 0: // the supervisor alone
		case 1:
			act(unix.SIGSTOP, helpers...)
		case 2:
			act(unix.SIGKILL, helpers...)
		case 3:
			act(unix.SIGKILL, append([]int{cmd.Process.Pid}, helpers...)...)
		case 4:
			act(unix.SIGSTOP, append([]int{cmd.Process.Pid}, helpers...)...)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		until := time.NewTimer(patience)
		for !free() {
			select {
			case <-until.C:
				t.Fatalf("round %d, way %d: something outlives the supervisor and holds %s", round, way, n.path("held"))
			case <-time.After(5 * time.Millisecond):
			}
		}
		until.Stop()
		rep, err := journal.Verify(n.path("repo/.superloop/loops/l/events.jsonl"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) || rep.FirstBad != nil && !rep.FirstBad.Torn {
			t.Fatalf("round %d, way %d: the journal: %v %v", round, way, err, rep.FirstBad)
		}
	}
}

// childrenOf returns the processes that a process has started.
func childrenOf(t testing.TB, pid int) (list []int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[1-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		text, _ := os.ReadFile(path) // the process may have ended
		_, rest, _ := strings.Cut(string(text), ") ")
		if f := strings.Fields(rest); len(f) > 1 && f[1] == strconv.Itoa(pid) {
			if child, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
				list = append(list, child)
			}
		}
	}
	return list
}
