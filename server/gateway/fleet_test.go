package gateway

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/server/api"
	"github.com/superloop/superloop/server/gateway/link"
	"github.com/superloop/superloop/server/registry"
	"github.com/superloop/superloop/server/signed"
)

// fleet is a gateway and its machines, each with a private state, keys and sockets of its own.
type fleet struct {
	t      *testing.T
	root   string
	public ed25519.PublicKey
	key    ed25519.PrivateKey
	secret []byte
	at     string // where machines find the gateway
	port   int    // where its people do
	gw     *Gateway
	end    func() // of the gateway
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	root, err := os.MkdirTemp("/tmp", "gw") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	f := &fleet{t: t, root: root, secret: []byte("the secret of the fleet")}
	f.public, f.key, err = ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	f.open()
	t.Cleanup(func() { f.end() })
	return f
}

// open begins the gateway, at the addresses that it had before.
func (f *fleet) open() {
	f.t.Helper()
	state := filepath.Join(f.root, "gateway")
	g, err := New(Options{State: state, Disk: durable.OS(), Key: f.key, Log: zap.NewNop()})
	if err != nil {
		f.t.Fatal(err)
	}
	f.gw = g
	h, err := api.New(api.Options{State: state, Disk: durable.OS(), Version: "test", Over: g, Log: zap.NewNop()})
	if err != nil {
		f.t.Fatal(err)
	}
	sock, err := api.Listen(durable.OS(), api.SocketFile(state))
	if err != nil {
		f.t.Fatal(err)
	}
	at, err := api.ParseAddress(fmt.Sprintf("127.0.0.1:%d", f.port))
	if err != nil {
		f.t.Fatal(err)
	}
	people, err := api.ListenTCP(f.t.Context(), at)
	if err != nil {
		f.t.Fatal(err)
	}
	f.port = people[0].Addr().(*net.TCPAddr).Port
	if f.at == "" {
		f.at = "127.0.0.1:0"
	}
	machines, err := net.Listen("tcp", f.at)
	if err != nil {
		f.t.Fatal(err)
	}
	f.at = machines.Addr().String()
	conf, err := link.ForGateway(f.key, [][]byte{f.secret})
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, l := range append(people, sock) {
		running.Go(func() { _ = api.Serve(ctx, l, h) })
	}
	running.Go(func() {
		if err := g.Meet(ctx, machines, conf); err != nil {
			f.t.Error(err)
		}
	})
	f.end = sync.OnceFunc(func() { stop(); running.Wait() })
}

// host is a machine of the fleet, with the loops of its repository.
type host struct {
	f     *fleet
	id    string
	key   ed25519.PrivateKey
	state string
	repo  string
	trust *signed.Verifier
	verbs chan api.VerbCall
	serve func() // ends what answers, and the connection
}

// machine makes a machine whose repository lies at a path, with loops.
func (f *fleet) machine(name string, loops ...string) *host {
	f.t.Helper()
	public, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		f.t.Fatal(err)
	}
	h := &host{f: f, id: link.MachineID(public), key: key, state: filepath.Join(f.root, name, "superloop"), repo: filepath.Join(f.root, name+"-repo"), verbs: make(chan api.VerbCall, 100)}
	for _, id := range loops {
		if err := os.MkdirAll(filepath.Join(h.repo, ".superloop", "loops", id), 0o755); err != nil {
			f.t.Fatal(err)
		}
		if err := h.store().Put(registry.Entry{Repo: h.repo, Loop: id, Wanted: registry.Fleet, By: "ada", Since: time.Now()}); err != nil {
			f.t.Fatal(err)
		}
	}
	h.join(f.secret)
	f.t.Cleanup(func() { h.serve() })
	return h
}

func (h *host) store() registry.Store { return registry.Store{Disk: durable.OS(), State: h.state} }

func (h *host) loop(id string) string {
	h.f.t.Helper()
	e, err := registry.Store{Disk: durable.OS(), State: h.state, Machine: h.id}.Get(h.repo, id)
	if err != nil {
		h.f.t.Fatal(err)
	}
	return e.ID()
}

