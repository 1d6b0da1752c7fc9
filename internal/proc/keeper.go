package proc

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// politeLimit is the time between SIGTERM and SIGKILL for processes that outlive their main process.
	politeLimit = 300 * time.Millisecond
	killLimit   = 10 * time.Second
	killEvery   = 5 * time.Millisecond

	// The pauses between attempts to execute a program that is still open for writing. They double each time and add up
	// to 1.3 s.
	busyPause     = 20 * time.Millisecond
	busyPauseMost = 640 * time.Millisecond
)

// keeper is the state of the spawner process.
type keeper struct {
	inside bool        // see Inside
	bounds string      // see bounds
	hold   containment // holds one tree at a time
	trees  int
	now    atomic.Pointer[tree] // the running tree
}

// SpawnerMain is the complete program of the spawner process. main calls it first of all if os.Args[1] is SpawnerArg,
// and exits with its result: 0 after the supervisor has gone and the tree has ended; 1 if the process could not be set
// up; 2 if no supervisor started it.
func SpawnerMain() int {
	if os.Getenv(spawnerEnv) == "" || len(os.Args) < 3 || !IsOf(ControlFD, unix.S_IFSOCK) {
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
		k.hold, err = contain(Level(os.Args[2]), os.Args[3:])
	}
	if err != nil {
		_ = report(event{Kind: evReady, Text: err.Error()})
		return 1
	}
	k.bounds = bounds()
	if report(event{Kind: evReady, Cgroups: k.hold.name()}) != nil {
		return 1
	}
	return k.serve()
}

// IsOf reports whether a descriptor has the given file type, such as unix.S_IFSOCK.
func IsOf(fd int, kind uint32) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && uint32(st.Mode)&unix.S_IFMT == kind
}

// inheritNothing marks every descriptor above stderr close-on-exec, also those that the supervisor itself inherited.
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

// resetSignals makes every command start with default signal dispositions. Ignored signals stay ignored through exec
// (in the background of a shell, the supervisor ignores SIGINT), but Go resets the signals that it handles.
// resetSignals also prevents stray signals from ending this process.
func resetSignals() {
	never := make(chan os.Signal, 1)
	signal.Notify(never, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGABRT, unix.SIGPIPE, unix.SIGALRM, unix.SIGTERM,
		unix.SIGUSR1, unix.SIGUSR2, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU)
}

func report(ev event) error { return WriteAll(ControlFD, frame(ev)) }

// serve executes requests until the supervisor is gone, and then ends the tree.
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

func (k *keeper) run(req request, fds []int) {
	if !req.Fresh && (k.inside && changed() || k.bounds != bounds()) {
		_ = report(event{Kind: evStale})
		return
	}
	k.trees++
	pid, err := k.start(req, fds)
	if err != nil {
		no, _ := err.(syscall.Errno) // without an errno the text says it all
		_ = report(event{Kind: evNotStarted, Text: err.Error(), Errno: int(no)})
		return
	}
	t := &tree{hold: k.hold, main: pid, limit: time.Duration(req.KillLimitMS) * time.Millisecond,
		over: func() { k.now.Store(nil) }, gone: make(chan struct{}), childs: true}
	k.now.Store(t)
	_ = report(event{Kind: evStarted, PID: pid})
	go t.reap()
}

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
	// A child that the supervisor is about to exec may still have a new script open for writing. No event signals when
	// this is over.
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

// tree is one command with all of its descendants, seen from the spawner process.
//
//	running --main ends, nothing else there-----------------------------------> gone
//	running --main ends, others there--> leaving (TERM) --politeLimit--> killing --> gone
//	running --term--> asked (TERM; the supervisor keeps the time) --all end--> gone
//	any     --kill, or the supervisor is gone--> killing (KILL every killEvery, at most limit) --> gone
//
// The goroutine of the requests, the reaper and the timers change the tree directly, under the lock. If one goroutine
// owned the tree, each report of an exit would cost a thread switch.
type tree struct {
	hold   containment
	main   int
	limit  time.Duration
	over   func()        // called before the last report, because the next request may follow at once
	gone   chan struct{} // closed after the last report
	mu     sync.Mutex    // guards hold and the following fields
	result event

	asked    bool // SIGTERM was sent because the supervisor requested the end
	ended    bool // the main process is reaped
	others   bool // after the end of the main process, others were alive
	childs   bool // wait4 still has children to wait for
	killing  bool
	since    time.Time // the time when killing began
	killed   int       // processes that SIGKILL ended, orphans included: counting may miss a chain of forks
	watched  bool
	reported bool
}

