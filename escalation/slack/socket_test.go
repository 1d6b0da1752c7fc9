package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/superloop/superloop/escalation/notify"
)

// workspace plays Slack's side of Socket Mode.
type workspace struct {
	url   string
	conns chan *websocket.Conn // each connection that was opened, after the hello

	mu    sync.Mutex
	opens []http.HandlerFunc // what apps.connections.open answers, in turn; then it works
	count int
}

func newWorkspace(t *testing.T, opens ...http.HandlerFunc) *workspace {
	t.Helper()
	w := &workspace{conns: make(chan *websocket.Conn, 100), opens: opens}
	up := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	s := server(t, func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/apps.connections.open":
			w.mu.Lock()
			w.count++
			var turn http.HandlerFunc
			if len(w.opens) > 0 {
				turn, w.opens = w.opens[0], w.opens[1:]
			}
			w.mu.Unlock()
			if r.Header.Get("Authorization") != "Bearer xapp-verysecret" {
				t.Errorf("authorization %q", r.Header.Get("Authorization"))
			}
			if turn != nil {
				turn(rw, r)
				return
			}
			fmt.Fprintf(rw, `{"ok":true,"url":"ws%s/ws?ticket=verysecret"}`, strings.TrimPrefix(w.url, "http"))
		case "/ws":
			conn, err := up.Upgrade(rw, r, nil)
			if err != nil {
				return
			}
			if err := conn.WriteMessage(websocket.TextMessage, []byte(`{"type":"hello","num_connections":1,"connection_info":{"app_id":"A1"}}`)); err == nil {
				w.conns <- conn
			}
		default:
			http.NotFound(rw, r)
		}
	})
	w.url = s.URL
	return w
}

// conn is the next connection.
func (w *workspace) conn(t *testing.T) *websocket.Conn {
	t.Helper()
	select {
	case c := <-w.conns:
		t.Cleanup(func() { c.Close() })
		return c
	case <-time.After(2 * time.Minute):
		t.Fatal("no connection came")
		return nil
	}
}

func deliver(t *testing.T, c *websocket.Conn, envelope, payload string) {
	t.Helper()
	frame := fmt.Sprintf(`{"type":"interactive","envelope_id":%q,"accepts_response_payload":true,"payload":%s}`, envelope, payload)
	if err := c.WriteMessage(websocket.TextMessage, []byte(frame)); err != nil {
		t.Fatal(err)
	}
}

// acknowledged waits for the acknowledgement of an envelope. Slack gives 3 s; a busy
// machine gets more of them here.
func acknowledged(t *testing.T, c *websocket.Conn, envelope string) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(2 * time.Minute))
	var ack struct {
		EnvelopeID string `json:"envelope_id"`
	}
	if err := c.ReadJSON(&ack); err != nil || ack.EnvelopeID != envelope {
		t.Fatalf("the acknowledgement is %+v (%v), want %s", ack, err, envelope)
	}
}

