package api

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/dirwatch"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/server"
)

// The times of a stream: between two looks at what has changed, between two looks at all loops and at the registry (a file
// system may send no events), between two rows of a loop, and until a quiet stream sends a comment.
const (
	lookEvery = 100 * time.Millisecond
	lookAtAll = time.Second
	lookAgain = 10 * time.Second
	rowEvery  = 200 * time.Millisecond
	quietFor  = 15 * time.Second
)

// A message has at most batch events. A client that is more than behind events of a loop behind, and had all of them
// once, gets a gap, and then the last keeps of them.
const (
	batch  = 200
	behind = 2000
	keeps  = 100
)

// LoopEvents is a message of the stream of everything: events of one loop.
type LoopEvents struct {
	LoopID string  `json:"loop_id"`
	Events []Event `json:"events"`
}

// Gap says which events of a loop a slow client did not get. GET …/events has them.
type Gap struct {
	LoopID string `json:"loop_id"`
	From   int64  `json:"from"`
	To     int64  `json:"to"`
}

// Ready says that all that was known has been sent.
type Ready struct{}

// Named names a loop.
type Named struct {
	LoopID string `json:"loop_id"`
}

type everythingIn struct {
	All  bool   `query:"all" doc:"begin with the first event of each journal; else a client without Last-Event-ID gets the events from now on"`
	Last string `header:"Last-Event-ID" maxLength:"60000" doc:"sent by a client that comes back: it gets each later event once"`
}

// everything registers the stream of all loops.
func (a *api) everything(h huma.API) {
	huma.Register(h, huma.Operation{Method: http.MethodGet, Path: "/api/v1/stream", Responses: map[string]*huma.Response{
		"200": {Description: "server-sent events", Content: map[string]*huma.MediaType{"text/event-stream": {}}},
	}}, func(_ context.Context, in *everythingIn) (*huma.StreamResponse, error) {
		at, err := parsePlaces(in.Last)
		if err != nil {
			return nil, problem(http.StatusUnprocessableEntity, "bad-cursor", "Last-Event-ID: %v", err)
		}
		return &huma.StreamResponse{Body: func(c huma.Context) {
			r, w := humago.Unwrap(c)
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Cache-Control", "no-store")
			s := newWatching(r.Context(), a, &messages{w: w, control: http.NewResponseController(w)}, in.Last != "", in.All, at)
			defer s.close()
			if err := s.run(r.Context()); err != nil && r.Context().Err() == nil {
				_ = s.out.send("", "problem", Trouble{err.Error()}) // a client that has gone needs no reason
			}
		}}, nil
	})
}

// watching is one client of the stream. The journals are its queue: a client that takes nothing costs no memory but a
// message.
type watching struct {
	a          *api
	out        *messages
	places     places // where the client is, of loops also that are not in the registry now
	resumed    bool   // it has come back
	all        bool
	watch      *dirwatch.Watches
	woken      chan struct{} // capacity 1
	marks      *marks
	loops      map[string]*watched
	view       server.View
	viewed     stamp     // of its file
	looked     time.Time // at all loops
	registered time.Time // when the registry was read
	sent       time.Time
}

func newWatching(ctx context.Context, a *api, out *messages, resumed, all bool, at places) *watching {
	s := &watching{a: a, out: out, places: at, resumed: resumed, all: all, woken: make(chan struct{}, 1), loops: map[string]*watched{}}
	s.marks = &marks{wake: s.woken}
	s.watch = dirwatch.NewWatches(ctx)
	s.watch.Dir(ctx, a.store.Dir(), s.marks.on(registryMark))
	s.watch.Dir(ctx, filepath.Dir(server.ViewFile(a.o.State)), func(file string) bool {
		return filepath.Clean(file) == filepath.Clean(server.ViewFile(a.o.State)) && s.marks.mark(viewMark)
	})
	return s
}

func (s *watching) close() {
	for _, l := range s.loops {
		l.close()
	}
}

func (s *watching) run(ctx context.Context) error {
	first := true
	for {
		if err := s.look(ctx, first); err != nil {
			return err
		}
		if first {
			if err := s.out.send(s.places.String(), "ready", Ready{}); err != nil {
				return err
			}
			first, s.sent = false, time.Now()
		}
		if err := s.out.flush(); err != nil {
			return err
		}
		pause := time.NewTimer(lookEvery)
		select {
		case <-ctx.Done():
			pause.Stop()
			return nil
		case <-pause.C:
		}
		if s.owes() {
			continue
		}
		quiet := time.NewTimer(lookAtAll)
		select {
		case <-ctx.Done():
			quiet.Stop()
			return nil
		case <-s.woken:
		case <-quiet.C:
		}
		quiet.Stop()
		if time.Since(s.sent) > quietFor {
			if err := s.out.comment(); err != nil {
				return err
			}
			s.sent = time.Now()
		}
	}
}

// owes reports whether the client lacks something that is known already.
func (s *watching) owes() bool {
	for _, l := range s.loops {
		if l.pending || l.rowDirty {
			return true
		}
	}
	return false
}