// join begins the machine's process, as one that restarts.
func (h *host) join(secret []byte) {
	t := h.f.t
	t.Helper()
	at := layout.HostState(h.state)
	h.trust = signed.NewVerifier(h.id, [][]byte{h.f.public})
	handler, err := api.New(api.Options{State: h.state, Access: at, Disk: durable.OS(), Version: "test", Machine: h.id, Trust: h.trust, Lacks: []string{"stop-loop", "get-queue"}, Log: zap.NewNop(),
		Start: func(_ context.Context, e registry.Entry) error { return h.store().Put(e) },
		Verb: func(_ context.Context, call api.VerbCall) ([]byte, error) {
			h.verbs <- call
			if call.Args[0] == "undo" {
				return []byte(`{}`), nil
			}
			return nil, &api.Refused{Exit: 1, Err: errors.New("not here")}
		},
		Metrics: func(all map[string]string) []byte {
			out := "# HELP x_total what\n# TYPE x_total counter\n"
			for id := range all {
				out += fmt.Sprintf("x_total{loop=%q} 1\n", id)
			}
			return []byte(out)
		},
		Say: func(ev journal.Event) (string, string) { return ev.Event, "normal" }})
	if err != nil {
		t.Fatal(err)
	}
	l, err := api.Listen(durable.OS(), api.SocketFile(at))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = api.Serve(ctx, l, handler) })
	member := link.Member{Key: h.key, Secret: secret, Gateways: [][]byte{h.f.public}}
	running.Go(func() {
		if err := member.Join(ctx, h.f.at, h.dial, zap.NewNop()); err != nil {
			t.Error(err)
		}
	})
	h.serve = sync.OnceFunc(func() { stop(); running.Wait() })
}

func (h *host) dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "unix", api.SocketFile(layout.HostState(h.state)))
}

// write appends so many events to the journal of a loop.
func (h *host) write(loop string, n int) {
	h.f.t.Helper()
	j, err := journal.Open(durable.OS(), filepath.Join(h.repo, ".superloop", "loops", loop, "events.jsonl"), journal.Options{})
	if err != nil {
		h.f.t.Fatal(err)
	}
	defer j.Close()
	evs := make([]journal.Event, n)
	for i := range evs {
		evs[i] = journal.Event{Timestamp: time.Now(), Event: "operator_note", LoopID: loop, RunID: "r", Fields: json.RawMessage(`{"text":"x"}`)}
	}
	if _, err := j.Append(false, evs...); err != nil {
		h.f.t.Fatal(err)
	}
}

// reply is an answer.
type reply struct {
	status int
	head   http.Header
	text   string
	api.Problem
}

// ask asks the gateway over its socket, as a person at a terminal of it.
func (f *fleet) ask(method, path, body string, head ...string) reply {
	f.t.Helper()
	return f.send(func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", api.SocketFile(filepath.Join(f.root, "gateway")))
	}, "http://superloop"+path, method, body, head...)
}

