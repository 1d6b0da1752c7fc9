package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/server/api"
)

// message is a server-sent event.
type message struct{ id, event, data string }

// readMessages calls f for each whole message of a stream, until f returns false or the stream ends. A message that the
// end of the stream cuts is none.
func readMessages(r io.Reader, f func(message) bool) {
	in := bufio.NewReader(r)
	for m := (message{}); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		switch line = strings.TrimSuffix(line, "\n"); {
		case line == "" && m != message{}:
			if !f(m) {
				return
			}
			m = message{}
		case strings.HasPrefix(line, "id: "):
			m.id = line[4:]
		case strings.HasPrefix(line, "event: "):
			m.event = line[7:]
		case strings.HasPrefix(line, "data: "):
			m.data = line[6:]
		}
	}
}

// open opens a stream. An error means that the daemon is not there.
func (c client) open(ctx context.Context, path, last string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, "GET", c.base+path, nil)
	if err != nil {
		c.n.t.Fatal(err)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	res, err := c.http.Do(req)
	if err == nil && c.of != nil && res.StatusCode == http.StatusOK {
		_ = c.of.check("GET", path, res.StatusCode, res.Header, "") // a stream has no schema
	}
	return res, err
}

// everything reads the first n messages of the stream of everything.
func (c client) everything(last string, n int) (list []message) {
	c.n.t.Helper()
	ctx, stop := context.WithTimeout(c.n.t.Context(), time.Minute)
	defer stop()
	res, err := c.open(ctx, "/api/v1/stream", last)
	if err != nil {
		c.n.t.Fatal(err)
	}
	defer res.Body.Close()
	readMessages(res.Body, func(m message) bool {
		list = append(list, m)
		return m.event != "ready" && len(list) < n
	})
	return list
}

func (n *daemonNight) program(args ...string) *exec.Cmd {
	cmd := exec.Command(n.path("bin/superloop"), args...)
	cmd.Dir, cmd.Env = n.root, n.env
	return cmd
}

// journals returns the lines of the journal of each loop of the registry, by the loop's id.
func (n *daemonNight) journals(ids map[string]string) map[string][]string {
	n.t.Helper()
	out := map[string][]string{}
	for id, file := range ids {
		if err := journal.Read(file, 0, func(ev journal.Event) error {
			line, err := journal.AppendLine(nil, ev)
			out[id] = append(out[id], strings.TrimSpace(string(line)))
			return err
		}); err != nil {
			n.t.Fatal(err)
		}
	}
	return out
}

// viewer is a client of a stream that comes back after each break, and keeps what it got, by loop.
type viewer struct {
	mu   sync.Mutex
	loop string // whose stream it is; "": the stream of everything
	last string
	got  map[string][]string
	rows map[string]string
	gaps int
}

func (v *viewer) take(t *testing.T, c client, m message) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if m.id != "" {
		v.last = m.id
	}
	switch m.event {
	case "": // of the stream of one loop
		v.got[v.loop] = append(v.got[v.loop], m.data)
	case "events":
		var e api.LoopEvents
		if err := json.Unmarshal([]byte(m.data), &e); err != nil {
			t.Errorf("%v in %q", err, m.data)
		}
		for _, line := range e.Events {
			v.got[e.LoopID] = append(v.got[e.LoopID], string(line))
		}
	case "gap":
		v.gaps++
		var g api.Gap
		if err := json.Unmarshal([]byte(m.data), &g); err != nil || g.From > g.To {
			t.Errorf("%v in %q", err, m.data)
		}
		var p api.Events
		for after := g.From - 1; after < g.To; after = p.After {
			p = api.Events{}
			c.ask("GET", fmt.Sprintf("/api/v1/loops/%s/events?after=%d&limit=%d", g.LoopID, after, min(1000, g.To-after)), "", 200, &p)
			for _, line := range p.Events {
				v.got[g.LoopID] = append(v.got[g.LoopID], string(line))
			}
		}
	case "reset":
		var l api.Named
		if err := json.Unmarshal([]byte(m.data), &l); err != nil {
			t.Error(err)
		}
		v.got[l.LoopID] = nil
	case "row":
		var row struct{ ID, Status string }
		if err := json.Unmarshal([]byte(m.data), &row); err != nil {
			t.Error(err)
		}
		v.rows[row.ID] = row.Status
	case "problem":
		t.Errorf("the stream says %s", m.data)
	}
}

