// Package notify sends messages about questions and alerts to operators, through the channels of the configuration.
//
//	Enqueue --> one file for each message and channel --> a lane for each channel --> Notifier.Send
//	  (returns when the files are on the disk)             (retries, backs off, records)
//
// An Outbox delivers each message at least once. After it has recorded a success, it never sends the message again: the
// file of a delivered message stays, without its text. So a supervisor that was killed, and enqueues the same message
// again, does not send it twice. A second delivery is possible only if superloop is killed between the receiver's "ok"
// and the record of it. The second message has the same id.
//
// This package makes no decision about a loop. An agent that wants to deceive the reader may have written any string of
// a Message. So every channel shows these strings through Visible and escapes them for its output. Webhook URLs,
// signing secrets and command lines are secrets: no error, reason or event holds any part of them, except for the host
// of a URL.
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

// Options configure an Outbox. Only Dir is required. For every other field the zero value means the default.
type Options struct {
	Dir      string // a private directory for this outbox only; Open makes it (0700) if it is missing
	Disk     durable.Disk
	Channels []Notifier
	// OnEvent gets the outcome of each try, after the Outbox has recorded it. The channel waits for OnEvent, so OnEvent
	// must not call Close.
	OnEvent func(Event)
	Redact  *redact.Replacer // removes known secrets from every message before the Outbox stores it

	// The Outbox gives a message up after MaxAttempts tries (default 100), or when the message is MaxAge old (default
	// 24 h).
	MaxAttempts int
	MaxAge      time.Duration
	// The pause after a failure doubles from FirstBackoff (default 1 s) to MaxBackoff (default 15 min).
	FirstBackoff, MaxBackoff time.Duration
	Pace                     time.Duration // least time between two messages on a channel (default 1 s, Slack's limit)
	SendTimeout              time.Duration // bounds one try (default 60 s), besides the notifier's own bound
	Retention                time.Duration // how long finished messages are remembered and not sent again (30 days)
}

// Event is the outcome of one try, for the journal.
type Event struct {
	Name       string // EventSent or EventFailed
	Notifier   string
	Attempt    int
	Reason     string // why the try failed, without URL or secret
	Final      bool   // whether the Outbox has given the message up
	ID         string
	Escalation string
	Kind       Kind
	Loop       string
}

// ErrClosed says that the Outbox takes no more messages.
var ErrClosed = errors.New("the outbox is closed")

const (
	EventSent   = "notification_sent"
	EventFailed = "notification_failed"

	stopGrace = 5 * time.Second // how long a Notifier may still run after its context has ended
	// longestAsked bounds the pause that an endpoint asks for by Retry-After. An endpoint may slow its channel down but
	// not silence it.
	longestAsked = time.Hour

	reasonExpired = "the question expired before this could be delivered"
	reasonGone    = "no channel of this name is configured any more"
)

// Outbox stores messages until it has delivered them. Any goroutine may call its methods. Only Close waits for a
// channel. While no message is pending, an Outbox uses no goroutine and no timer.
type Outbox struct {
	o     Options
	lock  *durable.Lock
	stop  context.Context // ends running tries
	halt  context.CancelFunc
	lanes sync.WaitGroup

	mu       sync.Mutex          // also held while a file is written, but never while a message is sent
	seq      uint64              // the number of the last Enqueue
	entries  map[string]*entry   // the entries by file name
	order    map[string][]*entry // by channel, the oldest first: the entries that are pending or whose end is not recorded
	channels map[string]Notifier
	lane     map[string]*lane
	draining bool
}

// entry is one message on one channel, with the state that is not in its file.
type entry struct {
	stored
	unrecorded bool // whether its end could not be written to the disk yet
	withdrawn  bool // whether Withdraw was called for it during a try
	busy       bool // whether a try is running
}

// Open takes over the outbox in o.Dir and continues its deliveries. If another process has the outbox, the error is a
// *durable.LockedError.
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
	_, _ = o.Disk.RemoveTemps("notify-open", o.Dir) // a disk that refuses the removal may still serve to send messages
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
			// If the clock was set back, a message must not wait for the old time.
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

// Configure replaces the channels. A pending message for a channel that is gone waits for the channel to come back. The
// Outbox gives it up when it is MaxAge old.
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

// Enqueue stores m for the named channels, or for all channels if the caller names none. It returns when the files are
// on the disk. From then on the Outbox will deliver m, even after a crash. A channel that has had a message with the
// same id gets no second one. After an error some channels may have the message; the caller may call Enqueue again.
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

// NextTry returns when the next try of a pending message is due, on any channel that is configured. ok is false if no
// message is pending.
func (b *Outbox) NextTry() (at time.Time, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for channel, list := range b.order {
		if b.channels[channel] == nil {
			continue
		}
		for _, e := range list {
			if e.State == Pending && (!ok || e.NextTry.Before(at)) {
				at, ok = e.NextTry, true
			}
		}
	}
	return at, ok
}

// Withdraw removes the pending messages that ask for an answer to the escalation. The caller calls it when the question
// has ended. A message that is being sent may still arrive.
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
				b.serve(e.Channel) // a lane that waited for this entry must look for another one
			}
		}
	}
}

// Retry makes the failed messages of a channel pending again, with all their tries, if they are younger than MaxAge.
// It is for use after an operator has repaired the channel. Retry returns the number of these messages. A message that
// it cannot write to the disk stays failed.
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

// Close stops taking messages, delivers those that are due and waits for that. When ctx ends, Close ends the running
// tries. The files keep the other messages, and the next Open delivers them. Close returns at most 5 s after ctx has
// ended; the error then says that a notifier did not stop.
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
			// The last try to record the end. If it fails, the next Outbox sends the message a second time.
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
