package proc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// answerLimit is how much longer than its own bounds the spawner process may take to answer; then it is given up.
const answerLimit = 15 * time.Second

// Run starts a command and returns when its whole tree is gone. When kill is done, or a bound of the Spec is reached,
// the tree gets SIGTERM, the grace, and SIGKILL; cancelling is not an error. The error is about the Spawner: ErrBusy,
// ErrClosed, ErrSpawnerLost, or that no spawner process could be started; then the Result is not to be taken for the
// command's own.
func (s *Spawner) Run(kill context.Context, spec Spec) (Result, error) {
	res := Result{Code: -1, Ended: NotStarted}
	if !s.running.TryLock() {
		res.Err = ErrBusy
		return res, ErrBusy
	}
	defer s.running.Unlock()
	if kill.Err() != nil {
		res.Ended, res.Err = Killed, fmt.Errorf("stopped before it was started: %w", context.Cause(kill))
		return res, nil
	}
	if _, err := s.ensure(); err != nil {
		res.Err = err
		return res, err
	}
	r := &run{s: s, spec: &spec, res: &res, started: time.Now()}
	req, err := prepare(&spec, &r.files[0])
	if err == nil {
		err = r.openStreams()
	}
	if err != nil {
		r.closeFiles()
		res.Err = err
		return res, nil
	}
	err = r.start(kill, req)
	r.closeFiles() // else the pipes would never end
	if r.lost != nil {
		r.cleanUp() // before the output, which ends with the last process that holds it
	}
	r.finishOutput()
	if r.lost != nil || r.stuck {
		s.retire(r.h)
	}
	switch {
	case r.lost != nil:
		err = fmt.Errorf("%w: %w", ErrSpawnerLost, r.lost)
	case err != nil:
		res.Err = err
	}
	return res, err
}

// run is one command under way, seen from the supervisor. One goroutine (the caller of Run) owns it, except for
// streams.
type run struct {
	s       *Spawner
	h       *helper
	spec    *Spec
	res     *Result
	started time.Time

	files   [3]*os.File // stdin, stdout and stderr of the command
	streams [2]*stream  // the other ends of the latter two
	log     *logSink
	last    atomic.Int64 // see stream.last

	path   string // of the program
	pid    int
	ending Reason // why the tree is being ended, "" while it may run
	exited bool   // the main process has ended
	stuck  bool
	stale  bool // the spawner process does not start it, another one may
	lost   error
}

func (r *run) closeFiles() {
	for _, f := range r.files {
		f.Close() // which may be nil
	}
}

func (r *run) openStreams() (err error) {
	if r.spec.Log != nil {
		r.log = newLogSink(r.spec.Log, r.spec.LogLimit)
	}
	keep := max(cmp.Or(r.spec.HeadTail, defaultHeadTail), 0)
	for i, tap := range []func([]byte){r.spec.Stdout, r.spec.Stderr} {
		st := &stream{buf: make([]byte, bufferSize), tap: tap, keep: NewHeadTail(keep), log: r.log, last: &r.last,
			from: r.started, done: make(chan struct{})}
		// The end to read is for the runtime's poller. The other one becomes a plain blocking one with its Fd.
		if st.f, r.files[i+1], err = os.Pipe(); err != nil {
			if i > 0 {
				r.streams[0].f.Close()
			}
			return fmt.Errorf("making an output pipe: %w", err)
		}
		r.streams[i] = st
	}
	for _, st := range r.streams {
		go st.drain()
	}
	return nil
}

// start has the command started, and watches it to its end. A spawner process that died since the last Run, or is no
// longer what it was prepared to be, has not started anything, so it is safe to ask another one.
func (r *run) start(kill context.Context, req request) (err error) {
	files := append(r.files[:], r.spec.Files...)
	defer runtime.KeepAlive(files)
	r.path, req.KillLimitMS = string(req.Path), r.s.killLimit.Milliseconds()
	for again := false; ; again = true {
		if r.h, err = r.s.ensure(); err != nil {
			return err
		}
		if err = r.h.send(req, files...); err == nil {
			r.watch(kill)
			if !r.stale {
				return nil
			}
		}
		r.s.retire(r.h) // half a request may lie in its socket
		switch {
		case err != nil && again:
			return err
		case err == nil && r.ending != "":
			r.res.Ended, r.res.Err = r.ending, errors.New("stopped before it was started")
			return nil
		}
		req.Fresh, r.stale = req.Fresh || r.stale, false
	}
}

