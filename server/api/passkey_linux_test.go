package api

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/descope/virtualwebauthn"

	"github.com/superloop/superloop/server/access"
	"github.com/superloop/superloop/server/passkey"
)

// browser is a page of the daemon with a session, and an authenticator in software.
type browser struct {
	*desk
	host   string
	token  []string
	device virtualwebauthn.Authenticator
	key    virtualwebauthn.Credential
}

func (d *desk) browser(name string) *browser {
	host := name + d.at[0][strings.LastIndexByte(d.at[0], ':'):]
	return &browser{d, host, bearer(d.session()), virtualwebauthn.NewAuthenticator(), virtualwebauthn.NewCredential(virtualwebauthn.KeyTypeRSA)}
}

func (b *browser) sends(method, path, body string, headers ...string) reply {
	b.t.Helper()
	return b.ask(b.at[0], method, path, body, append(append([]string{"Host", b.host, "Origin", "http://" + b.host, "Sec-Fetch-Site", "same-origin"}, b.token...), headers...)...)
}

func (b *browser) rp(origin string) virtualwebauthn.RelyingParty {
	name, _, _ := strings.Cut(b.host, ":")
	return virtualwebauthn.RelyingParty{ID: name, Origin: origin}
}

// signs is the answer of the passkey to what a problem asks for, used at a page of an origin.
func (b *browser) signs(r reply, origin string) string {
	b.t.Helper()
	if r.Passkey == nil {
		b.t.Fatalf("no passkey is asked for: %s", r.text)
	}
	options, err := json.Marshal(r.Passkey)
	if err != nil {
		b.t.Fatal(err)
	}
	ask, err := virtualwebauthn.ParseAssertionOptions(string(options))
	if err != nil || !b.key.IsAllowedForAssertion(*ask) {
		b.t.Fatalf("%v %s", err, options)
	}
	b.key.Counter++
	return virtualwebauthn.CreateAssertionResponse(b.rp(origin), b.device, b.key, *ask)
}

func (b *browser) confirms(id, answer string) reply {
	b.t.Helper()
	return b.sends("POST", "/api/v1/confirmations/"+id+"/passkey", `{"answer": `+answer+`}`)
}

// made is a request that adds a passkey which was made at a page of an origin.
func (b *browser) made(name, origin string) string {
	b.t.Helper()
	r := b.sends("POST", "/api/v1/passkeys/options", "")
	b.want("options", r, 200, "")
	options, err := virtualwebauthn.ParseAttestationOptions(r.text)
	if err != nil {
		b.t.Fatal(err)
	}
	return fmt.Sprintf(`{"name": %q, "answer": %s}`, name, virtualwebauthn.CreateAttestationResponse(b.rp(origin), b.device, b.key, *options))
}

// add adds a passkey, which a person confirms on a terminal.
func (b *browser) add(name string) {
	b.t.Helper()
	body := b.made(name, "http://"+b.host)
	r := b.sends("POST", "/api/v1/passkeys", body)
	b.want("adding one", r, 403, "step-up-required")
	if waits := b.ask("", "GET", "/api/v1/confirmations", "").text; !strings.Contains(waits, `"request":"POST /api/v1/passkeys {\"name\": \"`+name+`\", ...}"`) {
		b.t.Error(waits)
	}
	b.want("with a code", b.sends("POST", "/api/v1/passkeys", body, "Superloop-Confirm", b.code(r.Challenge)), 201, "")
}

// code is what superloop confirm prints.
func (d *desk) code(challenge string) string {
	d.t.Helper()
	r := d.ask("", "POST", "/api/v1/confirmations/"+challenge, "")
	d.want("superloop confirm", r, 201, "")
	return field(r, `"code":"`)
}

const newToken = `{"name": %q, "scopes": ["approve"], "expires_in": 60}`

func (b *browser) wants(name string, headers ...string) reply {
	b.t.Helper()
	return b.sends("POST", "/api/v1/tokens", fmt.Sprintf(newToken, name), headers...)
}

