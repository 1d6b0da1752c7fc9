package cage

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/superloop/superloop/internal/proc"
)

// Causes of ending a shim early.
var (
	errTimeout = errors.New("its time is over")
	errUnused  = errors.New("there was no command for it")
)

// Warm is a shim that has been started and waits for its order, of which nothing
// is known yet. Starting it takes longer than all the rest that comes before a
// command's first instruction, so who expects that one may come has one ready:
// see Spec.Warm. It is used once.
type Warm struct {
	ns     proc.Namespaces
	marker string
	exe    string
	grace  time.Duration

	wire    *line
	out     atomic.Pointer[output] // set before the order is sent; the shim prints nothing before
	stop    context.CancelCauseFunc
	ctx     context.Context
	hurry   chan struct{}
	started time.Time
	taken   atomic.Bool

	done chan struct{}
	got  proc.Result
	err  error
}

// Ready says for which commands a shim is kept warm.
type Ready struct {
	Network Network // as in Spec
	Without []Mechanism
	Grace   time.Duration
	Marker  string
	Exe     string
}

// Start starts a shim that waits for its order. It costs a process until it is
// used or closed.
func Start(s Spawner, r Ready) (*Warm, error) {
	spec := Spec{Network: r.Network, Without: r.Without, Grace: r.Grace, Marker: r.Marker, Exe: r.Exe}
	if spec.Grace <= 0 {
		spec.Grace = DefaultGrace
	}
	ways, _ := spec.ways()
	return warm(s, &spec, ways[0])
}

func warm(s Spawner, spec *Spec, ns proc.Namespaces) (*Warm, error) {
	exe, err := shimExe(spec.Exe)
	if err != nil {
		return nil, err
	}
	wire, err := openLine()
	if err != nil {
		return nil, err
	}
	w := &Warm{ns: ns, marker: spec.Marker, exe: exe, grace: spec.Grace, wire: wire, hurry: make(chan struct{}), started: time.Now(), done: make(chan struct{})}
	w.ctx, w.stop = context.WithCancelCause(context.Background())
	env := []string{"GOGC=off", "GOMAXPROCS=1"} // it lives for milliseconds, and does one thing at a time
	if spec.Marker != "" {
		env = append(env, spec.Marker)
	}
	order := proc.Spec{
		Argv: []string{exe, ShimArg}, Dir: "/", Env: env, Marker: spec.Marker, Files: wire.theirs, Namespaces: ns,
		Grace: spec.Grace, Hurry: w.hurry, HeadTail: -1,
		Stdout: func(p []byte) { w.print(p, false) }, Stderr: func(p []byte) { w.print(p, true) },
	}
	go func() {
		defer close(w.done)
		w.got, w.err = s.Run(w.ctx, order)
	}()
	return w, nil
}

func (w *Warm) print(p []byte, stderr bool) {
	switch out := w.out.Load(); {
	case out == nil: // it has died before its order came, and says why in its report
	case stderr:
		out.err.take(p)
	default:
		out.out.take(p)
	}
}

// take gives the shim if it is the one that the command needs and nobody has
// taken it before; else it is closed.
func (w *Warm) take(spec *Spec, ns proc.Namespaces) *Warm {
	if w == nil {
		return nil
	}
	exe, err := shimExe(spec.Exe)
	fits := err == nil && exe == w.exe && w.ns == ns && w.marker == spec.Marker && w.grace == spec.Grace
	select {
	case <-w.done:
		fits = false
	default:
	}
	if !fits {
		w.Close()
		return nil
	}
	if !w.taken.CompareAndSwap(false, true) {
		return nil
	}
	return w
}

// Close ends a shim that nobody has taken; nothing was executed by it. It
// returns when nothing is left of it. A nil one, or one that was taken, is left
// alone.
func (w *Warm) Close() {
	if w == nil || !w.taken.CompareAndSwap(false, true) {
		return
	}
	w.stop(errUnused)
	<-w.done // only then nobody uses the pipes any more
	w.wire.close()
}

// run sends the order and waits for the end. Timeout counts from the order on,
// and anew from the word to begin.
func (w *Warm) run(ctx context.Context, spec *Spec, o *order) (Result, report, error) {
	defer w.wire.close()
	defer w.stop(nil)
	out := newOutput(spec, func() { w.stop(errFull) })
	w.out.Store(out)
	defer context.AfterFunc(ctx, func() { w.stop(context.Cause(ctx)) })()
	late := time.AfterFunc(spec.Timeout, func() { w.stop(errTimeout) })
	defer late.Stop()
	var begun atomic.Pointer[time.Time]
	begin := func() {
		now := time.Now()
		begun.Store(&now)
		late.Reset(spec.Timeout)
	}
	if spec.Hold == nil {
		begin()
	}
	if err := w.wire.send(o, spec.Hold, begin); err != nil {
		w.stop(err)
		<-w.done
		return Result{Code: -1, Ended: proc.NotStarted}, report{}, err
	}
	select {
	case <-w.done:
	case <-spec.Hurry:
		close(w.hurry)
		<-w.done
	}
	got := w.got
	res := Result{
		Code: got.Code, Signal: got.Signal, Ended: got.Ended, Err: got.Err,
		UserTime: got.UserTime, SystemTime: got.SystemTime, MaxRSS: got.MaxRSS, LeftBehind: got.LeftBehind,
	}
	if at := begun.Load(); at != nil {
		res.Duration = max(0, got.Duration-at.Sub(w.started))
	}
	if res.Ended == proc.Killed {
		switch context.Cause(w.ctx) {
		case errFull:
			res.Ended = OutputLimit
		case errTimeout:
			res.Ended = proc.TimedOut
		}
	}
	out.into(&res)
	if w.err != nil {
		rep, _ := w.wire.report() // it may have said under what the lost command ran
		return res, rep, fmt.Errorf("running a command: %w", w.err)
	}
	if got.Ended == proc.NotStarted {
		return res, report{}, nil
	}
	rep, err := w.wire.report()
	return res, rep, err
}
