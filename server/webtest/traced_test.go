package webtest

import (
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// A number leads to the events that it was made of: from the overview, Agents, Cost with its chart, and the timeline. What was chosen stands in the address,
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
		at := eval[string](b, `location.hash`)
		if bare := aTime.ReplaceAllString(at, "$1=T"); bare != "#events?"+query {
			t.Errorf("%s leads to %s", where, at)
		}
		if eval[bool](b, `(() => {
			const q = new URLSearchParams(location.hash.split('?')[1]), t = [...document.querySelectorAll('.events time')].map((e) => Date.parse(e.dateTime));
			return t.some((x) => x < Date.parse(q.get('from') ?? '1970') || x >= Date.parse(q.get('to') ?? '2970'));
		})()`) {
			t.Errorf("%s leads to events of another time: %s", where, at)
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
	b.click("tbody a", "traced")
	only("a runner's events", "runner=claude&role=tester&event=role_%5Beft%5D*", "role_end")
	b.click(".chips a", "runner claude")
	b.until("the choice is taken back", `location.hash === '#events?event=role_%5Beft%5D*&role=tester'`)

	b.visit("/cost?by=role&span=h")
	b.click("main td a", "tester")
	b.until("the cost of the role is shown by loop", `/by=loop/.test(location.search) && /role=tester/.test(location.search) && [...document.querySelectorAll('main td a')].some((a) => a.innerText === 'traced')`)
	b.click("main td a", "traced")
	const ended = "event=role_%5Beft%5D*&"
	only("the cost of a role in a loop", ended+"role=tester&from=T&to=T", "role_end")

	// A point of the chart: by the pointer, and by the keys. The one of another series is not the loop's.
	b.visit("/cost?by=loop&span=h")
	b.until("the chart is drawn", `document.querySelector('sl-chart rect[data-k]')`)
	at := eval[[2]float64](b, `(() => {
		const k = [...document.querySelectorAll('.legend li')].findIndex((x) => x.innerText === 'traced'), r = document.querySelector('sl-chart rect[data-k="' + k + '"]').getBoundingClientRect();
		return [r.x + r.width / 2, r.y + r.height / 2];
	})()`)
	b.do(chromedp.MouseClickXY(at[0], at[1]))
	only("a bar of the chart", ended+"from=T&to=T", "role_end")
	if who := b.text("h1"); who != "traced" {
		t.Errorf("a bar of the chart leads to the loop %s", who)
	}
	b.visit("/cost?by=role&span=h&role=tester")
	b.until("the chart is drawn", `document.querySelector('sl-chart rect[data-k]')`)
	eval[bool](b, `document.querySelector('sl-chart svg').focus() === undefined`)
	b.keys(kb.End)
	for range 100 { // to the newest step with a value
		if eval[bool](b, `document.querySelectorAll('.tip a').length > 1`) {
			break
		}
		b.keys(kb.ArrowLeft)
	}
	b.keys(enterKey)
	b.until("the cost of that time is shown by loop", `/by=loop/.test(location.search) && /role=tester&from=.*&to=/.test(location.search) && [...document.querySelectorAll('main td a')].some((a) => a.innerText === 'traced')`)
	b.click("main td a", "traced")
	only("the cost of a role in a loop at a time", ended+"role=tester&from=T&to=T", "role_end")
	b.click(".chips a", "from")
	b.until("the begin is open", `!/from=/.test(location.hash) && /to=/.test(location.hash)`)

	b.visit(eval[string](b, `location.pathname`) + "#timeline")
	b.until("the timeline is shown", `document.querySelector('.bars a.track')`)
	eval[bool](b, `document.querySelector('.bars a.track[aria-label^=tester]').click() === undefined`)
	only("a bar of the timeline", "from=T&to=T", "role_start", "role_end", "recovery_seen")
	if got := strings.Join(events(), " "); !strings.Contains(got, "role_start") || !strings.Contains(got, "role_end") {
		t.Errorf("a bar of the timeline leads to %s", got)
	}
}

var aTime = regexp.MustCompile(`\b(from|to)=[^&]+`)

// Settings shows channels without their addresses, and sends a sample message by a click; who may answer, what the doctor
// finds, and what is kept on the disk.
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
	b.until("who may answer is told", `/\d session/.test([...document.querySelectorAll('section')].find((s) => /^Who may answer/.test(s.innerText))?.innerText)`)
	eval[bool](b, `document.querySelector('[aria-label="Examine channels"]').click() === undefined`)
	b.until("the doctor tells what holds here", `/L[01]/.test(document.querySelector('[aria-label="What the doctor found in channels"]')?.innerText)`)
	b.until("what is kept is told", `/older than 30 days/.test(document.querySelector('main').innerText) && /\d (KiB|MiB)/.test(document.querySelector('[aria-label="Kept on the disk"]')?.innerText)`)
}

// An address that a server would refuse can be loaded again all the same.
func TestBrokenAddress(t *testing.T) {
	b := open(t).enter(begin(t))
	for _, path := range []string{"/loops/%", "/loops/%E0%A4%A", "/questions/%zz?q=%", "/nowhere", "/nowhere/x#y"} {
		b.visit(path)
		b.do(chromedp.Reload())
		b.until("the page is there again", `document.querySelector('main')?.firstElementChild`)
		b.enter(begin(t)) // a session ends with its last tab
	}
}
