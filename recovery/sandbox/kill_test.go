//go:build linux

package sandbox

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/testkit"
)

// trees that promise that nothing is left.
func trees() []proc.Level { return []proc.Level{proc.PIDNamespace, proc.Cgroup, proc.Subreaper} }

// eachTree runs f at each level of trees that can be had, and as an ordinary user.
func eachTree(t *testing.T, f func(t *testing.T, w *world)) {
	for _, l := range trees() {
		t.Run(string(l), func(t *testing.T) {
			t.Parallel()
			f(t, newWorld(t, os.Getuid(), l))
		})
	}
	if os.Getuid() == 0 {
		t.Run("nobody", func(t *testing.T) {
			t.Parallel()
			f(t, newWorld(t, nobody, ""))
		})
	}
}

const forever = "sleep 1000"

// What a command may leave behind, or be at its timeout; nothing of it may be
// there when Run returns, and Run must return in time.
func TestKillTable(t *testing.T) {
	t.Parallel()
	eachTree(t, func(t *testing.T, w *world) {
		for i, c := range []struct {
			name, script string
			ended        Reason
			code         int
			signal       string
		}{
			{"background and own session", forever + " & setsid " + forever + " & exit 3", proc.Exited, 3, ""},
			{"double fork", "(setsid bash -c '(setsid " + forever + " &); exit 0' &); exit 3", proc.Exited, 3, ""},
			{"twenty sessions", "for i in {1..20}; do setsid bash -c 'sleep 1000 & wait' & done; exit 3", proc.Exited, 3, ""},
			{"deaf", "trap '' TERM INT HUP; setsid bash -c 'trap \"\" TERM; " + forever + "' & while :; do sleep 1; done", proc.TimedOut, -1, "SIGKILL"},
			{"orphan on the pipe", "setsid sleep 1000 & disown; exit 3", proc.Exited, 3, ""},
			{"stopped", "kill -STOP $$", proc.TimedOut, -1, "SIGTERM"},
			{"closed its output", "exec >&- 2>&-; " + forever, proc.TimedOut, -1, "SIGTERM"},
			{"chain of forks", "trap '' TERM; f() { f & }; f; " + forever, proc.TimedOut, -1, "SIGKILL"},
			{"chain of sessions", `echo 'setsid sh ./chain &' > chain; sh ./chain; exit 3`, proc.Exited, 3, ""},
			{"flood", "yes", OutputLimit, -1, "SIGTERM"},
			{"deaf flood", "trap '' TERM; while :; do printf %01000d; done", OutputLimit, -1, "SIGKILL"},
		} {
			if i%testkit.Sample(2, 1, 1) != 0 {
				continue
			}
			j := w.job(t, c.script)
			j.Timeout, j.Grace, j.OutputLimit = 500*time.Millisecond, 100*time.Millisecond, 1<<20
			switch {
			case c.ended != proc.TimedOut:
				j.Timeout = 2 * time.Minute
			case c.signal == "SIGKILL": // it must have become deaf
				j.Timeout = 2 * time.Second
			}
			o := w.run(t, j)
			nothingLeft(t, j.Marker)
			if o.Err != "" || o.Stuck != "" || o.Result.Ended != c.ended || o.Result.Code != c.code || o.Result.Signal != c.signal {
				t.Errorf("%s: %.600s", c.name, o)
			}
		}
	})
}

func TestStoppedByTheCaller(t *testing.T) {
	t.Parallel()
	w := newWorld(t, os.Getuid(), "")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	j := w.job(t, "trap 'echo bye; exit 9' TERM; setsid "+forever+" & echo ready; while :; do sleep 0.01; done")
	spec := j.spec()
	spec.Output = writer(func(p []byte) {
		if strings.Contains(string(p), "ready") {
			cancel()
		}
	})
	res, err := Run(ctx, w.spawner, spec)
	nothingLeft(t, j.Marker)
	if err != nil || res.Ended != proc.Killed || res.Code != 9 || res.Stdout.Text() != "ready\nbye\n" {
		t.Errorf("%v %v", err, outcomeOf(res, nil))
	}
	// Before it begins: nothing is run.
	if res, err := Run(ctx, w.spawner, w.job(t, "touch ran").spec()); err == nil || res.Ended != proc.Killed || exists(w.repo+"/ran") {
		t.Errorf("%v %v", err, outcomeOf(res, nil))
	}
}

type writer func([]byte)

func (f writer) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

