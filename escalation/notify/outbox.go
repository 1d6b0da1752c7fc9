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

// Options say what an Outbox is to do. Only Dir is needed; a zero value of the
// others is the usual one.
type Options struct {
	// Dir is a private directory for this outbox alone; it is made (0700) if need be.
	Dir      string
	Disk     durable.Disk
	Channels []Notifier
	// OnEvent is told the outcome of each try, from the goroutine that delivers, after the outcome was recorded. The
	// channel waits for it; it must not call Close.
	OnEvent func(Event)
	// Redact takes known secrets out of every message before it is kept.
	Redact *redact.Replacer

	// A message is given up after MaxAttempts tries (100) or when it is MaxAge old (24 h), whichever comes first.
	MaxAttempts int
	MaxAge      time.Duration
	// The wait after a failure doubles from FirstBackoff (1 s) to MaxBackoff (15 min).
	FirstBackoff, MaxBackoff time.Duration
	// Pace is the least time between two messages on one channel (1 s, which is what Slack takes).
	Pace time.Duration
	// SendTimeout bounds one try (60 s), whatever bound the notifier has of its own.
	SendTimeout time.Duration
	// Retention is how long finished messages are remembered, so that they are not sent again (30 days).
	Retention time.Duration
}

// Event is the outcome of one try, for the journal.
type Event struct {
	Name       string // "notification_sent" or "notification_failed"
	Notifier   string
	Attempt    int
	Reason     string // of a failure; without URL or secret
	Final      bool   // a failure that is not tried again
	ID         string
	Escalation string
	Kind       Kind
	Loop       string
}

const (
	EventSent   = "notification_sent"
	EventFailed = "notification_failed"
)

// ErrClosed: the Outbox takes no more messages.
var ErrClosed = errors.New("the outbox is closed")

// stopGrace is what a Notifier gets to come back after its context has ended.
const stopGrace = 5 * time.Second

// Outbox keeps messages until they are delivered. All methods may be called
// from any goroutine, and none waits for a channel except Close. While nothing
// is pending it costs no goroutine and no timer.
type Outbox struct {
	o     Options
	plan  schedule
	lock  *durable.Lock
	stop  context.Context // ends what is being sent
	halt  context.CancelFunc
	lanes sync.WaitGroup

	enqueue sync.Mutex // one writer of new files at a time

	mu       sync.Mutex
	seq      uint64            // of the last Enqueue
	entries  map[string]*entry // by file name
	broken   []Item
	order    map[string][]*entry // by channel: what is pending or not recorded yet, the oldest first
	channels map[string]Notifier
	lane     map[string]*lane
	draining bool
}

// entry is one message on one channel. mu guards it; its lane alone changes it
// once it is in order.
type entry struct {
	stored
	unrecorded bool // delivered, but the disk does not know yet
	withdrawn  bool // while it is being sent
	busy       bool
	writing    sync.Mutex // held while its file is written; taken before mu
}

