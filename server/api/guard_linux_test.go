package api

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/superloop/superloop/server/access"
	"github.com/superloop/superloop/server/registry"
)

// What pages of other origins send is refused before a token counts, also what only reads; each refusal is written down.
func TestPagesAreRefused(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	token := bearer(d.token("all", access.Read, access.Control, access.Approve))
	port := d.at[0][strings.LastIndexByte(d.at[0], ':'):]
	for _, c := range []struct {
		method, path, body string
		headers            []string
		status             int
		kind               string
	}{
		{"GET", "/api/v1/loops", "", nil, 200, ""},
		{"GET", "/api/v1/loops", "", []string{"Host", "superloop.localhost" + port, "Origin", "http://superloop.localhost" + port, "Sec-Fetch-Site", "same-origin"}, 200, ""},
		{"GET", "/healthz", "", []string{"Authorization", ""}, 200, ""},
		{"GET", "/healthz", "", []string{"Host", "rebound.example" + port}, 403, "bad-host"},
		{"GET", "/api/v1/loops", "", []string{"Host", "rebound.example" + port}, 403, "bad-host"},
		{"GET", "/api/v1/loops/x/events/stream", "", []string{"Host", "rebound.example" + port}, 403, "bad-host"},
		{"GET", "/api/v1/openapi.json", "", []string{"Host", "localhost"}, 403, "bad-host"},
		{"GET", "/api/v1/loops", "", []string{"Origin", "http://localhost:3000"}, 403, "cross-origin"},
		{"OPTIONS", "/api/v1/loops", "", []string{"Origin", "http://localhost:3000", "Access-Control-Request-Method", "POST", "Authorization", ""}, 403, "cross-origin"},
		{"POST", "/api/v1/loops", "{}", []string{"Origin", "null"}, 403, "cross-origin"},
		{"POST", "/api/v1/loops", "a=b", []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "media-type"},
		{"POST", "/api/v1/loops", "{}", []string{"Content-Type", "text/plain"}, 415, "media-type"},
		{"GET", "/api/v1/loops", "", []string{"Authorization", ""}, 401, "unauthorized"},
		{"GET", "/api/v1/openapi.json", "", []string{"Authorization", ""}, 401, "unauthorized"},
		{"GET", "/readyz", "", []string{"Authorization", "Bearer slt_" + strings.Repeat("a", 43)}, 401, "unauthorized"},
		{"GET", "/api/v1/nothing", "", nil, 404, "no-such-route"},
		{"GET", "/api/v1/nothing", "", []string{"Authorization", ""}, 401, "unauthorized"},
		{"PUT", "/api/v1/loops", "{}", nil, 404, "no-such-route"},
		{"POST", "/api/v1/loops", "{}", nil, 422, "invalid"},
		{"POST", "/api/v1/loops", strings.Repeat(" ", maxBody+1), nil, 413, "too-large"},
	} {
		before := len(d.lines())
		r := d.ask(d.at[0], c.method, c.path, c.body, append(append([]string{}, token...), c.headers...)...)
		d.want(fmt.Sprintf("%s %s %v", c.method, c.path, c.headers), r, c.status, c.kind)
		if r.header.Get("Access-Control-Allow-Origin") != "" || r.header.Get("Set-Cookie") != "" || r.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s %s: %v", c.method, c.path, r.header)
		}
		after := d.lines()[before:]
		if audited := c.status >= 400 && c.kind != "no-such-route"; audited != (len(after) == 1) || audited && (after[0].Reason != c.kind || after[0].Verdict != access.Refused || after[0].Channel != "tcp") {
			t.Errorf("%s %s %v is written down as %+v", c.method, c.path, c.headers, after)
		}
	}
	d.want("a page asks the socket", d.ask("", "GET", "/api/v1/loops", "", "Origin", "http://superloop"), 403, "cross-origin")
	d.want("any name at the socket", d.ask("", "GET", "/api/v1/loops", "", "Host", "x"), 200, "")
}

