package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/server"
	"github.com/superloop/superloop/server/registry"
)

// told is a client of the stream of everything.
type told struct {
	t    *testing.T
	in   *bufio.Scanner
	stop func()
}

func (w *world) connect(t *testing.T, s *httptest.Server, last string) *told {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", s.URL+"/api/v1/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	res, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	in := bufio.NewScanner(res.Body)
	in.Buffer(nil, 1<<20)
	return &told{t, in, func() { stop(); _ = res.Body.Close() }}
}

// next returns the next message that is no row.
func (c *told) next() (id, event, data string) {
	c.t.Helper()
	for c.in.Scan() {
		name, value, _ := strings.Cut(c.in.Text(), ": ")
		switch {
		case name == "id":
			id = value
		case name == "event":
			event = value
		case name == "data":
			data = value
		case event == "row":
			id, event, data = "", "", ""
		case event != "":
			return id, event, data
		}
	}
	c.t.Fatalf("the stream has ended: %v", c.in.Err())
	return "", "", ""
}

// events reads messages until so many events have come, and returns the numbers of the first and the last one, and the
// last id.
func (c *told) events(n int) (first, last int64, id string) {
	c.t.Helper()
	for got := 0; got < n; {
		at, event, data := c.next()
		if event != "events" {
			c.t.Fatalf("%s %s, after %d of %d events", event, data, got, n)
		}
		var msg struct{ Events []struct{ Seq int64 } }
		if err := json.Unmarshal([]byte(data), &msg); err != nil {
			c.t.Fatal(err)
		}
		for _, e := range msg.Events {
			if first == 0 {
				first = e.Seq
			} else if e.Seq != last+1 {
				c.t.Fatalf("event %d follows %d", e.Seq, last)
			}
			last = e.Seq
		}
		got, id = got+len(msg.Events), at
	}
	return first, last, id
}

func (c *told) expect(event, part string) {
	c.t.Helper()
	if _, got, data := c.next(); got != event || !strings.Contains(data, part) {
		c.t.Fatalf("%s %s, want %s with %s", got, data, event, part)
	}
}

// A client that comes back gets what it lacks, each event once; one that falls far behind is told of the gap; one whose
// journal was begun anew is told to forget it. A loop that the registry has no more is gone. That the journal is sealed,
// while clients are there and while they are away, makes no difference.
func TestStreamOfEverything(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := newWorld(t, dir)
	s := httptest.NewServer(w.handler)
	defer s.Close()
	file := filepath.Join(dir, "repo", ".superloop", "loops", "l", "events.jsonl")
	open := func() *journal.Journal {
		j, err := journal.Open(durable.OS(), file, journal.Options{SealBeyond: 1})
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	add := func(j *journal.Journal, n int) {
		evs := make([]journal.Event, n)
		for i := range evs {
			evs[i] = journal.Event{Timestamp: time.Now(), Event: "operator_note", LoopID: "l", RunID: "r", Fields: json.RawMessage(fmt.Sprintf(`{"text":"%d"}`, i))}
		}
		if _, err := j.Append(false, evs...); err != nil {
			t.Fatal(err)
		}
	}
	seal := func(j *journal.Journal) {
		if err := j.Seal(); err != nil {
			t.Fatal(err)
		}
	}
	j := open()
	add(j, 300)
	c := w.connect(t, s, "")
	c.expect("ready", "{}")
	add(j, 3) // who connects anew gets the events from now on
	seal(j)
	add(j, 2)
	first, last, id := c.events(5)
	if first != 301 || last != 305 {
		t.Fatalf("%d to %d", first, last)
	}
	c.stop()

	// Back after a while: everything, however much it is, and no gap.
	add(j, 2000)
	seal(j)
	add(j, 999)
	seal(j)
	add(j, 1)
	c = w.connect(t, s, id)
	first, last, _ = c.events(200)
	if first != 306 {
		t.Fatalf("%d to %d", first, last)
	}
	c.expect("ready", "{}")
	if first, last, _ = c.events(2800); first != 506 || last != 3305 {
		t.Fatalf("%d to %d", first, last)
	}

	// Far behind while it is connected.
	seal(j)
	add(j, behind+1000)
	c.expect("gap", `"from":3306,"to":6205`)
	if first, last, _ = c.events(keeps); first != 6206 || last != 6305 {
		t.Fatalf("%d to %d", first, last)
	}

	// Begun anew, while it is connected and while it is away.
	anew := func() {
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file, file+".old"); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(journal.Segments(file)); err != nil {
			t.Fatal(err)
		}
		j = open()
		add(j, 7)
	}
	anew()
	c.expect("reset", w.id)
	if first, last, id = c.events(7); first != 1 || last != 7 {
		t.Fatalf("%d to %d", first, last)
	}
	c.stop()
	anew()
	c = w.connect(t, s, id)
	defer c.stop()
	c.expect("reset", w.id)
	if first, last, _ = c.events(7); first != 1 || last != 7 {
		t.Fatalf("%d to %d", first, last)
	}
	c.expect("ready", "{}")
	store := registry.Store{Disk: durable.OS(), State: filepath.Join(dir, "state", "superloop")}
	e, err := store.Find(w.id)
	if err == nil {
		err = store.Drop(e)
	}
	if err != nil {
		t.Fatal(err)
	}
	c.expect("gone", w.id)
}

// A role that prints something changes nothing of its loop but how long it has been silent. That is told all the same.
func TestALogThatGrows(t *testing.T) {
	t.Parallel()
	d, repo := newDesk(t), t.TempDir()
	store := registry.Store{Disk: durable.OS(), State: d.state}
	e, err := store.Locate(registry.Entry{Repo: repo, Loop: "l", Wanted: registry.Stopped})
	if err == nil {
		err = store.Put(e)
	}
	if err != nil {
		t.Fatal(err)
	}
	p, err := server.Paths(store, e)
	if err != nil {
		t.Fatal(err)
	}
	state, err := json.Marshal(loop.View{Status: loop.Running, Iteration: 1, Pending: &loop.Effect{Kind: loop.RunRole, Role: "tester"}})
	said := filepath.Join(p.Logs(1), "tester.log")
	if err = errors.Join(err, os.MkdirAll(p.Logs(1), 0o700), os.WriteFile(p.File("state.json"), state, 0o600), os.WriteFile(said, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	out := httptest.NewRecorder()
	s := newWatching(t.Context(), d.guard.api, &messages{w: out, control: http.NewResponseController(out)}, false, false, places{})
	defer s.close()
	for i, want := range []int{1, 1, 2} {
		at := time.Date(2026, 1, 1, 0, 0, i, 0, time.UTC)
		if err := os.Chtimes(said, at, at); err != nil {
			t.Fatal(err)
		}
		if i == 2 {
			s.loops[e.ID()].rowAt = time.Now().Add(-lookAgain)
		}
		if err := s.look(t.Context(), i == 0); err != nil {
			t.Fatal(err)
		}
		if rows := strings.Count(out.Body.String(), "event: row\n"); rows != want {
			t.Errorf("look %d: %d rows, want %d\n%s", i, rows, want, out.Body)
		}
	}
	if !strings.Contains(out.Body.String(), `"said_at":"2026-01-01T00:00:02Z"`) {
		t.Errorf("the row does not say when: %s", out.Body)
	}
}
