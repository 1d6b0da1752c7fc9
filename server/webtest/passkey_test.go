package webtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
)

// authenticator gives a tab an authenticator that recognises the person.
func (b *tab) authenticator() (id webauthn.AuthenticatorID) {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		if _, err := cdp.Call(ctx, target, webauthn.Enable, webauthn.EnableParams{}); err != nil {
			return err
		}
		got, err := cdp.Call(ctx, target, webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{Options: &webauthn.VirtualAuthenticatorOptions{
			Protocol: "ctap2", Transport: "internal", HasResidentKey: true, HasUserVerification: true, IsUserVerified: true, AutomaticPresenceSimulation: true}})
		id = got.AuthenticatorID
		return err
	}))
	return id
}

// recognises says whether the authenticator tells that it has recognised the person.
func (b *tab) recognises(id webauthn.AuthenticatorID, yes bool) {
	b.t.Helper()
	no := !yes
	b.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, webauthn.SetResponseOverrideBits, webauthn.SetResponseOverrideBitsParams{AuthenticatorID: id, IsBadUV: &no})
		return err
	}))
}

// types fills a field of the open dialog.
func (b *tab) types(label, text string) {
	b.t.Helper()
	b.until(label, `document.querySelector('dialog[open] input[aria-label="' + %s + '"]')`, label)
	eval[bool](b, `(() => { document.querySelector('dialog[open] input[aria-label="' + %s + '"]').value = %s; return true; })()`, label, text)
}

const codeLabel = "The code of superloop confirm"

// makesKey makes a passkey in Settings, which is confirmed on a terminal.
func (b *tab) makesKey(w *world, name string) {
	b.t.Helper()
	b.visit("/settings")
	b.click("button", "Make a passkey")
	b.types("Name", name)
	b.click("dialog[open] button.strong", "Make it")
	b.until("a code is asked for", `document.querySelector('dialog[open] input.code') && !document.querySelector('dialog[open]').innerText.includes('Confirm with a passkey')`)
	b.types(codeLabel, w.confirm(b.t))
	b.click("dialog[open] button", "Go on")
	b.until("it is listed", `[...document.querySelectorAll('sl-settings tr')].some((r) => r.innerText.startsWith(%s) && r.innerText.includes('superloop.localhost'))`, name)
}

// A passkey that was made in Settings, and confirmed on a terminal, confirms an answer that is remembered: the loop goes on to
// its end. An answer of the device that does not count is told, and another one may be given.
func TestPasskey(t *testing.T) {
	w := begin(t)
	repo := w.loop(t, spec{repo: "passkey", id: "passkey", proposal: proposes("touch ok")})
	b := open(t).enter(w).expect("403")
	device := b.authenticator()
	b.makesKey(w, "laptop")
	if out := w.verb(t, "passkey", "list"); !strings.Contains(out, "laptop") {
		t.Error(out)
	}
	b.show(asks(t, repo, "passkey"))
	b.click("input[name=way]", "from now on without me")
	b.click(".confirm", "Run, now and from now on")
	b.until("it says what is to be confirmed", `document.querySelector('dialog[open]')?.innerText.includes('run this command of loop passkey now, and from now on without asking: touch ok')`)
	b.recognises(device, false)
	b.click("dialog[open] button.strong", "Confirm with a passkey")
	b.until("it is told", `/does not hold/.test(document.querySelector('dialog[open] .bad')?.innerText)`)
	b.recognises(device, true)
	b.click("dialog[open] button.strong", "Confirm with a passkey")
	b.until("the answer is shown", `/by/i.test(document.querySelector('.answer.over')?.innerText)`)
	until(t, "it completes", func() bool { return state(repo, "passkey") == "completed" })
	if config, err := os.ReadFile(filepath.Join(repo, ".superloop", "config.json")); err != nil || !strings.Contains(string(config), `"touch ok"`) {
		t.Errorf("it is not remembered: %v\n%s", err, config)
	}
	b.visit("/settings")
	b.until("the record says with what", `document.querySelector('sl-settings')?.innerText.includes('by passkey laptop')`)
	b.click("button[aria-label='End laptop']", "end")
	b.click("dialog[open] button.strong", "End laptop")
	b.until("it is gone", `!document.querySelector("button[aria-label='End laptop']")`)
	if out := w.verb(t, "passkey", "list"); strings.Contains(out, "laptop") {
		t.Error(out)
	}
}

// At an address no passkey can be used: Settings says why, and a code from a terminal confirms.
func TestNoPasskeyAtAnAddress(t *testing.T) {
	w := begin(t)
	b := open(t).expect("403")
	b.authenticator()
	b.do(chromedp.Navigate(strings.Replace(w.link(t), "superloop.localhost", "127.0.0.1", 1)))
	b.until("the page is live", `document.querySelector('.state.live')`)
	b.visit("/settings")
	b.until("it says why", `/uses passkeys for names only, and this page was opened by the address 127\.0\.0\.1/.test(document.querySelector('sl-settings')?.innerText)`)
	if eval[bool](b, `[...document.querySelectorAll('button')].some((x) => x.innerText.includes('Make a passkey'))`) {
		t.Error("a passkey is offered")
	}
	b.click("button", "Make a token")
	b.types("Name", "address")
	b.click("dialog[open] button.strong", "Make it")
	b.until("a code is asked for", `document.querySelector('dialog[open] input.code') && !document.querySelector('dialog[open]').innerText.includes('passkey')`)
	b.types(codeLabel, w.confirm(t))
	b.click("dialog[open] button.strong", "Go on")
	b.until("it is made", `/shown once/.test(document.querySelector('dialog[open]')?.innerText)`)
}