// Open takes over the outbox in o.Dir and goes on delivering what is pending
// there. One process at a time may have it: the error is a
// *durable.LockedError if another has.
func Open(o Options) (*Outbox, error) {
	o.defaults()
	b := &Outbox{
		o:       o,
		plan:    schedule{o.FirstBackoff, o.MaxBackoff, o.MaxAttempts, o.MaxAge},
		entries: map[string]*entry{}, order: map[string][]*entry{}, lane: map[string]*lane{},
	}
	if err := o.Disk.MkdirAll("notify-open", o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("opening the outbox: %w", err)
	}
	lock, err := o.Disk.Lock(filepath.Join(o.Dir, "lock"), nil)
	if err != nil {
		return nil, fmt.Errorf("opening the outbox: %w", err)
	}
	b.lock = lock
	// What a killed writer left is only clutter; a disk that cannot remove it may still be able to send.
	_, _ = o.Disk.RemoveTemps("notify-open", o.Dir)
	all, broken, err := readAll(o.Dir)
	if err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	now := time.Now()
	b.broken = broken
	for _, s := range all {
		name := entryName(s.Channel, s.ID)
		if s.State != Pending && now.Sub(latest(s.Enqueued, s.LastTry)) > o.Retention {
			if o.Disk.Remove("notify-prune", filepath.Join(o.Dir, name)) == nil {
				continue
			}
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
	set := func(d *time.Duration, value time.Duration) {
		if *d <= 0 {
			*d = value
		}
	}
	set(&o.MaxAge, 24*time.Hour)
	set(&o.FirstBackoff, time.Second)
	set(&o.MaxBackoff, 15*time.Minute)
	set(&o.Pace, time.Second)
	set(&o.SendTimeout, time.Minute)
	set(&o.Retention, 30*24*time.Hour)
	if o.MaxAttempts <= 0 {
		o.MaxAttempts = 100
	}
	if o.OnEvent == nil {
		o.OnEvent = func(Event) {}
	}
}

// Enqueue keeps m for the named channels, or for all that are configured if
// none is named, and returns when it is on the disk: from then on it will be
// delivered, also after a crash. A message that a channel has already, whatever
// became of it, is not taken again. After an error some channels may have it;
// Enqueue may be called again.
func (b *Outbox) Enqueue(m Message, channels ...string) error {
	if err := m.check(); err != nil {
		return fmt.Errorf("enqueueing a notification: %w", err)
	}
	m = m.prepared(b.o.Redact)
	b.enqueue.Lock()
	defer b.enqueue.Unlock()
	b.mu.Lock()
	known := slices.Sorted(maps.Keys(b.channels))
	b.mu.Unlock()
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
	b.mu.Lock()
	have, closed := b.entries[name] != nil, b.draining
	b.seq++
	seq := b.seq
	b.mu.Unlock()
	if closed {
		return ErrClosed
	}
	if have {
		return nil
	}
	e := &entry{stored: stored{Seq: seq, Item: Item{ID: m.ID, Escalation: m.Escalation, Kind: m.Kind, Loop: m.Loop,
		Channel: channel, State: Pending, Enqueued: now, NextTry: now}, Message: &m}}
	if err := save(b.o.Disk, "notify-enqueue", b.o.Dir, e.stored); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entries[name] = e
	b.order[channel] = append(b.order[channel], e)
	b.kick(channel)
	return nil
}

// List shows all messages that are remembered, the oldest first.
func (b *Outbox) List() []Item {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := slices.SortedFunc(maps.Values(b.entries), func(x, y *entry) int { return cmp.Compare(x.Seq, y.Seq) })
	items := make([]Item, 0, len(all))
	for _, e := range all {
		items = append(items, e.Item)
	}
	return append(items, b.broken...)
}

// Close takes no more messages, delivers what is due at once, and returns when
// that is done; when ctx ends it stops what is being sent. What is not
// delivered by then is in the files and is delivered after the next Open. It
// returns at the latest 5 s after ctx has ended; the error then names what did
// not stop.
func (b *Outbox) Close(ctx context.Context) error {
	b.enqueue.Lock() // an Enqueue under way comes to its end first
	b.mu.Lock()
	first := !b.draining
	b.draining = true
	for _, l := range b.lane {
		l.poke()
	}
	b.mu.Unlock()
	b.enqueue.Unlock()
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
	for _, e := range b.unrecorded() {
		// The last chance; if it fails, the message is sent a second time after the next Open.
		_ = b.write("notify-done", e)
	}
	if err := b.lock.Unlock(); err != nil {
		return fmt.Errorf("closing the outbox: %w", err)
	}
	return nil
}

// unrecorded are the messages that were delivered without the disk knowing.
func (b *Outbox) unrecorded() (all []*entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, list := range b.order {
		for _, e := range list {
			if e.unrecorded {
				all = append(all, e)
			}
		}
	}
	return all
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
