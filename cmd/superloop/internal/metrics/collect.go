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

// Collector tells the metrics of loops. When it is asked, it reads what has come to their journals since it last was.
type Collector struct {
	mu    sync.Mutex // one reads at a time
	loops []*reader
}

// NewCollector is one that has read nothing yet. The sources are the loops of a configuration.
func NewCollector(sources []Source) *Collector {
	c := &Collector{}
	for _, s := range sources {
		r := &reader{source: s}
		r.reset()
		c.loops = append(c.loops, r)
	}
	return c
}

// Text reads on and gives every metric in the text format of Prometheus.
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

// reader is a loop's journal, and how far it was read.
type reader struct {
	source  Source
	seq     int64  // of the last event that was read; 0: none
	hash    string // of that event, which stands for all before it too
	tally   *tally
	replay  *loop.Replay
	foreign bool // the journal has what this build cannot replay: the status is not known
}

func (r *reader) reset() {
	r.seq, r.hash, r.tally, r.replay, r.foreign = 0, "", newTally(), loop.NewReplay(), false
}

// gauge sets what does not grow. The loop's status is not known when its journal cannot be replayed.
func (r *reader) gauge(readable bool) {
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

// readOn reads what has come, and the last event that it knows again: its hash tells whether this is the same journal.
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
