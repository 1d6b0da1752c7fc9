package webtest

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// confirmed gives the page the code that a person gets on a terminal.
func (b *tab) confirmed(w *world) {
	b.t.Helper()
	b.until("a code is asked for", `document.querySelector('dialog[open] input.code')`)
	eval[bool](b, `(() => { document.querySelector('dialog[open] input.code').value = %s; return true; })()`, w.confirm(b.t))
	b.click("dialog[open] button.strong", "Go on")
}

// What is remembered stands in the policy afterwards, exactly, and the rest of the file as it was.
func TestRemember(t *testing.T) {
	w := begin(t)
	repo := w.loop(t, spec{repo: "remember", id: "remember", proposal: proposes("touch  ok")})
	file := filepath.Join(repo, ".superloop", "config.json")
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b := open(t).enter(w).expect("403")
	b.show(asks(t, repo, "remember"))
	b.click("input[name=way]", "from now on without me")
	if said := b.text(".answer .diff"); !strings.Contains(said, `"touch  ok"`) {
		t.Errorf("the change is shown as %q", said)
	}
	b.click(".confirm", "Run, now and from now on: touch  ok")

	// Who leaves the dialog has changed nothing; a wrong code is not enough.
	b.until("a code is asked for", `document.querySelector('dialog[open] input.code')`)
	b.click("dialog[open] button", "Leave it")
	b.until("it says that nothing was done", `/nothing was done/.test(document.querySelector('.answer [role=alert]')?.innerText)`)
	b.click(".confirm", "Run, now and from now on")
	b.until("a code is asked for", `document.querySelector('dialog[open] input.code')`)
	eval[bool](b, `(() => { document.querySelector('dialog[open] input.code').value = 'AAAA-AAAA'; return true; })()`)
	b.click("dialog[open] button.strong", "Go on")
	b.until("it is asked for again", `document.querySelector('dialog[open] input.code')?.value === ''`)
	if after, _ := os.ReadFile(file); string(after) != string(before) {
		t.Fatalf("without a confirmation: %s", after)
	}
	b.confirmed(w)
	b.until("it is answered", `document.querySelector('.answer.over')`)
	until(t, "it completes", func() bool { return state(repo, "remember") == "completed" })
	after, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if was, is := len(before)+len(`, "touch  ok"`), len(after); was != is || !strings.Contains(string(after), `"touch  ok"`) {
		t.Errorf("the policy is\n%s\nit was\n%s", after, before)
	}
}

// What a recovery has overwritten is put back by the page.
func TestUndo(t *testing.T) {
	w := begin(t)
	repo := w.loop(t, spec{repo: "undo", id: "undo", proposal: proposes("cp spec.md says && touch ok")})
	b := open(t).enter(w).expect("403")
	b.show(asks(t, repo, "undo"))
	b.click(".confirm", "Run once: cp spec.md says && touch ok")
	until(t, "it completes", func() bool { return state(repo, "undo") == "completed" })
	says := func() string {
		data, err := os.ReadFile(filepath.Join(repo, "says"))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	if says() != "# Do it\n" {
		t.Fatalf("it has not run: %q", says())
	}
	b.visit("/remediation")
	b.until("it is listed", `[...document.querySelectorAll('.recoveries > li')].some((l) => /cp spec.md says/.test(l.innerText) && l.querySelector('.line button'))`)
	eval[bool](b, `[...document.querySelectorAll('.recoveries > li')].find((l) => /cp spec.md says/.test(l.innerText)).querySelector('.line button').click() === undefined`)
	b.click("dialog[open] button.strong", "Undo: cp spec.md says && touch ok")
	b.confirmed(w)
	b.until("it is put back", `/is put back/.test(document.querySelector('#told').innerText)`)
	if says() != "I look at the index.\n" {
		t.Errorf("after it: %q", says())
	}
}

// A token is made once it is confirmed, is shown once, is what a script needs, and ends.
func TestMakeToken(t *testing.T) {
	w := begin(t)
	b := open(t).enter(w).expect("403")
	b.visit("/settings")
	b.click("main button", "Make a token")
	b.until("its dialog is there", `document.querySelector('dialog[open] input[aria-label=Name]')`)
	eval[bool](b, `(() => { document.querySelector('dialog[open] input[aria-label=Name]').value = 'nightly'; return true; })()`)
	b.click("dialog[open] button.strong", "Make it")
	b.confirmed(w)
	b.until("the token is shown", `/shown once/.test(document.querySelector('dialog[open]')?.innerText)`)
	token := b.text("dialog[open] code")
	ask := func(method, path string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://localhost:"+w.port+path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var any any
		_ = json.NewDecoder(res.Body).Decode(&any)
		return res.StatusCode
	}
	if got := ask("GET", "/api/v1/loops"); got != 200 {
		t.Errorf("it reads: %d", got)
	}
	if got := ask("POST", "/api/v1/loops"); got != 403 {
		t.Errorf("it may only read, and a change is answered by %d", got)
	}
	b.keys(escapeKey)
	b.until("it is listed, and not shown again", `!document.querySelector('dialog[open]') && [...document.querySelectorAll('main b')].some((e) => e.innerText === 'nightly') && !document.documentElement.outerHTML.includes(%s)`, token)
	eval[bool](b, `document.querySelector('[aria-label="End nightly"]').click() === undefined`)
	b.click("dialog[open] button.strong", "End nightly")
	b.until("it is gone", `![...document.querySelectorAll('main b')].some((e) => e.innerText === 'nightly')`)
	if got := ask("GET", "/api/v1/loops"); got != 401 {
		t.Errorf("after its end: %d", got)
	}
}