func (f *fleet) send(dial func(context.Context, string, string) (net.Conn, error), url, method, body string, head ...string) (out reply) {
	f.t.Helper()
	tr := &http.Transport{DialContext: dial, DisableKeepAlives: true}
	r, err := http.NewRequestWithContext(f.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(head); i += 2 {
		r.Header.Set(head[i], head[i+1])
	}
	res, err := tr.RoundTrip(r)
	if err != nil {
		f.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	out.status, out.head, out.text = res.StatusCode, res.Header, string(data)
	if strings.Contains(res.Header.Get("Content-Type"), "problem") {
		if err := json.Unmarshal(data, &out.Problem); err != nil {
			f.t.Fatal(err)
		}
	}
	return out
}

// list returns the ids, or another member, of a list.
func (f *fleet) list(path, field, name string) (out []string) {
	f.t.Helper()
	got := f.ask("GET", path, "")
	var page map[string]json.RawMessage
	var items []item
	if err := errors.Join(json.Unmarshal([]byte(got.text), &page), json.Unmarshal(page[field], &items)); err != nil || got.status != http.StatusOK {
		f.t.Fatalf("%s: %d %s %v", path, got.status, got.text, err)
	}
	for _, i := range items {
		out = append(out, i.text(name))
	}
	return out
}

// until waits for what has to happen.
func (f *fleet) until(what string, ok func() bool) {
	f.t.Helper()
	late := time.NewTimer(time.Minute)
	defer late.Stop()
	for !ok() {
		select {
		case <-late.C:
			f.t.Fatalf("never: %s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// there waits until so many machines are there, and known.
func (f *fleet) there(hosts ...*host) {
	f.t.Helper()
	f.until("the machines are there", func() bool {
		for _, h := range hosts {
			m := f.gw.find(h.id)
			if m == nil || m.link() == nil {
				return false
			}
			all, errs := h.store().All()
			if len(errs) > 0 || len(m.last().Rows) != len(all) {
				return false
			}
		}
		return true
	})
}

// gone waits until a machine is away.
func (f *fleet) gone(h *host) {
	f.t.Helper()
	f.until("the machine is away", func() bool { return f.gw.find(h.id).link() == nil })
}

// client is a client of the stream of the gateway.
type client struct {
	t    *testing.T
	in   *bufio.Scanner
	last string
	stop func()
	got  map[string]int64 // the last event of each loop
}

func (f *fleet) connect(last string) *client {
	f.t.Helper()
	ctx, stop := context.WithCancel(f.t.Context())
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", api.SocketFile(filepath.Join(f.root, "gateway")))
	}}
	r, err := http.NewRequestWithContext(ctx, "GET", "http://superloop/api/v1/stream", nil)
	if err != nil {
		f.t.Fatal(err)
	}
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	res, err := tr.RoundTrip(r)
	if err != nil || res.StatusCode != http.StatusOK {
		f.t.Fatal(err, res)
	}
	in := bufio.NewScanner(res.Body)
	in.Buffer(nil, 1<<20)
	c := &client{t: f.t, in: in, last: last, stop: func() { stop(); _ = res.Body.Close() }, got: map[string]int64{}}
	f.t.Cleanup(c.stop)
	return c
}

// next returns the next message, and whether there is one.
func (c *client) next() (m message, ok bool) {
	for c.in.Scan() {
		name, value, _ := strings.Cut(c.in.Text(), ": ")
		switch {
		case name == "id":
			m.id = value
		case name == "event":
			m.event = value
		case name == "data":
			m.data = bytes.Clone([]byte(value))
		case m.event != "":
			if m.id != "" {
				c.last = m.id
			}
			return m, true
		}
	}
	return m, false
}

// until reads until a message of a kind, and returns it. Each event has to be the one behind the last of its loop.
func (c *client) until(event string) message {
	c.t.Helper()
	for {
		m, ok := c.next()
		if !ok {
			c.t.Fatalf("the stream has ended before %s: %v", event, c.in.Err())
		}
		c.count(m)
		if m.event == event {
			return m
		}
	}
}

// count checks that no event is missing, and none comes twice.
func (c *client) count(m message) {
	c.t.Helper()
	var msg struct {
		LoopID string `json:"loop_id"`
		Events []struct{ Seq int64 }
	}
	if m.event != "events" {
		return
	}
	if err := json.Unmarshal(m.data, &msg); err != nil {
		c.t.Fatal(err)
	}
	for _, e := range msg.Events {
		if last := c.got[msg.LoopID]; last != 0 && e.Seq != last+1 {
			c.t.Fatalf("%s: event %d follows %d", msg.LoopID, e.Seq, last)
		}
		c.got[msg.LoopID] = e.Seq
	}
}

func mustEntry(t *testing.T, h *host) registry.Entry {
	t.Helper()
	all, errs := h.store().All()
	if len(errs) > 0 || len(all) == 0 {
		t.Fatal(errs)
	}
	return registry.Entry{Repo: all[0].Repo, Loop: all[0].Loop, Wanted: all[0].Wanted, By: "ada", Since: time.Now()}
}