// kill -9 of the supervisor ends the command, at every level of trees.
func TestSupervisorIsKilled(t *testing.T) {
	t.Parallel()
	eachTree(t, func(t *testing.T, w *world) {
		j := w.job(t, "trap '' TERM; echo > \"$TMPDIR/new\"; (setsid bash -c 'trap \"\" TERM; mv \"$TMPDIR/new\" \"$TMPDIR/up\"; "+forever+"' &); "+forever)
		if w.spawner != nil {
			j.Tree = w.spawner.Level()
		}
		cmd := w.command(t, j)
		talk, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(talk).ReadString('\n'); err != nil || line != "supervising\n" {
			t.Errorf("%q %v", line, err)
		}
		await(t, filepath.Join(w.tmp, "up"))
		pids := withMark(j.Marker)
		if len(pids) == 0 {
			t.Error("nothing runs: this shows nothing")
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // it was killed
		// A process in the middle of its exec shows no marker and is found later.
		for left := pids; len(left) > 0; left = withMark(j.Marker) {
			awaitEnd(t, left[0])
		}
	})
}

// The kernel ends agents and recovery commands with the supervisor, whatever the processes between are made to do: also
// those that no marker shows.
func TestNothingOutlivesTheSupervisor(t *testing.T) {
	t.Parallel()
	const brood = "env -i setsid sleep 1000 & (env -i setsid sh -c 'sleep 1000' &); touch \"$UP.new\"; mv \"$UP.new\" \"$UP\"; " + forever
	eachShielded(t, func(t *testing.T, s *shielded) {
		if o := s.run(t, job{Measure: true}); o.Sandbox.Tree != proc.PIDNamespace {
			t.Skipf("no PID namespace is to be had here: %v", o)
		}
		s = s.apart()
		for _, agent := range []bool{true, false} {
			for _, first := range []unix.Signal{unix.SIGSTOP, unix.SIGKILL} {
				up := filepath.Join(s.tmp, fmt.Sprintf("up-%v-%d", agent, first))
				j := s.job(t, "UP='"+up+"'; "+brood)
				if agent {
					j = job{Agent: s.agent("UP='" + up + "'; " + brood)}
				}
				cmd := s.command(t, j)
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				await(t, up)
				all := below(t, cmd.Process.Pid)
				if len(all) < 4 {
					t.Errorf("%q runs, too little to show anything", all)
				}
				for _, p := range all {
					if pid, parent, _ := strings.Cut(p, " "); strings.HasPrefix(parent, fmt.Sprint(cmd.Process.Pid, " ")) {
						if pid, err := strconv.Atoi(pid); err != nil || unix.Kill(pid, first) != nil {
							t.Error(p, err)
						}
					}
				}
				if err := cmd.Process.Kill(); err != nil {
					t.Error(err)
				}
				_ = cmd.Wait() // it was killed
				for _, p := range all {
					awaitEnd(t, p)
				}
			}
		}
	})
}

// below lists the processes below one: pid, parent and name.
func below(t testing.TB, root int) (list []string) {
	t.Helper()
	out, err := exec.Command("ps", "-eo", "pid=,ppid=,comm=").Output()
	if err != nil {
		t.Fatal(err)
	}
	under := map[string]bool{fmt.Sprint(root): true}
	for more := true; more; {
		more = false
		for line := range strings.Lines(string(out)) {
			if f := strings.Fields(line); under[f[1]] && !under[f[0]] {
				under[f[0]], more = true, true
				list = append(list, strings.Join(f, " "))
			}
		}
	}
	return list
}

// await returns when path exists, at most after 20 s.
func await(t testing.TB, path string) {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if _, err := unix.InotifyAddWatch(fd, filepath.Dir(path), unix.IN_MOVED_TO); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	for until := time.Now().Add(2 * time.Minute); !exists(path); {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(time.Until(until)/time.Millisecond))
		if n > 0 {
			_, err = unix.Read(fd, buf)
		}
		if err != nil && err != unix.EINTR || time.Now().After(until) {
			t.Fatalf("%s did not appear: %v", path, err)
		}
	}
}

// awaitEnd waits for the end of a process, as withMark lists it.
func awaitEnd(t testing.TB, process string) {
	t.Helper()
	pid, err := strconv.Atoi(strings.Fields(process)[0])
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // gone
	}
	defer unix.Close(fd)
	for until := time.Now().Add(2 * time.Minute); ; {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(time.Until(until)/time.Millisecond))
		if n > 0 {
			return
		}
		if err != unix.EINTR {
			t.Fatalf("still lives: %s", process)
		}
	}
}

// Nobody knows how the command ended then, and that is what is said; under what it
// ran is known.
func TestSpawnerIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, os.Getuid(), proc.Subreaper)
	j := w.job(t, "kill -9 $PPID; "+forever)
	j.Without = []Mechanism{UseLandlock} // else it could not do that
	best := w.run(t, job{Measure: true, Without: j.Without}).Sandbox.Level
	o := w.run(t, j)
	nothingLeft(t, j.Marker)
	if !strings.Contains(o.Err, proc.ErrSpawnerLost.Error()) || o.Result.Ended != proc.Lost || o.Sandbox.Level != best {
		t.Errorf("%v", o)
	}
	if o := w.mustRun(t, w.job(t, "exit 7")); o.Result.Code != 7 {
		t.Errorf("the next one: %v", o)
	}
}
