package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/server"
	"github.com/superloop/superloop/server/api"
)

// client asks a daemon over its socket, or with a token over TCP.
type client struct {
	n           *daemonNight
	http        *http.Client
	base, token string
	confirm     string    // a code of superloop confirm
	host        string    // of the page, "" for that of base
	of          *contract // nil: answers are not checked
}

func (n *daemonNight) client() client {
	socket := api.SocketFile(n.path("state/superloop"))
	return client{n: n, base: "http://superloop", http: &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}}}}
}

// ask sends a request and decodes the answer into out, unless it is nil.
func (c client) ask(method, path, body string, want int, out any) string {
	c.n.t.Helper()
	status, text := c.send(method, path, body)
	if status != want {
		c.n.t.Fatalf("%s %s %s: %d, want %d\n%s", method, path, body, status, want, text)
	}
	if out != nil {
		if err := json.Unmarshal([]byte(text), out); err != nil {
			c.n.t.Fatalf("%s %s: %v\n%s", method, path, err, text)
		}
	}
	return text
}

func (c client) send(method, path, body string) (int, string) {
	c.n.t.Helper()
	req, err := http.NewRequest(method, c.base+path, strings.NewReader(body))
	if err != nil {
		c.n.t.Fatal(err)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.host != "" {
		req.Host = c.host
		req.Header.Set("Origin", "http://"+c.host)
	}
	if c.confirm != "" {
		req.Header.Set("Superloop-Confirm", c.confirm)
	}
	res, err := c.http.Do(req)
	if err != nil {
		c.n.t.Fatalf("%s %s: %v\n%s", method, path, err, c.n.log.Bytes())
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		c.n.t.Fatal(err)
	}
	if c.of != nil {
		if wrong := c.of.check(method, path, res.StatusCode, res.Header, string(text)); wrong != "" {
			c.n.t.Errorf("%s %s %s: %d %s\n%s", method, path, body, res.StatusCode, wrong, text)
		}
	}
	return res.StatusCode, string(text)
}

// A program starts loops, sees what they do and ask, and answers; what it streams is the journal, also over a break.
func TestAPI(t *testing.T) {
	t.Parallel()
	n := newDaemonNight(t)
	c := n.up("--listen", "localhost:0")
	tcp := c.overTCP()
	c.ask("GET", "/healthz", "", 200, nil)
	c.ask("GET", "/readyz", "", 204, nil)
	start := func(id string, want int) server.Row {
		var l server.Row
		body := fmt.Sprintf(`{"repo": %q, "loop": %q, "labels": ["night"]}`, n.path("repo"), id)
		if want == 202 {
			c.ask("POST", "/api/v1/loops", body, want, &l)
		} else {
			c.ask("POST", "/api/v1/loops", body, want, nil)
		}
		return l
	}
	a, ask := start("a", 202), start("ask", 202)
	start("nothing", 409)
	c.ask("POST", "/api/v1/loops", `{"repo": "relative", "loop": "a"}`, 422, nil)
	of := func(id string) (l server.Row) {
		c.ask("GET", "/api/v1/loops/"+id, "", 200, &l)
		return l
	}
	n.until("a is completed", func() bool { l := of(a.ID); return l.Status == "completed" && l.Wanted == "ended" && !l.Supervised })
	if text := c.ask("POST", "/api/v1/loops/"+a.ID+"/start", `{}`, 409, nil); !strings.Contains(text, "urn:superloop:completed") {
		t.Error(text)
	}

	// The question, and its answers: one that was not shown, the right one, and a second one.
	var q api.Questions
	n.until("ask asks", func() bool { c.ask("GET", "/api/v1/escalations", "", 200, &q); return len(q.Escalations) == 1 })
	one := q.Escalations[0]
	if one.LoopID != ask.ID || !strings.Contains(string(one.View), "All gates of iteration 1 pass") {
		t.Errorf("%s asks %s", one.LoopID, one.View)
	}
	answer := func(method, digest string, want int) string {
		return c.ask("POST", "/api/v1/escalations/"+one.ID+"/answer", fmt.Sprintf(`{"method": %q, "digest": %q}`, method, digest), want, nil)
	}
	if text := answer("approve", "0000000000000000", 409); !strings.Contains(text, "stale-digest") {
		t.Error(text)
	}
	answer("sign", one.Digest, 422)
	tcp.ask("POST", "/api/v1/escalations/"+one.ID+"/answer", fmt.Sprintf(`{"method": "approve", "digest": %q}`, one.Digest), 200, nil)
	answer("reject", one.Digest, 409)
	n.until("ask is completed", func() bool { return of(ask.ID).Status == "completed" })

	// A loop that runs: pause, resume, a note, stop, cancel.
	held := start("stopped", 202)
	act := func(action, body string, want int) {
		c.ask("POST", "/api/v1/loops/"+held.ID+"/"+action, body, want, nil)
	}
	n.until("the role runs", func() bool { return of(held.ID).Role == "implementer" })
	start("stopped", 409)
	act("note", `{"note": " "}`, 422)
	act("note", `{"note": "use X"}`, 202)
	act("retry-now", `{}`, 409)
	act("stop", `{}`, 202)
	n.until("it has stopped", func() bool { return !of(held.ID).Supervised })
	act("stop", `{}`, 409)
	act("pause", `{}`, 409)
	n.until("it is let go", func() bool {
		status, _ := c.send("POST", "/api/v1/loops/"+held.ID+"/start", "{}")
		return status == 202
	})
	n.until("it runs again", func() bool { return of(held.ID).Supervised && of(held.ID).Phase == "working" })
	act("cancel", `{}`, 202)
	n.until("it is cancelled", func() bool { return of(held.ID).Status == "cancelled" && of(held.ID).Wanted == "ended" })

	// Pages of loops, and filters.
	var names []string
	for cursor := ""; ; {
		var p api.Loops
		c.ask("GET", "/api/v1/loops?limit=1&cursor="+cursor, "", 200, &p)
		for _, l := range p.Loops {
			names = append(names, l.Loop)
		}
		if cursor = p.NextCursor; cursor == "" {
			break
		}
	}
	slices.Sort(names)
	if strings.Join(names, " ") != "a ask stopped" {
		t.Errorf("the pages hold %v", names)
	}
	for query, want := range map[string]int{"label=night": 3, "label=x": 0, "status=cancelled": 1, "q=%23as": 1, "repo=/x": 0} {
		var p api.Loops
		if c.ask("GET", "/api/v1/loops?"+query, "", 200, &p); len(p.Loops) != want {
			t.Errorf("%s finds %d loops, want %d", query, len(p.Loops), want)
		}
	}
	var queue api.Queue
	if c.ask("GET", "/api/v1/queue", "", 200, &queue); queue.Limits.Loops != 3 || len(queue.Loops) != 0 {
		t.Errorf("%+v", queue)
	}

	// Events by page and by stream are those of the journal, each once.
	var lines []string
	if err := journal.Read(n.path("repo/.superloop/loops/a/events.jsonl"), 0, func(ev journal.Event) error {
		line, err := journal.AppendLine(nil, ev)
		lines = append(lines, strings.TrimSpace(string(line)))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for after := int64(0); ; {
		var p api.Events
		c.ask("GET", fmt.Sprintf("/api/v1/loops/%s/events?limit=7&after=%d", a.ID, after), "", 200, &p)
		if len(p.Events) == 0 {
			break
		}
		for _, e := range p.Events {
			got = append(got, string(e))
		}
		after = p.After
	}
	if !slices.Equal(got, lines) {
		t.Errorf("%d events by page, the journal has %d", len(got), len(lines))
	}
	streamed := tcp.stream(a.ID, "", 5)
	streamed = append(streamed, c.stream(a.ID, "5", len(lines)-5)...)
	if !slices.Equal(streamed, lines) {
		t.Errorf("%d events by stream, the journal has %d:\n%s", len(streamed), len(lines), strings.Join(streamed, "\n"))
	}
	var roles api.Events
	if c.ask("GET", "/api/v1/loops/"+a.ID+"/events?event=role_start", "", 200, &roles); len(roles.Events) != 2 {
		t.Errorf("%d roles", len(roles.Events))
	}
	if c.ask("GET", "/api/v1/loops/"+a.ID+"/events?role=reviewer&event=role_*", "", 200, &roles); len(roles.Events) != 2 {
		t.Errorf("%d events of the reviewer", len(roles.Events))
	}
	c.ask("GET", "/api/v1/loops/"+a.ID+"/events?event=[", "", 422, nil)
	c.ask("GET", fmt.Sprintf("/api/v1/loops/%s/events?after=%d&wait=1", a.ID, len(lines)), "", 200, &roles)
	var v api.Verified
	if c.ask("GET", "/api/v1/loops/"+a.ID+"/verify", "", 200, &v); !v.Whole || v.Events != int64(len(lines)) {
		t.Errorf("%+v", v)
	}

	// An agent may look, and change nothing.
	script := `i=$(command -v curl) || exit 77
curl -s -o /dev/null -w '%{http_code} ' --unix-socket "$1" http://x/api/v1/loops
curl -s -o /dev/null -w '%{http_code}' --unix-socket "$1" -H 'Content-Type: application/json' -d '{}' http://x/api/v1/loops/"$2"/start`
	cmd := exec.Command("sh", "-c", script, "sh", api.SocketFile(n.path("state/superloop")), held.ID)
	cmd.Env = append(os.Environ(), "SUPERLOOP_RUN_ID=r1", "SUPERLOOP_MARK=r1")
	if out, err := cmd.Output(); cmd.ProcessState.ExitCode() != 77 && (err != nil || string(out) != "200 403") {
		t.Errorf("an agent: %s %v", out, err)
	}
	if info, err := os.Stat(filepath.Dir(api.SocketFile(n.path("state/superloop")))); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory of the socket: %v %v", info, err)
	}
	tcp.everyRoute()
	var audit api.Audit
	if tcp.ask("GET", "/api/v1/audit?limit=1000", "", 200, &audit); len(audit.Lines) < 30 || audit.Lines[0].Seq <= audit.Lines[1].Seq {
		t.Errorf("%d lines", len(audit.Lines))
	}
	n.answeredBy(tcp)
	tcp.confirmed()
}

// stream reads so many events of a loop's stream, after the one with the id last.
func (c client) stream(id, last string, n int) (lines []string) {
	c.n.t.Helper()
	ctx, stop := context.WithTimeout(c.n.t.Context(), time.Minute)
	defer stop()
	res, err := c.open(ctx, "/api/v1/loops/"+id+"/events/stream", last)
	if err != nil {
		c.n.t.Fatal(err)
	}
	defer res.Body.Close()
	in := bufio.NewScanner(res.Body)
	for len(lines) < n && in.Scan() {
		if line, ok := strings.CutPrefix(in.Text(), "data: "); ok {
			lines = append(lines, line)
		}
	}
	return lines
}

// everyRoute sends good and bad requests to every route of the description: none gives a 5xx, and each problem is one that
// the description names.
func (c client) everyRoute() {
	c.n.t.Helper()
	ids := []string{"x", "%00", "..", "%2e%2e%2fx", "a.b", strings.Repeat("y", 400), "%F0%9F%92%A5"}
	bodies := []string{"{}", "[", "", "null", `{"note": 7}`, `{"repo": "/", "loop": "../x"}`, `{"method": "approve", "digest": "` + strings.Repeat("0", 5000) + `"}`}
	n := testkit.Sample(1, len(ids), len(ids))
	ids, bodies = ids[:n], bodies[:n]
	for path, methods := range c.of.paths {
		if strings.HasSuffix(path, "/stream") {
			continue // it would wait for events
		}
		for method := range methods {
			for _, id := range ids {
				for _, body := range bodies {
					if method == "get" && body != bodies[0] {
						break // it has none
					}
					at := strings.NewReplacer("{id}", id, "{eid}", id, "{cid}", id, "{name}", id, "{role}", id, "{n}", "1").Replace(path)
					for _, query := range []string{"", "?after=-1&limit=0&cursor=%00&wait=x"} {
						if method == "get" {
							body = ""
						}
						if status, text := c.send(strings.ToUpper(method), at+query, body); status >= 500 {
							c.n.t.Errorf("%s %s%s %s: %d %s", method, at, query, body, status, text)
						}
					}
				}
			}
		}
	}
}
