//go:build linux

package proc

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// nobody is an ordinary user.
const nobody = 65534

// eachUser runs f as the user that runs the test, and for root as an ordinary user too, where a PID namespace is to be
// had.
func eachUser(t *testing.T, f func(t *testing.T, uid int)) {
	users := map[string]int{"self": os.Getuid()}
	if os.Getuid() == 0 {
		users["nobody"] = nobody
	}
	for name, uid := range users {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			can := exec.Command("unshare", "--user", "--map-current-user", "--pid", "--fork", "--mount-proc", "true")
			can.SysProcAttr = credential(uid)
			if out, err := can.CombinedOutput(); err != nil {
				t.Skipf("this system allows no PID namespace: %v: %s", err, out)
			}
			_, cmd := superviseAs(uid, "", ":")
			if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), " "+string(PIDNamespace)+"\n") {
				t.Fatalf("%v: %s", err, out)
			}
			f(t, uid)
		})
	}
}

// What a command does to those who run it, and to itself, comes to nothing: they see the end that it chose, and nothing
// of it is left.
func TestCommandsCannotEndThoseWhoRunThem(t *testing.T) {
	t.Parallel()
	eachUser(t, func(t *testing.T, uid int) {
		for name, attack := range map[string]string{
			"kills its parents":      "kill -9 $PPID 1; kill -STOP $PPID 1; kill -9 $SUPERVISOR; kill -STOP $SUPERVISOR",
			"every signal":           "for s in {1..64}; do [ $s = 32 ] || [ $s = 33 ] || kill -$s 1; done",
			"queued faults":          "for s in SEGV BUS FPE ILL TRAP SYS; do /usr/bin/kill -q 1 -s $s 1; done",
			"kills everybody":        "(trap '' TERM; kill -9 -1) & wait $!",
			"detaches":               "env -i setsid sleep 1000 & (env -i setsid sh -c 'trap \"\" TERM; sleep 1000' &)",
			"looks for the others":   "ps -eo pid= | while read p; do [ $p -lt 100 ] || echo saw $p; done; pgrep -x systemd; pgrep -f supervise",
			"goes through its init":  "ls /proc/1/fd/ /proc/1/root/ /proc/1/cwd/ && echo saw; cat /proc/1/environ | grep . && echo saw; (exec 9<>/proc/1/mem) && echo saw",
			"goes through the other": "ls /proc/$SUPERVISOR/root /proc/$SUPERVISOR/fd && echo saw; [ -e /proc/$SUPERVISOR ] && echo saw",
		} {
			if uid == 0 && name == "goes through its init" {
				continue // root reaches everything in its namespace
			}
			mark, cmd := superviseAs(uid, PIDNamespace, "[ $PPID = 1 ] || exit 9; { "+attack+"; } 2>/dev/null; exit 7") // else it would reach the whole machine
			out, err := cmd.CombinedOutput()
			want := "ended exited 7 "
			if name == "kills everybody" {
				want = "ended exited -1 "
			}
			if err != nil || strings.Contains(string(out), "saw") || !strings.Contains(string(out), want) {
				t.Errorf("%s: %v: %s", name, err, out)
			}
			nothingLeft(t, mark)
		}
	})
}

// The kernel ends the tree when the supervisor dies, whatever its spawner process does at that moment.
func TestNothingOutlivesTheSupervisor(t *testing.T) {
	t.Parallel()
	eachUser(t, func(t *testing.T, uid int) {
		for name, deaths := range map[string]func(spawner int, supervisor *os.Process){
			"supervisor":                    func(_ int, s *os.Process) { s.Kill() },
			"both at once":                  func(pid int, s *os.Process) { unix.Kill(pid, unix.SIGKILL); s.Kill() },
			"the spawner process is held":   func(pid int, s *os.Process) { stop(t, pid); s.Kill() },
			"the spawner process, then him": func(pid int, s *os.Process) { stop(t, pid); s.Kill(); unix.Kill(pid, unix.SIGKILL) },
		} {
			mark, spawner, cmd := startSupervisor(t, uid, PIDNamespace, "env -i setsid sleep 1000.25 & "+brood)
			awaitBrood(t, mark)
			tree := descendants(spawner)
			if len(tree) < 4 {
				t.Errorf("%s: %v runs, too little to show anything", name, tree)
			}
			deaths(spawner, cmd.Process)
			cmd.Wait()
			awaitEnd(t, spawner)
			for _, pid := range tree {
				awaitEnd(t, pid)
			}
			nothingLeft(t, mark)
		}
	})
}

// Programs that read /proc work inside.
func TestProcIsThatOfTheNamespace(t *testing.T) {
	t.Parallel()
	eachUser(t, func(t *testing.T, uid int) {
		_, cmd := superviseAs(uid, PIDNamespace, `[ $(readlink /proc/self) -gt 1 ] && ps -p $$ -o pid= | grep -qw $$ && pgrep -x bash | grep -qw $$ && id -u && [ -r /proc/meminfo ] && cat /proc/self/status | grep -q Uid && exit 7`)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "ended exited 7 0") {
			t.Errorf("%v: %s", err, out)
		}
	})
}
