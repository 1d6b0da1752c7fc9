// Package local is the engine of one machine: it drives one loop in this process.
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
)

// Options are what a run needs. Repo, Config, LoopID, Version and Now are required; the zero value of the rest is a
// sensible run.
type Options struct {
	Repo        string
	Config      *config.Config
	LoopID      string
	Version     string
	StateHome   string // XDG_STATE_HOME, "" for its default
	Disk        durable.Disk
	Environ     []string   // the environment of agents and tests, os.Environ() by default
	Containment proc.Level // forces a level of process containment; "" is the best there is
	Fast        bool       // uses each runner's fast_args
	Fresh       bool       // starts the loop anew; what its last run left is moved to archive/
	// TrustConfig pins the configuration as it is: the operator By starts the loop with it, whatever was pinned before.
	TrustConfig bool
	By          string
	// Unprotected: agents are not kept from the configuration and the private state, for those that need sudo or a
	// container engine of their own.
	Unprotected bool
	// Channels makes the ways to people that a configuration names; nil is none.
	Channels    func(*config.Config) effects.Channels
	AcceptLoose bool // on_unknown "allow" holds where nothing confines commands too
	// LookPath finds a program, for configurations that are read while the loop runs; nil takes any.
	LookPath         config.LookPath
	ExitOnEscalation bool              // leaves as soon as an operator is needed
	Watches          *dirwatch.Watches // if several loops run in the process: spares each one of its own
	Hurry            <-chan struct{}   // closed: ends running processes at once instead of after their grace
	// Observer is told of every event after it is in the journal, and of what an agent says; nil is nobody.
	Observer Observer
	Log      *zap.Logger
	Now      func() time.Time
	Random   func() float64 // gives numbers in [0,1) for jitter; rand.Float64 by default
}

// Observer sees a run as it happens. Its methods are called from the driver's goroutines and must not block.
type Observer interface {
	Event(ev journal.Event, s loop.State)
	// Said is the last line that a role, the tests or the validation printed.
	Said(who, line string)
}

// HeldError: another supervisor has the loop.
type HeldError struct {
	LoopID string
	Holder Holder
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("loop %s is run by another supervisor (%s)", e.LoopID, e.Holder)
}

// Holder is what a supervisor writes into its lock.
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

// driver is one supervisor of one loop: the local way to carry effects out.
type driver struct {
	o Options
	// mu guards the state while an effect is performed: the performer writes to the journal, and so does watchKill
	// beside it.
	mu      sync.Mutex
	host    *effects.Host // what the performers share
	loop    config.Loop
	paths   layout.Paths
	repo    *worktree.Repo // where the work is done: the repository or the loop's own worktree
	journal *journal.Journal
	state   loop.State
	performers
	intents map[string]bool // control intents that the journal holds
	spawner *proc.Spawner
	view    *journal.Projection
	super   *journal.Projection
	look    <-chan struct{}
	log     *zap.Logger
	cleanup []func()

	restarted bool // the loop was taken up with an open question

	reload     *watch.Reloader
	protection sandbox.ProtectionReport
	next       atomic.Pointer[config.Config] // newer than o.Config, in force from the next iteration on
	newConfig  <-chan struct{}
	proposals  <-chan struct{} // there may be a new one

	life     context.Context // ends with the run: what watches for it
	watches  *dirwatch.Watches
	answered <-chan struct{} // there may be an answer

	cancel *control.Intent // the intent that ends the loop, once one was seen
}

// Run takes a loop to its end, or to where it waits and o says to leave, or until shutdown is done: then the loop can
// be resumed. It returns the state that it left the loop in. An error is a failure of the supervisor, not of the loop,
// and what the journal holds stays true. The main function of the program has to call Main.
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
		return d.state, err
	}
	err = d.drive(shutdown)
	if err == nil && d.state.Status.Ended() {
		err = d.end()
	}
	if verr := d.flushViews(); err == nil {
		err = verr
	}
	return d.state, err
}

// drive carries out what is pending until there is nothing, or until the supervisor has to leave.
func (d *driver) drive(shutdown context.Context) error {
	for {
		e, do := loop.Due(d.state)
		if do == loop.DoNothing {
			return nil
		}
		if err := d.takeIntents(); err != nil {
			return err
		}
		if err := d.checkConfig(""); err != nil {
			return err
		}
		if err := d.outbox.TellDeliveries(); err != nil {
			return err
		}
		if d.cancel != nil {
			return d.stopCancelled()
		}
		if shutdown.Err() != nil {
			return d.stopPaused(shutdown, do)
		}
		if leave, err := d.exitsOnEscalation(); leave || err != nil {
			return err
		}
		fact, err := d.carryOut(shutdown, e, do)
		if err != nil {
			return err
		}
		if fact != nil {
			if err := d.step(fact); err != nil {
				return err
			}
		}
	}
}

// exitsOnEscalation reports whether the supervisor is to leave because an operator is needed and has not answered yet.
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
	d.outbox.Opened(rec)
	return true, nil
}

// carryOut does what is due. A nil fact means that there is nothing to report yet: the loop is to look at its intents
// and at shutdown again.
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

// stopPaused leaves the loop to be resumed. A question that was journaled a moment ago is opened before that: it can be
// answered without a supervisor.
func (d *driver) stopPaused(shutdown context.Context, do loop.Do) error {
	if do == loop.DoHuman {
		if _, _, err := d.approvals.Open(context.WithoutCancel(d.life), d.state); err != nil {
			return err
		}
	}
	reason := loop.ReasonInterrupted
	if cause := context.Cause(shutdown); cause != nil && !errors.Is(cause, context.Canceled) {
		reason = loop.ReasonInterrupted + ": " + cause.Error()
	}
	return d.step(loop.Stopped{Status: loop.Paused, Reason: reason})
}

// end brings the files that people read in line with the end.
func (d *driver) end() error {
	if d.state.Gates.Promise != "" {
		if _, err := d.gates.WriteReports(context.Background(), d.state); err != nil {
			return err
		}
	}
	return d.settle()
}

func (d *driver) stopCancelled() error {
	in := d.cancel
	d.intents[in.ID] = true
	return d.step(loop.Stopped{Status: loop.Cancelled, Reason: loop.ReasonCancelled, By: in.By, Note: in.Note, IntentID: in.ID})
}

// close lets go of everything, last taken first.
func (d *driver) close() {
	for i := len(d.cleanup) - 1; i >= 0; i-- {
		d.cleanup[i]()
	}
}

func (d *driver) settings() effects.Settings {
	s := effects.Settings{Config: d.o.Config, Loop: d.loop, Next: d.next.Load()}
	if s.Next == nil {
		s.Next = d.o.Config
	}
	return s
}

// Fact puts a fact through the machine while an effect is performed.
func (d *driver) Fact(f loop.Fact) (loop.State, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.step(f)
	return d.state, err
}

// Record writes a line that is no input of the machine.
func (d *driver) Record(event string, fields any) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.record(event, fields)
}