// Each route needs its scope, whatever it is asked for.
func TestScopes(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	creds := map[access.Scope]string{access.Person: d.session()}
	for _, s := range access.Scopes {
		creds[s] = d.token(string(s), s)
	}
	want := map[string]access.Scope{
		"POST /api/v1/loops": access.Control, "POST /api/v1/loops/{id}/start": access.Control, "POST /api/v1/loops/{id}/stop": access.Control, "POST /api/v1/loops/{id}/pause": access.Control,
		"POST /api/v1/loops/{id}/cancel": access.Control, "POST /api/v1/loops/{id}/retry-now": access.Control, "POST /api/v1/loops/{id}/note": access.Control, "POST /api/v1/doctor": access.Control,
		"POST /api/v1/escalations/{eid}/answer": access.Approve, "GET /api/v1/audit": access.Read,
		"POST /api/v1/channels/test": access.Approve, "POST /api/v1/loops/{id}/recoveries/{n}/undo": access.Approve, "POST /api/v1/loops/{id}/approve-completion": access.Approve, "POST /api/v1/policy/check": access.Read, "POST /api/v1/policy/lint": access.Read, "POST /api/v1/policy/replay": access.Read,
		"GET /api/v1/tokens": access.Person, "POST /api/v1/tokens": access.Person, "DELETE /api/v1/tokens/{name}": access.Person, "GET /api/v1/sessions": access.Person, "DELETE /api/v1/sessions/{name}": access.Person,
		"GET /api/v1/passkeys": access.Person, "POST /api/v1/passkeys": access.Person, "POST /api/v1/passkeys/options": access.Person, "DELETE /api/v1/passkeys/{name}": access.Person, "POST /api/v1/confirmations/{id}/passkey": access.Person,
	}
	seen := 0
	for pattern, s := range want {
		if got := scopeOf(pattern); got != s {
			t.Errorf("%s needs %s", pattern, got)
		}
	}
	for pattern, s := range map[string]access.Scope{"POST /api/v1/new": access.Approve, "PUT /api/v1/policy": access.Approve, "POST /api/v1/loops/{id}/x/start": access.Approve} {
		if got := scopeOf(pattern); got != s {
			t.Errorf("%s needs %s", pattern, got)
		}
	}
	for path, item := range d.paths() {
		for _, method := range item {
			pattern := method + " " + path
			s, listed := want[pattern]
			if !listed {
				if s = access.Read; method != "GET" && pattern != trade && !strings.Contains(strings.Join(onlySocket, " "), pattern) {
					t.Errorf("%s has no row", pattern)
				}
			}
			if pattern == health || pattern == trade || strings.HasSuffix(path, "/stream") {
				continue
			}
			seen++
			at := strings.NewReplacer("{id}", "x", "{eid}", "x", "{name}", "x").Replace(path)
			for has, token := range creds {
				body := ""
				if method == "POST" {
					body = "{}"
				}
				r := d.ask(d.at[0], method, at, body, bearer(token)...)
				switch allowed := has == s || has == access.Person; {
				case strings.Contains(strings.Join(onlySocket, " "), pattern):
					d.want(pattern, r, 403, "only-socket")
				case !allowed:
					d.want(pattern+" with "+string(has), r, 403, "scope")
				case r.kind() == "scope" || r.status == 401:
					t.Errorf("%s with %s: %s", pattern, has, r.text)
				}
			}
		}
	}
	if seen < 20 {
		t.Errorf("%d routes", seen)
	}
}

// paths are the methods of each route of the description.
func (d *desk) paths() map[string][]string {
	d.t.Helper()
	var doc struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	if err := json.Unmarshal([]byte(d.ask("", "GET", "/api/v1/openapi.json", "").text), &doc); err != nil {
		d.t.Fatal(err)
	}
	all := map[string][]string{}
	for path, methods := range doc.Paths {
		for m := range methods {
			all[path] = append(all[path], strings.ToUpper(m))
		}
	}
	return all
}

