package proc

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// answerLimit is how much longer than its own bounds the spawner process may take to say something; then it
// is given up. It is generous: the machine may be in trouble.
const answerLimit = 15 * time.Second

// Run starts a command and returns when its whole tree is gone. When kill is done, or a bound of the Spec is
// reached, the tree gets SIGTERM, the grace, and SIGKILL; cancelling is not an error. The error is about the
// Spawner: ErrBusy, ErrClosed, ErrSpawnerLost, or that no spawner process could be started; then the Result is not to be
// taken for the command's own.
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
	h, level, err := s.ensure()
	if err != nil {
		res.Err = err
		return res, err
	}
	req, files, err := prepare(&spec)
	if err != nil {
		res.Err = err
		return res, nil
	}
	defer files.close()
	r := &run{s: s, h: h, spec: &spec, res: &res, level: level, started: time.Now()}
	if err := r.openStreams(s, files); err != nil {
		res.Err = err
		return res, nil
	}
	req.KillLimitMS = s.killLimit.Milliseconds()
	fds := append([]int{files.stdin, files.stdout, files.stderr}, descriptorsOf(spec.Files)...)
	err = h.send(req, fds...)
	if err != nil && !errors.Is(err, unix.E2BIG) {
		// It died since the last Run. What was not sent was not started, so a second try is safe.
		s.retire(h)
		if r.h, r.level, err = s.ensure(); err == nil {
			err = r.h.send(req, fds...)
		}
	}
	if err == nil {
		err = r.await(kill, &req, fds)
	}
	runtime.KeepAlive(spec.Files)
	files.close() // else the pipes would never end
	if err != nil {
		r.finishOutput()
		if errors.Is(err, unix.E2BIG) {
			res.Err = explainStart(&spec, string(req.Path), syscall.E2BIG)
			return res, nil
		}
		if r.h != nil {
			s.retire(r.h) // half a request may lie in its socket
		}
		res.Err = err
		return res, err
	}
	if r.lost != nil {
		r.cleanUp() // before the output, which ends with the last process that holds it
	}
	r.finishOutput()
	if r.lost != nil || r.stuck {
		s.retire(r.h)
	}
	if r.lost != nil {
		return res, fmt.Errorf("%w: %w", ErrSpawnerLost, r.lost)
	}
	return res, nil
}

// run is one command under way, seen from the supervisor. One goroutine (the caller of Run) owns it, except for streams.
type run struct {
	s       *Spawner
	h       *helper
	spec    *Spec
	res     *Result
	level   Level
	started time.Time

	out, err *stream
	log      *logSink
	last     atomic.Int64 // see stream.last

	pid    int
	ending Reason // why the tree is being ended, "" while it may run
	exited bool   // the main process has ended
	stuck  bool
	stale  bool // the spawner process does not start it, another one may
	lost   error
}

func (r *run) openStreams(s *Spawner, files *descriptors) error {
	keep := r.spec.HeadTail
	if keep == 0 {
		keep = defaultHeadTail
	}
	if r.spec.Log != nil {
		r.log = newLogSink(r.spec.Log, r.spec.LogLimit)
	}
	open := func(i int, tap func([]byte), w *int) (*stream, error) {
		f, end, err := outputPipe()
		if err != nil {
			return nil, err
		}
		*w = end
		st := &stream{
			f: f, buf: s.buffer(i), tap: tap, keep: NewHeadTail(max(keep, 0)), log: r.log,
			last: &r.last, from: r.started, done: make(chan struct{}),
		}
		go st.drain()
		return st, nil
	}
	var err error
	if r.out, err = open(0, r.spec.Stdout, &files.stdout); err != nil {
		return err
	}
	if r.err, err = open(1, r.spec.Stderr, &files.stderr); err != nil {
		files.close() // lets the first stream end
		<-r.out.done
	}
	return err
}

// await is watch, once more with another spawner process if the first one is no longer what it was prepared to be.
func (r *run) await(kill context.Context, req *request, fds []int) error {
	sweep := politeLimit + r.s.killLimit + r.s.answerLimit
	r.watch(kill, r.s.answerLimit, sweep)
	if !r.stale {
		return nil
	}
	r.s.retire(r.h)
	if r.ending != "" {
		r.res.Ended, r.res.Err = r.ending, errors.New("stopped before it was started")
		return nil
	}
	req.Fresh = true
	var err error
	if r.h, r.level, err = r.s.ensure(); err == nil {
		err = r.h.send(*req, fds...)
	}
	if err == nil {
		r.stale = false
		r.watch(kill, r.s.answerLimit, sweep)
	}
	return err
}

