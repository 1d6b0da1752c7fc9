package proc

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// politeLimit is what processes that outlive their main process get between SIGTERM and SIGKILL.
	politeLimit = 300 * time.Millisecond
	killLimit   = 10 * time.Second
	killEvery   = 5 * time.Millisecond

	// The pauses before a program that is still open for writing is tried again: doubled, 1.3 s in all.
	busyPause     = 20 * time.Millisecond
	busyPauseMost = 640 * time.Millisecond
)

// keeper is the inside of the spawner process.
type keeper struct {
	inside bool        // see Inside
	hold   containment // of one tree after the other
	trees  int
	now    atomic.Pointer[tree] // the one that runs
}

// SpawnerMain is the spawner process: main calls it first thing when os.Args[1] is SpawnerArg, and exits with what it
// returns: 0 when the supervisor has gone, with its tree ended; 1 when it could not be set up; 2 when no supervisor
// started it.
func SpawnerMain() int {
	if os.Getenv(spawnerEnv) == "" || len(os.Args) < 3 || !isSocket(ControlFD) {
		fmt.Fprintf(os.Stderr, "%s is started by superloop itself, not by hand\n", SpawnerArg)
		return 2
	}
	inheritNothing()
	resetSignals()
	k := &keeper{inside: os.Getenv(spawnerEnv) == insideEnv}
	var err error
	if k.inside {
		err = Undumpable()
	}
	if err == nil {
		k.hold, err = contain(Level(os.Args[2]))
	}
	if err != nil {
		_ = report(event{Kind: evReady, Text: err.Error()})
		return 1
	}
	if report(event{Kind: evReady, Cgroups: k.hold.name()}) != nil {
		return 1
	}
	return k.serve()
}

func isSocket(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFSOCK
}

// inheritNothing marks every descriptor above stderr close-on-exec, also those that the supervisor inherited itself.
func inheritNothing() {
	unix.CloseOnExec(ControlFD)
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		list, _ = os.ReadDir("/dev/fd")
	}
	for _, e := range list {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}

// resetSignals makes every command start with default dispositions. An ignored signal is inherited through exec (a
// supervisor in the background of a shell has SIGINT ignored), but Go resets those it handles. It also keeps stray
// signals from ending this process.
func resetSignals() {
	never := make(chan os.Signal, 1)
	signal.Notify(never, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGABRT, unix.SIGPIPE, unix.SIGALRM, unix.SIGTERM,
		unix.SIGUSR1, unix.SIGUSR2, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU)
}

func report(ev event) error { return writeAll(ControlFD, frame(ev)) }

// serve obeys until the supervisor is gone, and ends the tree then.
func (k *keeper) serve() int {
	for {
		var req request
		var ctl control
		err := readFrame(&ctl, &req)
		switch t := k.now.Load(); {
		case t == nil && err != nil:
			return 0
		case t == nil && req.Op == opRun:
			k.run(req, ctl.fds)
		case t == nil:
		case err != nil:
			t.kill()
			<-t.gone
			return 0
		case req.Op == opTerm:
			t.term()
		case req.Op == opKill:
			t.kill()
		}
		for _, fd := range ctl.fds {
			unix.Close(fd)
		}
	}
}

// run starts a tree and reports that.
func (k *keeper) run(req request, fds []int) {
	if k.inside && !req.Fresh && changed() {
		_ = report(event{Kind: evStale})
		return
	}
	k.trees++
	pid, err := k.start(req, fds)
	if err != nil {
		no, _ := err.(syscall.Errno) // else the text says it all
		_ = report(event{Kind: evNotStarted, Text: err.Error(), Errno: int(no)})
		return
	}
	t := &tree{hold: k.hold, main: pid, limit: time.Duration(req.KillLimitMS) * time.Millisecond,
		over: func() { k.now.Store(nil) }, gone: make(chan struct{}), childs: true}
	k.now.Store(t)
	_ = report(event{Kind: evStarted, PID: pid})
	go t.reap()
}

// start forks the command.
func (k *keeper) start(req request, fds []int) (pid int, err error) {
	if len(fds) < 3 {
		return 0, fmt.Errorf("%d descriptors, less than 3", len(fds))
	}
	attr := syscall.ProcAttr{Dir: string(req.Dir), Env: unpack(req.Env), Sys: &syscall.SysProcAttr{Setsid: true}}
	for _, fd := range fds {
		attr.Files = append(attr.Files, uintptr(fd))
	}
	if k.inside && len(req.Stdin) > 0 {
		fd, err := reopen(string(req.Stdin), fds[0])
		if err != nil {
			return 0, err
		}
		if fd >= 0 {
			defer unix.Close(fd)
			attr.Files[0] = uintptr(fd)
		}
	}
	if err := req.Namespaces.apply(attr.Sys, false); err != nil {
		return 0, err
	}
	if err := k.hold.open(k.trees, attr.Sys); err != nil {
		return 0, err
	}
	// A script that was written a moment ago may still be open in a child that the supervisor is just about to exec;
	// nothing tells when that is over.
	for pause := busyPause; ; pause *= 2 {
		pid, err = syscall.ForkExec(string(req.Path), unpack(req.Argv), &attr)
		if err != syscall.ETXTBSY || pause > busyPauseMost {
			break
		}
		<-time.After(pause)
	}
	if err != nil {
		_ = k.hold.close()
	}
	return pid, err
}
