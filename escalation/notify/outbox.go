// Package notify sends messages, through channels that people chose, that a loop waits for them, and what became of it.
//
//	Enqueue --> one file for each message and channel --> a lane for each channel --> Notifier.Send
//	  (returns when the files are on the disk)             (retries, backs off, records)
//
// An Outbox delivers at least once, and never again after a success was recorded: the file of a delivered message
// stays, without its text, so that a supervisor that was killed and enqueues the same message once more does not send
// it twice. Only a kill between the other side's "ok" and our record of it makes a second message, and that one carries
// the same id.
//
// Nothing here decides anything. All strings of a Message may be written by an agent that wants to deceive its reader,
// so every channel shows them through Visible, and escapes them for where they go. Webhook URLs, signing secrets and
// command lines are secrets: no error, reason or event holds any part of them but the host.
package notify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/redact"
)

// Options say what an Outbox is to do. Only Dir is needed; a zero value of the others is the usual one.
type Options struct {
	Dir      string // a private directory for this outbox alone; it is made (0700) if need be
	Disk     durable.Disk
	Channels []Notifier
	// OnEvent is called with the outcome of each try, after it was recorded. The channel waits; it must not call Close.
	OnEvent func(Event)
	Redact  *redact.Replacer // takes known secrets out of every message before it is kept

	// A message is given up after MaxAttempts tries (100) or when it is MaxAge old (24 h), whichever comes first.
	MaxAttempts int
	MaxAge      time.Duration
	// The wait after a failure doubles from FirstBackoff (1 s) to MaxBackoff (15 min).
	FirstBackoff, MaxBackoff time.Duration
	Pace                     time.Duration // the least time between two messages on one channel (1 s, which is what Slack takes)
	SendTimeout              time.Duration // bounds one try (60 s), whatever bound the notifier has of its own
	Retention                time.Duration // how long finished messages are remembered, so that they are not sent again (30 days)
}

// Event is the outcome of one try, for the journal.
type Event struct {
	Name       string // EventSent or EventFailed
	Notifier   string
	Attempt    int
	Reason     string // of a failure; without URL or secret
	Final      bool   // a failure that is not tried again
	ID         string
	Escalation string
	Kind       Kind
	Loop       string
}

// ErrClosed: the Outbox takes no more messages.
var ErrClosed = errors.New("the outbox is closed")

const (
	EventSent   = "notification_sent"
	EventFailed = "notification_failed"

	stopGrace = 5 * time.Second // what a Notifier gets to come back after its context has ended
	// longestAsked bounds what a Retry-After may ask for: an endpoint may slow the channel down, but not silence it.
	longestAsked = time.Hour

	reasonExpired = "the question expired before this could be delivered"
	reasonGone    = "no channel of this name is configured any more"
)

// Outbox keeps messages until they are delivered. All methods may be called from any goroutine, and none waits for a
// channel except Close. While nothing is pending it costs no goroutine and no timer.
type Outbox struct {
	o     Options
	lock  *durable.Lock
	stop  context.Context // ends what is being sent
	halt  context.CancelFunc
	lanes sync.WaitGroup

	mu       sync.Mutex          // also held while a file is written, never while a message is sent
	seq      uint64              // of the last Enqueue
	entries  map[string]*entry   // by file name
	order    map[string][]*entry // by channel: what is pending or not recorded yet, the oldest first
	channels map[string]Notifier
	lane     map[string]*lane
	draining bool
}

// entry is one message on one channel.
type entry struct {
	stored
	unrecorded bool // it has come to its end, but the disk does not know yet
	withdrawn  bool // while it is being sent
	busy       bool // it is being sent
}

// Open takes over the outbox in o.Dir and goes on delivering. It is a *durable.LockedError if another process has it.
func Open(o Options) (*Outbox, error) {
	o.defaults()
	b := &Outbox{o: o, entries: map[string]*entry{}, order: map[string][]*entry{}, lane: map[string]*lane{}}
	err := o.Disk.MkdirAll("notify-open", o.Dir, 0o700)
	if err == nil {
		b.lock, err = o.Disk.Lock(filepath.Join(o.Dir, "lock"), nil)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the outbox: %w", err)
	}
	_, _ = o.Disk.RemoveTemps("notify-open", o.Dir) // a disk that cannot remove them may still be able to send
	all, _, err := readAll(o.Dir)
	if err != nil {
		return nil, errors.Join(err, b.lock.Unlock())
	}
	now := time.Now()
	for _, s := range all {
		name := entryName(s.Channel, s.ID)
		if s.State != Pending && now.Sub(latest(s.Enqueued, s.LastTry)) > o.Retention && o.Disk.Remove("notify-prune", filepath.Join(o.Dir, name)) == nil {
			continue
		}
		e := &entry{stored: s}
		b.seq = max(b.seq, s.Seq)
		if s.State == Pending {
			// A clock that was set back must not park a message.
			if limit := now.Add(max(longestAsked, o.MaxBackoff)); e.NextTry.After(limit) {
				e.NextTry = limit
			}
			b.order[s.Channel] = append(b.order[s.Channel], e)
		}
		b.entries[name] = e
	}
	b.stop, b.halt = context.WithCancel(context.Background())
	b.Configure(o.Channels)
	return b, nil
}

