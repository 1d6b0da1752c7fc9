package proc

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

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

// count adds one dead process to the result.
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
