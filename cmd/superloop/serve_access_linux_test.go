package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"

	"github.com/descope/virtualwebauthn"

	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/server/api"
)

// overTCP returns a client with a session of a person, as a verb, a code and a trade make it.
func (c client) overTCP() client {
	c.n.t.Helper()
	port, err := os.ReadFile(layout.DaemonPortFile(c.n.path("state/superloop")))
	if err != nil {
		c.n.t.Fatal(err)
	}
	code, out := c.n.superloop(nil, "token", "code", "--json")
	var one api.Code
	if err := json.Unmarshal([]byte(out), &one); code != exitOK || err != nil {
		c.n.t.Fatalf("token code: %d %v\n%s", code, err, out)
	}
	tcp := client{n: c.n, of: c.of, base: "http://127.0.0.1:" + strings.TrimSpace(string(port)), http: &http.Client{}}
	tcp.ask("GET", "/healthz", "", 200, nil)
	tcp.ask("GET", "/readyz", "", 401, nil)
	var s api.Secret
	tcp.ask("POST", "/api/v1/sessions", fmt.Sprintf(`{"code": %q}`, one.Code), 201, &s)
	tcp.token = s.Token
	tcp.ask("GET", "/readyz", "", 204, nil)
	return tcp
}

// answeredBy looks for the answer that came over TCP in the record of requests and in the journal.
func (n *daemonNight) answeredBy(tcp client) {
	n.t.Helper()
	data, err := os.ReadFile(n.path("state/superloop/daemon/audit.jsonl"))
	if err != nil {
		n.t.Fatal(err)
	}
	found := 0
	for line := range strings.Lines(string(data)) {
		if strings.Contains(line, "/answer") && strings.Contains(line, `"channel":"tcp"`) && strings.Contains(line, `"token":"session:`) && strings.Contains(line, `"verdict":"done"`) {
			found++
		}
	}
	if found != 1 || strings.Contains(string(data), tcp.token) {
		n.t.Errorf("%d answers over TCP are written down", found)
	}
}

// confirmed makes a token over TCP, which a person confirms on a terminal, after a first no.
func (c client) confirmed() {
	c.n.t.Helper()
	const body = `{"name": "made", "scopes": ["read"], "expires_in": 60}`
	if text := c.ask("POST", "/api/v1/tokens", body, 403, nil); !strings.Contains(text, "urn:superloop:step-up-required") {
		c.n.t.Error(text)
	}
	code, shown := c.n.onTerminal("n\n", nil, "confirm")
	if code != exitOK || !strings.Contains(shown, "asks to: make a token named made that may read, for 1m0s") || !strings.Contains(shown, "no code is given") {
		c.n.t.Errorf("%d\n%s", code, shown)
	}
	code, shown = c.n.onTerminal("y\n", nil, "confirm")
	c.confirm = regexp.MustCompile(`[0-9A-Z]{4}-[0-9A-Z]{4}`).FindString(shown)
	if code != exitOK || c.confirm == "" {
		c.n.t.Fatalf("%d\n%s", code, shown)
	}
	c.ask("POST", "/api/v1/tokens", body, 201, nil)
	if code, out := c.n.superloop(nil, "token", "list"); code != exitOK || !strings.Contains(out, "made") {
		c.n.t.Errorf("%d %s", code, out)
	}
}

