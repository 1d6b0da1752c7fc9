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

// IsOf reports whether a descriptor is of a kind, such as unix.S_IFSOCK.
func IsOf(fd int, kind uint32) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && uint32(st.Mode)&unix.S_IFMT == kind
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

func report(ev event) error { return WriteAll(ControlFD, frame(ev)) }

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

// tree is one command and all that descends from it, seen from the spawner process.
//
//	running --main ends, nothing else there-----------------------------------> gone
//	running --main ends, others there--> leaving (TERM) --politeLimit--> killing --> gone
//	running --term--> asked (TERM; the supervisor keeps the time) --all end--> gone
//	any     --kill, or the supervisor is gone--> killing (KILL every killEvery, at most limit) --> gone
//
// The reader of requests, the reaper and timers act at once, under the lock: one goroutine that owns the tree would
// cost a thread switch on the way from exit to report.
type tree struct {
	hold   containment
	main   int
	limit  time.Duration
	over   func()        // called before the last report: the next request may follow at once
	gone   chan struct{} // closed when the tree is reported
	mu     sync.Mutex    // guards what follows, and hold
	result event

	asked    bool // SIGTERM was sent because the supervisor wants the end
	ended    bool // the main process is reaped
	others   bool // and it was seen that others live
	childs   bool // wait4 still has something to wait for
	killing  bool
	since    time.Time // of the killing
	killed   int       // by SIGKILL, and orphans: a chain of forks may not be seen otherwise
	watched  bool
	reported bool
}

// reap collects every child of this process until there is none, which is the proof that the tree is gone. It says at
// once, after the main process has ended, whether others live.
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
		if t.ended && !t.others { // a chain of forks gives one dead process after the other
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

// othersLeft: the main process has ended, and others are still there.
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

// term asks every process of the tree to end, once.
func (t *tree) term() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.asked && !t.ended && !t.killing {
		t.asked = true
		t.hold.signal(t.main, unix.SIGTERM)
	}
}

// kill begins the sure end.
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

// watch comes back every killEvery until the tree is gone.
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

// check reports the tree when it is gone, or when limit is over and the rest cannot be killed.
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
		// Such children make this process useless for another tree: let it read end of file, and leave.
		_ = unix.Shutdown(ControlFD, unix.SHUT_RD)
	}
	close(t.gone)
}

// containment is how the spawner process holds one tree at a time. It is used by one goroutine.
type containment interface {
	// open makes room for the n-th tree and says how its first process is to be started.
	open(n int, attr *syscall.SysProcAttr) error
	name() string // name is what the directory names of this process's cgroups begin with, "" without cgroups.
	// signal sends a signal to every process of the tree, once each.
	signal(main int, s syscall.Signal)
	kill(main int)      // kill sends SIGKILL to every process of the tree that it finds.
	count(main int) int // count is the number of live processes in the tree, zombies not counted.
	// gone reports whether no process of the tree lives elsewhere. It is called when this process has no children left.
	gone(main int) bool
	close() error // close gives the room back.
}

// group is ProcessGroup: the session leader's own group, nothing more.
type group struct{}

func (group) open(int, *syscall.SysProcAttr) error { return nil }
func (group) name() string                         { return "" }
func (group) close() error                         { return nil }
func (group) gone(main int) bool                   { return unix.Kill(-main, 0) != nil || onlyZombies(main) }
func (group) signal(main int, s syscall.Signal)    { signalAll([]int{-main}, s) }
func (group) kill(main int)                        { _ = unix.Kill(-main, unix.SIGKILL) }

// count cannot look into the group; it says that there is something.
func (g group) count(main int) int {
	if g.gone(main) {
		return 0
	}
	return 1
}

// signalAll signals processes, or groups with a negative number. A stopped process takes the signal only when it goes
// on.
func signalAll(list []int, s syscall.Signal) {
	for _, signal := range []syscall.Signal{s, unix.SIGCONT} {
		for _, pid := range list {
			_ = unix.Kill(pid, signal)
		}
	}
}
