package webtest

import (
	"slices"
	"testing"
)

// Figures of a screen that are no link, each with the reason why: what they stand in is what a link would lead to, or
// they tell of something else than of events.
var untraced = []string{
	".events", ".items", ".bar .faint", ".past", // the record itself: events, a log with its size, decisions
	"section > h2", ".bar [role=status]", // how many stand below
	".plainrows div.faint",                   // the words of a provider
	"pre, code, textarea, option, .evidence", // quotes
	"summary",                                // opens what it counts
	".chip",                                  // filters what stands below
	"svg, .legend",                           // the scale of a chart; its bars, its tip and its table are links
	".next",                                  // what comes: nothing has happened yet
	".what, .details",                        // the words of a question, and "its events" below them
	".recoveries details",                    // the words of a proposal, and the link above them
	".ends h2",                               // when the reader was here last
	".beside p",                              // how many stand above and below
	"sl-policy select, sl-policy label",      // a choice
	"sl-settings :not(a)",                    // the daemon, the disk and credentials, and no figure of a loop
}

// numbers returns the texts with a digit that lead nowhere, and the links to events of which there are none.
const numbers = `(async (names, untraced) => {
  const wrong = new Set(), walk = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  for (let n = walk.nextNode(); n; n = walk.nextNode()) {
    let text = n.data;
    for (const name of names) text = text.replaceAll(name, '');
    if (!/\d/.test(text) || !n.parentElement.checkVisibility() || n.parentElement.closest('a[href], button, ' + untraced.join(', '))) continue;
    wrong.add(n.parentElement.closest('[class]')?.className + ': ' + (n.parentElement.closest('p, td, dd, h1, h2, li')?.innerText ?? n.data).slice(0, 100));
  }
  const c = await import('/client.js');
  for (const href of new Set([...document.querySelectorAll('main a[href*="#events?"]:not(.chip)')].map((a) => a.getAttribute('href')))) {
    const [, id, query] = /^\/loops\/([^#]+)#events\?(.*)$/.exec(href);
    const page = await c.get('/api/v1/loops/' + id + '/said?limit=1&' + query);
    if (page.sentences.length === 0) wrong.add('no event is at ' + href);
  }
  return [...wrong];
})(%s, %s)`

// Every number of every screen leads to what it was made of by a click, and there is such a thing.
func TestNumbers(t *testing.T) {
	w := night(t)
	b := open(t).enter(w)
	b.until("all questions are there", `document.querySelectorAll('.needs li').length >= 8`)
	names := eval[[]string](b, `import('/client.js').then((c) => [...c.world.rows.values()].flatMap((r) => [r.loop, r.branch, r.repo, r.repo.split('/').pop(), r.limit?.account]).concat(c.world.who?.name).filter((x) => /\d/.test(x ?? '')))`)
	names = append(names, "claude-opus-4-5", "claude-sonnet-4-5", "claude-haiku-4-5")
	href := func(loop string) string {
		return eval[string](b, `[...document.querySelectorAll('.loops a[data-row]')].find((x) => x.innerText === %s)?.getAttribute('href') ?? ''`, loop)
	}
	read := `!/Reading/.test(document.querySelector('main').innerText)`
	screens := [][2]string{{"/", read}, {"/?s=bad", read}, {"/remediation", `document.querySelectorAll('.recoveries li').length > 1`}, {"/agents", `document.querySelector('main tbody tr') && ` + read}, {"/policy", `document.querySelector('.entries')`},
		{"/settings", `document.querySelectorAll('main table').length > 3`}}
	for _, by := range []string{"role", "model", "loop", "repo"} {
		screens = append(screens, [2]string{"/cost?span=h&by=" + by, `document.querySelector('sl-chart svg')`})
	}
	for _, loop := range []string{"search", "certs", "webhooks", "login", "mailer", "deploy", longName} {
		for tab, ready := range map[string]string{"log": "true", "timeline": `document.querySelector('.timeline tbody tr')`, "gates": read, "events": `document.querySelector('.events li')`} {
			screens = append(screens, [2]string{href(loop) + "#" + tab, ready})
		}
	}
	for _, q := range eval[[]string](b, `[...document.querySelectorAll('.needs a')].map((a) => a.getAttribute('href'))`) {
		screens = append(screens, [2]string{q, `document.querySelector('.answer')`})
	}
	for _, s := range slices.Compact(screens) {
		b.visit(s[0])
		b.until(s[0]+" is shown", s[1])
		for _, wrong := range eval[[]string](b, numbers, names, untraced) {
			t.Errorf("%s: %s", s[0], wrong)
		}
	}
}