// passkeys makes a passkey at the page, which a person confirms on a terminal, and confirms a request with it.
func (c client) passkeys(tcp client) {
	t := c.n.t
	t.Helper()
	tcp.ask("POST", "/api/v1/passkeys/options", "", 409, nil) // an address
	tcp.host = "superloop.localhost:" + tcp.base[strings.LastIndexByte(tcp.base, ':')+1:]
	page, device, key := virtualwebauthn.RelyingParty{ID: "superloop.localhost", Origin: "http://" + tcp.host}, virtualwebauthn.NewAuthenticator(), virtualwebauthn.NewCredential(virtualwebauthn.KeyTypeRSA)
	made := func(name string) string {
		options, err := virtualwebauthn.ParseAttestationOptions(tcp.ask("POST", "/api/v1/passkeys/options", "", 200, nil))
		if err != nil {
			t.Fatal(err)
		}
		return `{"name": "` + name + `", "answer": ` + virtualwebauthn.CreateAttestationResponse(page, device, key, *options) + `}`
	}
	add := func(body string) {
		tcp.ask("POST", "/api/v1/passkeys", body, 403, nil)
		code, shown := c.n.onTerminal("y\n", nil, "confirm")
		tcp.confirm = regexp.MustCompile(`[0-9A-Z]{4}-[0-9A-Z]{4}`).FindString(shown)
		if code != exitOK || !strings.Contains(shown, "made at http://"+tcp.host+", confirm requests in the place of a terminal, until it is revoked") {
			t.Fatalf("%d\n%s", code, shown)
		}
		tcp.ask("POST", "/api/v1/passkeys", body, 201, nil)
		tcp.confirm = ""
	}
	add(made("stick"))
	tcp.ask("DELETE", "/api/v1/passkeys/stick", "", 204, nil)
	add(made("laptop"))
	const third = `{"name": "third", "scopes": ["read"], "expires_in": 60}`
	var asked api.Problem
	tcp.ask("POST", "/api/v1/tokens", third, 403, &asked)
	request, err := json.Marshal(asked.Passkey)
	if err != nil {
		t.Fatal(err)
	}
	ask, err := virtualwebauthn.ParseAssertionOptions(string(request))
	if err != nil {
		t.Fatal(err)
	}
	key.Counter++
	answer := `{"answer": ` + virtualwebauthn.CreateAssertionResponse(page, device, key, *ask) + `}`
	var one api.Code
	tcp.ask("POST", "/api/v1/confirmations/"+asked.Challenge+"/passkey", answer, 201, &one)
	tcp.ask("POST", "/api/v1/confirmations/"+asked.Challenge+"/passkey", answer, 404, nil)
	tcp.confirm = one.Code
	tcp.ask("POST", "/api/v1/tokens", third, 201, nil)
	tcp.confirm = ""
	tcp.ask("GET", "/api/v1/passkeys", "", 200, nil)
	if code, out := c.n.superloop(nil, "passkey", "list"); code != exitOK || !regexp.MustCompile(`(?m)^laptop +superloop\.localhost +no +\S+ +`).MatchString(out) {
		t.Errorf("%d %s", code, out)
	}
	if code, out := c.n.superloop(nil, "passkey", "revoke", "laptop"); code != exitOK || !strings.Contains(out, "laptop is revoked") {
		t.Errorf("%d %s", code, out)
	}
	tcp.ask("DELETE", "/api/v1/passkeys/laptop", "", 404, nil)
	c.n.confirmedBy("passkey laptop", "POST", "/api/v1/tokens")
}

// confirmedBy looks in the record of requests for one that was confirmed with by.
func (n *daemonNight) confirmedBy(by, method, path string) {
	n.t.Helper()
	data, err := os.ReadFile(n.path("state/superloop/daemon/audit.jsonl"))
	if err != nil {
		n.t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if strings.Contains(line, `"confirmed":"`+by+`"`) && strings.Contains(line, `"method":"`+method+`","path":"`+path+`"`) {
			return
		}
	}
	n.t.Errorf("nothing says that %s has confirmed %s %s\n%s", by, method, path, data)
}

// access ends the session of tcp, after a token that it made; a program over the socket confirms the second one as
// superloop confirm does.
func (c client) access(tcp client) {
	c.n.t.Helper()
	tcp.confirmed()
	const second = `{"name": "second", "scopes": ["read"], "expires_in": 60}`
	var asked struct{ Challenge string }
	if err := json.Unmarshal([]byte(tcp.ask("POST", "/api/v1/tokens", second, 403, nil)), &asked); err != nil {
		c.n.t.Fatal(err)
	}
	var code api.Code
	c.ask("POST", "/api/v1/confirmations/"+asked.Challenge, "", 201, &code)
	tcp.confirm = code.Code
	tcp.ask("POST", "/api/v1/tokens", second, 201, nil)
	c.passkeys(tcp)
	for _, name := range []string{"made", "second", "third"} {
		tcp.ask("DELETE", "/api/v1/tokens/"+name, "", 204, nil)
	}
	var all api.Credentials
	if tcp.ask("GET", "/api/v1/sessions", "", 200, &all); len(all.Credentials) != 1 {
		c.n.t.Fatalf("%+v", all)
	}
	tcp.ask("DELETE", "/api/v1/sessions/"+all.Credentials[0].Name, "", 204, nil)
	tcp.ask("GET", "/readyz", "", 401, nil)
}
