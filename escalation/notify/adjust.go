package notify

import (
	"cmp"
	"slices"
	"time"
)

// Configure replaces the channels. What is pending for a channel that is no
// longer there waits for it to come back, and is given up when it is MaxAge old.
func (b *Outbox) Configure(channels []Notifier) {
	b.mu.Lock()
	b.channels = map[string]Notifier{}
	for _, n := range channels {
		b.channels[n.Name()] = n
	}
	var lost []*entry
	for name, list := range b.order {
		if b.channels[name] != nil {
			b.kick(name)
			continue
		}
		for _, e := range list {
			if !e.busy && !e.unrecorded && time.Since(e.Enqueued) >= b.o.MaxAge {
				lost = append(lost, e)
			}
		}
	}
	for _, e := range lost {
		b.settle(e, Failed, reasonGone)
	}
	b.mu.Unlock()
	for _, e := range lost {
		b.record("notify-done", e)
		b.tell(e, EventFailed, reasonGone, true)
	}
}

// Withdraw takes back every message about an escalation that is still pending
// and asks for an answer, because there is one. What is being sent at that
// moment may still arrive.
func (b *Outbox) Withdraw(escalation string) {
	b.mu.Lock()
	var gone []*entry
	for _, list := range b.order {
		for _, e := range list {
			switch {
			case e.Escalation != escalation || !e.Kind.asks() || e.State != Pending:
			case e.busy:
				e.withdrawn = true
			default:
				gone = append(gone, e)
			}
		}
	}
	for _, e := range gone {
		b.settle(e, Withdrawn, "")
		b.kick(e.Channel) // a lane that waited for this one has nothing to wait for
	}
	b.mu.Unlock()
	for _, e := range gone {
		b.record("notify-done", e)
	}
}

// Retry takes up again what was given up on a channel and is not older than
// MaxAge, with all its tries before it: for when somebody has put the channel
// right. It returns how many messages that are.
func (b *Outbox) Retry(channel string) int {
	b.enqueue.Lock()
	defer b.enqueue.Unlock()
	b.mu.Lock()
	var failed []*entry
	for _, e := range b.entries {
		if e.Channel == channel && e.State == Failed && !b.draining {
			failed = append(failed, e)
		}
	}
	b.mu.Unlock()
	n := 0
	for _, e := range failed {
		if b.revive(e) {
			n++
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	slices.SortStableFunc(b.order[channel], func(x, y *entry) int { return cmp.Compare(x.Seq, y.Seq) })
	b.kick(channel)
	return n
}

// revive makes a message that was given up pending again, on the disk and then
// here. If the disk does not take it, it stays given up.
func (b *Outbox) revive(e *entry) bool {
	e.writing.Lock()
	defer e.writing.Unlock()
	now := time.Now()
	b.mu.Lock()
	again := e.stored
	can := again.State == Failed && !e.unrecorded && again.Message != nil && now.Sub(again.Enqueued) < b.o.MaxAge
	b.mu.Unlock()
	again.State, again.Attempts, again.NextTry = Pending, 0, now
	if !can || save(b.o.Disk, "notify-retry", b.o.Dir, again) != nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	e.stored = again
	b.order[e.Channel] = append(b.order[e.Channel], e)
	return true
}