// A code from the socket opens one session; only hashes are kept, and a restart changes nothing.
func TestSessionOverTCP(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	code := field(d.ask("", "POST", "/api/v1/codes", ""), `"code":"`)
	body := fmt.Sprintf(`{"code": %q}`, code)
	r := d.ask(d.at[0], "POST", "/api/v1/sessions", body, "Idempotency-Key", "s")
	d.want("a session", r, 201, "")
	token := field(r, `"token":"`)
	d.want("the code again", d.ask(d.at[0], "POST", "/api/v1/sessions", body), 403, "bad-code")
	d.want("the answer again", d.ask(d.at[0], "POST", "/api/v1/sessions", body, "Idempotency-Key", "s"), 409, "idempotency-shown-once")
	d.open() // the next daemon
	r = d.ask(d.at[len(d.at)-1], "GET", "/api/v1/sessions", "", bearer(token)...)
	d.want("over IPv6, after a restart", r, 200, "")
	name := field(r, `"name":"`)
	script := field(d.ask("", "POST", "/api/v1/tokens", `{"name": "ci", "scopes": ["read"], "expires_in": 60}`), `"token":"`)
	d.want("the name again", d.ask("", "POST", "/api/v1/tokens", `{"name": "ci", "scopes": ["read"], "expires_in": 60}`), 409, "name-taken")
	d.want("a token may read", d.ask(d.at[0], "GET", "/api/v1/loops", "", bearer(script)...), 200, "")
	d.want("a token ends", d.ask(d.at[0], "DELETE", "/api/v1/tokens/ci", "", bearer(token)...), 204, "")
	d.want("it has ended", d.ask(d.at[0], "GET", "/api/v1/loops", "", bearer(script)...), 401, "unauthorized")
	d.want("logging out", d.ask(d.at[0], "DELETE", "/api/v1/sessions/"+name, "", bearer(token)...), 204, "")
	d.want("it is over", d.ask(d.at[0], "GET", "/api/v1/loops", "", bearer(token)...), 401, "unauthorized")
	d.holdsNot(code, token, script)
	last := d.lines()
	if l := last[len(last)-2]; l.Method != "DELETE" || l.Verdict != access.Done || l.Token != "session:"+name || !slices.Contains(l.PIDs, os.Getpid()) || l.Exe == "" || l.User == "" {
		t.Errorf("%+v", l)
	}
}

// field returns what stands behind a prefix in an answer, up to the next quote.
func field(r reply, prefix string) string {
	_, rest, _ := strings.Cut(r.text, prefix)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// holdsNot fails the test if the private state holds one of the secrets.
func (d *desk) holdsNot(secrets ...string) {
	d.t.Helper()
	err := filepath.WalkDir(d.state, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		for i, s := range secrets {
			if len(s) < 8 || strings.Contains(string(data), s) {
				d.t.Errorf("%s holds secret %d (%q)", path, i, s)
			}
		}
		return err
	})
	if err != nil {
		d.t.Error(err)
	}
}

// A dangerous request needs a code from a terminal, which counts once and for nothing else.
func TestStepUp(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	token := bearer(d.session())
	const body = `{"name": "ci", "scopes": ["approve"], "expires_in": 60}`
	create := func(body string, headers ...string) reply {
		return d.ask(d.at[0], "POST", "/api/v1/tokens", body, append(append([]string{"Idempotency-Key", "one"}, token...), headers...)...)
	}
	r := create(body)
	d.want("without a code", r, 403, "step-up-required")
	id := r.Challenge
	if again := create(body); again.Challenge != id {
		t.Errorf("%s, then %s", id, again.Challenge)
	}
	pending := d.ask("", "GET", "/api/v1/confirmations", "").text
	if !strings.Contains(pending, "make a token named ci that may approve, for 1m0s") || !strings.Contains(pending, "expires_in") {
		t.Error(pending)
	}
	code := field(d.ask("", "POST", "/api/v1/confirmations/"+id, ""), `"code":"`)
	d.want("a wrong code", create(body, "Superloop-Confirm", "0000-0000"), 403, "step-up-required")
	d.want("for another body", d.ask(d.at[0], "POST", "/api/v1/tokens", strings.Replace(body, "60", "61", 1), append([]string{"Superloop-Confirm", code}, token...)...), 403, "step-up-required")
	d.want("by another session", d.ask(d.at[0], "POST", "/api/v1/tokens", body, append([]string{"Superloop-Confirm", code}, bearer(d.session())...)...), 403, "step-up-required")
	d.want("with it", create(body, "Superloop-Confirm", code), 201, "")
	d.want("the same key", create(body, "Superloop-Confirm", code), 409, "idempotency-shown-once")
	d.want("the code again", d.ask(d.at[0], "POST", "/api/v1/tokens", strings.Replace(body, "ci", "cd", 1), append([]string{"Superloop-Confirm", code}, token...)...), 403, "step-up-required")
	d.want("over the socket none is needed", d.ask("", "POST", "/api/v1/tokens", strings.Replace(body, "ci", "ce", 1)), 201, "")
	d.holdsNot(code)
}