func (o *Options) defaults() {
	o.MaxAge, o.MaxAttempts = cmp.Or(o.MaxAge, 24*time.Hour), cmp.Or(o.MaxAttempts, 100)
	o.FirstBackoff, o.MaxBackoff = cmp.Or(o.FirstBackoff, time.Second), cmp.Or(o.MaxBackoff, 15*time.Minute)
	o.Pace, o.SendTimeout = cmp.Or(o.Pace, time.Second), cmp.Or(o.SendTimeout, time.Minute)
	o.Retention = cmp.Or(o.Retention, 30*24*time.Hour)
	if o.OnEvent == nil {
		o.OnEvent = func(Event) {}
	}
}

// Configure replaces the channels. What is pending for one that is gone waits for it, and is given up at MaxAge.
func (b *Outbox) Configure(channels []Notifier) {
	var lost []Event
	b.mu.Lock()
	b.channels = map[string]Notifier{}
	for _, n := range channels {
		b.channels[n.Name()] = n
	}
	for name, waiting := range b.order {
		if b.channels[name] != nil {
			b.serve(name)
			continue
		}
		for _, e := range slices.Clone(waiting) {
			if !e.busy && !e.unrecorded && time.Since(e.Enqueued) >= b.o.MaxAge {
				b.end(e, Failed, reasonGone)
				lost = append(lost, e.event(EventFailed, reasonGone, true))
			}
		}
	}
	b.mu.Unlock()
	for _, ev := range lost {
		b.o.OnEvent(ev)
	}
}

// Enqueue keeps m for the named channels, or for all that are configured if none is named, and returns when it is on
// the disk: from then on it will be delivered, also after a crash. A message that a channel has already, whatever
// became of it, is not taken again. After an error some channels may have it; Enqueue may be called again.
func (b *Outbox) Enqueue(m Message, channels ...string) error {
	if err := m.check(); err != nil {
		return fmt.Errorf("enqueueing a notification: %w", err)
	}
	m = m.prepared(b.o.Redact)
	b.mu.Lock()
	defer b.mu.Unlock()
	known := slices.Sorted(maps.Keys(b.channels))
	if len(channels) == 0 {
		channels = known
	}
	var failed []error
	for _, channel := range channels {
		if !slices.Contains(known, channel) {
			failed = append(failed, fmt.Errorf("enqueueing a notification: no channel %q is configured; there is: %s", channel, strings.Join(known, ", ")))
		} else if err := b.keep(m, channel); err != nil {
			failed = append(failed, fmt.Errorf("enqueueing a notification for %q: %w", channel, err))
		}
	}
	return errors.Join(failed...)
}

func (b *Outbox) keep(m Message, channel string) error {
	name, now := entryName(channel, m.ID), time.Now()
	if b.draining {
		return ErrClosed
	}
	if b.entries[name] != nil {
		return nil
	}
	b.seq++
	e := &entry{stored: stored{Seq: b.seq, Item: Item{ID: m.ID, Escalation: m.Escalation, Kind: m.Kind, Loop: m.Loop,
		Channel: channel, State: Pending, Enqueued: now, NextTry: now}, Message: &m}}
	if err := b.save("notify-enqueue", e); err != nil {
		return err
	}
	b.entries[name] = e
	b.order[channel] = append(b.order[channel], e)
	b.serve(channel)
	return nil
}

// Withdraw takes back what is pending about an escalation and asks: there is an answer. What is being sent may arrive.
func (b *Outbox) Withdraw(escalation string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, waiting := range b.order {
		for _, e := range slices.Clone(waiting) {
			switch {
			case e.Escalation != escalation || !e.Kind.asks() || e.State != Pending:
			case e.busy:
				e.withdrawn = true
			default:
				b.end(e, Withdrawn, "")
				b.serve(e.Channel) // a lane that waited for this one has nothing to wait for
			}
		}
	}
}

// Retry takes up again what was given up on a channel and is not older than MaxAge, with all its tries before it: for
// when the channel is repaired. It returns how many those are. What the disk does not take stays given up.
func (b *Outbox) Retry(channel string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for _, e := range b.entries {
		if e.Channel != channel || e.State != Failed || b.draining || e.unrecorded || e.Message == nil || now.Sub(e.Enqueued) >= b.o.MaxAge {
			continue
		}
		failed := e.stored
		e.State, e.Attempts, e.NextTry = Pending, 0, now
		if b.save("notify-retry", e) != nil {
			e.stored = failed
			continue
		}
		b.order[channel] = append(b.order[channel], e)
		n++
	}
	slices.SortStableFunc(b.order[channel], func(x, y *entry) int { return cmp.Compare(x.Seq, y.Seq) })
	b.serve(channel)
	return n
}

// Close takes no more messages, delivers what is due at once, and returns when that is done; when ctx ends it stops
// what is being sent. What is not delivered by then is in the files and is delivered after the next Open. It returns at
// the latest 5 s after ctx has ended; the error then names what did not stop.
func (b *Outbox) Close(ctx context.Context) error {
	b.mu.Lock()
	first := !b.draining
	b.draining = true
	for _, l := range b.lane {
		l.poke()
	}
	b.mu.Unlock()
	done := make(chan struct{})
	go func() { b.lanes.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		b.halt()
		select {
		case <-done:
		case <-time.After(stopGrace):
			return errors.New("closing the outbox: a notifier did not stop; its message stays pending")
		}
	}
	b.halt()
	if !first {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.entries {
		if e.unrecorded {
			// The last chance; if it fails, the message is sent a second time after the next Open.
			_ = b.save("notify-done", e)
		}
	}
	if err := b.lock.Unlock(); err != nil {
		return fmt.Errorf("closing the outbox: %w", err)
	}
	return nil
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
