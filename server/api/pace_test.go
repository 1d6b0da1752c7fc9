package api

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/superloop/superloop/server/access"
)

// dial opens a connection that takes little at once.
func (d *desk) dial() *net.TCPConn {
	d.t.Helper()
	c, err := net.Dial("tcp", d.at[0])
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = c.Close() })
	return c.(*net.TCPConn)
}

// drip sends a text byte by byte, until the daemon closes the connection or all is sent, and returns what it answers.
func (d *desk) drip(c net.Conn, text string) string {
	d.t.Helper()
	go func() {
		for i := range len(text) {
			if _, err := c.Write([]byte{text[i]}); err != nil {
				return
			}
			<-time.After(20 * time.Millisecond)
		}
	}()
	answer, _ := io.ReadAll(c) // it is cut at any place
	return string(answer)
}

// deadlines counts the deadlines for reading that a connection gets.
type deadlines struct {
	http.ResponseWriter
	n int
}

func (d *deadlines) SetReadDeadline(time.Time) error { d.n++; return nil }

// The library's time for a body does not bound the route, whose body the guard has read.
func TestARouteMayTakeItsTime(t *testing.T) {
	t.Parallel()
	conn := &deadlines{ResponseWriter: httptest.NewRecorder()}
	if err := huma.SetReadDeadline(&paced{ResponseWriter: conn}, time.Now()); err != nil || conn.n != 0 {
		t.Errorf("%v, the connection got %d deadlines", err, conn.n)
	}
}

// Who sends a header or a body byte by byte is let go, and who asks meanwhile is answered.
func TestSlowSenders(t *testing.T) {
	t.Parallel()
	d := newDeskOf(t, limits{header: 300 * time.Millisecond, body: 300 * time.Millisecond, take: time.Minute, connections: 100})
	token := d.token("ci", access.Read, access.Control)
	head := "POST /api/v1/policy/check HTTP/1.1\r\nHost: " + d.at[0] + "\r\nAuthorization: Bearer " + token + "\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n"
	slow := strings.Repeat("x", 100000)
	if got := d.drip(d.dial(), head+slow); strings.Contains(got, "200 OK") {
		t.Errorf("a slow header is answered: %s", got)
	}
	for what, begin := range map[string]string{"a read": head, "a change": strings.Replace(head, "policy/check", "loops/x/stop", 1), "a body that nobody reads": strings.Replace(head, "POST /api/v1/policy/check", "GET /api/v1/loops", 1),
		"a refusal": strings.Replace(head, "Bearer ", "Bearer x", 1)} {
		c := d.dial()
		if _, err := c.Write([]byte(begin)); err != nil {
			t.Fatal(err)
		}
		if got := d.drip(c, slow); strings.HasPrefix(what, "a read") && !strings.Contains(got, "urn:superloop:slow") {
			t.Errorf("%s: %s", what, got)
		}
	}
	d.want("the socket", d.ask("", "GET", "/api/v1/loops", ""), 200, "")
	d.want("who is quick", d.ask(d.at[0], "GET", "/api/v1/loops", "", bearer(token)...), 200, "")
}

// Who takes an answer byte by byte loses the connection, and others get the same answer meanwhile.
func TestSlowReaders(t *testing.T) {
	t.Parallel()
	d := newDeskOf(t, limits{header: time.Minute, body: time.Minute, take: 300 * time.Millisecond, connections: 100})
	token := d.token("ci", access.Read)
	for range 1000 {
		if err := d.guard.log.Add(access.Line{Method: "POST", Path: strings.Repeat("p", 290), Token: strings.Repeat("t", 290), Detail: strings.Repeat("d", 290), Verdict: access.Failed}); err != nil {
			t.Fatal(err)
		}
	}
	const path = "/api/v1/audit?limit=1000"
	var all []*net.TCPConn
	for range 10 {
		c := d.dial()
		if err := errors.Join(c.SetReadBuffer(64<<10), func() error {
			_, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nAuthorization: Bearer %s\r\n\r\n", path, d.at[0], token)
			return err
		}()); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	whole := d.ask(d.at[0], "GET", path, "", bearer(token)...)
	d.want("who is quick", whole, 200, "")
	for range 100 { // until the daemon has lost its patience
		for _, c := range all {
			if _, err := c.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(20 * time.Millisecond)
	}
	for _, c := range all {
		if n, _ := io.Copy(io.Discard, c); n >= int64(len(whole.text)) {
			t.Errorf("a slow client got all of %d bytes", n)
		}
	}
	d.want("the socket", d.ask("", "GET", path, ""), 200, "")
	for _, line := range d.log.All() { // that a client is slow is no fault
		t.Errorf("the daemon logs %s", line.Message)
	}
}

// Beyond the bound of connections the daemon says that it is busy, answers over its socket, and answers again when one is
// closed.
func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	d := newDeskOf(t, limits{header: time.Minute, body: time.Minute, take: time.Minute, connections: 3})
	token := d.token("ci", access.Read)
	var all []*net.TCPConn
	for range 3 {
		c := d.dial() // it sends nothing
		all = append(all, c)
	}
	ask := func() reply { return d.ask(d.at[0], "GET", "/api/v1/loops", "", bearer(token)...) }
	d.want("one too many", ask(), 503, "busy")
	d.want("the socket", d.ask("", "GET", "/api/v1/loops", ""), 200, "")
	_ = all[0].Close()
	for r := ask(); r.status != 200; r = ask() { // until the daemon has seen it
		d.want("one too many", r, 503, "busy")
	}
}
