package webtest

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// walker finds what can be used now, in the order of the document: in the open dialog, if there is one.
const walker = `window.walker ??= {
  all() {
    const root = document.querySelector('dialog[open]') ?? document.body;
    return [...root.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex="0"], th, svg')].filter((e) => e.checkVisibility() && !e.disabled);
  },
  name: (e) => e.tagName.toLowerCase() + ' ' + (e.getAttribute('aria-label') ?? e.innerText ?? '').replace(/\s+/g, ' ').slice(0, 60),
  use(n, text) {
    const all = this.all(), e = all[n % all.length];
    if (!e) return 'nothing';
    const name = this.name(e);
    if (e.matches('input:not([type=checkbox]):not([type=radio]), textarea')) {
      e.focus();
      e.value = text;
      e.dispatchEvent(new Event('input', {bubbles: true}));
      e.dispatchEvent(new Event('change', {bubbles: true}));
      return 'text into ' + name;
    }
    if (e.matches('select')) {
      if (e.options.length) e.selectedIndex = n % e.options.length;
      e.dispatchEvent(new Event('change', {bubbles: true}));
      return 'choice of ' + name;
    }
    e.dispatchEvent(new PointerEvent('pointermove', {bubbles: true, clientX: n % innerWidth, clientY: n % innerHeight}));
    e.focus?.();
    if (e.matches('svg')) e.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true}));
    e.click?.();
    return 'click on ' + name;
  },
}, true`

// Random ways through the page, with hostile texts, while loops change, ask and end: whatever is clicked, typed or pressed,
// the browser reports no error and no violation of the policy, and from each place the overview can be reached.
func TestWalks(t *testing.T) {
	w := begin(t)
	r := seed(t)
	p := proposes("touch theirs " + strings.ReplaceAll(hostile[0], "'", "") + "\u202e")
	p["diagnosis"] = map[string]any{"error_pattern": hostile[1], "root_cause": strings.Join(hostile, "\n"), "evidence": hostile}
	type run struct{ repo, id string }
	var runs []run
	for i, name := range []string{`walk <b onclick=hit=1>`, "walk \u202ea", "walk-b", "walk-c"} {
		s := spec{repo: name, id: fmt.Sprintf("walk-%d", i), proposal: p, says: strings.Join(hostile, "\n"), iterations: 3}
		if i > 1 { // it works all the time
			s.roles, s.iterations, s.more = `["implementer", "reviewer"]`, 500, `"tests": {"commands": ["./check"]}, "respond": {"enabled": false}, "recovery": {"enabled": false}, "stuck": {"threshold": 400}`
		}
		runs = append(runs, run{w.loop(t, s), s.id})
	}
	q := asks(t, runs[0].repo, runs[0].id)
	walks, steps := 3, 30
	if all() {
		walks, steps = 100, 40
	}
	keep, b := open(t).enter(w), open(t).enter(w) // the session ends with the last tab
	// A refusal of the daemon is an answer, and a stream that a walk has left is no error.
	for _, part := range []string{"status of 400", "status of 401", "status of 403", "status of 404", "status of 409", "status of 422", "status of 429", "status of 416", "ERR_INCOMPLETE_CHUNKED_ENCODING"} {
		keep.expect(part)
		b.expect(part)
	}
	href := eval[string](b, `new Promise((ok) => { const f = () => { const a = document.querySelector('.loops a[data-row]'); a ? ok(a.getAttribute('href')) : setTimeout(f, 50); }; f(); })`)
	starts := []string{"/", "/questions/" + q.ID, href, href + "#timeline", href + "#events", href + "#diff", href + "#gates", "/remediation", "/agents", "/cost", "/policy", "/settings", "/?s=done&q=%3Cscript%3E", "/loops/none", "/questions/none", "/nowhere", "/loops/%", "/loops/%E0%A4%A"}
	for n := range walks {
		var way []string
		b.visit(starts[(n+r.IntN(len(starts)))%len(starts)])
		for range steps {
			way = append(way, b.step(w, r))
			if eval[bool](b, `/has no session/.test(document.querySelector('main')?.innerText ?? '')`) {
				way = append(way, "a new session")
				b.enter(w)
			}
		}
		b.leave(strings.Join(way, "\n"))
		if hit := eval[bool](b, `!!window.hit`); hit {
			t.Fatalf("a script of a text ran:\n%s", strings.Join(way, "\n"))
		}
		b.mu.Lock()
		wrong := len(b.wrong)
		b.mu.Unlock()
		if wrong > 0 {
			t.Fatalf("walk %d:\n%s", n, strings.Join(way, "\n"))
		}
		for _, x := range runs { // what a walk has stopped or ended goes on
			_, _ = w.try("start", "--repo", x.repo, "--loop", x.id) // it may run
		}
	}
	for _, x := range runs {
		_, _ = w.try("stop", "--repo", x.repo, "--loop", x.id) // it may have ended
		if exists(filepath.Join(x.repo, "hit")) {
			t.Error("a text was run")
		}
	}
	t.Logf("%d walks of %d steps", walks, steps)
}