// look sends what has changed.
func (s *watching) look(ctx context.Context, first bool) error {
	dirty := s.marks.take()
	everyone := first || time.Since(s.looked) > lookAtAll
	if everyone {
		s.looked = time.Now()
	}
	if first || dirty[registryMark] || time.Since(s.registered) > lookAgain {
		s.registered = time.Now()
		if c := callerOf(ctx); c != nil && c.cred.Name != "" {
			s.a.desk.Touch(c.cred.ID(), false) // a session whose page is only looked at is in use
		}
		if err := s.register(ctx, first); err != nil {
			return err
		}
	}
	if everyone || dirty[viewMark] {
		s.phases()
	}
	for id, l := range s.loops {
		changed := dirty[id] || everyone && l.changed()
		if changed || l.pending {
			if err := s.events(id, l); err != nil {
				return err
			}
		}
		l.rowDirty = l.rowDirty || l.talks && time.Since(l.rowAt) > lookAgain
		if changed {
			l.rowDirty = true
			if err := s.question(id, l); err != nil {
				return err
			}
		}
		if l.rowDirty && time.Since(l.rowAt) >= rowEvery {
			if err := s.row(l); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return nil
		}
	}
	return nil
}

var errEnough = errors.New("enough")

// events sends the events of a journal that the client does not have, one message of them.
func (s *watching) events(id string, l *watched) error {
	l.pending = false
	var list, last []journal.Event
	n := 0
	another, err := l.tail.More(func(ev journal.Event) error {
		switch n++; {
		case n <= batch:
			list = append(list, ev)
		case !l.live:
			return errEnough
		}
		if last = append(last, ev); len(last) > 2*keeps {
			last = slices.Delete(last, 0, len(last)-keeps)
		}
		return nil
	})
	switch {
	case another:
		return s.begin(id, l)
	case err != nil && err != errEnough:
		return s.send("problem", Trouble{id + ": " + err.Error()})
	case n > behind:
		from := list[0].Seq
		list = last[max(0, len(last)-keeps):]
		if err := s.send("gap", Gap{id, from, list[0].Seq - 1}); err != nil {
			return err
		}
	case n > batch: // the others are read again
		l.tail.Close()
		l.tail, l.pending = journal.NewTailer(l.p.Events(), list[batch-1].Seq+1), true
	default:
		l.live = true
	}
	if len(list) == 0 {
		return nil
	}
	msg := LoopEvents{LoopID: id}
	for _, ev := range list {
		line, err := eventOf(ev)
		if err != nil {
			return err
		}
		msg.Events = append(msg.Events, line)
	}
	end := list[len(list)-1]
	s.places[keyOf(id)] = placeOf(end.Seq, end.Hash)
	s.sent = time.Now()
	return s.out.send(s.places.String(), "events", msg)
}

// phases marks the loops with which the daemon does something else than at the last look.
func (s *watching) phases() {
	was, now := s.view, stampOf(server.ViewFile(s.a.o.State))
	if now == s.viewed {
		return
	}
	v, err := server.ReadView(s.a.o.State)
	if err != nil {
		return // it is being written for the first time
	}
	s.view, s.viewed = v, now
	of := func(v server.View) map[string]server.LoopView {
		m := make(map[string]server.LoopView, len(v.Loops))
		for _, l := range v.Loops {
			m[l.Repo+"#"+l.Loop] = l
		}
		return m
	}
	before, after := of(was), of(v)
	for _, l := range s.loops {
		l.rowDirty = l.rowDirty || before[l.e.Name()] != after[l.e.Name()]
	}
}

// row sends what is known of a loop, if it is not what was sent.
func (s *watching) row(l *watched) error {
	l.rowAt, l.rowDirty = time.Now(), false
	row := server.RowIn(l.p, l.e, s.view)
	l.talks = row.SaidAt != nil
	data, err := encode(row)
	if err != nil || string(data) == l.row {
		return err
	}
	l.row = string(data)
	return s.send("row", row)
}

// question sends what a loop asks, and what became of it. While the loop waits, what is known of its question may come a
// moment after the question itself, and is sent too.
func (s *watching) question(id string, l *watched) (err error) {
	now := stampOf(l.files[recordFile])
	if now == l.record && !l.asking {
		return nil
	}
	first := l.record == stamp{}
	l.record = now
	s.a.every(l.e, false, func(q asked) {
		l.asking = q.rec.State == escalation.Pending
		if first && !l.asking {
			return // what was decided before the client came is no news
		}
		var shown *body[Question]
		var data []byte
		if shown, err = q.show(); err == nil {
			data, err = encode(shown.Body)
		}
		if err == nil && string(data) != l.asks {
			l.asks = string(data)
			err = s.send("question", shown.Body)
		}
	})
	return err
}

// send sends a message that no client continues behind.
func (s *watching) send(event string, data any) error {
	s.sent = time.Now()
	return s.out.send("", event, data)
}
