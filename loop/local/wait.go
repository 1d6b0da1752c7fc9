package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/control"
	"github.com/superloop/superloop/loop/effects"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/roles/agent"
)

// leaveGrace is the time between SIGTERM and SIGKILL for a process tree when the supervisor itself has to leave. The
// supervisor must be gone within five seconds.
const leaveGrace = 3 * time.Second

// takeIntents reads the control directory. It keeps a cancellation in d.cancel and a pause in d.pause, records a note,
// and leaves a superloop kick that ends the present wait to retryNow. It removes an intent that the journal already
// holds. It records every other intent as ignored and removes it.
func (d *driver) takeIntents() error {
	for _, in := range d.submitted() {
		if !d.intents[in.ID] {
			if d.cancels(in) {
				d.cancel = &in
				continue
			}
			if d.endsWait(in) {
				continue
			}
			if in.Kind == control.IntentPause && in.RunID == d.state.RunID {
				d.pause = &in
				continue
			}
			if in.Kind == control.IntentNote && d.state.Status.Ended() {
				continue
			}
			d.intents[in.ID] = true
			if in.Kind == control.IntentNote {
				if err := d.step(loop.OperatorNote{Text: in.Note, By: in.By, IntentID: in.ID}); err != nil {
					return err
				}
				if err := d.o.Disk.Remove("control", in.File); err != nil {
					return d.host.Full(err)
				}
				continue
			}
			f := control.Ignored{Kind: in.Kind, By: in.By, IntentID: in.ID, Reason: "nothing was waiting for it"}
			if err := d.record(f.Event(), f); err != nil {
				return err
			}
			// The file is removed only after its record is on the disk.
			if _, err := d.journal.Append(true); err != nil {
				return d.host.Full(err)
			}
		}
		if err := d.o.Disk.Remove("control", in.File); err != nil {
			return d.host.Full(err)
		}
	}
	return nil
}

// submitted returns the intents in the control directory, and warns about files that it cannot read.
func (d *driver) submitted() []control.Intent {
	ins, err := control.Submitted(d.paths)
	d.host.Warn("a control file cannot be read", err)
	return ins
}

// perform lets a performer carry out an effect. The context of the performer, and with it the effect's processes, ends
// when the supervisor has to leave or the operator cancels the loop. effects.Hurry returns its channel. watchKill
// closes the channel leaveGrace later, or at the second Ctrl-C.
func (d *driver) perform(shutdown context.Context, p effects.Performer, e loop.Effect) (loop.Fact, error) {
	kill, stop := context.WithCancel(shutdown)
	defer stop()
	hurry, done, watched := make(chan struct{}), make(chan struct{}), make(chan struct{})
	s := d.state // watchKill may change d.state while the performer runs
	go func() {
		defer close(watched)
		d.watchKill(kill, stop, hurry, done)
	}()
	fact, err := p.Perform(effects.WithHurry(kill, hurry), e, s)
	close(done)
	<-watched
	// The second case is a role that no place was given to.
	if (kill.Err() != nil || drained(d.o.Drain)) && errors.Is(err, context.Canceled) {
		return nil, nil // the next supervisor performs the effect
	}
	return fact, err
}

// watchKill ends the running effect when there is a reason to, and closes hurry after leaveGrace. It returns when done
// is closed. Meanwhile it takes in a changed configuration, a new proposal and delivered messages.
func (d *driver) watchKill(kill context.Context, stop func(), hurry chan<- struct{}, done <-chan struct{}) {
	for kill.Err() == nil {
		select {
		case <-done:
			return
		case <-d.o.Hurry:
			stop()
		case <-kill.Done():
		case <-d.newConfig:
			d.news(kill, false)
		case <-d.outbox.News():
			d.host.Warn("a delivery could not be recorded", d.outbox.TellDeliveries())
		case <-d.proposals:
			d.news(kill, true)
		case <-d.look:
			ins := d.submitted()
			d.mu.Lock()
			if slices.ContainsFunc(ins, d.cancels) {
				stop()
			}
			d.mu.Unlock()
		}
	}
	select {
	case <-done:
		return
	case <-d.o.Hurry:
	case <-time.After(leaveGrace):
	}
	close(hurry)
	<-done
}

// cancels reports whether in cancels the present run and is not in the journal yet.
func (d *driver) cancels(in control.Intent) bool {
	return in.Kind == control.IntentCancel && in.RunID == d.state.RunID && !d.intents[in.ID]
}

// wait waits until the effect's time. A superloop kick ends the wait, and so does the news that the limit is gone. A
// nil fact means that the wait is not over.
func (d *driver) wait(shutdown context.Context, e loop.Effect) (loop.Fact, error) {
	if in, ok := d.retryNow(); ok {
		d.intents[in.ID] = true
		if l := d.state.Limit; l != nil {
			if err := d.runners.Cooldowns.Clear(agent.Account{Provider: l.Provider, ID: l.Account}); err != nil {
				return nil, d.host.Full(err)
			}
		}
		d.runners.Believed(d.state, e.Role)
		return d.waited(e, loop.WaitOver{ID: e.ID, Reason: "kicked", By: in.By, IntentID: in.ID}), nil
	}
	if d.limitGone() {
		return d.waited(e, loop.WaitOver{ID: e.ID, Reason: "cleared"}), nil
	}
	if err := d.flushViews(); err != nil {
		return nil, err
	}
	if d.park(e.Until) {
		return nil, nil
	}
	select {
	case <-time.After(e.Until.Sub(d.host.Now(d.state))):
		return d.waited(e, loop.WaitOver{ID: e.ID}), nil
	case <-d.o.Drain:
	case <-shutdown.Done():
	case <-d.look:
	case <-d.newConfig:
	}
	return nil, nil
}

