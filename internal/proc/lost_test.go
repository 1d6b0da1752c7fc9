//go:build linux

package proc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// awaitEnd waits until a process is gone, a zombie counts as gone, at most 20 s.
func awaitEnd(t testing.TB, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err == unix.ESRCH || err == unix.EINVAL {
		return
	}
	if err != nil {
		t.Fatalf("pidfd_open: %v", err)
	}
	defer unix.Close(fd)
	for until := time.Now().Add(2 * time.Minute); ; {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(time.Until(until)/time.Millisecond))
		if n > 0 {
			return
		}
		if err != unix.EINTR {
			t.Errorf("process %d still lives", pid)
			return
		}
	}
}

// awaitNone waits until no process has the marker.
func awaitNone(t testing.TB, mark string) {
	t.Helper()
	for _, p := range withMark(mark) {
		pid, _ := strconv.Atoi(strings.Fields(p)[0])
		awaitEnd(t, pid)
	}
	nothingLeft(t, mark)
}

const brood = "setsid sleep 1000 & (setsid bash -c 'trap \"\" TERM; sleep 1000' &) ; echo ready; exec sleep 1000"

func TestSpawnerProcessIsKilledWhileItRunsACommand(t *testing.T) {
	t.Parallel()
	eachLevel(t, func(t *testing.T, s *Spawner) {
		tap, ready := said("ready")
		spec := script("echo some; " + brood)
		spec.Stdout = tap
		go func() {
			<-ready
			s.mu.Lock()
			defer s.mu.Unlock()
			s.h.proc.Kill()
		}()
		res, err := s.Run(context.Background(), spec)
		if !errors.Is(err, ErrSpawnerLost) || !strings.Contains(err.Error(), "killed") || res.Ended != Lost {
			t.Errorf("%v %+v", err, res)
		}
		if !strings.HasPrefix(res.Stdout.Text(), "some\nready\n") {
			t.Errorf("output was lost: %q", res.Stdout.Text())
		}
		nothingLeft(t, spec.Marker)
		if res := mustRun(t, s, script("exit 8")); res.Code != 8 {
			t.Errorf("the next run: %+v", res)
		}
		noCgroupLeft(t, s)
	})
}

// noCgroupLeft fails if a cgroup of a dead or our own spawner process is there while nothing runs.
func noCgroupLeft(t *testing.T, s *Spawner) {
	if s.Level() != Cgroup {
		return
	}
	own, err := ownCgroup()
	if err != nil {
		t.Fatal(err)
	}
	left, _ := filepath.Glob(fmt.Sprintf("%s/%s*-%d-*", own, cgroupPrefix, s.h.proc.Pid))
	if len(left) > 0 {
		t.Errorf("cgroups left: %v", left)
	}
}

func TestSpawnerProcessDiesBetweenRuns(t *testing.T) {
	t.Parallel()
	eachLevel(t, func(t *testing.T, s *Spawner) {
		mustRun(t, s, script(":"))
		first := s.h.proc.Pid
		s.h.proc.Kill()
		<-s.h.ended
		if res := mustRun(t, s, script("exit 8")); res.Code != 8 || s.h.proc.Pid == first {
			t.Errorf("the next run: %+v", res)
		}
	})
}

// What a command does to its spawner process does not reach the next one.
func TestSpawnerProcessIsBounded(t *testing.T) {
	t.Parallel()
	const look = "ulimit -a; cat /proc/self/oom_score_adj; nice; taskset -p $$ | sed 's/.*://'; ionice -p $$"
	eachLevel(t, func(t *testing.T, s *Spawner) {
		before := mustRun(t, s, script(look)).Stdout.Text()
		for _, bound := range []string{"prlimit --pid $PPID --fsize=1000:1000", "prlimit --pid $PPID --nofile=64:64", "renice -n 7 -p $TASK", "ionice -c 3 -p $TASK"} {
			first := s.h.proc.Pid
			// The thread that starts the commands is any of the spawner process. The kernel may protect one that has
			// capabilities.
			res := mustRun(t, s, script("for TASK in $(ls /proc/$PPID/task); do "+bound+" || exit 8; done; exit 7"))
			after := mustRun(t, s, script(look)).Stdout.Text()
			if res.Code != 7 && (res.Code != 8 || s.Level() != PIDNamespace) || after != before || (s.h.proc.Pid == first) != (res.Code == 8) {
				t.Errorf("%s: %+v\nbefore:\n%s\nafter:\n%s", bound, res, before, after)
			}
		}
	})
}

