// Package metrics tells what journals say as Prometheus metrics, over HTTP on this machine.
//
// The journals are all that it knows: each scrape reads on where the last one ended, so a restart changes no number,
// and what the supervisor holds in memory plays no part. It only reads. Whatever stands in a journal, there are no more
// time series than the bounds in text.go allow, and nothing that happens here ends the loop.
package metrics

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/local"
)

// Source is a loop and its journal, which need not be there yet.
type Source struct{ Loop, Journal string }

// Collector tells the metrics of loops. It reads their journals when it is asked, and only what has come since it was
// asked before.
type Collector struct {
	metrics                [families]metric
	status, readable, last metric

	mu    sync.Mutex // one reads at a time
	loops []*reader
}

// NewCollector is one that has read nothing yet. Loops are those of a configuration, so their number is the owner's
// choice.
func NewCollector(sources []Source) *Collector {
	c := &Collector{
		metrics:  metrics(),
		status:   gauge("loop_status", "1 for the status in which the loop is, as its journal tells; a supervisor that was killed leaves the last one.", "status"),
		readable: gauge("journal_readable", "1 if the whole journal could be read, 0 if the other metrics of the loop stop where it could not."),
		last:     gauge("journal_last_event_timestamp_seconds", "When the last event was written, in seconds since 1970."),
	}
	for _, s := range sources {
		r := &reader{source: s, metrics: c.metrics}
		r.reset()
		c.loops = append(c.loops, r)
	}
	return c
}

// Text reads on and gives every metric in the text format of Prometheus.
func (c *Collector) Text() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	readable := make([]float64, len(c.loops))
	for i, r := range c.loops {
		if r.guarded() == nil {
			readable[i] = 1
		}
	}
	var t text
	for i, m := range c.metrics {
		t.head(m)
		for _, r := range c.loops {
			r.tally.families[i].told(&t, m, r.source.Loop)
		}
	}
	t.head(c.readable)
	for i, r := range c.loops {
		t.sample(c.readable, readable[i], r.source.Loop)
	}
	t.head(c.last)
	for _, r := range c.loops {
		if !r.tally.last.IsZero() {
			t.sample(c.last, float64(r.tally.last.UnixMilli())/1000, r.source.Loop)
		}
	}
	t.head(c.status)
	for _, r := range c.loops {
		now, known := r.status()
		for _, s := range r.tally.known.statuses {
			v := 0.0
			if s == string(now) {
				v = 1
			}
			if known {
				t.sample(c.status, v, r.source.Loop, s)
			}
		}
	}
	return t.Bytes()
}

// reader is a loop's journal, and how far it was read.
type reader struct {
	source  Source
	metrics [families]metric
	seq     int64  // of the last event that was read; 0: none
	hash    string // of that event, which stands for all before it too
	tally   *tally
	replay  *loop.Replay
	foreign bool // the journal has what this build cannot replay: the status is not known
}

func (r *reader) reset() {
	r.seq, r.hash, r.tally, r.replay, r.foreign = 0, "", newTally(r.metrics), loop.NewReplay(), false
}

// status is the loop's; it is not known when the journal cannot be replayed.
func (r *reader) status() (loop.Status, bool) {
	if r.seq == 0 {
		return loop.Pending, true
	}
	return r.replay.State.Status, !r.foreign && r.replay.State.Status != ""
}

// errAnother says that a journal is not the one that was read before.
var errAnother = errors.New("this is another journal")

// guarded reads on. Whatever goes wrong here is a reader's trouble: a run does not end because somebody looked at it.
func (r *reader) guarded() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("reading %s: %v", r.source.Journal, p)
			r.foreign = true // the replay may have stopped half way
		}
	}()
	err = r.readOn()
	if errors.Is(err, errAnother) {
		r.reset()
		err = r.readOn()
	}
	return err
}

// readOn reads what has come. The last event that was read before is read again: its hash tells whether the journal is
// still the same.
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
		r.reset() // there is nothing to tell of
		return nil
	case err == nil && !same:
		return errAnother // it is shorter than it was
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