// waited adds the runners that could take the role now, if the failure policy waits for a runner.
func (d *driver) waited(e loop.Effect, f loop.WaitOver) loop.Fact {
	if l := d.state.Response.Policy; l != nil && l.Phase == failures.Waiting && e.Role != "" {
		f.Candidates = d.runners.Candidates(d.state, e.Role)
	}
	return f
}

// limitGone reports whether the limit that the loop waits for ended before its time, by superloop kick or by a run that
// worked in another loop. That is so if the shared file of limits has forgotten the limit before SharedUntil.
func (d *driver) limitGone() bool {
	l := d.state.Limit
	if l == nil || !d.host.Now(d.state).Before(l.SharedUntil) {
		return false
	}
	_, known, err := d.runners.Cooldowns.Get(agent.Account{Provider: l.Provider, ID: l.Account})
	return err == nil && !known
}

// retryNow returns the operator's intent to end the present wait (superloop kick), if there is one.
func (d *driver) retryNow() (control.Intent, bool) {
	ins, _ := control.Submitted(d.paths) // takeIntents has reported the files that cannot be read
	if i := slices.IndexFunc(ins, d.endsWait); i >= 0 {
		return ins[i], true
	}
	return control.Intent{}, false
}

// endsWait reports whether in is a superloop kick of the present run that the loop can take now.
func (d *driver) endsWait(in control.Intent) bool {
	p := d.state.Pending
	return in.Kind == control.IntentKick && in.RunID == d.state.RunID && !d.intents[in.ID] &&
		p != nil && loop.Check(d.state, loop.Decision{Kind: loop.DecideRetryNow, RunID: in.RunID}) == nil
}

// awaitAnswer waits for the answer to an escalation. Waiting costs nothing. A nil fact means that there is no answer
// yet.
func (d *driver) awaitAnswer(shutdown context.Context) (loop.Fact, error) {
	if err := d.watchAnswers(); err != nil {
		return nil, err
	}
	in, wish := d.retryNow()
	var mended *effects.Mended
	if wish {
		mended = &effects.Mended{By: in.By, Note: in.Note, IntentID: in.ID}
		// An operator who runs the loop again has renewed the missing login, or wants to know whether it works.
	} else if d.restarted {
		mended = &effects.Mended{By: "superloop run"}
	}
	d.restarted = false
	fact, next, err := d.approvals.Answer(shutdown, d.state, mended)
	if wish && fact != nil {
		d.intents[in.ID] = true
	}
	if err != nil || fact != nil {
		return fact, err
	}
	if err := d.flushViews(); err != nil {
		return nil, err
	}
	if d.park(next) {
		return nil, nil
	}
	select {
	case <-d.o.Drain:
	case <-time.After(next.Sub(d.o.Now())):
	case <-d.answered:
	case <-d.outbox.News():
	case <-d.look:
	case <-d.newConfig:
	case <-shutdown.Done():
	}
	return nil, nil
}

// watchAnswers watches the directory of the questions, so that an answer ends the wait of the loop.
func (d *driver) watchAnswers() error {
	if d.answered == nil {
		if err := d.o.Disk.MkdirAll("dirs", d.paths.Questions(), 0o700); err != nil {
			return d.host.Full(err)
		}
		d.answered = d.watches.Dir(d.life, d.paths.Questions(), func(path string) bool { return filepath.Base(path) == escalation.File })
	}
	return nil
}

// Cancel carries out a cancellation of a loop that no supervisor runs.
func Cancel(ctx context.Context, o Options) error {
	d, err := open(ctx, o)
	if err != nil {
		return err
	}
	defer d.close()
	if err := d.fold(); err != nil {
		return err
	}
	if err := d.takeIntents(); err != nil {
		return err
	}
	if d.state.Status.Ended() {
		return d.settle() // a supervisor has cancelled it first
	}
	if d.cancel == nil {
		return nil
	}
	if err := d.stopCancelled(); err != nil {
		return err
	}
	facts, err := d.results.Write(ctx, d.state)
	if err == nil {
		err = d.host.Full(d.outbox.LoopEnded(d.state, facts))
	}
	if err != nil {
		return err
	}
	if err := d.settle(); err != nil {
		return err
	}
	return d.flushViews()
}

// Conclude does what Run does after the last event of a loop that has ended or is paused, for a supervisor that was killed
// there: the final reports, the message to people, state.json. It may be done twice.
func Conclude(ctx context.Context, o Options) error {
	d, err := open(ctx, o)
	if err != nil {
		return err
	}
	defer d.close()
	if err := d.fold(); err != nil {
		return err
	}
	if err := d.enterWorktree(ctx); err != nil {
		return err
	}
	d.equip() // the work tree is known now
	d.cleanup = append(d.cleanup, d.outbox.Close)
	d.outbox.Configure()
	d.putViews()
	if d.state.Status.Ended() {
		if err := d.end(); err != nil {
			return err
		}
	}
	return d.flushViews()
}

// settle removes the remaining intents and withdraws the open question of a loop that has ended.
func (d *driver) settle() error {
	if err := d.approvals.Withdraw("the loop is " + string(d.state.Status)); err != nil {
		return err
	}
	ins, err := control.Submitted(d.paths)
	if err != nil {
		return err
	}
	for _, in := range ins {
		if in.Kind == control.IntentNote && d.state.Status != loop.Completed {
			continue // for the next run
		}
		if err := d.o.Disk.Remove("control", in.File); err != nil && !os.IsNotExist(err) {
			return d.host.Full(err)
		}
	}
	return nil
}
