// Package local is the engine of one machine: it runs one loop in this process.
package local

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/dirwatch"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/config/watch"
	"github.com/superloop/superloop/loop/control"
	"github.com/superloop/superloop/loop/effects"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/worktree"
	"github.com/superloop/superloop/recovery/sandbox"
	"github.com/superloop/superloop/recovery/steering"
)

// Options are the options of Run. Repo, Config, LoopID and Version are required. Every other field has a useful zero
// value.
type Options struct {
	Repo        string
	Config      *config.Config
	LoopID      string
	Version     string
	StateHome   string // XDG_STATE_HOME, "" for its default
	Disk        durable.Disk
	SealBeyond  int64      // the size of the journal's file from which on it is sealed at the end of an iteration, in bytes; 0: 64 MiB
	Environ     []string   // the environment of agents and tests, os.Environ() by default
	Containment proc.Level // forces a level of process containment; "": the best available
	Fast        bool       // uses each runner's fast_args
	Fresh       bool       // begins the loop from the start; moves the files of its last run to archive/
	// TrustConfig pins the configuration as it is, whatever was pinned before. By is the operator who starts the loop
	// with it.
	TrustConfig bool
	By          string
	// Unprotected does not keep agents from the configuration and the private state. Agents that need sudo or their own
	// container engine need this.
	Unprotected bool
	// Channels makes the notification channels that a configuration names. nil makes none.
	Channels func(*config.Config) effects.Channels
	// AcceptLoose lets on_unknown "allow" hold even if nothing confines commands.
	AcceptLoose bool
	// LookPath finds the programs of a configuration that changes while the loop runs. nil accepts every program.
	LookPath         config.LookPath
	ExitOnEscalation bool              // leaves as soon as a question to an operator is open
	Once             bool              // leaves before the next iteration
	Watches          *dirwatch.Watches // shared by the loops of a process; nil: the loop makes its own
	Held             *Held             // the loop's locks, which the caller keeps; nil: Run takes them and lets them go
	// Park is asked each time that the loop has to wait. True: Run leaves, and the caller runs the loop again when
	// Waiting.Stirs says so, with Woken set. nil: Run waits itself.
	Park  func(Waiting) bool
	Woken bool // no operator has asked for this run: it follows on one that Park has ended
	// Drain ends the run, when it is closed, before the next effect begins. Run then pauses the loop.
	Drain <-chan struct{}
	// Admit waits until a role may use an account and returns the function that gives the place back. nil admits all.
	Admit effects.Admit
	// Intend is asked when an effect that may be performed only once is about to begin, and the journal says so. After an
	// error it does not begin. nil lets all begin.
	Intend func() error
	Hurry  <-chan struct{} // closed: running processes end at once, without their grace
	// Observer gets every event after it is in the journal, and the output of agents. nil is no observer.
	Observer Observer
	Log      *zap.Logger
	Now      func() time.Time
	Random   func() float64 // returns numbers in [0,1) for jitter; rand.Float64 by default
}

// Observer watches a run. The driver calls its methods from several goroutines, and they must not block.
type Observer interface {
	Event(ev journal.Event, s loop.State)
	// Said gets the last line that a role, the tests or the validation printed.
	Said(who, line string)
}

// HeldError says that another supervisor holds the loop's lock.
type HeldError struct {
	LoopID string
	Holder Holder
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("loop %s is run by another supervisor (%s)", e.LoopID, e.Holder)
}

// Holder says who holds a loop's lock. The supervisor writes it into the lock file.
type Holder struct {
	proc.Identity
	Since time.Time `json:"since"`
}

func (h Holder) String() string {
	if h.PID == 0 {
		return "which did not say who it is"
	}
	return fmt.Sprintf("pid %d on %s since %s", h.PID, h.Host, h.Since.Local().Format(time.DateTime))
}

