package webtest

import (
	"strings"
	"testing"
)

// A number leads to the events that it was made of: from the overview, Agents and Cost. What was chosen stands in the address,
// and a new tab shows the same.
func TestTraced(t *testing.T) {
	w := begin(t)
	repo := w.loop(t, spec{repo: "traced", id: "traced", proposal: proposes("touch theirs"), roles: `["tester"]`, priced: true})
	asks(t, repo, "traced")
	b := open(t).enter(w)
	events := func() []string {
		t.Helper()
		b.until("events are listed", `document.querySelector('.events li')`)
		return eval[[]string](b, `[...new Set([...document.querySelectorAll('.events .ev')].map((e) => e.innerText))]`)
	}
	only := func(where, query string, names ...string) {
		t.Helper()
		for _, e := range events() {
			if !strings.Contains(strings.Join(names, " "), e) {
				t.Errorf("%s leads to events %s", where, e)
			}
		}
		if at := eval[string](b, `location.hash`); at != "#events?"+query {
			t.Errorf("%s leads to %s", where, at)
		}
	}
	b.visit("/?q=traced")
	b.until("what it has spent is shown", `/\d/.test(document.querySelector('.loops td.spent a')?.innerText)`)
	b.click(".loops td.spent a", "$")
	only("what was spent", "event=role_%5Beft%5D*", "role_end")
	href := eval[string](b, `location.pathname + location.hash`)
	b.click(".chips a", "gates")
	b.until("the gates are chosen", `location.hash === '#events?event=gates_evaluated' && [...document.querySelectorAll('.events .ev')].every((e) => e.innerText === 'gates_evaluated')`)
	b.click(".chips a", "all")
	b.until("all are listed", `document.querySelectorAll('.events li').length > 8`)
	b.visit(href)
	only("its address", "event=role_%5Beft%5D*", "role_end")

	b.visit("/agents")
	b.click("section a", "traced")
	only("a runner's events", "runner=claude&role=tester&event=role_%5Beft%5D*", "role_end")
	b.click(".chips a", "runner claude")
	b.until("the choice is taken back", `location.hash === '#events?event=role_%5Beft%5D*&role=tester'`)

	b.visit("/cost?by=role&span=h")
	b.click("main td a", "tester")
	b.until("the cost of the role is shown by loop", `/by=loop/.test(location.search) && /role=tester/.test(location.search) && [...document.querySelectorAll('main td a')].some((a) => a.innerText === 'traced')`)
	b.click("main td a", "traced")
	only("the cost of a role in a loop", "event=role_%5Beft%5D*&role=tester", "role_end")
}

// Settings shows channels without their addresses, and sends a sample message by a click; and what is kept on the disk.
func TestChannels(t *testing.T) {
	w := begin(t)
	w.loop(t, spec{repo: "channels", id: "channels", idle: true, channels: `"ops": {"type": "command", "command": "false s3cret", "tell": ["alert"]}, "mine": {"type": "command", "command": "cat", "tell": ["alert"]}`})
	w.verb(t, "start", "--repo", w.root+"/channels", "--loop", "channels")
	b := open(t).enter(w)
	b.visit("/settings")
	for name, want := range map[string]string{"mine": "delivered", "ops": "failed"} {
		at := `document.querySelector('[aria-label="Send a test on ' + %s + ' of channels"]')`
		b.until("the channel is listed", at, name)
		eval[bool](b, at+`.click() === undefined`, name)
		b.until(name+" was tried", `/^`+want+`/.test(`+at+`.nextElementSibling.innerText)`, name)
	}
	if strings.Contains(b.text("main"), "s3cret") {
		t.Error("an address is shown")
	}
	b.until("what is kept is told", `/older than 30 days/.test(document.querySelector('main').innerText) && /\d (KiB|MiB)/.test(document.querySelector('[aria-label="Kept on the disk"]')?.innerText)`)
}
