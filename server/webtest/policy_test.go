package webtest

import (
	"strings"
	"testing"
)

// What another policy would have decided stands beside the policy in force, with what is odd in it, and no text of a
// command is HTML.
func TestReplay(t *testing.T) {
	w := begin(t)
	hostile := `touch ok # <img src=x onerror=alert(1)>`
	repo := w.loop(t, spec{repo: "replay", id: "replay", proposal: proposes(hostile)})
	asks(t, repo, "replay")
	b := open(t).enter(w)
	b.visit("/policy")
	b.until("the repository is chosen", `[...document.querySelectorAll('main option')].some((o) => o.value === %s)`, repo)
	eval[bool](b, `(() => { const s = document.querySelector('select[aria-label=Repository]'); s.value = %s; s.dispatchEvent(new Event('change')); return true; })()`, repo)
	b.until("its entries are shown", `document.querySelector('.entries') && /1 decision: 1 the same/.test(document.querySelector('main').innerText)`)
	eval[bool](b, `(() => { document.querySelector('.candidate').value = JSON.stringify({auto_approve: [%s], guard: 'off'}); return true; })()`, hostile)
	b.click("button", "Judge the past")
	b.until("the decision differs", `document.querySelector('.past li')`)
	text := b.text("main")
	for _, part := range []string{"1 would differ", hostile, "A person is asked", "It runs by itself", "a person was asked; did not run", "a listed command runs whatever an agent has changed"} {
		if !strings.Contains(text, part) {
			t.Errorf("the screen does not show %q:\n%s", part, text)
		}
	}
	if n := eval[int](b, `document.querySelectorAll('main img').length`); n != 0 {
		t.Errorf("%d pictures", n)
	}
	eval[bool](b, `(() => { document.querySelector('.candidate').value = '{"on_unknown": 7}'; return true; })()`)
	b.click("button", "Judge the past")
	b.until("the error is shown", `/on_unknown/.test(document.querySelector('.beside .bad')?.innerText)`)
}