// watch waits for the end of the tree and brings it about when that is due. The spawner process must say within start
// that it started the command, and within sweep that it ended it.
func (r *run) watch(kill context.Context, start, sweep time.Duration) {
	bound := time.NewTimer(start)
	timeout := timer(r.spec.Timeout)
	idle := timer(r.spec.Inactivity)
	grace := timer(0)
	defer bound.Stop()
	defer timeout.Stop()
	defer idle.Stop()
	defer grace.Stop()

	stop := kill.Done()
	var hurry <-chan struct{} // only once the grace has begun
	end := func(why Reason) {
		if r.ending != "" || r.exited {
			return
		}
		r.ending, hurry = why, r.spec.Hurry
		grace.Reset(r.spec.Grace)
		r.ask(opTerm)
	}
	hard := false
	killNow := func() {
		hard, hurry = true, nil
		grace.Stop()
		r.ask(opKill)
		bound.Reset(sweep)
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
					bound.Stop()
				}
			case evNotStarted:
				r.notStarted(ev)
				return
			case evStale:
				r.stale = true
				return
			case evExited:
				r.mainEnded()
				bound.Reset(r.spec.Grace + sweep)
			case evSwept:
				r.mainEnded()
				r.swept(ev)
				return
			}
		case <-timeout.C:
			end(TimedOut)
		case <-idle.C:
			if rest := time.Duration(r.last.Load()) + r.spec.Inactivity - time.Since(r.started); rest > 0 {
				idle.Reset(rest)
			} else {
				end(Inactive)
			}
		case <-stop:
			stop = nil
			end(Killed)
		case <-grace.C:
			killNow()
		case <-hurry:
			killNow()
		case <-bound.C:
			r.h.abandon() // events ends, so the loop does
		}
	}
}

// timer is stopped when d is 0.
func timer(d time.Duration) *time.Timer {
	if d > 0 {
		return time.NewTimer(d)
	}
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

func (r *run) ask(op string) {
	if r.h.send(request{Op: op}) != nil {
		r.h.abandon()
	}
}

func (r *run) mainEnded() {
	if !r.exited {
		r.exited = true
		r.res.Duration = time.Since(r.started)
	}
}

func (r *run) notStarted(ev event) {
	r.res.Ended, r.res.Duration = NotStarted, time.Since(r.started)
	if ev.Errno != 0 {
		r.res.Err = explainStart(r.spec, "", syscall.Errno(ev.Errno))
	} else {
		r.res.Err = fmt.Errorf("starting %s: %s", r.spec.Argv[0], ev.Text)
	}
}

func (r *run) swept(ev event) {
	r.res.Code, r.res.Signal = ev.Code, ""
	if ev.Signal != 0 {
		r.res.Signal = signalName(syscall.Signal(ev.Signal))
	}
	if r.ending != "" {
		r.res.Ended = r.ending
	}
	r.res.UserTime = time.Duration(ev.UserUS) * time.Microsecond
	r.res.SystemTime = time.Duration(ev.SystemUS) * time.Microsecond
	r.res.MaxRSS, r.res.LeftBehind = ev.MaxRSS, ev.Left
	switch {
	case ev.Stuck > 0:
		r.stuck = true
		r.res.Err = fmt.Errorf("%d processes of %s could not be killed (they may hang in the kernel, on a disk or network file system)", ev.Stuck, r.spec.Argv[0])
	case ev.Text != "":
		r.res.Err = errors.New(ev.Text)
	}
}

func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", int(s))
}

// finishOutput takes what is left in the pipes and closes the books.
func (r *run) finishOutput() {
	r.out.end()
	r.err.end()
	<-r.out.done
	<-r.err.done
	r.res.Stdout, r.res.Stderr = r.out.keep.Capture(), r.err.keep.Capture()
	if r.log != nil {
		r.res.LogDropped, r.res.LogErr = r.log.finish()
	}
	if at := r.last.Load(); at > 0 {
		r.res.LastOutput = r.started.Add(time.Duration(at))
	}
}

// cleanUp ends what can still be found of a tree whose spawner process is gone. In a PID namespace the kernel has done that.
func (r *run) cleanUp() {
	if r.level == PIDNamespace {
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