// A passkey that a person has added on a terminal confirms one request, once, and the record says which one it was.
func TestPasskeyConfirms(t *testing.T) {
	t.Parallel()
	for _, name := range passkey.Parties {
		d := newDesk(t)
		b := d.browser(name)
		if r := b.wants("x"); r.Passkey != nil || r.Challenge == "" || !strings.Contains(r.What, "make a token named x") {
			t.Errorf("without a passkey: %s", r.text)
		}
		b.add("laptop")
		r := b.wants("ci")
		b.want("a request", r, 403, "step-up-required")
		got := b.confirms(r.Challenge, b.signs(r, "http://"+b.host))
		b.want("the passkey", got, 201, "")
		b.want("with its code", b.wants("ci", "Superloop-Confirm", field(got, `"code":"`)), 201, "")
		b.want("the code again", b.wants("ci", "Superloop-Confirm", field(got, `"code":"`)), 403, "step-up-required")
		lines := d.lines()
		if l := lines[len(lines)-2]; l.Path != "/api/v1/tokens" || l.Verdict != access.Done || l.Confirmed != "passkey laptop" {
			t.Errorf("%+v", l)
		}
		if l := lines[len(lines)-3]; !strings.HasSuffix(l.Path, "/passkey") || l.Verdict != access.Done || l.Confirmed != "passkey laptop" {
			t.Errorf("%+v", l)
		}
		r = b.wants("on-terminal")
		b.want("a code from a terminal", b.wants("on-terminal", "Superloop-Confirm", b.code(r.Challenge)), 201, "")
		if lines = d.lines(); lines[len(lines)-1].Confirmed != access.OnTerminal {
			t.Errorf("%+v", lines[len(lines)-1])
		}
		d.open() // the next daemon, at another port
		b.host = name + d.at[0][strings.LastIndexByte(d.at[0], ':'):]
		r = b.wants("later")
		got = b.confirms(r.Challenge, b.signs(r, "http://"+b.host))
		b.want("after a restart", b.wants("later", "Superloop-Confirm", field(got, `"code":"`)), 201, "")
		if r := b.sends("GET", "/api/v1/passkeys", ""); !strings.Contains(r.text, `"name":"laptop","host":"`+name+`","by":"ada"`) || !strings.Contains(r.text, "used_at") || strings.Contains(r.text, "key\"") {
			t.Error(r.text)
		}
		if r := d.ask(d.at[0], "POST", "/api/v1/tokens", fmt.Sprintf(newToken, "address"), b.token...); r.kind() != "step-up-required" || r.Passkey != nil {
			t.Errorf("a browser cannot use a passkey at an address: %s", r.text)
		}
	}
}