// An agent has stolen a session, and has a person use the passkey on a page of its own server, at another port of the same
// name. The browser gives it an answer, and the daemon refuses that and writes down where it was given.
func TestPasskeyOfAnotherPort(t *testing.T) {
	w := begin(t)
	b := open(t).enter(w).expect("403").expect("404")
	b.authenticator()
	b.makesKey(w, "stolen")

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	own := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(rw, "<!doctype html><title>The app</title><p>Please sign in again")
	})}
	done := make(chan struct{})
	go func() { _ = own.Serve(l); close(done) }()
	t.Cleanup(func() { _ = own.Close(); <-done })
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}

	token, host := "", "superloop.localhost:"+w.port
	send := func(method, path, body string, headers ...string) (int, map[string]any) {
		t.Helper()
		req, err := http.NewRequest(method, "http://127.0.0.1:"+w.port+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+token)
		for i := 0; i+1 < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var out map[string]any
		var buf bytes.Buffer
		if _, err := buf.ReadFrom(res.Body); err != nil {
			t.Fatal(err)
		}
		_ = json.Unmarshal(buf.Bytes(), &out) // no content
		return res.StatusCode, out
	}
	_, session := send("POST", "/api/v1/sessions", fmt.Sprintf(`{"code": %q}`, strings.TrimSpace(w.verb(t, "token", "code"))))
	token, _ = session["token"].(string)
	const body = `{"name": "pwned", "scopes": ["approve"], "expires_in": 3600}`
	for _, name := range []string{"superloop.localhost", "localhost"} {
		_, asked := send("POST", "/api/v1/tokens", body)
		challenge, _ := asked["challenge"].(string)
		options, err := json.Marshal(asked["passkey"])
		if err != nil || !strings.Contains(string(options), "superloop.localhost") {
			t.Fatalf("%v %v", err, asked)
		}
		page := "http://" + name + ":" + port
		b.do(chromedp.Navigate(page))
		answer := eval[string](b, `(async () => { try {
			const o = PublicKeyCredential.parseRequestOptionsFromJSON(JSON.parse(%s));
			return JSON.stringify((await navigator.credentials.get({publicKey: o})).toJSON());
		} catch (e) { return String(e.name); } })()`, string(options))
		if name == "localhost" {
			if answer != "SecurityError" {
				t.Errorf("the browser lets %s use the passkey: %s", page, answer)
			}
			continue
		}
		if !strings.HasPrefix(answer, "{") {
			t.Fatalf("the browser refuses by itself, and the test shows nothing: %s", answer)
		}
		status, said := send("POST", "/api/v1/confirmations/"+challenge+"/passkey", `{"answer": `+answer+`}`)
		if status != http.StatusForbidden || said["type"] != "urn:superloop:bad-passkey" || said["code"] != nil {
			t.Errorf("%d %v", status, said)
		}
		if audit, err := os.ReadFile(filepath.Join(w.root, "state", "superloop", "daemon", "audit.jsonl")); err != nil || !strings.Contains(string(audit), "the passkey was used on the page "+page) {
			t.Errorf("%v\n%s", err, audit)
		}
		status, said = send("POST", "/api/v1/confirmations/"+challenge+"/passkey", `{"answer": `+answer+`}`)
		if status != http.StatusNotFound {
			t.Errorf("again: %d %v", status, said)
		}
	}
	// Its own page cannot ask the daemon, nor show the daemon's page in a frame and have the passkey used there.
	b.do(chromedp.Navigate("http://superloop.localhost:" + port))
	b.expect("CORS").expect("Failed to load").expect("frame-ancestors").expect("Refused to").expect("ERR_").expect("Framing")
	if got := eval[string](b, `fetch('http://superloop.localhost:`+w.port+`/api/v1/passkeys/options', {method: 'POST', headers: {Authorization: 'Bearer `+token+`', 'Content-Type': 'application/json'}, body: '{}'}).then((r) => 'status ' + r.status, (e) => e.name)`); got != "TypeError" {
		t.Errorf("the page of another port asks the daemon: %s", got)
	}
	if tokens := w.verb(t, "token", "list"); strings.Contains(tokens, "pwned") {
		t.Error(tokens)
	}
	w.verb(t, "passkey", "revoke", "stolen")
	if status, said := send("POST", "/api/v1/tokens", body, "Superloop-Confirm", w.confirm(t)); status != http.StatusCreated { // and nothing waits any more
		t.Errorf("confirmed on a terminal: %d %v", status, said)
	}
	w.verb(t, "token", "revoke", "pwned")
}