// watch waits for the end of the tree and brings it about when that is due. The spawner process must say in time that
// it started the command, and that it ended it.
func (r *run) watch(kill context.Context) {
	sweep := politeLimit + r.s.killLimit + r.s.answerLimit
	bound, timeout, idle := time.After(r.s.answerLimit), after(r.spec.Timeout), after(r.spec.Inactivity)
	stop := kill.Done()
	// Both only once the grace has begun.
	var grace <-chan time.Time
	var hurry <-chan struct{}
	end := func(why Reason) {
		if r.ending == "" && !r.exited {
			r.ending, hurry, grace = why, r.spec.Hurry, time.After(r.spec.Grace)
			r.ask(opTerm)
		}
	}
	hard := false
	killNow := func() {
		hard, hurry, grace = true, nil, nil
		r.ask(opKill)
		bound = time.After(sweep)
	}
	for {
		select {
		case ev, ok := <-r.h.events:
			if !ok {
				r.res.Duration = time.Since(r.started)
				r.res.Ended, r.lost = Lost, r.h.lost
				return
			}
			switch ev.Kind {
			case evStarted:
				r.pid, r.res.Ended = ev.PID, Exited
				if !hard {
					bound = nil
				}
			case evNotStarted:
				r.res.Duration = time.Since(r.started)
				r.res.Err = fmt.Errorf("starting %s: %s", r.spec.Argv[0], ev.Text)
				if ev.Errno != 0 {
					r.res.Err = explainStart(r.spec, r.path, syscall.Errno(ev.Errno))
				}
				return
			case evStale:
				r.stale = true
				return
			case evExited:
				r.mainEnded()
				bound = time.After(r.spec.Grace + sweep)
			case evSwept:
				r.swept(ev)
				return
			}
		case <-timeout:
			end(TimedOut)
		case <-idle:
			rest := time.Duration(r.last.Load()) + r.spec.Inactivity - time.Since(r.started)
			if idle = after(rest); idle == nil {
				end(Inactive)
			}
		case <-stop:
			stop = nil
			end(Killed)
		case <-grace:
			killNow()
		case <-hurry:
			killNow()
		case <-bound:
			r.h.abandon() // events ends, so the loop does
		}
	}
}

// after is never when d is not positive.
func after(d time.Duration) <-chan time.Time {
	if d <= 0 {
		return nil
	}
	return time.After(d)
}

func (r *run) ask(op string) {
	if r.h.send(request{Op: op}) != nil {
		r.h.abandon()
	}
}

func (r *run) mainEnded() {
	if !r.exited {
		r.exited, r.res.Duration = true, time.Since(r.started)
	}
}

func (r *run) swept(ev event) {
	r.mainEnded()
	r.res.Code = ev.Code
	if s := syscall.Signal(ev.Signal); s != 0 {
		r.res.Signal = cmp.Or(unix.SignalName(s), fmt.Sprintf("signal %d", int(s)))
	}
	r.res.Ended = cmp.Or(r.ending, r.res.Ended)
	r.res.UserTime = time.Duration(ev.UserUS) * time.Microsecond
	r.res.SystemTime = time.Duration(ev.SystemUS) * time.Microsecond
	r.res.LeftBehind = ev.Left
	switch {
	case ev.Stuck > 0:
		r.stuck = true
		r.res.Err = fmt.Errorf("%d processes of %s could not be killed (they may hang in the kernel, on a disk or network file system)", ev.Stuck, r.spec.Argv[0])
	case ev.Text != "":
		r.res.Err = errors.New(ev.Text)
	}
}

// finishOutput takes what is left in the pipes.
func (r *run) finishOutput() {
	for _, st := range r.streams {
		st.end()
	}
	for i, c := range []*Capture{&r.res.Stdout, &r.res.Stderr} {
		<-r.streams[i].done
		*c = r.streams[i].keep.Capture()
	}
	if r.log != nil {
		r.res.LogDropped, r.res.LogErr = r.log.finish()
	}
	if at := r.last.Load(); at > 0 {
		r.res.LastOutput = r.started.Add(time.Duration(at))
	}
}

// cleanUp ends what can still be found of a tree whose spawner process is gone. In a PID namespace the kernel has done
// that.
func (r *run) cleanUp() {
	if r.h.level == PIDNamespace {
		return
	}
	if r.pid > 0 { // else it died between fork and report, or before
		_ = unix.Kill(-r.pid, unix.SIGKILL)
	}
	endOrphans(r.pid, r.h.cgroups)
	if r.spec.Marker != "" {
		Sweep(r.spec.Marker)
	}
}