// Whatever is not the answer of a passkey of the person, to this challenge, for this request of this session, at the page of
// the daemon, confirms nothing, and is written down.
func TestPasskeyIsRefused(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	b := d.browser("superloop.localhost")
	b.add("laptop")
	own := "http://" + b.host
	refused := func(what string, r reply, kind string) {
		t.Helper()
		status := 403
		if kind == "no-such-challenge" {
			status = 404
		}
		d.want(what, r, status, kind)
		if strings.Contains(r.text, `"code"`) {
			t.Errorf("%s: a code is given: %s", what, r.text)
		}
		if l := d.lines()[len(d.lines())-1]; l.Reason != kind || l.Verdict != access.Refused || l.Confirmed != "" {
			t.Errorf("%s is written down as %+v", what, l)
		}
	}
	r := b.wants("one")
	refused("a page at another port", b.confirms(r.Challenge, b.signs(r, "http://superloop.localhost:3000")), "bad-passkey")
	if l := d.lines()[len(d.lines())-1]; !strings.Contains(l.Detail, "http://superloop.localhost:3000") {
		t.Errorf("the record does not name the page: %+v", l)
	}
	refused("the challenge was looked at", b.confirms(r.Challenge, b.signs(r, own)), "no-such-challenge")
	r = b.wants("one")
	answer := b.signs(r, own)
	other := b.wants("two")
	if other.Challenge == r.Challenge || other.Passkey.Challenge == r.Passkey.Challenge {
		t.Fatal("two requests have one challenge")
	}
	refused("for another request", b.confirms(other.Challenge, answer), "bad-passkey")
	thief := &browser{b.desk, b.host, bearer(d.session()), b.device, b.key}
	refused("by another session", thief.confirms(r.Challenge, answer), "no-such-challenge")
	got := b.confirms(r.Challenge, answer)
	b.want("the right one", got, 201, "")
	refused("a replay", b.confirms(r.Challenge, answer), "no-such-challenge")
	code := field(got, `"code":"`)
	b.want("for another body", b.wants("three", "Superloop-Confirm", code), 403, "step-up-required")
	b.want("by another session", thief.wants("one", "Superloop-Confirm", code), 403, "step-up-required")
	b.want("for another method", b.sends("DELETE", "/api/v1/tokens/one", "", "Superloop-Confirm", code), 404, "no-such-name")
	again := b.wants("one")
	if again.Challenge != r.Challenge || again.Passkey.Challenge == r.Passkey.Challenge {
		t.Error("the request has to be signed anew")
	}
	refused("the answer to the challenge before", b.confirms(again.Challenge, answer), "bad-passkey")
	b.want("the code still counts", b.wants("one", "Superloop-Confirm", code), 201, "")
	stranger := d.browser("superloop.localhost")
	stranger.token = b.token
	r = b.wants("four")
	stranger.key.ID = b.key.ID
	refused("another key", b.confirms(r.Challenge, stranger.signs(r, own)), "bad-passkey")
	r = b.wants("four")
	refused("no answer", b.confirms(r.Challenge, "{}"), "bad-passkey")
	r = b.wants("four")
	b.key.Counter -= 2
	refused("a copy of it", b.confirms(r.Challenge, b.signs(r, own)), "bad-passkey")
	b.key.Counter += 5
	refused("nothing waits", b.confirms("0123", "{}"), "no-such-challenge")
	r = b.wants("five")
	answer = b.signs(r, own)
	d.want("it is revoked", b.sends("DELETE", "/api/v1/passkeys/laptop", ""), 204, "")
	refused("a revoked one", b.confirms(r.Challenge, answer), "bad-passkey")
	if r := b.wants("six"); r.Passkey != nil {
		t.Errorf("a revoked one is asked for: %s", r.text)
	}
	d.want("a script", d.ask(d.at[0], "POST", "/api/v1/confirmations/x/passkey", `{"answer": {}}`, append([]string{"Host", b.host}, bearer(d.token("all", access.Scopes...))...)...), 403, "scope")
}

