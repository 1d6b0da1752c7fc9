package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestReplayOnATerminal: forward, back, to a number, to the end, and out.
func TestReplayOnATerminal(t *testing.T) {
	t.Parallel()
	n := askingEnv(t)
	n.ask()
	last := len(n.events())
	code, shown := n.types([]typing{
		{"#1 ", nil, "j"}, {"#2 ", nil, "k"}, {"#1 ", nil, "\x1b[B"}, {"#2 ", nil, "4\r"}, {"#4 ", nil, "G"}, {fmt.Sprintf("#%d ", last), nil, "j"},
		{fmt.Sprintf("there is no event %d", last+1), nil, "q"},
	}, "replay", "--step", "--journal", ".superloop/loops/l/events.jsonl")
	if code != exitOK || !strings.Contains(shown, "state: ") || !strings.Contains(shown, "/iteration: 0 -> 1") {
		t.Fatalf("exit code %d\n%q", code, shown)
	}
}

// TestReplayStartsNoProcess traces every process and thread that replay makes: there are threads only, and no other
// program begins.
func TestReplayStartsNoProcess(t *testing.T) {
	t.Parallel()
	n := askingEnv(t)
	n.ask()
	for _, args := range [][]string{{"replay", "--all"}, {"replay", "--json"}, {"replay", "--write-tests", n.path("tests.json")}, {"replay", "--step", "--json", "--journal", ".superloop/loops/l/events.jsonl"}} {
		threads, others, out := n.traced(args...)
		if len(others) > 0 || threads == 0 {
			t.Errorf("%v has %d threads, and started %v\n%s", args, threads, others, out)
		}
	}
	// What does start a process is seen.
	if _, others, out := n.traced("diff", "--loop", "l"); len(others) == 0 {
		t.Errorf("diff has started nothing, so nothing is seen\n%s", out)
	}
}

// traced runs the program under ptrace. It returns how many threads the program has made, and what else it has started.
func (n *testEnv) traced(args ...string) (threads int, others []string, out string) {
	n.t.Helper()
	runtime.LockOSThread() // ptrace is of a thread
	defer runtime.UnlockOSThread()
	var shown bytes.Buffer
	read, write, err := os.Pipe()
	if err != nil {
		n.t.Fatal(err)
	}
	cmd := exec.Command(n.path("bin/superloop"), args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = n.path("repo"), n.env, write, write
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		n.t.Skipf("ptrace is not allowed here: %v", err)
	}
	_ = write.Close() // the program has its own
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = shown.ReadFrom(read) // it ends with the program
	}()
	main := cmd.Process.Pid
	var ws unix.WaitStatus
	if _, err := unix.Wait4(main, &ws, 0, nil); err != nil { // it has stopped at its exec
		n.t.Fatal(err)
	}
	const events = unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK | unix.PTRACE_O_TRACEEXEC | unix.PTRACE_O_EXITKILL
	if err := unix.PtraceSetOptions(main, events); err != nil {
		n.t.Fatal(err)
	}
	if err := unix.PtraceCont(main, 0); err != nil {
		n.t.Fatal(err)
	}
	alive := map[int]bool{main: true}
	for len(alive) > 0 {
		pid, err := unix.Wait4(-1, &ws, unix.WALL|unix.WNOTHREAD, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			break // nobody is left
		}
		if ws.Exited() || ws.Signaled() {
			delete(alive, pid)
			continue
		}
		signal := 0
		switch cause := ws.TrapCause(); {
		case cause == unix.PTRACE_EVENT_CLONE, cause == unix.PTRACE_EVENT_FORK, cause == unix.PTRACE_EVENT_VFORK:
			child, _ := unix.PtraceGetEventMsg(pid)
			alive[int(child)] = true
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", child))
			if bytes.Contains(status, fmt.Appendf(nil, "Tgid:\t%d\n", main)) {
				threads++
			} else {
				others = append(others, fmt.Sprintf("a process: %d", child))
			}
		case cause == unix.PTRACE_EVENT_EXEC:
			others = append(others, "an exec")
		case ws.StopSignal() != unix.SIGTRAP && ws.StopSignal() != unix.SIGSTOP:
			signal = int(ws.StopSignal())
		}
		_ = unix.PtraceCont(pid, signal) // it may have ended meanwhile
	}
	<-done
	return threads, others, shown.String()
}
