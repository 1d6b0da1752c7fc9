package api

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/server"
	"github.com/superloop/superloop/server/registry"
)

// watched is a loop of the stream.
type watched struct {
	e        entry
	p        layout.Paths
	end      context.CancelFunc // of its watches
	tail     *journal.Tailer
	row      string // as it was sent last
	rowAt    time.Time
	rowDirty bool
	talks    bool      // a role runs, whose log grows without an event
	files    [3]string // of which a change is a change of the loop
	stamps   [3]stamp  // what they were at the last look at all loops
	record   stamp     // of the question's record when it was read last
	asking   bool      // the question waits for an answer
	asks     string    // the question as it was sent last
	pending  bool      // the journal may have more
	live     bool      // the client had all of the journal once
}

func (l *watched) close() {
	l.end()
	l.tail.Close()
}

// recordFile is the place of the question's record in watched.files.
const recordFile = 2

// stamp changes with a file. The zero stamp says that there is none.
type stamp struct{ size, at int64 }

func stampOf(file string) stamp {
	info, err := os.Stat(file)
	if err != nil {
		return stamp{}
	}
	return stamp{info.Size(), info.ModTime().UnixNano()}
}

// changed reports whether a file of the loop has changed since it was called last.
func (l *watched) changed() bool {
	var now [3]stamp
	for i, f := range l.files {
		now[i] = stampOf(f)
	}
	was := l.stamps
	l.stamps = now
	return was != now
}

// register takes up loops that the registry has since the last look, and leaves those that it has no more.
func (s *watching) register(ctx context.Context, first bool) error {
	all, _ := s.a.store.All()
	known := map[string]bool{}
	for _, e := range all {
		id := e.ID()
		known[id] = true
		if l := s.loops[id]; l != nil {
			l.rowDirty = l.rowDirty || !same(l.e, e)
			l.e = e
			continue
		}
		p, err := server.Paths(s.a.store, e)
		if err != nil {
			continue // its repository is gone; the next look sees whether it is back
		}
		life, end := context.WithCancel(ctx)
		l := &watched{e: e, p: p, end: end, rowDirty: true, pending: true,
			files: [3]string{p.Events(), p.File("state.json"), filepath.Join(p.Questions(), escalation.File)}}
		if _, told := s.places[keyOf(id)]; !told && first && !s.resumed && !s.all {
			s.places.end(id, l.p.Events())
		}
		if err := s.begin(id, l); err != nil {
			end()
			return err
		}
		for _, dir := range []string{p.Loop, p.Questions()} {
			s.watch.Dir(life, dir, func(file string) bool {
				return slices.Contains(l.files[:], filepath.Clean(file)) && s.marks.mark(id)
			})
		}
		s.loops[id] = l
	}
	for id, l := range s.loops {
		if known[id] {
			continue
		}
		l.close()
		delete(s.loops, id)
		if err := s.send("gone", Named{id}); err != nil {
			return err
		}
	}
	return nil
}

func same(x, y registry.Entry) bool {
	return x.Wanted == y.Wanted && x.Priority == y.Priority && slices.Equal(x.Labels, y.Labels) && x.Since.Equal(y.Since)
}

// begin opens a journal behind what the client has of it. If the journal does not hold that any more, because the loop
// began anew, the client is told to forget the loop, and gets the journal from its beginning.
func (s *watching) begin(id string, l *watched) error {
	at := s.places[keyOf(id)]
	if at.seq > 0 && !holds(l.p.Events(), at) {
		at = place{}
		delete(s.places, keyOf(id))
		l.row, l.record, l.asks, l.rowDirty = "", stamp{}, "", true
		if err := s.send("reset", Named{id}); err != nil {
			return err
		}
	}
	if l.tail != nil {
		l.tail.Close()
	}
	l.tail, l.pending = journal.NewTailer(l.p.Events(), at.seq+1), true
	return nil
}