// driver is the supervisor of one loop. It is the engine and has the performers.
type driver struct {
	o Options
	// mu guards the state while an effect is performed: the performer and watchKill both write to the journal.
	mu      sync.Mutex
	host    *effects.Host // what all performers share
	loop    config.Loop
	paths   layout.Paths
	repo    *worktree.Repo // the work tree in which agents work: the repository's or the loop's own
	journal *journal.Journal
	state   loop.State
	performers
	intents map[string]bool // the ids of the control intents that the journal holds
	spawner *proc.Spawner
	view    *journal.Projection
	super   *journal.Projection
	look    <-chan struct{}
	log     *zap.Logger
	cleanup []func()

	asideMu sync.Mutex // guards aside
	aside   [][2]string
	healed  []worktree.Healed

	restarted bool // the loop was resumed with an open question about a runner

	reload     *watch.Reloader
	protection sandbox.ProtectionReport
	// surroundings keeps missing names in the home directory free; nil while nothing is protected.
	surroundings *steering.Keeper
	next         atomic.Pointer[config.Config] // newer than o.Config, in force from the next iteration on
	newConfig    <-chan struct{}
	proposals    <-chan struct{} // fires when a new proposal may be there

	life     context.Context // ends with the run; the watches end with it
	watches  *dirwatch.Watches
	answered <-chan struct{} // fires when a new answer may be there

	cancel *control.Intent // the cancellation that takeIntents has found
	pause  *control.Intent // the pause that takeIntents has found
	first  int             // the iteration in which this supervisor began
	parked bool            // Park has said that Run is to leave
}

// Run runs a loop to its end. It returns earlier when shutdown is done, or when an operator is needed and
// o.ExitOnEscalation is set. The loop can then be resumed. Run returns the last state of the loop. An error is a
// failure of the supervisor, not of the loop, and the journal stays valid. The main function of the program must call
// Main first.
func Run(shutdown context.Context, o Options) (loop.State, error) {
	if !startsHelpers.Load() {
		return loop.State{}, ErrNoMain
	}
	d, err := open(shutdown, o)
	if err != nil {
		return loop.State{}, err
	}
	defer d.close()
	if err := d.takeUp(shutdown); err != nil {
		return d.state, d.cause(err)
	}
	d.first = d.state.Iteration
	for more := true; more && err == nil; {
		more, err = d.turn(shutdown)
	}
	return d.state, d.leave(d.cause(err))
}

// leave does what is due when the supervisor leaves the loop, for whatever reason, and returns the first error.
func (d *driver) leave(err error) error {
	if err == nil {
		err = d.tellMoved()
	}
	if err == nil && d.state.Status.Ended() {
		err = d.end()
	}
	if verr := d.flushViews(); err == nil {
		err = verr
	}
	return err
}

// turn takes in what operators want of the loop, and carries out what is due. It returns false if the loop has ended or
// the supervisor has to leave.
func (d *driver) turn(shutdown context.Context) (more bool, err error) {
	e, do := loop.Due(d.state)
	if do == loop.DoNothing {
		return false, nil
	}
	if err := d.tellMoved(); err != nil {
		return false, err
	}
	if err := d.takeIntents(); err != nil {
		return false, err
	}
	if err := d.checkConfig(""); err != nil {
		return false, err
	}
	if err := d.outbox.TellDeliveries(); err != nil {
		return false, err
	}
	if d.cancel != nil {
		return false, d.stopCancelled()
	}
	switch {
	case shutdown.Err() != nil:
		return false, d.stopPaused(shutdown, leaving(shutdown))
	case drained(d.o.Drain):
		return false, d.stopPaused(shutdown, loop.Stopped{Reason: loop.ReasonInterrupted + ": its daemon is replaced"})
	case d.pause != nil:
		return false, d.stopPaused(shutdown, loop.Stopped{Reason: loop.ReasonPaused, By: d.pause.By, Note: d.pause.Note, IntentID: d.pause.ID})
	case d.o.Once && d.state.Iteration > d.first:
		return false, d.stopPaused(shutdown, loop.Stopped{Reason: loop.ReasonOnce})
	}
	if leave, err := d.exitsOnEscalation(); leave || err != nil {
		return false, err
	}
	fact, err := d.carryOut(shutdown, e, do)
	if err != nil || d.parked {
		return false, err
	}
	if fact == nil {
		return true, nil
	}
	if e.Kind.Once() {
		d.flushWork(shutdown)
	}
	return true, d.step(fact)
}