// reap reaps every child of this process until there is none, which proves that the tree is gone. As soon as the main
// process has ended, it reports whether others are alive.
func (t *tree) reap() {
	options := waitAll
	for {
		var status unix.WaitStatus
		var usage unix.Rusage
		pid, err := unix.Wait4(-1, &status, options, &usage)
		if err == unix.EINTR {
			continue
		}
		t.mu.Lock()
		switch {
		case err != nil:
			t.childs = false
			if t.ended && !t.hold.gone(t.main) {
				t.othersLeft()
				t.watch()
			}
			t.check()
		case pid == 0:
			t.othersLeft()
		default:
			t.count(pid, status, &usage)
		}
		options = waitAll
		if t.ended && !t.others { // a chain of forks yields one dead process after the other
			options |= unix.WNOHANG
		}
		t.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (t *tree) count(pid int, status unix.WaitStatus, usage *unix.Rusage) {
	t.result.UserUS += usage.Utime.Nano() / 1000
	t.result.SystemUS += usage.Stime.Nano() / 1000
	if pid != t.main {
		if t.killing && status.Signal() == unix.SIGKILL {
			t.killed++
		}
		return
	}
	t.ended = true
	t.result.Code, t.result.Signal = status.ExitStatus(), 0
	if status.Signaled() {
		t.result.Code, t.result.Signal = -1, int(status.Signal())
	}
}

// othersLeft handles the end of the main process while other processes of the tree are alive. If nobody requested the
// end, it sends them SIGTERM, and SIGKILL after politeLimit.
func (t *tree) othersLeft() {
	t.others = true
	byItself := !t.asked && !t.killing
	if byItself {
		t.result.Left = max(1, t.hold.count(t.main))
	}
	ev := t.result
	ev.Kind = evExited
	_ = report(ev)
	if byItself {
		t.hold.signal(t.main, unix.SIGTERM)
		time.AfterFunc(politeLimit, t.kill)
	}
}

// term sends SIGTERM to every process of the tree, once.
func (t *tree) term() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.asked && !t.ended && !t.killing {
		t.asked = true
		t.hold.signal(t.main, unix.SIGTERM)
	}
}

// kill starts killing the tree. watch repeats this until the tree is gone.
func (t *tree) kill() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.killing || t.reported {
		return
	}
	t.killing, t.since = true, time.Now()
	if t.result.Left == 0 {
		left := t.hold.count(t.main)
		if !t.ended {
			left--
		}
		t.result.Left = max(0, left)
	}
	t.hold.kill(t.main)
	t.watch()
}

// watch calls again every killEvery until the tree is gone.
func (t *tree) watch() {
	if !t.watched {
		t.watched = true
		time.AfterFunc(killEvery, t.again)
	}
}

func (t *tree) again() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reported {
		return
	}
	if t.killing {
		t.hold.kill(t.main)
	}
	t.check()
	time.AfterFunc(killEvery, t.again)
}

// check reports the end of the tree if it is gone, or if limit is over and the remaining processes cannot be killed.
func (t *tree) check() {
	stuck := 0
	switch {
	case t.ended && !t.childs && t.hold.gone(t.main):
	case t.killing && time.Since(t.since) > t.limit:
		stuck = max(1, t.hold.count(t.main))
	default:
		return
	}
	t.result.Kind = evSwept
	t.result.Stuck, t.result.Left = stuck, max(t.result.Left, t.killed)
	if err := t.hold.close(); err != nil {
		t.result.Text = err.Error()
	}
	t.reported = true
	t.over()
	_ = report(t.result)
	if stuck > 0 {
		// These children make this process useless for another tree. After the shutdown it reads end of file and exits.
		_ = unix.Shutdown(ControlFD, unix.SHUT_RD)
	}
	close(t.gone)
}

// containment is the mechanism by which the spawner process holds one tree at a time. Only one goroutine at a time uses
// it.
type containment interface {
	// open prepares for the n-th tree, and sets in attr how to start its first process.
	open(n int, attr *syscall.SysProcAttr) error
	name() string // the path prefix of this process's cgroups; "" without cgroups
	// signal sends a signal once to every process of the tree.
	signal(main int, s syscall.Signal)
	kill(main int)      // sends SIGKILL to every process of the tree that it finds
	count(main int) int // returns the number of live processes in the tree, without zombies
	// gone reports whether the tree has no live process elsewhere. It is called when this process has no children left.
	gone(main int) bool
	close() error // releases what open has prepared
}

// group implements ProcessGroup: it holds only the process group of the session leader.
type group struct{}

func (group) open(int, *syscall.SysProcAttr) error { return nil }
func (group) name() string                         { return "" }
func (group) close() error                         { return nil }
func (group) gone(main int) bool                   { return unix.Kill(-main, 0) != nil || onlyZombies(main) }
func (group) signal(main int, s syscall.Signal)    { signalAll([]int{-main}, s) }
func (group) kill(main int)                        { _ = unix.Kill(-main, unix.SIGKILL) }

// count cannot count the processes of a group. It returns 1 if there are any.
func (g group) count(main int) int {
	if g.gone(main) {
		return 0
	}
	return 1
}

// signalAll sends a signal to processes, or to process groups for negative numbers. It also sends SIGCONT, because a
// stopped process handles the signal only when it continues.
func signalAll(list []int, s syscall.Signal) {
	for _, signal := range []syscall.Signal{s, unix.SIGCONT} {
		for _, pid := range list {
			_ = unix.Kill(pid, signal)
		}
	}
}
