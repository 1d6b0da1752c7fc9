package notify

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"
)

// lane delivers the messages of one channel, one at a time, so that a channel that hangs does not delay the others. It
// runs while messages are pending. A failure of one message says that the endpoint may be down, so the whole lane
// pauses. The next message is the one whose next try is due first, so a message that always fails does not delay the
// rest.
type lane struct {
	name      string
	running   bool
	wake      chan struct{} // capacity 1
	failures  int           // number since the last success
	notBefore time.Time
	said      string // the reason of the last event about a problem that only an operator can repair
}

func (l *lane) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// serve starts the lane of a channel, or wakes it. The caller holds mu, as for all methods below except run and try.
func (b *Outbox) serve(channel string) {
	l := b.lane[channel]
	if l == nil {
		l = &lane{name: channel, wake: make(chan struct{}, 1)}
		b.lane[channel] = l
	}
	l.poke()
	if l.running || b.draining || len(b.order[channel]) == 0 || b.channels[channel] == nil {
		return
	}
	l.running = true
	b.lanes.Go(func() { b.run(l) })
}

func (b *Outbox) run(l *lane) {
	for {
		b.mu.Lock()
		now, notifier, e := time.Now(), b.channels[l.name], b.next(l.name)
		if e == nil || notifier == nil || b.stop.Err() != nil || b.draining && (e.NextTry.After(now) || l.failures > 0) {
			l.running = false
			b.mu.Unlock()
			return
		}
		wait := latest(e.NextTry, l.notBefore).Sub(now)
		e.busy = wait <= 0
		b.mu.Unlock()
		if wait <= 0 {
			b.try(l, notifier, e)
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-l.wake:
		case <-b.stop.Done():
		}
		timer.Stop()
	}
}

// next returns the message to send next. Of each escalation it considers only the oldest message, so that "resolved"
// never arrives before "opened".
func (b *Outbox) next(channel string) *entry {
	var best *entry
	waits := map[string]bool{}
	for _, e := range b.order[channel] {
		if e.Escalation != "" && waits[e.Escalation] {
			continue
		}
		waits[e.Escalation] = true
		if best == nil || e.NextTry.Before(best.NextTry) {
			best = e
		}
	}
	return best
}

// try sends e once and records the outcome. For an entry whose end is not recorded it only tries to record the end, and
// never sends again.
func (b *Outbox) try(l *lane, n Notifier, e *entry) {
	b.mu.Lock()
	now := time.Now()
	if e.unrecorded {
		b.recordAgain(l, e)
		b.mu.Unlock()
		return
	}
	if e.Kind.asks() && !e.Message.Expires.IsZero() && now.After(e.Message.Expires) {
		b.end(e, Failed, reasonExpired)
		ev := e.event(EventFailed, reasonExpired, true)
		b.mu.Unlock()
		b.o.OnEvent(ev)
		return
	}
	// If this process dies while it sends, the next process pauses as after a failure and counts this try.
	m, d := *e.Message, b.delivery(e)
	e.Attempts++
	e.Tried, e.LastTry, e.NextTry = true, now, now.Add(b.o.delay(e.Attempts, 0))
	// After an error, go on: on a full disk the message should still go out, and the file of Enqueue is on the disk
	// already.
	_ = b.save("notify-try", e)
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(b.stop, b.o.SendTimeout)
	err := send(ctx, n, m, d)
	cancel()
	b.mu.Lock()
	ev := b.outcome(l, e, err)
	b.mu.Unlock()
	if ev.Name != "" {
		b.o.OnEvent(ev)
	}
}

// outcome records the outcome of a try. The returned Event has no name if the try does not count.
func (b *Outbox) outcome(l *lane, e *entry, err error) Event {
	now := time.Now()
	t, temporary := errors.AsType[*TemporaryError](err)
	switch {
	case err == nil:
		l.failures, l.notBefore, l.said = 0, now.Add(b.o.Pace), ""
		b.end(e, Delivered, "")
		return e.event(EventSent, "", false)
	case b.stop.Err() != nil:
		// Close ended the try, which says nothing about the channel.
		e.Attempts--
		e.NextTry, e.busy = e.Enqueued, false // due at once, and in its old place in the order
		if e.withdrawn {
			b.end(e, Withdrawn, "")
		} else {
			_ = b.save("notify-try", e) // after an error, the next process only waits longer than it needs to
		}
		return Event{}
	case temporary:
		l.failures++
		l.notBefore = now.Add(b.o.delay(l.failures, t.RetryAfter))
	default:
		l.notBefore = now.Add(b.o.Pace)
	}
	final := true
	switch {
	case e.withdrawn && temporary:
		b.end(e, Withdrawn, err.Error())
	case !temporary || e.Attempts >= b.o.MaxAttempts || now.Sub(e.Enqueued) >= b.o.MaxAge:
		b.end(e, Failed, err.Error())
	default:
		final = false
		e.Reason, e.busy = err.Error(), false
		e.NextTry = now.Add(b.o.delay(e.Attempts, t.RetryAfter))
		_ = b.save("notify-try", e) // after an error, the file differs only in the reason
		if t.Repair && l.said == t.Reason {
			return Event{}
		}
		if t.Repair {
			l.said = t.Reason
		}
	}
	return e.event(EventFailed, err.Error(), final)
}

// end removes e from its lane and records its final state. If the disk refuses the record, e returns to the lane.
func (b *Outbox) end(e *entry, s State, reason string) {
	e.State, e.Reason, e.NextTry, e.busy, e.withdrawn = s, reason, time.Time{}, false, false
	if s != Failed {
		e.Message = nil
	}
	b.leave(e)
	if b.save("notify-done", e) == nil {
		return
	}
	e.unrecorded, e.NextTry = true, time.Now().Add(b.o.FirstBackoff)
	b.order[e.Channel] = append(b.order[e.Channel], e)
	b.serve(e.Channel)
}

func (b *Outbox) recordAgain(l *lane, e *entry) {
	e.busy = false
	if b.save("notify-done", e) != nil {
		l.failures++
		e.NextTry = time.Now().Add(b.o.delay(l.failures, 0))
		return
	}
	l.failures, e.unrecorded, e.NextTry = 0, false, time.Time{}
	b.leave(e)
}

func (b *Outbox) leave(e *entry) {
	b.order[e.Channel] = slices.DeleteFunc(b.order[e.Channel], func(x *entry) bool { return x == e })
}

func (b *Outbox) save(op string, e *entry) error { return save(b.o.Disk, op, b.o.Dir, e.stored) }

func (e *entry) event(name, reason string, final bool) Event {
	return Event{Name: name, Notifier: e.Channel, Attempt: e.Attempts, Reason: reason, Final: final,
		ID: e.ID, Escalation: e.Escalation, Kind: e.Kind, Loop: e.Loop}
}

// delay returns the pause after the given number of failures (1 or more). The pause doubles from FirstBackoff to
// MaxBackoff. delay takes a random part between half of it and all of it, so that many loops do not come back at the
// same moment. The pause is never shorter than the one that the receiver asked for, up to longestAsked.
func (o *Options) delay(failures int, asked time.Duration) time.Duration {
	d := o.MaxBackoff
	if n := max(failures-1, 0); n < 40 && o.FirstBackoff<<n>>n == o.FirstBackoff {
		d = min(d, o.FirstBackoff<<n)
	}
	if d > 1 {
		d = d/2 + rand.N(d/2+1)
	}
	return max(d, min(asked, longestAsked))
}
