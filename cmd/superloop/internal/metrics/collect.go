// Package metrics serves the contents of journals as Prometheus metrics, over HTTP on this machine only.
//
// The journals are its only source: it uses nothing that the supervisor holds in memory, so a restart changes no
// number. Each scrape reads on where the last one ended. The package only reads. The bounds in text.go limit the number
// of time series, whatever a journal holds. No error in this package ends a loop.
package metrics

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/local"
)

// Source is the id of a loop and the path of its journal. The journal need not exist yet.
type Source struct{ Loop, Journal string }

// Collector computes the metrics of loops. Each call of Text reads the events that were appended to the journals since
// the last call.
type Collector struct {
	mu    sync.Mutex // held while Text reads the journals
	loops []*reader
}

// NewCollector returns a Collector that has read nothing yet. The sources are the loops of a configuration.
func NewCollector(sources []Source) *Collector {
	c := &Collector{}
	c.Only(sources)
	return c
}

// Only makes the sources those that the next Text tells of. What was read of those that were there before is kept.
func (c *Collector) Only(sources []Source) {
	c.mu.Lock()
	defer c.mu.Unlock()
	loops := make([]*reader, 0, len(sources))
	for _, s := range sources {
		if i := slices.IndexFunc(c.loops, func(r *reader) bool { return r.source == s }); i >= 0 {
			loops = append(loops, c.loops[i])
			continue
		}
		r := &reader{source: s}
		r.reset()
		loops = append(loops, r)
	}
	c.loops = loops
}

// Text reads the new events and returns all metrics in the text format of Prometheus.
func (c *Collector) Text() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.loops {
		r.gauge(r.guarded() == nil)
	}
	var t text
	for i, m := range metrics() {
		t.head(m)
		for _, r := range c.loops {
			r.tally.families[i].told(&t, r.source.Loop)
		}
	}
	return t.Bytes()
}

// reader reads one journal and remembers how far it has read.
type reader struct {
	source  Source
	seq     int64  // sequence number of the last event that was read; 0: none
	hash    string // hash of that event; by the chain it stands for all events before it too
	tally   *tally
	replay  *loop.Replay
	foreign bool // this build cannot replay the journal, so the loop's status is not known
}

func (r *reader) reset() {
	r.seq, r.hash, r.tally, r.replay, r.foreign = 0, "", newTally(), loop.NewReplay(), false
}

// gauge sets the metrics that can go down as well as up. loop_status has no value when the journal cannot be replayed.
func (r *reader) gauge(readable bool) {
	r.tally.judged()
	one := map[bool]float64{true: 1}
	set := func(name string, v float64, labels ...string) { r.tally.of(name).at(labels).sum = v }
	set("journal_readable", one[readable])
	if r.seq > 0 {
		set("journal_last_event_timestamp_seconds", float64(r.tally.last.UnixMilli())/1000)
	}
	now := loop.Pending
	if r.seq > 0 {
		now = r.replay.State.Status
	}
	status := r.tally.of("loop_status")
	clear(status.series)
	if now != "" && !r.foreign {
		for _, s := range status.labels[1].values {
			set("loop_status", one[s == string(now)], s)
		}
	}
}

// errAnother says that the journal is not the one that the reader has read before.
var errAnother = errors.New("this is another journal")

// guarded calls readOn and turns a panic into an error, because a scrape must not end a run. If the journal was
// replaced, guarded reads the new one from its start.
func (r *reader) guarded() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("reading %s: %v", r.source.Journal, p)
			r.foreign = true // the replay may have stopped in the middle of an event
		}
	}()
	err = r.readOn()
	if errors.Is(err, errAnother) {
		r.reset()
		err = r.readOn()
	}
	return err
}

// readOn reads the events after the last known one. It also reads the last known event again: if that event's hash has
// changed, this is another journal.
func (r *reader) readOn() error {
	same := r.seq == 0
	err := journal.Read(r.source.Journal, r.seq, func(ev journal.Event) error {
		if !same {
			if ev.Seq != r.seq || ev.Hash != r.hash {
				return errAnother
			}
			same = true
			return nil
		}
		r.take(ev)
		return nil
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.reset() // a loop without a journal has no events
		return nil
	case err == nil && !same:
		return errAnother // the journal is shorter than before
	}
	return err
}

func (r *reader) take(ev journal.Event) {
	r.seq, r.hash = ev.Seq, ev.Hash
	r.tally.add(ev)
	if !r.foreign {
		r.foreign = r.replay.Add(local.LineOf(ev)) != nil
	}
}