// slowly reads so many bytes at a time, and waits between two reads.
type slowly struct {
	r     io.Reader
	bytes int
	pause time.Duration
}

func (s slowly) Read(p []byte) (int, error) {
	if s.pause > 0 {
		<-time.After(s.pause)
	}
	return s.r.Read(p[:min(len(p), max(1, s.bytes))])
}

// What a client of the stream of everything gets is each journal, event by event, none missing and none twice: over
// kills of the daemon, over clients that go and come back, and whether it reads quickly or a few bytes at a time.
func TestAPIStreamsOverKills(t *testing.T) {
	t.Parallel()
	n := newDaemonNight(t)
	c := n.up()
	ids := map[string]string{}
	for _, repo := range n.repos {
		for _, id := range []string{"a", "b"} {
			var l struct{ ID string }
			c.ask("POST", "/api/v1/loops", fmt.Sprintf(`{"repo": %q, "loop": %q}`, n.path(repo), id), 202, &l)
			ids[l.ID] = n.path(repo + "/.superloop/loops/" + id + "/events.jsonl")
		}
	}
	ended := func() bool {
		for _, repo := range n.repos {
			for _, id := range []string{"a", "b"} {
				if n.view(repo, id).Status != "completed" {
					return false
				}
			}
		}
		return true
	}
	viewers := []*viewer{}
	life, stop := context.WithCancel(t.Context())
	over := make(chan struct{})
	one := slices.Sorted(maps.Keys(ids))[0]
	for _, of := range []struct {
		loop string
		pace slowly
	}{{"", slowly{bytes: 1 << 20}}, {"", slowly{bytes: 97, pause: time.Millisecond}}, {one, slowly{bytes: 1 << 20}}, {one, slowly{bytes: 31, pause: time.Millisecond}}} {
		v, pace := &viewer{loop: of.loop, got: map[string][]string{}, rows: map[string]string{}}, of.pace
		viewers = append(viewers, v)
		go func() {
			defer func() { over <- struct{}{} }()
			for life.Err() == nil {
				path := "/api/v1/stream"
				switch {
				case v.loop != "":
					path = "/api/v1/loops/" + v.loop + "/events/stream"
				case v.last == "":
					path += "?all=true"
				}
				res, err := c.open(life, path, v.last)
				if err != nil { // the daemon is away
					<-time.After(5 * time.Millisecond)
					continue
				}
				count := 0
				readMessages(slowly{res.Body, pace.bytes, pace.pause}, func(m message) bool {
					v.take(t, c, m)
					count++
					return count < 40 // then it goes, and comes back
				})
				_ = res.Body.Close()
			}
		}()
	}
	for range testkit.Sample(2, 4, 40) {
		<-time.After(300 * time.Millisecond)
		_ = n.daemon.Process.Kill()
		_ = n.daemon.Wait()
		n.serve()
	}
	n.until("all have ended", ended)
	want := n.journals(ids)
	n.until("every viewer has got everything", func() bool {
		for _, v := range viewers {
			v.mu.Lock()
			for id, lines := range want {
				if v.loop != "" && v.loop != id {
					continue
				}
				if len(v.got[id]) < len(lines) || v.loop == "" && v.rows[id] != "completed" {
					v.mu.Unlock()
					return false
				}
			}
			v.mu.Unlock()
		}
		return true
	})
	stop()
	for range viewers {
		<-over
	}
	for i, v := range viewers {
		for id, lines := range want {
			if v.loop != "" && v.loop != id {
				continue
			}
			if got := v.got[id]; strings.Join(got, "\n") != strings.Join(lines, "\n") {
				t.Errorf("viewer %d got %d events of %s, the journal has %d\n%s", i, len(got), id, len(lines), numbers(got))
			}
		}
	}
}

// numbers returns the numbers of events, for a message.
func numbers(lines []string) string {
	var b strings.Builder
	for _, l := range lines {
		var e struct{ Seq int64 }
		_ = json.Unmarshal([]byte(l), &e) // 0 for what is no event
		fmt.Fprint(&b, e.Seq, " ")
	}
	return b.String()
}