// listen runs a Socket until the test ends; states are its states in words.
func listen(t *testing.T, w *workspace, d *desk) (states chan string, ended chan error) {
	t.Helper()
	states, ended = make(chan string, 1000), make(chan error, 1)
	s, err := NewSocket(SocketOptions{AppToken: "xapp-verysecret", Clicks: d.Clicks, APIURL: w.url + "/api/",
		OnState: func(up bool, reason string) { states <- fmt.Sprint(up, " ", reason) }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { ended <- s.Run(ctx); close(done) }()
	t.Cleanup(func() {
		cancel()
		select {
		case <-done:
		case <-time.After(2 * time.Minute):
			t.Error("Run did not end")
		}
		close(states)
		for s := range states {
			noSecret(t, s)
		}
	})
	return states, ended
}

// TestClickThroughTheSocket: a click reaches the resolver and is answered; others are refused; it goes on after the
// connection broke in each of three ways.
func TestClickThroughTheSocket(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	hold := make(chan struct{})
	d := newDesk(t, func(_ context.Context, c Click) Outcome {
		if c.Digest != digest {
			return Outcome{Status: Outdated}
		}
		if c.Action == Details {
			<-hold
		}
		return Outcome{Status: Accepted}
	})
	listen(t, w, d)

	conn := w.conn(t)
	deliver(t, conn, "env-1", d.click("U1", Details, good, 1))
	acknowledged(t, conn, "env-1") // before the resolver has come to an end
	close(hold)
	if c, o := d.wait(t); o.Status != Accepted || c.ID != "e1" || c.UserID != "U1" {
		t.Fatalf("click %+v, outcome %+v", c, o)
	}
	deliver(t, conn, "env-2", d.click("U3", Approve, good, 2))
	acknowledged(t, conn, "env-2")
	if _, o := d.wait(t); o.Status != Foreign {
		t.Fatalf("a foreign user: %+v", o)
	}
	deliver(t, conn, "env-3", d.click("U1", Approve, `{"id":"e1","digest":"sha256:old"}`, 3))
	acknowledged(t, conn, "env-3")
	if _, o := d.wait(t); o.Status != Outdated {
		t.Fatalf("an old digest: %+v", o)
	}

	breaks := []func(*websocket.Conn){
		func(c *websocket.Conn) { c.Close() }, // the network
		func(c *websocket.Conn) { // Slack, with notice
			_ = c.WriteMessage(websocket.TextMessage, []byte(`{"type":"disconnect","reason":"refresh_requested","debug_info":{"host":"x"}}`))
		},
		func(c *websocket.Conn) {
			_ = c.WriteMessage(websocket.TextMessage, []byte(strings.Repeat(" ", maxFrame+1)))
		}, // a frame too long
	}
	for i, cut := range breaks {
		cut(conn)
		conn = w.conn(t)
		envelope := fmt.Sprint("after-break-", i)
		deliver(t, conn, envelope+"-again", d.click("U3", Approve, good, 2)) // Slack delivers once more what it saw no acknowledgement of
		acknowledged(t, conn, envelope+"-again")
		deliver(t, conn, envelope, d.click("U1", Reject, good, 10+i))
		acknowledged(t, conn, envelope)
		if c, o := d.wait(t); o.Status != Accepted || c.Action != Reject {
			t.Fatalf("after break %d: click %+v, outcome %+v", i, c, o)
		}
	}
	if err := conn.WriteMessage(websocket.TextMessage, []byte("{not json")); err != nil {
		t.Fatal(err)
	}
	deliver(t, conn, "env-9", d.click("U2", Approve, good, 99))
	acknowledged(t, conn, "env-9")
	if c, o := d.wait(t); o.Status != Accepted || c.UserID != "U2" {
		t.Fatalf("after a broken frame: %+v, %+v", c, o)
	}
	if n := len(d.clicks); n != 7 {
		t.Errorf("%d clicks were answered, want 7: a repeated one is answered once", n)
	}
}

func TestSocketSurvivesABadAPI(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, say(404, ""), say(500, ""), reset, say(200, "not json"), say(429, "", "Retry-After", "1"),
		say(200, `{"ok":true,"url":"wss://127.0.0.1:1/link/?ticket=verysecret"}`))
	d := newDesk(t, func(context.Context, Click) Outcome { return Outcome{Status: Accepted} })
	states, _ := listen(t, w, d)
	conn := w.conn(t)
	failures := 0
	for {
		s := <-states
		noSecret(t, s)
		if s == "true connected" {
			break
		}
		failures++
	}
	if failures != 6 {
		t.Errorf("%d failures were told, want 6", failures)
	}
	deliver(t, conn, "env", d.click("U1", Approve, good, 1))
	acknowledged(t, conn, "env")
	d.wait(t)
}

func TestSocketEndsWhenTheTokenIsRefused(t *testing.T) {
	t.Parallel()
	for _, answer := range []http.HandlerFunc{say(200, `{"ok":false,"error":"invalid_auth"}`), say(200, `{"ok":false,"error":"token_revoked"}`)} {
		d := newDesk(t, func(context.Context, Click) Outcome { return Outcome{} })
		_, ended := listen(t, newWorkspace(t, answer), d)
		select {
		case err := <-ended:
			if _, ok := errors.AsType[*notify.PermanentError](err); !ok {
				t.Errorf("Run returned %T %v", err, err)
			} else {
				noSecret(t, err.Error())
			}
		case <-time.After(2 * time.Minute):
			t.Fatal("Run did not return")
		}
	}
}

func TestSocketOptionsAreChecked(t *testing.T) {
	d := newDesk(t, func(context.Context, Click) Outcome { return Outcome{} })
	if _, err := NewSocket(SocketOptions{AppToken: "xoxb-verysecret", Clicks: d.Clicks}); err == nil || strings.Contains(err.Error(), "verysecret") {
		t.Errorf("a bot token: %v", err)
	}
	if _, err := NewSocket(SocketOptions{AppToken: "xapp-1"}); err == nil {
		t.Error("nobody to take the clicks, and no error")
	}
	text := fmt.Sprintf("%v %+v %#v", SocketOptions{AppToken: "xapp-verysecret"}, SocketOptions{AppToken: "xapp-verysecret"}, SocketOptions{AppToken: "xapp-verysecret"})
	js, err := json.Marshal(struct{ T any }{SocketOptions{AppToken: "xapp-verysecret"}.AppToken})
	if err != nil || strings.Contains(text+string(js), "verysecret") {
		t.Errorf("the token prints: %s %s", text, js)
	}
}

func TestPacer(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	var p pacer
	step := func(after time.Duration) time.Duration {
		now = now.Add(after)
		d := p.pause(now)
		now = now.Add(d)
		p.last = now
		return d
	}
	var total time.Duration
	for i := range 20 {
		if i == 7 { // a wait that somebody else has waited counts
			if d := step(4 * time.Second); d != 4*time.Second {
				t.Errorf("after 4 s it waits %v, want 4 s more", d)
			}
			total += 8 * time.Second
			continue
		}
		d := step(0)
		if i < 2 && d != 0 || i >= 2 && d != min(firstPause<<(i-2), longestPause) {
			t.Errorf("request %d waits %v", i, d)
		}
		total += d
	}
	if total < 9*time.Minute {
		t.Errorf("20 requests took %v", total)
	}
	if d := step(2 * time.Hour); d != 0 {
		t.Errorf("after a connection that held it waits %v", d)
	}
	if d := step(time.Hour); d != 0 {
		t.Errorf("and again %v", d)
	}
}