func TestSpawnerProcessHangs(t *testing.T) {
	t.Parallel()
	s := spawnerAt(t, "")
	stop(t, s.h.proc.Pid)
	s.mu.Lock()
	pid := s.h.proc.Pid
	s.mu.Unlock()
	if err := s.Close(); err != nil { // it cannot read end of file
		t.Error(err)
	}
	awaitEnd(t, pid)
}

func TestSpawnerProcessHangsWhileItRunsACommand(t *testing.T) {
	t.Parallel()
	eachLevel(t, func(t *testing.T, s *Spawner) {
		s.killLimit, s.answerLimit = 50*time.Millisecond, time.Second
		tap, ready := said("ready")
		spec := script(brood)
		spec.Grace, spec.Stdout = 50*time.Millisecond, tap
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		pid := s.h.proc.Pid
		ended := make(chan error, 1)
		go func() {
			_, err := s.Run(ctx, spec)
			ended <- err
		}()
		<-ready
		stop(t, pid)
		cancel()
		if err := <-ended; !errors.Is(err, ErrSpawnerLost) {
			t.Errorf("%v", err)
		}
		nothingLeft(t, spec.Marker)
	})
}

func TestSupervisorIsKilled(t *testing.T) {
	t.Parallel()
	for _, l := range available() {
		if l == ProcessGroup {
			continue
		}
		t.Run(string(l), func(t *testing.T) {
			t.Parallel()
			spawnerAt(t, l) // skips
			mark, spawner, cmd := startSupervisor(t, os.Getuid(), l, brood)
			awaitBrood(t, mark)
			cmd.Process.Kill()
			cmd.Wait()
			awaitEnd(t, spawner)
			awaitNone(t, mark)
		})
	}
}

// startSupervisor starts a supervisor of its own that runs a script as a user, and returns when that says "ready".
func startSupervisor(t *testing.T, uid int, l Level, text string) (mark string, spawner int, cmd *exec.Cmd) {
	t.Helper()
	mark, cmd = superviseAs(uid, l, text)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), "spawner "); ok {
			spawner, _ = strconv.Atoi(strings.Fields(rest)[0])
		}
		if lines.Text() == "ready" {
			return mark, spawner, cmd
		}
	}
	t.Fatalf("the supervisor said nothing (%v)", lines.Err())
	return
}

// superviseAs is a supervisor that runs a script as a user.
func superviseAs(uid int, l Level, text string) (mark string, cmd *exec.Cmd) {
	mark = newMark()
	cmd = exec.Command("/proc/self/exe", superviseArg, string(l), mark, text)
	cmd.Dir, cmd.SysProcAttr = "/", credential(uid)
	return mark, cmd
}

// credential makes a process that of a user.
func credential(uid int) *syscall.SysProcAttr {
	if uid == os.Getuid() {
		return nil
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
}

// Both die at one moment. A PID namespace needs nobody; a cgroup is ended by the next Start; for the rest there is Sweep.
func TestSupervisorAndSpawnerProcessAreKilled(t *testing.T) {
	t.Parallel()
	for _, l := range available() {
		if l == ProcessGroup {
			continue
		}
		t.Run(string(l), func(t *testing.T) {
			t.Parallel()
			spawnerAt(t, l) // skips
			mark, spawner, cmd := startSupervisor(t, os.Getuid(), l, brood)
			awaitBrood(t, mark)
			stop(t, spawner) // so that it does nothing when the supervisor dies
			cmd.Process.Kill()
			cmd.Wait()
			unix.Kill(spawner, unix.SIGKILL)
			awaitEnd(t, spawner)
			switch l {
			case Cgroup:
				awaitReaped(t, spawner)
				spawnerAt(t, l)
			case Subreaper:
				if n := len(Sweep(mark)); n < 3 {
					t.Errorf("swept %d processes", n)
				}
			}
			awaitNone(t, mark)
		})
	}
}

// awaitBrood waits until all three processes show their marker: while one executes a program it shows none.
func awaitBrood(t *testing.T, mark string) {
	poll(t, "three processes", func() bool { return len(withMark(mark)) == 3 })
}

// stop stops a process and waits until every thread of it has.
func stop(t *testing.T, pid int) {
	unix.Kill(pid, unix.SIGSTOP)
	poll(t, "a process to stop", func() bool {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		for _, task := range tasks {
			line, _ := os.ReadFile(task)
			if s, ok := parseStat(line); ok && s.state != 'T' {
				return false
			}
		}
		return len(tasks) > 0
	})
}

// awaitReaped waits until init has read the status of a dead process.
func awaitReaped(t *testing.T, pid int) {
	poll(t, "the end of a zombie", func() bool { return unix.Kill(pid, 0) != nil })
}

// poll asks until ok, for what cannot be waited for.
func poll(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(2 * time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
