package notify

import (
	"context"
	"errors"
	"slices"
	"time"
)

const (
	reasonExpired = "the question expired before this could be delivered"
	reasonGone    = "no channel of this name is configured any more"
)

// lane delivers for one channel, one message at a time, so that a channel that
// hangs holds up no other. It runs while something is pending. What a failure
// says about one message it says about the endpoint, too, so the whole lane
// backs off; and because the next message is the one that has waited longest
// for its turn, a message that always fails does not hold up the rest.
type lane struct {
	name      string
	running   bool
	wake      chan struct{} // capacity 1
	failures  int           // since the last success
	notBefore time.Time
}

func (l *lane) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// kick sees to it that a lane looks at its messages. The caller holds mu.
func (b *Outbox) kick(channel string) {
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
		now := time.Now()
		notifier := b.channels[l.name]
		e := b.next(l.name)
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

// next is the message whose turn is next: of each escalation only the oldest
// counts, so that "resolved" never comes before "opened". The caller holds mu.
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

// try sends e once and records what came of it.
func (b *Outbox) try(l *lane, n Notifier, e *entry) {
	if e.unrecorded {
		b.again(l, e)
		return
	}
	b.mu.Lock()
	now := time.Now()
	expires := e.Message.Expires
	expired := e.Kind.asks() && !expires.IsZero() && now.After(expires)
	if !expired {
		// If we die while sending, the next process waits as after a failure, and counts this try.
		e.Attempts++
		e.LastTry, e.NextTry = now, now.Add(b.plan.delay(e.Attempts, 0))
	}
	b.mu.Unlock()
	if expired {
		b.finish(e, Failed, reasonExpired)
		b.tell(e, EventFailed, reasonExpired, true)
		return
	}
	// A full disk is a reason more to send: the file that promises the delivery is there already.
	_ = b.write("notify-try", e)
	ctx, cancel := context.WithTimeout(b.stop, b.o.SendTimeout)
	err := send(ctx, n, *e.Message)
	cancel()
	b.outcome(l, e, err)
}

func (b *Outbox) outcome(l *lane, e *entry, err error) {
	now := time.Now()
	if err == nil {
		l.failures, l.notBefore = 0, now.Add(b.o.Pace)
		b.finish(e, Delivered, "")
		b.tell(e, EventSent, "", false)
		return
	}
	if b.stop.Err() != nil {
		// We left while it was under way: that says nothing about the channel.
		b.mu.Lock()
		e.Attempts--
		e.NextTry, e.busy = e.Enqueued, false // due at once, and in its old place
		withdrawn := e.withdrawn
		b.mu.Unlock()
		if withdrawn {
			b.finish(e, Withdrawn, "")
			return
		}
		_ = b.write("notify-try", e) // else the next process waits a little longer than it has to
		return
	}
	t, temporary := errors.AsType[*TemporaryError](err)
	if temporary {
		l.failures++
		l.notBefore = now.Add(b.plan.delay(l.failures, t.RetryAfter))
	} else {
		l.notBefore = now.Add(b.o.Pace)
	}
	b.mu.Lock()
	withdrawn := e.withdrawn
	final := !temporary || withdrawn || b.plan.over(e.Attempts, now.Sub(e.Enqueued))
	if !final {
		e.Reason, e.busy = err.Error(), false
		e.NextTry = now.Add(b.plan.delay(e.Attempts, t.RetryAfter))
	}
	b.mu.Unlock()
	switch {
	case !final:
		_ = b.write("notify-try", e) // what is on the disk says the same but for the reason
	case withdrawn && temporary:
		b.finish(e, Withdrawn, err.Error())
	default:
		b.finish(e, Failed, err.Error())
	}
	b.tell(e, EventFailed, err.Error(), final)
}

// finish ends the life of e, in memory and on the disk.
func (b *Outbox) finish(e *entry, s State, reason string) {
	b.mu.Lock()
	b.settle(e, s, reason)
	b.mu.Unlock()
	b.record("notify-done", e)
}

// settle takes e out of its lane. The caller holds mu.
func (b *Outbox) settle(e *entry, s State, reason string) {
	e.State, e.Reason, e.NextTry, e.busy, e.withdrawn = s, reason, time.Time{}, false, false
	if s != Failed {
		e.Message = nil
	}
	b.order[e.Channel] = slices.DeleteFunc(b.order[e.Channel], func(x *entry) bool { return x == e })
}

// record writes a final state. If the disk does not take it, e goes back into
// its lane, where only the record is tried again, never the sending.
func (b *Outbox) record(op string, e *entry) {
	if b.write(op, e) == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if e.State == Pending {
		return // a Retry took it up in the meantime
	}
	e.unrecorded = true
	e.NextTry = time.Now().Add(b.plan.first)
	b.order[e.Channel] = append(b.order[e.Channel], e)
	b.kick(e.Channel)
}

func (b *Outbox) again(l *lane, e *entry) {
	err := b.write("notify-done", e)
	b.mu.Lock()
	defer b.mu.Unlock()
	e.busy = false
	if err != nil {
		l.failures++
		e.NextTry = time.Now().Add(b.plan.delay(l.failures, 0))
		return
	}
	l.failures = 0
	e.unrecorded, e.NextTry = false, time.Time{}
	b.order[e.Channel] = slices.DeleteFunc(b.order[e.Channel], func(x *entry) bool { return x == e })
}

// write brings the file of e to what e is now. Its lane and a Withdraw may do
// so at the same time, and the older state must not be written last.
func (b *Outbox) write(op string, e *entry) error {
	e.writing.Lock()
	defer e.writing.Unlock()
	b.mu.Lock()
	s := e.stored
	b.mu.Unlock()
	return save(b.o.Disk, op, b.o.Dir, s)
}

func (b *Outbox) tell(e *entry, name, reason string, final bool) {
	b.mu.Lock()
	ev := Event{Name: name, Notifier: e.Channel, Attempt: e.Attempts, Reason: reason, Final: final,
		ID: e.ID, Escalation: e.Escalation, Kind: e.Kind, Loop: e.Loop}
	b.mu.Unlock()
	b.o.OnEvent(ev)
}