// A session of more than four hours answers questions again after a passkey has confirmed one answer.
func TestPasskeyOfAnOldSession(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	b := d.browser("localhost")
	b.add("laptop")
	data, err := os.ReadFile(access.File(d.state))
	if err != nil {
		t.Fatal(err)
	}
	var file map[string][]map[string]any
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	file["credentials"][0]["created_at"] = time.Now().Add(-access.SessionFresh)
	delete(file["credentials"][0], "confirmed_at")
	if data, err = json.Marshal(file); err == nil {
		err = os.WriteFile(access.File(d.state), data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	d.open()
	b.host = "localhost" + d.at[0][strings.LastIndexByte(d.at[0], ':'):]
	answer := func(headers ...string) reply {
		return b.sends("POST", "/api/v1/escalations/x/answer", `{"method": "approve", "digest": "00000000"}`, headers...)
	}
	r := answer()
	d.want("it answers", r, 403, "step-up-required")
	got := b.confirms(r.Challenge, b.signs(r, "http://"+b.host))
	d.want("the passkey", got, 201, "")
	d.want("confirmed", answer("Superloop-Confirm", field(got, `"code":"`)), 404, "not-found")
	d.want("and so for some hours", answer(), 404, "not-found")
}

// A stolen session adds no passkey: that takes a code from a terminal, and no passkey is enough for it. Nothing is made at an
// address, nor over the socket.
func TestPasskeyIsAddedOnATerminal(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	b := d.browser("localhost")
	b.add("laptop")
	second := d.browser("localhost")
	second.token = b.token
	body := second.made("second", "http://"+b.host)
	r := b.sends("POST", "/api/v1/passkeys", body)
	b.want("a second one", r, 403, "step-up-required")
	if r.Passkey != nil || !strings.Contains(r.What, "let the passkey second, made at http://"+b.host+", confirm") {
		t.Errorf("%s", r.text)
	}
	asked := b.wants("x")
	d.want("by the first one", b.confirms(r.Challenge, b.signs(asked, "http://"+b.host)), 403, "only-terminal")
	for what, c := range map[string]struct {
		r      reply
		status int
		kind   string
	}{
		"made at another port":   {b.sends("POST", "/api/v1/passkeys", second.made("x", "http://localhost:3000")), 403, "bad-passkey"},
		"not begun":              {b.sends("POST", "/api/v1/passkeys", `{"name": "x", "answer": {}}`), 403, "bad-passkey"},
		"no name":                {b.sends("POST", "/api/v1/passkeys", second.made("../x", "http://"+b.host)), 422, "invalid"},
		"options at an address":  {d.ask(d.at[0], "POST", "/api/v1/passkeys/options", "", b.token...), 409, "no-passkey-here"},
		"at an address":          {d.ask(d.at[0], "POST", "/api/v1/passkeys", body, b.token...), 409, "no-passkey-here"},
		"confirms at an address": {d.ask(d.at[0], "POST", "/api/v1/confirmations/x/passkey", `{"answer": {}}`, b.token...), 409, "no-passkey-here"},
		"over the socket":        {d.ask("", "POST", "/api/v1/passkeys", body), 409, "no-passkey-here"},
	} {
		d.want(what, c.r, c.status, c.kind)
	}
	d.want("confirmed", b.sends("POST", "/api/v1/passkeys", body, "Superloop-Confirm", b.code(r.Challenge)), 201, "")
	r = b.wants("y")
	got := second.confirms(r.Challenge, second.signs(r, "http://"+b.host))
	d.want("the second one confirms", b.wants("y", "Superloop-Confirm", field(got, `"code":"`)), 201, "")
	d.want("over the socket it is listed", d.ask("", "GET", "/api/v1/passkeys", ""), 200, "")
	d.want("and revoked", d.ask("", "DELETE", "/api/v1/passkeys/second", ""), 204, "")
	d.want("once", d.ask("", "DELETE", "/api/v1/passkeys/second", ""), 404, "no-such-name")
}

// Where the passkeys cannot be read, the daemon says so, none counts, and a code from a terminal confirms.
func TestDamagedPasskeys(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	b := d.browser("localhost")
	b.add("laptop")
	if err := os.WriteFile(passkey.File(d.state), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.open()
	b.host = "localhost" + d.at[0][strings.LastIndexByte(d.at[0], ':'):]
	for path, body := range map[string]string{"POST /api/v1/passkeys/options": "", "GET /api/v1/passkeys": "", "DELETE /api/v1/passkeys/laptop": "", "POST /api/v1/passkeys": `{"name": "x", "answer": {}}`, "POST /api/v1/confirmations/x/passkey": `{"answer": {}}`} {
		method, path, _ := strings.Cut(path, " ")
		r := b.sends(method, path, body)
		d.want(method+path, r, 503, "unusable")
		if !strings.Contains(r.Detail, passkey.File(d.state)) {
			t.Error(r.text)
		}
	}
	r := b.wants("ci")
	if r.kind() != "step-up-required" || r.Passkey != nil {
		t.Error(r.text)
	}
	d.want("a code", b.wants("ci", "Superloop-Confirm", b.code(r.Challenge)), 201, "")
}
