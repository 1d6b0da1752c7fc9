package effects

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/recovery/failures"
)

// A run's end changes two files that all loops of the repository share. Failures are written at once: they make runners
// unfit and raise alarms. A success of a healthy runner decides nothing by itself, and where roles take milliseconds,
// writing each would be a third of the supervisor's work. So successes that follow each other fast are written
// together: with the next failure, when the supervisor leaves, and holdTime after the first of them at the latest.
//
// Alarms need successes in two places: a rate is of all runs, and silence is the absence of successes. Successes that
// are held, or that a killed supervisor has lost, could make an alarm of few failures. Therefore none is held unless
// the files show that it is not needed now: a success was written less than holdTime ago (so silence is told at most
// holdTime too early), the window holds no failure, and it holds at least holdFrom successes, which several new
// failures have to outweigh first.

// holdTime is how long a success may be in no file.
const holdTime = 30 * time.Second

// holdFrom is how many successes the window must show before one is held.
const holdFrom = 20

// ended is how a run has ended, as the two files have it.
type ended struct {
	result failures.Result
	sample failures.Sample
}

// end notes how somebody's run has ended. It tells if they became unfit by it, and gives the alerts when failures are
// more than one role's. A run that was interrupted says nothing.
func (r *Runners) end(s loop.State, who failures.Agent, f *loop.RoleEnded) (*failures.TrippedFields, []failures.Alert) {
	if f.Outcome == loop.OutcomeInterrupted {
		r.broken(who)
		return nil, nil
	}
	e := ended{failures.Result{Agent: who, CostUSD: f.CostUSD}, failures.Sample{At: r.Now(s), Task: r.Task(f.Role).Key(), Loop: r.LoopID, Agent: who}}
	if f.Failure != nil {
		e.result.Failure = &f.Failure.Event
		e.sample.Failed, e.sample.Category = true, f.Failure.Category
	}
	set := r.Settings().Loop.Respond
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limits, r.alarm = breakerLimits(set.Breaker), thresholds(set.Systemic)
	hold := f.Failure == nil && r.mayHold(e)
	r.held = append(r.held, e)
	if !hold {
		return r.write()
	}
	if r.timer == nil {
		r.timer = time.AfterFunc(holdTime, r.Flush)
	}
	return nil, nil
}

// broken takes back that somebody's run was a probe: superloop has broken it off.
func (r *Runners) broken(who failures.Agent) {
	if h, err := r.Health(); err == nil && h.Of(who).ProbeAt.IsZero() {
		return
	}
	r.updateHealth(func(h *failures.Health) bool { h.Broken(who); return true })
}

// mayHold reports whether a success need not be written now.
func (r *Runners) mayHold(e ended) bool {
	if r.Clock().Sub(r.written) >= holdTime {
		return false
	}
	h, err := r.health.load(r.HealthStore())
	if b := h.Of(e.result.Agent); err != nil || b.Circuit != failures.Closed || b.InRow > 0 || b.Trips > 0 {
		return false // it is forgotten now
	}
	w, err := r.watched.load(r.WatchStore())
	if err != nil {
		return false
	}
	from := e.sample.At.Add(-ms(r.alarm.WithDefaults().WindowMS))
	successes := 0
	for _, s := range w.Samples {
		switch {
		case !s.At.After(from):
		case s.Failed:
			return false
		default:
			successes++
		}
	}
	return successes >= holdFrom
}

// Flush writes what is held. The supervisor calls it when it leaves.
func (r *Runners) Flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.write()
}

// write puts what is held into the files, and tells what follows from the last of
// it, the only one that can be a failure.
func (r *Runners) write() (tripped *failures.TrippedFields, alerts []failures.Alert) {
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
	ends := r.held
	if len(ends) == 0 {
		return nil, nil
	}
	r.held, r.written = nil, r.Clock()
	r.updateHealth(func(h *failures.Health) bool {
		h.Limits = r.limits
		for _, e := range ends {
			if h.Ended(e.result, e.sample.At) {
				fields := h.Of(e.result.Agent).Tripped()
				tripped = &fields
			}
		}
		return true
	})
	ctx, stop := context.WithTimeout(context.Background(), storeTime)
	defer stop()
	if _, err := r.WatchStore().Update(ctx, func(w *failures.Watch) bool {
		w.Thresholds = r.alarm
		for _, e := range ends {
			w.Note(e.sample)
		}
		if last := ends[len(ends)-1].sample; last.Failed { // a success raises no alarm
			alerts = w.Look(last.At)
		}
		return true
	}); err != nil {
		r.Log.Warn("the ends of role runs could not be kept", zap.Error(err))
	}
	return tripped, alerts
}

func breakerLimits(b config.Breaker) failures.BreakerLimits {
	return failures.BreakerLimits{Trip: b.Failures, FirstMS: b.First.Milliseconds(), MostMS: b.Most.Milliseconds()}
}

// thresholds are those of the configuration: there 0 switches off.
func thresholds(s config.Systemic) failures.Thresholds {
	off := func(n int) int {
		if n == 0 {
			return -1
		}
		return n
	}
	rate := func(r float64) float64 {
		if r == 0 {
			return -1
		}
		return r
	}
	return failures.Thresholds{WindowMS: s.Window.Milliseconds(), MinRuns: s.MinRuns, WarnRate: rate(s.WarnRate), CriticalRate: rate(s.CriticalRate),
		SameCategory: off(s.SameCategory), SilentRuns: off(s.SilentRuns)}
}