// step does one thing that a person can do.
func (b *tab) step(w *world, r *rand.Rand) string {
	b.t.Helper()
	eval[bool](b, walker)
	text := hostile[r.IntN(len(hostile))]
	switch n := r.IntN(100); {
	case n < 62:
		return eval[string](b, `walker.use(%s, %s)`, r.IntN(1<<20), text)
	case n < 78:
		keys := []string{"j", "k", "x", "n", "o", "?", "/", "g", "1", enterKey, tabKey, escapeKey, " ", "\u00e9"}
		key := keys[r.IntN(len(keys))]
		b.keys(key)
		return fmt.Sprintf("key %q", key)
	case n < 84:
		b.history("back")
		return "back"
	case n < 87:
		b.history("forward")
		return "forward"
	case n < 90:
		b.do(chromedp.Reload())
		b.until("the page is there again", `document.querySelector('main')?.firstElementChild`)
		return "reload"
	case n < 94:
		width, theme := []int64{320, 390, 768, 1280, 2560}[r.IntN(5)], []string{"light", "dark"}[r.IntN(2)]
		b.look(width, theme)
		return fmt.Sprintf("%d pixels, %s", width, theme)
	case n < 97:
		b.visit("/?q=" + strings.NewReplacer("%", "%25", "&", "%26", "#", "%23", " ", "+").Replace(text))
		return "filter " + text
	default:
		eval[bool](b, `new Promise((ok) => setTimeout(() => ok(true), 300))`)
		return "a moment"
	}
}

// leave goes to the overview as a person does: out of the dialogs by Escape, and by the first link of the navigation.
func (b *tab) leave(way string) {
	b.t.Helper()
	for range 5 {
		if eval[bool](b, `!document.querySelector('dialog[open]')`) {
			break
		}
		b.keys(escapeKey)
		eval[bool](b, `new Promise((ok) => setTimeout(() => ok(true), 30))`)
	}
	if eval[bool](b, `!!document.querySelector('dialog[open]')`) {
		b.t.Fatalf("Escape does not leave the dialog:\n%s\n%s", b.text("dialog[open]"), way)
	}
	eval[bool](b, `document.querySelector('nav a').click() === undefined`)
	for range 200 {
		if eval[bool](b, `location.pathname === '/' && document.querySelector('main .loops') !== null`) {
			return
		}
		eval[bool](b, `new Promise((ok) => setTimeout(() => ok(true), 25))`)
	}
	b.t.Fatalf("the overview cannot be reached from %s:\n%s\n%s", eval[string](b, "location.href"), b.text("main"), way)
}

// history goes one step in the history. Where that leads to another document, the browser may not answer any more.
func (b *tab) history(way string) {
	b.t.Helper()
	_, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("(history."+way+"(), true)", chromedp.EvalAwaitPromise))
	if err != nil && !strings.Contains(err.Error(), "Inspected target navigated or closed") {
		b.t.Fatal(way, err)
	}
}