// exitsOnEscalation reports whether the supervisor has to leave because a question to an operator is open and not
// answered.
func (d *driver) exitsOnEscalation() (bool, error) {
	if !d.o.ExitOnEscalation || !d.state.Begun || d.state.Human == nil {
		return false, nil
	}
	if _, wanted := d.retryNow(); wanted || d.restarted {
		return false, nil
	}
	rec, another, err := d.approvals.Open(d.life, d.state)
	if err != nil || another != nil || rec.State != escalation.Pending || rec.Lapsed(d.o.Now()) {
		return false, err
	}
	d.outbox.Opened(rec, d.state)
	return true, nil
}

// carryOut carries out what is due. A nil fact means that there is nothing to report yet. The caller then looks at the
// intents and at shutdown again.
func (d *driver) carryOut(shutdown context.Context, e loop.Effect, do loop.Do) (loop.Fact, error) {
	switch do {
	case loop.DoTimer:
		return d.wait(shutdown, e)
	case loop.DoHuman:
		return d.awaitAnswer(shutdown)
	}
	p := d.performer(e.Kind)
	if p == nil {
		return nil, fmt.Errorf("this build cannot perform %q; the loop was written by a newer superloop", e.Kind)
	}
	return d.perform(shutdown, p, e)
}

// drained reports whether drain is closed.
func drained(drain <-chan struct{}) bool {
	select {
	case <-drain:
		return true
	default:
		return false
	}
}

// leaving says why the supervisor has to leave.
func leaving(shutdown context.Context) loop.Stopped {
	reason := loop.ReasonInterrupted
	if cause := context.Cause(shutdown); cause != nil && !errors.Is(cause, context.Canceled) {
		reason = loop.ReasonInterrupted + ": " + cause.Error()
	}
	return loop.Stopped{Reason: reason}
}

// stopPaused pauses the loop. If the loop waits for an operator, stopPaused first opens the question, so that the operator
// can read it and answer it without a supervisor.
func (d *driver) stopPaused(shutdown context.Context, f loop.Stopped) error {
	if p := d.state.Pending; p != nil && p.Kind == loop.AskHuman && d.state.Human != nil {
		life := context.WithoutCancel(d.life)
		if !d.state.Begun {
			fact, err := d.approvals.Perform(life, *p, d.state)
			if err == nil {
				err = d.step(fact)
			}
			if err != nil {
				return err
			}
		}
		if _, _, err := d.approvals.Open(life, d.state); err != nil {
			return err
		}
	}
	f.Status = loop.Paused
	if err := d.step(f); err != nil || d.pause == nil {
		return err
	}
	d.intents[d.pause.ID] = true
	return d.host.Full(d.o.Disk.Remove("control", d.pause.File))
}

// end writes the final reports, tells people that the loop has ended, and settles the loop.
func (d *driver) end() error {
	if d.state.Gates.Promise != "" {
		if _, err := d.gates.WriteReports(context.Background(), d.state); err != nil {
			return err
		}
	}
	facts, err := d.results.Write(context.Background(), d.state)
	if err != nil {
		return err
	}
	if err := d.host.Full(d.outbox.LoopEnded(d.state, facts)); err != nil {
		return err
	}
	return d.settle()
}

// stopCancelled carries out the cancellation in d.cancel.
func (d *driver) stopCancelled() error {
	in := d.cancel
	d.intents[in.ID] = true
	return d.step(loop.Stopped{Status: loop.Cancelled, Reason: loop.ReasonCancelled, By: in.By, Note: in.Note, IntentID: in.ID})
}

// close releases everything in reverse order.
func (d *driver) close() {
	for i := len(d.cleanup) - 1; i >= 0; i-- {
		d.cleanup[i]()
	}
}

// settings returns the configuration in force, the one of the next iteration, and the loop's part.
func (d *driver) settings() effects.Settings {
	s := effects.Settings{Config: d.o.Config, Loop: d.loop, Next: d.next.Load()}
	if s.Next == nil {
		s.Next = d.o.Config
	}
	return s
}

// Fact puts a fact through the machine while an effect is performed, and returns the new state.
func (d *driver) Fact(f loop.Fact) (loop.State, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	begun := d.state.Begun
	err := d.step(f)
	if p := d.state.Pending; err == nil && d.o.Intend != nil && !begun && d.state.Begun && p != nil && p.Kind.Once() {
		err = d.o.Intend()
	}
	return d.state, err
}

// Record writes an event that is no input of the machine, while an effect is performed.
func (d *driver) Record(event string, fields any) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.record(event, fields)
}
