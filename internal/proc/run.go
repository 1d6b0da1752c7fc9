package proc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// answerLimit is the additional time that the spawner process has for an answer. After that the supervisor gives it up.
const answerLimit = 15 * time.Second

// Run starts a command and returns when its whole tree is gone. When kill is done, or a limit of the Spec is reached,
// Run sends the tree SIGTERM and, after the grace, SIGKILL. Neither is an error. An error concerns the Spawner:
// ErrBusy, ErrClosed, ErrSpawnerLost, or a spawner process that could not be started. In this case the Result does not
// describe an end of the command.
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
	if err == nil && spec.Input != nil {
		err = r.openInput()
	}
	if err == nil {
		err = r.openStreams()
	}
	if err != nil {
		r.closeFiles()
		r.input.Close() // it may be nil
		res.Err = err
		return res, nil
	}
	err = r.start(kill, req)
	r.closeFiles() // otherwise the pipes would never end
	if r.lost != nil {
		r.cleanUp() // before reading the output, which ends only when no process holds the pipes
	}
	r.input.Close() // ends a write that nobody reads
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

// run is one command in progress, seen from the supervisor. Only the goroutine that called Run uses it, except for the
// streams.
type run struct {
	s       *Spawner
	h       *helper
	spec    *Spec
	res     *Result
	started time.Time

	input   *os.File    // the write end of Spec.Input, or nil
	files   [3]*os.File // stdin, stdout and stderr of the command
	streams [2]*stream  // the read ends of stdout and stderr
	log     *logSink
	last    atomic.Int64 // see stream.last

	path   string // the path of the program
	pid    int
	ending Reason // why the tree is being ended; "" while it may run
	exited bool   // the main process has ended
	stuck  bool
	stale  bool // this spawner process refuses the command; a new one may start it
	lost   error
}

func (r *run) closeFiles() {
	for _, f := range r.files {
		f.Close() // f may be nil
	}
}

// openInput puts a pipe in the place of standard input, and begins to write Spec.Input to it.
func (r *run) openInput() (err error) {
	r.files[0].Close()
	if r.files[0], r.input, err = os.Pipe(); err != nil {
		return fmt.Errorf("making an input pipe: %w", err)
	}
	go func() {
		_, _ = io.Copy(r.input, r.spec.Input) // the command may end before it has read all
		r.input.Close()
	}()
	return nil
}

func (r *run) openStreams() (err error) {
	if r.spec.Log != nil {
		r.log = newLogSink(r.spec.Log, r.spec.LogLimit, r.spec.Sift)
	}
	keep := max(cmp.Or(r.spec.HeadTail, defaultHeadTail), 0)
	var sift Sift // of a small capture nobody wants more than its ends
	if keep > siftedMax {
		sift = r.spec.Sift
	}
	for i, tap := range []func([]byte){r.spec.Stdout, r.spec.Stderr} {
		st := &stream{buf: make([]byte, bufferSize), tap: tap, keep: &HeadTail{tail: lastBytes{limit: keep, sift: sift}}, log: r.log, last: &r.last,
			from: r.started, done: make(chan struct{})}
		// The read end stays non-blocking for the poller of the Go runtime. The call of Fd makes the write end
		// blocking.
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

// start requests the start of the command and watches it to its end. If the spawner process has died since the last
// Run, or if its preparation is out of date, it has not started anything. start then uses a new spawner process.
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
		r.s.retire(r.h) // its socket may contain half of a request
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

// watch waits for the end of the tree, and requests it when a limit is reached. The spawner process must report in time
// that the command has started and that the tree has ended.
func (r *run) watch(kill context.Context) {
	sweep := politeLimit + r.s.killLimit + r.s.answerLimit
	bound, timeout, idle := time.After(r.s.answerLimit), after(r.spec.Timeout), after(r.spec.Inactivity)
	stop := kill.Done()
	// Both are nil until the grace begins.
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
			held, _ := r.spec.Pause.state()
			if timeout = again(r.spec.Timeout + held - time.Since(r.started)); timeout == nil {
				end(TimedOut)
			}
		case <-idle:
			last := r.started.Add(time.Duration(r.last.Load()))
			if _, quiet := r.spec.Pause.state(); quiet.After(last) {
				last = quiet
			}
			if idle = again(time.Until(last.Add(r.spec.Inactivity))); idle == nil {
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
			r.h.abandon() // this closes events, which ends the loop
		}
	}
}

// after returns a channel that fires after d. If d is not positive, it returns nil, which never fires.
func after(d time.Duration) <-chan time.Time {
	if d <= 0 {
		return nil
	}
	return time.After(d)
}

// again is after for a limit that was not reached. While the clocks stand still the rest stays what it is, however small,
// so it waits at least 50 ms.
func again(d time.Duration) <-chan time.Time {
	if d > 0 {
		d = max(d, 50*time.Millisecond)
	}
	return after(d)
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

// finishOutput reads the remaining output and fills in the Result.
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

// cleanUp kills the processes that it can find of a tree whose spawner process has died. In a PID namespace the kernel
// has already killed them.
func (r *run) cleanUp() {
	if r.h.level == PIDNamespace {
		return
	}
	if r.pid > 0 { // 0 if the spawner process died before its report
		_ = unix.Kill(-r.pid, unix.SIGKILL)
	}
	endOrphans(r.pid, r.h.cgroups)
	if r.spec.Marker != "" {
		Sweep(r.spec.Marker)
	}
}
