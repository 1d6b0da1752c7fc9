package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/server/api"
)

// The times of a stream: until a quiet one sends a comment, and between two attempts at the stream of a machine.
const (
	quietFor = 15 * time.Second
	again    = time.Second
)

// piece is a message of a machine, or the end of its connection.
type piece struct {
	m    *machine
	l    *line
	msg  message
	over bool
}

// told is what a client has been told of a machine on this connection.
type told struct {
	line      *line // whose stream is read; nil: the machine is away
	ready     bool
	rows      map[string]bool // the ids of loops; false: told before the machine came back, and not since
	questions map[string]bool // those that wait
}

// follower is one client of the stream.
type follower struct {
	g      *Gateway
	who    api.Asker
	w      http.ResponseWriter
	rc     *http.ResponseController
	at     positions
	all    bool
	pieces chan piece // without a buffer: a slow client slows its streams of machines, which then leave events out and say so
	told   map[*machine]*told
	ready  bool
}

// stream answers with the streams of all machines as one.
func (g *Gateway) stream(w http.ResponseWriter, r *http.Request, who api.Asker) {
	at, err := parsePositions(r.Header.Get("Last-Event-Id"))
	if err != nil {
		kind := "bad-cursor"
		if err == errLong {
			kind = "invalid"
		}
		api.Refuse(w, http.StatusUnprocessableEntity, kind, "Last-Event-ID: "+err.Error())
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	f := &follower{g: g, who: who, w: w, rc: http.NewResponseController(w), at: at, all: r.URL.Query().Get("all") == "true", pieces: make(chan piece), told: map[*machine]*told{}}
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	_ = f.run(ctx) // the client has gone
}

func (f *follower) run(ctx context.Context) error {
	quiet := time.NewTicker(quietFor)
	defer quiet.Stop()
	for {
		machines, changed := f.g.all()
		for _, m := range machines {
			if err := f.look(ctx, m); err != nil {
				return err
			}
		}
		if err := f.greet(); err != nil {
			return err
		}
		for again := true; again; {
			var err error
			select {
			case <-ctx.Done():
				return nil
			case <-changed:
				again = false
			case <-quiet.C:
				f.who.Touch()
				if _, err = io.WriteString(f.w, ":\n\n"); err == nil {
					err = f.flush()
				}
			case p := <-f.pieces:
				err = f.take(ctx, p)
			}
			if err != nil {
				return err
			}
		}
	}
}

// look begins the stream of a machine that has come, and tells what is known of one that is away.
func (f *follower) look(ctx context.Context, m *machine) error {
	t, l := f.told[m], m.link()
	if t == nil {
		t = &told{rows: map[string]bool{}, questions: map[string]bool{}}
		f.told[m] = t
	} else if t.line == l {
		return nil
	}
	t.line, t.ready = l, false
	if l != nil {
		for _, of := range []map[string]bool{t.rows, t.questions} {
			for id := range of {
				of[id] = false
			}
		}
		go f.read(ctx, m, l, f.at[m.id])
		return nil
	}
	k := m.last()
	for _, row := range byID(k.Rows) {
		t.rows[row.text("id")] = true
		if err := f.sendItem("row", row.asOf(k.At)); err != nil {
			return err
		}
	}
	for _, q := range byID(k.Questions) {
		t.questions[q.text("id")] = true
		if err := f.sendItem("question", q.asOf(k.At)); err != nil {
			return err
		}
	}
	t.ready = true
	return f.flush()
}

// read sends the messages of a machine to the client's loop, until the machine is gone.
func (f *follower) read(ctx context.Context, m *machine, l *line, at string) {
	for ctx.Err() == nil {
		err := l.stream(ctx, at, f.all, func(msg message) error {
			if msg.id != "" {
				at = msg.id
			}
			return f.hand(ctx, piece{m: m, l: l, msg: msg})
		})
		if errors.Is(err, errPosition) {
			at = ""
		}
		select {
		case <-l.gone:
			_ = f.hand(ctx, piece{m: m, l: l, over: true}) // the client has gone
			return
		default:
			pause(ctx, again)
		}
	}
}

func (f *follower) hand(ctx context.Context, p piece) error {
	select {
	case f.pieces <- p:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// take tells the client what a machine has told.
func (f *follower) take(ctx context.Context, p piece) error {
	t := f.told[p.m]
	if t.line != p.l { // of a connection before
		return nil
	}
	if p.over {
		t.ready = true
		return f.greet()
	}
	msg := p.msg
	if msg.id != "" {
		f.at[p.m.id] = msg.id
	}
	var v item
	if err := text.Decode(msg.data, &v); err != nil {
		return nil
	}
	id := v.text("id")
	switch msg.event {
	case "row":
		if !p.m.owns(id) {
			return nil
		}
		t.rows[id] = true
	case "question":
		if v.text("machine") != p.m.id {
			return nil
		}
		if delete(t.questions, id); v.text("state") == "pending" {
			t.questions[id] = true
		}
	case "events", "gap", "reset", "gone":
		if !p.m.owns(v.text("loop_id")) {
			return nil
		}
		if msg.event == "gone" {
			delete(t.rows, v.text("loop_id"))
		}
	case "ready":
		t.ready = true
		if !f.ready {
			return f.greet()
		}
		if err := f.settle(ctx, p.m, t); err != nil {
			return err
		}
	}
	if msg.id != "" {
		msg.id = f.at.String()
	}
	if err := f.send(msg); err != nil {
		return err
	}
	return f.flush()
}

// owns reports whether a loop is one of the machine's. A machine that tells of another's is not listened to.
func (m *machine) owns(id string) bool {
	own, _, _ := strings.Cut(id, ".")
	return own == m.id
}

// settle tells what a machine that has come back does not tell again: loops that are no more, and what became of questions.
func (f *follower) settle(ctx context.Context, m *machine, t *told) error {
	for id, now := range t.rows {
		if now {
			continue
		}
		delete(t.rows, id)
		data, _ := json.Marshal(api.Named{LoopID: id}) // it is text
		if err := f.send(message{event: "gone", data: data}); err != nil {
			return err
		}
	}
	for id, now := range t.questions {
		if now {
			continue
		}
		delete(t.questions, id)
		var q item
		if err := t.line.get(ctx, "/api/v1/escalations/"+url.PathEscape(id), &q); err != nil || q.text("machine") != m.id {
			continue // it is gone with its loop
		}
		if err := f.sendItem("question", q); err != nil {
			return err
		}
	}
	return nil
}

// greet says that all that was known has been sent, once each machine that was there has said so.
func (f *follower) greet() error {
	for _, t := range f.told {
		if f.ready || !t.ready {
			return nil
		}
	}
	f.ready = true
	if err := f.send(message{id: f.at.String(), event: "ready", data: []byte("{}")}); err != nil {
		return err
	}
	return f.flush()
}

func (f *follower) sendItem(event string, i item) error {
	data, err := json.Marshal(i)
	if err != nil {
		return err
	}
	return f.send(message{event: event, data: data})
}

func (f *follower) send(m message) error {
	var b bytes.Buffer
	if m.id != "" {
		fmt.Fprintf(&b, "id: %s\n", m.id)
	}
	fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", m.event, m.data)
	_, err := f.w.Write(b.Bytes())
	return err
}

func (f *follower) flush() error {
	if err := f.rc.Flush(); !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}
