package gateway

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/server/api"
	"github.com/superloop/superloop/server/gateway/link"
	"github.com/superloop/superloop/server/signed"
)

// TestLists: the lists of all machines are one, in pages that leave nothing out, and what is asked about a loop is answered by
// its machine.
func TestLists(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a, b := f.machine("a", "x", "y", "z"), f.machine("b", "x", "y")
	f.there(a, b)
	all := f.list("/api/v1/loops", "loops", "id")
	if len(all) != 5 || !slices.IsSorted(all) {
		t.Fatalf("%q", all)
	}
	var paged []string
	for cursor := ""; ; {
		got := f.ask("GET", "/api/v1/loops?limit=2&cursor="+cursor, "")
		var page struct {
			Loops []item
			Next  string `json:"next_cursor"`
		}
		if err := json.Unmarshal([]byte(got.text), &page); err != nil {
			t.Fatal(err)
		}
		for _, i := range page.Loops {
			paged = append(paged, i.text("id"))
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if !slices.Equal(paged, all) {
		t.Errorf("by pages: %q, want %q", paged, all)
	}
	if got := f.list("/api/v1/loops?machine="+b.id, "loops", "machine"); !slices.Equal(got, []string{b.id, b.id}) {
		t.Errorf("of one machine: %q", got)
	}
	if got := f.list("/api/v1/machines", "machines", "id"); len(got) != 2 || !slices.Contains(got, a.id) {
		t.Errorf("machines: %q", got)
	}
	if got := f.list("/api/v1/repos", "repos", "repo"); !slices.Equal(got, []string{a.repo, b.repo}) {
		t.Errorf("repos: %q", got)
	}
	if got := f.list("/api/v1/runners", "repos", "error"); len(got) != 2 || got[0] != "not here" {
		t.Errorf("runners: %q", got)
	}
	for path, status := range map[string]int{"/api/v1/loops?limit=0": 422, "/api/v1/escalations?state=odd": 422, "/api/v1/cost?from=odd": 422, "/api/v1/cost?by=loop&step=1h": 200, "/api/v1/queue": 503,
		"/api/v1/loops/" + all[0]: 200, "/api/v1/loops/" + all[4] + "/events": 200, "/api/v1/loops/" + all[0] + "x": 404, "/api/v1/loops/x": 404, "/api/v1/escalations/none": 404, "/api/v1/escalations": 200,
		"/readyz": 204, "/healthz": 200, "/api/v1/audit": 200, "/api/v1/openapi.json": 200, "/api/v1/none": 404} {
		if got := f.ask("GET", path, ""); got.status != status {
			t.Errorf("%s: %d %s", path, got.status, got.text)
		}
	}
	metrics := f.ask("GET", "/metrics", "").text
	if strings.Count(metrics, "# TYPE x_total") != 1 || strings.Count(metrics, "\nx_total{") != 5 {
		t.Errorf("metrics:\n%s", metrics)
	}
	// What names a repository goes to the machine that has it; what several may have needs a machine.
	lint := func(body string) reply { return f.ask("POST", "/api/v1/policy/lint", body) }
	if got := lint(`{"repo": "` + b.repo + `"}`); got.Detail != "not here" || len(b.verbs) == 0 {
		t.Errorf("%+v", got)
	}
	if got := lint(`{"repo": "/nowhere"}`); !got.Kind("not-found") {
		t.Errorf("%+v", got)
	}
	if got := lint(`{"repo": "` + a.repo + `", "machine": "` + b.id + `"}`); !got.Kind("not-found") {
		t.Errorf("%+v", got)
	}
	if got := f.ask("POST", "/api/v1/loops/"+a.loop("x")+"/stop", "{}"); !got.Kind("not-here") {
		t.Errorf("what a machine lacks: %+v", got)
	}
}

// TestSeveralRepositories: machines may have a repository at the same path.
func TestSeveralRepositories(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := f.machine("a", "x")
	b := f.machine("b")
	if err := b.store().Put(mustEntry(t, a)); err != nil {
		t.Fatal(err)
	}
	f.there(a, b)
	if got := f.list("/api/v1/repos?limit=1", "repos", "repo"); !slices.Equal(got, []string{a.repo, a.repo}) {
		t.Errorf("a page cuts between two machines: %q", got)
	}
	body := `{"repo": "` + a.repo + `"`
	if got := f.ask("POST", "/api/v1/policy/lint", body+"}"); !got.Kind("usage") {
		t.Errorf("%+v", got)
	}
	if got := f.ask("POST", "/api/v1/policy/lint", body+`, "machine": "`+b.id+`"}`); got.Detail != "not here" || len(b.verbs) == 0 {
		t.Errorf("%+v", got)
	}
}

// TestAway: what was known of a machine that is away is shown with its time, also by the next gateway; what only the machine
// could answer is refused; other machines answer.
func TestAway(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a, b := f.machine("a", "x"), f.machine("b", "x")
	f.there(a, b)
	id := a.loop("x")
	a.serve()
	f.gone(a)
	for range 2 {
		if got := f.list("/api/v1/loops?q=x", "loops", "as_of"); len(got) != 2 || (got[0] == "") == (got[1] == "") {
			t.Errorf("as_of: %q", got)
		}
		if got := f.list("/api/v1/machines", "machines", "as_of"); len(got) != 2 || (got[0] == "") == (got[1] == "") {
			t.Errorf("machines: %q", got)
		}
		if got := f.list("/api/v1/space", "repos", "error"); len(got) != 2 || !strings.Contains(got[0], "is away") {
			t.Errorf("space: %q", got)
		}
		if got := f.ask("GET", "/api/v1/loops/"+id, ""); got.status != 200 || !strings.Contains(got.text, `"as_of"`) {
			t.Errorf("%d %s", got.status, got.text)
		}
		if got := f.ask("GET", "/api/v1/cost", ""); !strings.Contains(got.text, `"unread":["`+id+`"]`) {
			t.Errorf("%d %s", got.status, got.text)
		}
		for _, q := range [][2]string{{"GET", "/events"}, {"POST", "/pause"}, {"GET", "/logs/tester/1"}} {
			if got := f.ask(q[0], "/api/v1/loops/"+id+q[1], strings.Repeat("{}", len(q[0])-3)); got.status != 503 || !got.Kind("machine-away") {
				t.Errorf("%v: %d %s", q, got.status, got.text)
			}
		}
		c := f.connect("")
		row := c.until("row")
		if c.until("ready"); !strings.Contains(string(row.data), `"as_of"`) && !strings.Contains(string(row.data), b.id) {
			t.Errorf("%s", row.data)
		}
		c.stop()
		f.end()
		f.open()
		f.there(b)
	}
	a.join(f.secret)
	f.there(a)
	if got := f.list("/api/v1/loops", "loops", "as_of"); !slices.Equal(got, []string{"", ""}) {
		t.Errorf("it is back, and %q", got)
	}
}

// TestStream: the streams of all machines are one. A client that comes back, to the same gateway or to the next, gets each
// event once, while machines come and go.
func TestStream(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a, b := f.machine("a", "x"), f.machine("b", "x")
	a.write("x", 5)
	f.there(a, b)
	c := f.connect("")
	c.until("ready")
	get := func(want map[*host]int64) {
		t.Helper()
		for {
			done := true
			for h, n := range want {
				done = done && c.got[h.loop("x")] == n
			}
			if done {
				return
			}
			c.until("events")
		}
	}
	a.write("x", 2)
	b.write("x", 3)
	get(map[*host]int64{a: 7, b: 3})
	again := func() { // the client comes back with what it has
		t.Helper()
		had, last := c.got, c.last
		c.stop()
		c = f.connect(last)
		c.got = had
	}
	a.write("x", 1)
	again()
	get(map[*host]int64{a: 8, b: 3})

	// The gateway is begun anew while both write.
	f.end()
	a.write("x", 1)
	b.write("x", 1)
	f.open()
	again()
	get(map[*host]int64{a: 9, b: 4})

	// A machine goes, writes, and comes back: the client, which stays, gets it all, and hears of the machine.
	b.serve()
	f.gone(b)
	for row := c.until("row"); !strings.Contains(string(row.data), `"as_of"`); row = c.until("row") {
	}
	b.write("x", 4)
	b.join(f.secret)
	get(map[*host]int64{a: 9, b: 8})

	// A client that was away while a machine was away, too.
	b.serve()
	f.gone(b)
	a.write("x", 1)
	get(map[*host]int64{a: 10, b: 8})
	b.write("x", 1)
	again()
	c.until("ready")
	b.join(f.secret)
	get(map[*host]int64{a: 10, b: 9})

	// A loop that is forgotten while its machine is away is gone when it is back.
	b.serve()
	f.gone(b)
	e, err := b.store().Get(b.repo, "x")
	if err == nil {
		err = b.store().Drop(e)
	}
	if err != nil {
		t.Fatal(err)
	}
	b.join(f.secret)
	if gone := c.until("gone"); !strings.Contains(string(gone.data), b.id) {
		t.Errorf("%s", gone.data)
	}
	for _, last := range []string{"x", "a:b c", ":", "a:"} {
		if got := f.ask("GET", "/api/v1/stream", "", "Last-Event-ID", last); !got.Kind("bad-cursor") {
			t.Errorf("%q: %+v", last, got)
		}
	}
}

// TestManyTabs: tabs take none of what else is asked of a machine.
func TestManyTabs(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := f.machine("a", "x")
	f.there(a)
	for range 1001 {
		f.connect("").until("ready")
	}
	if got := f.ask("GET", "/api/v1/loops/"+a.loop("x")+"/events", ""); got.status != http.StatusOK {
		t.Errorf("%+v", got)
	}
}

// TestLoopStream: the stream of one loop, and a part of a file, come through the gateway as from the machine.
func TestLoopStream(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := f.machine("a", "x")
	a.write("x", 3)
	f.there(a)
	got := f.ask("GET", "/api/v1/loops/"+a.loop("x")+"/events?after=1", "")
	if !strings.Contains(got.text, `"after":3`) {
		t.Errorf("%s", got.text)
	}
	if got := f.ask("GET", "/api/v1/loops/"+a.loop("x")+"/verify", ""); !strings.Contains(got.text, `"events":3`) {
		t.Errorf("%s", got.text)
	}
}

// TestOnlyTheGateway: a machine does nothing for who is not a gateway of its fleet, whatever they send over its socket, and a
// request counts for one machine, once. Each refusal is written down.
func TestOnlyTheGateway(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a, b := f.machine("a", "x"), f.machine("b", "x")
	f.there(a, b)
	_, foreign, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	path := "/api/v1/loops/" + a.loop("x") + "/start"
	sign := func(key ed25519.PrivateKey, change func(*signed.Claim)) string {
		c := signed.Claim{Method: "POST", Target: path, Body: signed.Digest([]byte("{}")), Machine: a.id, Instance: a.trust.Instance(), User: "eve"}
		if change != nil {
			change(&c)
		}
		h, err := c.Sign(key, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	straight := func(h *host, method, path, body string, head ...string) reply {
		t.Helper()
		return f.send(func(ctx context.Context, _, _ string) (net.Conn, error) { return h.dial(ctx) }, "http://machine"+path, method, body, head...)
	}
	old := a.trust.Instance()
	good := sign(f.key, nil)
	for name, header := range map[string]string{"nothing": "", "a foreign key": sign(foreign, nil), "another machine's": sign(f.key, func(c *signed.Claim) { c.Machine = b.id }),
		"another body": sign(f.key, func(c *signed.Claim) { c.Body = signed.Digest([]byte(`{"note": "x"}`)) }), "another loop": sign(f.key, func(c *signed.Claim) { c.Target += "x" }),
		"another method": sign(f.key, func(c *signed.Claim) { c.Method = "GET" }), "another process": sign(f.key, func(c *signed.Claim) { c.Instance = "x" })} {
		if got := straight(a, "POST", path, "{}", signed.Header, header); got.status != 401 || !got.Kind("unsigned") {
			t.Errorf("%s: %d %s", name, got.status, got.text)
		}
	}
	for _, path := range []string{"/api/v1/loops", "/api/v1/stream", "/api/v1/escalations", "/metrics", "/api/v1/openapi.json"} {
		if got := straight(a, "GET", path, ""); !got.Kind("unsigned") {
			t.Errorf("%s: %d %s", path, got.status, got.text)
		}
	}
	if got := straight(a, "POST", path, "{}", signed.Header, good); got.status != http.StatusAccepted {
		t.Errorf("a gateway: %d %s", got.status, got.text)
	}
	if got := straight(a, "POST", path, "{}", signed.Header, good); !got.Kind("unsigned") || !strings.Contains(got.Detail, "before") {
		t.Errorf("replayed: %d %s", got.status, got.text)
	}
	if got := straight(b, "POST", path, "{}", signed.Header, sign(f.key, nil)); !got.Kind("unsigned") {
		t.Errorf("replayed to another machine: %d %s", got.status, got.text)
	}
	// Routes about who may ask are none of a machine.
	for _, route := range []string{"/api/v1/tokens", "/api/v1/codes", "/api/v1/sessions", "/api/v1/confirmations/x"} {
		h := sign(f.key, func(c *signed.Claim) { c.Target = route })
		if got := straight(a, "POST", route, "{}", signed.Header, h); !got.Kind("no-such-route") {
			t.Errorf("%s: %d %s", route, got.status, got.text)
		}
	}
	unused := sign(f.key, nil)
	a.serve()
	a.join(f.secret)
	if got := straight(a, "POST", path, "{}", signed.Header, unused); !got.Kind("unsigned") || a.trust.Instance() == old {
		t.Errorf("to the process after: %d %s", got.status, got.text)
	}
	log, err := os.ReadFile(filepath.Join(layout.HostState(a.state), "daemon", "audit.jsonl"))
	if err != nil || strings.Count(string(log), `"unsigned"`) < 5 || strings.Count(string(log), `"done"`) != 1 {
		t.Errorf("%v\n%s", err, log)
	}
}

// TestStrangers: who does not know the secret of the fleet is not let in, nor is a machine by another's id, and a machine
// speaks with no other gateway.
func TestStrangers(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	public, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	opened := make(chan bool, 100)
	in := func(context.Context) (net.Conn, error) {
		near, _ := net.Pipe() // nobody is at the other end
		opened <- true
		return near, nil
	}
	stranger := link.Member{Key: key, Secret: []byte("guessed"), Gateways: [][]byte{f.public}}
	left := make(chan error, 1)
	go func() { left <- stranger.Join(ctx, f.at, in, zap.NewNop()) }()
	for range 3 {
		<-opened // it tries again
	}
	if f.gw.find(link.MachineID(public)) != nil {
		t.Error("a stranger is a machine")
	}
	stop()
	if err := <-left; err != nil {
		t.Error(err)
	}
	conn, err := tls.Dial("tcp", f.at, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err == nil {
		_, err = conn.Read(make([]byte, 1))
	}
	if err == nil {
		t.Error("a client without a key is answered")
	}
	other, otherKey, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	conf, err := link.ForGateway(otherKey, [][]byte{f.secret})
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", conf)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	met := make(chan error, 10)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			met <- c.(*tls.Conn).HandshakeContext(t.Context())
			_ = c.Close()
		}
	}()
	ctx, stop = context.WithCancel(t.Context())
	defer stop()
	member := link.Member{Key: key, Secret: f.secret, Gateways: [][]byte{f.public}}
	go func() { left <- member.Join(ctx, l.Addr().String(), in, zap.NewNop()) }()
	if err := <-met; err == nil {
		t.Errorf("a machine speaks with the gateway %x", other)
	}
	stop()
	if err := <-left; err != nil {
		t.Error(err)
	}
}

// TestConfirmed: what takes a person's confirmation on a machine takes it at the gateway; who has it is told to the machine.
func TestConfirmed(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := f.machine("a", "x")
	f.there(a)
	path := "/api/v1/loops/" + a.loop("x") + "/recoveries/1/undo"
	if got := f.ask("POST", path, "{}"); got.status != http.StatusOK {
		t.Fatalf("a person at a terminal of the gateway: %d %s", got.status, got.text)
	}
	if call := <-a.verbs; call.Args[0] != "undo" || call.By.Method != "gateway" || call.By.User == "" {
		t.Errorf("%+v", call)
	}
	// A session over TCP.
	var code api.Code
	if err := json.Unmarshal([]byte(f.ask("POST", "/api/v1/codes", "").text), &code); err != nil {
		t.Fatal(err)
	}
	at := fmt.Sprintf("http://127.0.0.1:%d", f.port)
	dial := (&net.Dialer{}).DialContext
	var session api.Secret
	if err := json.Unmarshal([]byte(f.send(dial, at+"/api/v1/sessions", "POST", `{"code": "`+code.Code+`"}`).text), &session); err != nil || session.Token == "" {
		t.Fatal(err)
	}
	head := []string{"Authorization", "Bearer " + session.Token}
	got := f.send(dial, at+path, "POST", "{}", head...)
	if !got.Problem.Kind("step-up-required") || got.Challenge == "" || !strings.Contains(got.What, "on machine") || !strings.Contains(got.What, "put back") || len(a.verbs) != 0 {
		t.Fatalf("%d %s", got.status, got.text)
	}
	if err := json.Unmarshal([]byte(f.ask("POST", "/api/v1/confirmations/"+got.Challenge, "").text), &code); err != nil || code.Code == "" {
		t.Fatal(err)
	}
	if got := f.send(dial, at+path, "POST", `{"force": true}`, append(head, "Superloop-Confirm", code.Code)...); !got.Problem.Kind("step-up-required") || len(a.verbs) != 0 {
		t.Fatalf("for another body: %d %s", got.status, got.text)
	}
	if got := f.send(dial, at+path, "POST", "{}", append(head, "Superloop-Confirm", code.Code)...); got.status != http.StatusOK || len(a.verbs) != 1 {
		t.Fatalf("%d %s", got.status, got.text)
	}
	if got := f.send(dial, at+path, "POST", "{}", append(head, "Superloop-Confirm", code.Code)...); !got.Problem.Kind("step-up-required") {
		t.Fatalf("again: %d %s", got.status, got.text)
	}
	log, err := os.ReadFile(filepath.Join(layout.HostState(a.state), "daemon", "audit.jsonl"))
	if err != nil || !strings.Contains(string(log), `"confirmed":"terminal"`) {
		t.Errorf("%v\n%s", err, log)
	}
	// The guard stands before the gateway as before a daemon.
	for name, head := range map[string][]string{"unauthorized": nil, "cross-origin": append(head, "Origin", "http://elsewhere.example")} {
		if got := f.send(dial, at+"/api/v1/loops", "GET", "", head...); !got.Problem.Kind(name) {
			t.Errorf("%s: %d %s", name, got.status, got.text)
		}
	}
	var token api.Secret
	if err := json.Unmarshal([]byte(f.ask("POST", "/api/v1/tokens", `{"name": "r", "scopes": ["read"], "expires_in": 60}`).text), &token); err != nil {
		t.Fatal(err)
	}
	head = []string{"Authorization", "Bearer " + token.Token}
	if got := f.send(dial, at+"/api/v1/loops", "GET", "", head...); got.status != 200 {
		t.Errorf("%d %s", got.status, got.text)
	}
	if got := f.send(dial, at+path, "POST", "{}", head...); !got.Problem.Kind("scope") {
		t.Errorf("%d %s", got.status, got.text)
	}
}

// TestEveryRoute: the gateway answers each route of the description, by itself or by a machine.
func TestEveryRoute(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := f.machine("a", "x")
	f.there(a)
	var doc struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal([]byte(f.ask("GET", "/api/v1/openapi.json", "").text), &doc); err != nil || len(doc.Paths) < 40 {
		t.Fatal(err, len(doc.Paths))
	}
	fill := strings.NewReplacer("{id}", a.loop("x"), "{eid}", "none", "{role}", "tester", "{n}", "1", "{cid}", "none", "{name}", "none")
	for path, ops := range doc.Paths {
		for method := range ops {
			if path == "/api/v1/stream" || strings.HasSuffix(path, "/events/stream") {
				continue // TestStream
			}
			body := ""
			if method == "post" {
				body = "{}"
			}
			got := f.ask(strings.ToUpper(method), fill.Replace(path), body)
			if got.Kind("no-such-route") || got.status == 0 || got.status == http.StatusMethodNotAllowed || got.Kind("machine-away") {
				t.Errorf("%s %s: %d %s", method, path, got.status, got.text)
			}
		}
	}
}

// FuzzMessages: whatever a machine streams, reading ends, and no message is one without a kind.
func FuzzMessages(f *testing.F) {
	testkit.Seed(f, []byte("id: 1\nevent: row\ndata: {\"id\":\"m.x\"}\n\n"), []byte(":\n\nevent: ready\ndata: {}\n\n"), []byte("data\nevent\nid"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m := &machine{id: "m", known: known{Rows: map[string]item{}, Questions: map[string]item{}}}
		err := messages(strings.NewReader(string(data)), func(msg message) error {
			if msg.event == "" || strings.ContainsAny(msg.id+msg.event+string(msg.data), "\n") {
				t.Errorf("%+v", msg)
			}
			m.note(msg)
			return nil
		})
		if err == nil {
			t.Error("no end")
		}
		for id := range m.known.Rows {
			if !m.owns(id) {
				t.Errorf("it has %q", id)
			}
		}
	})
}

// FuzzKnown: what is kept of a machine is read, or refused; what is read can be shown.
func FuzzKnown(f *testing.F) {
	testkit.Seed(f, []byte(`{"machine":{"id":"m"},"rows":{"m.x":{"id":"m.x","repo":"/r","labels":["a"]}},"questions":{"q":{"id":"q"}},"at":"2026-01-02T03:04:05Z"}`), []byte(`{"rows":{"x":null}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		k, err := knownOf(data)
		if err != nil {
			testkit.Message(t, err)
			return
		}
		m := &machine{id: "m", known: k}
		for _, l := range lists {
			for _, i := range l.away(func(string) string { return "" }, m, m.last()) {
				if _, err := json.Marshal(i); err != nil {
					t.Error(err)
				}
				l.key(i)
			}
		}
	})
}

// FuzzPositions: an id of a message that is taken is the one that is given back.
func FuzzPositions(f *testing.F) {
	testkit.Seed(f, []byte("a:b,c:d"), []byte(""), []byte("a:b:c"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := parsePositions(string(data))
		if err != nil {
			testkit.Message(t, err)
			return
		}
		again, err := parsePositions(p.String())
		if err != nil || again.String() != p.String() {
			t.Errorf("%q: %v, %v %v", data, p, again, err)
		}
	})
}