// Of equal requests with one key at the same moment one has an effect, and a restart forgets none.
func TestIdempotency(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var effects atomic.Int32
	d.started = func(registry.Entry) error { effects.Add(1); return nil }
	token := bearer(d.token("ci", access.Control))
	body := fmt.Sprintf(`{"repo": %q, "loop": "night"}`, t.TempDir())
	start := func(body, key string) reply {
		return d.ask(d.at[0], "POST", "/api/v1/loops", body, append([]string{"Idempotency-Key", key}, token...)...)
	}
	var running sync.WaitGroup
	texts := make([]string, 50)
	for i := range texts {
		running.Go(func() {
			r := start(body, "k")
			d.want("one of many", r, 202, "")
			texts[i] = r.text
		})
	}
	running.Wait()
	d.open()
	if r := start(body, "k"); r.status != 202 || r.text != texts[0] || r.header.Get("Idempotency-Replayed") != "true" || r.header.Get("Content-Type") != "application/json" {
		t.Errorf("after a restart: %+v", r)
	}
	if n := effects.Load(); n != 1 {
		t.Errorf("it was started %d times", n)
	}
	for _, text := range texts {
		if text != texts[0] {
			t.Errorf("%s and %s", text, texts[0])
		}
	}
	d.want("another body", start(strings.Replace(body, "night", "day", 1), "k"), 422, "idempotency-mismatch")
	d.want("another path", d.ask(d.at[0], "POST", "/api/v1/loops/x/start", body, append([]string{"Idempotency-Key", "k"}, token...)...), 422, "idempotency-mismatch")
	d.want("no key", start(body, "a b"), 422, "idempotency-key")
	d.want("another caller's key is another key", d.ask("", "POST", "/api/v1/loops", body, "Idempotency-Key", "k"), 202, "")
	replays := 0
	for _, l := range d.lines() {
		if l.Replay {
			replays++
		}
	}
	if replays != 50 {
		t.Errorf("%d replays are written down", replays)
	}
}

// Nobody that Serve does not know is answered.
func TestUnknownCaller(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	w := httptest.NewRecorder()
	d.guard.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost:7717/api/v1/loops", nil))
	if w.Code != http.StatusForbidden {
		t.Error(w.Code, w.Body)
	}
}

// A session of more than four hours steers loops, and answers only after a confirmation, which makes it a new one.
func TestOldSession(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	token := bearer(d.session())
	data, err := os.ReadFile(access.File(d.state))
	if err != nil {
		t.Fatal(err)
	}
	var file map[string][]map[string]any
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	file["credentials"][0]["created_at"] = time.Now().Add(-access.SessionFresh)
	if data, err = json.Marshal(file); err == nil {
		err = os.WriteFile(access.File(d.state), data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	d.open()
	answer := func(headers ...string) reply {
		return d.ask(d.at[0], "POST", "/api/v1/escalations/x/answer", `{"method": "approve", "digest": "00000000"}`, append(headers, token...)...)
	}
	d.want("it steers", d.ask(d.at[0], "POST", "/api/v1/loops/x/stop", "{}", token...), 404, "no-such-loop")
	r := answer()
	d.want("it answers", r, 403, "step-up-required")
	code := field(d.ask("", "POST", "/api/v1/confirmations/"+r.Challenge, ""), `"code":"`)
	d.want("confirmed", answer("Superloop-Confirm", code), 404, "not-found")
	d.want("and so for some hours", answer(), 404, "not-found")
}
