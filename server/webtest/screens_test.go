package webtest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

var update = flag.Bool("update", false, "write the pictures of the docs anew")

func navigate(url string) chromedp.Action[chromedp.Void] { return chromedp.Navigate(url) }

// Every screen, in both themes and three widths: axe-core finds nothing, nothing is wider than the window, and a code is in
// no picture.
func TestScreens(t *testing.T) {
	w := night(t)
	data, err := os.ReadFile(fetched(t, "axe-core", "4.10.3", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	source := string(data)
	repo := w.loop(t, spec{repo: "shop", id: "checkout", proposal: proposes("rm -rf node_modules && npm ci"), channels: `"ops": {"type": "command", "command": "true", "tell": ["alert"]}`})
	q := asks(t, repo, "checkout")
	b := open(t).enter(w)
	href := eval[string](b, `new Promise((ok) => { const f = () => { const a = [...document.querySelectorAll('.loops a[data-row]')].find((x) => x.innerText === 'checkout'); a ? ok(a.getAttribute('href')) : setTimeout(f, 50); }; f(); })`)
	b.do(chromedp.Evaluate[chromedp.Void](source))
	type look struct {
		width int64
		theme string
	}
	looks := []look{{1280, "light"}, {390, "dark"}}
	if all() {
		looks = []look{{390, "light"}, {390, "dark"}, {1280, "light"}, {1280, "dark"}, {1920, "light"}, {1920, "dark"}}
	}
	for _, s := range []struct{ name, path, ready string }{
		{"overview", "/", `document.querySelector('.loops tbody tr')`}, {"question", "/questions/" + q.ID, `document.querySelector('.answer')`},
		{"log", href + "#log", `document.querySelector('.items li')`}, {"prompt", href + "#prompt", `document.querySelectorAll('#panel pre.out').length === 3`}, {"timeline", href + "#timeline", `document.querySelector('.timeline tbody tr')`}, {"gates", href + "#gates", `document.querySelector('#panel table')`},
		{"diff", href + "#diff", `!/Reading/.test(document.querySelector('#panel').innerText)`}, {"events", href + "#events", `document.querySelector('.events li')`},
		{"remediation", "/remediation", `document.querySelector('.recoveries li')`}, {"agents", "/agents", `document.querySelectorAll('main table').length === 2`}, {"cost", "/cost", `document.querySelector('sl-chart svg')`},
		{"policy", "/policy", `document.querySelector('.past')`}, {"settings", "/settings", `document.querySelectorAll('main table').length > 4`},
	} {
		b.visit(s.path)
		b.until(s.path+" is shown", s.ready)
		for _, l := range looks {
			b.look(l.width, l.theme)
			for _, wrong := range eval[[]string](b, `axe.run(document, {resultTypes: ['violations']}).then((r) => r.violations.map((v) => v.id + ': ' + v.help + ' ' + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200) + ' ' + (n.any[0]?.message ?? '')).join(' | ')))`) {
				t.Errorf("%s at %d, %s: %s", s.path, l.width, l.theme, wrong)
			}
			if wide := eval[int](b, `document.documentElement.scrollWidth - innerWidth`); wide > 0 {
				t.Errorf("%s at %d, %s is %d pixels too wide", s.path, l.width, l.theme, wide)
			}
			if dir := os.Getenv("SUPERLOOP_WEBTEST_PICTURES"); dir != "" {
				b.save(filepath.Join(dir, fmt.Sprintf("%s-%d-%s.png", s.name, l.width, l.theme)))
			}
		}
		if text := eval[string](b, `document.documentElement.outerHTML`); strings.Contains(text, "sls_") {
			t.Errorf("%s shows a secret", s.path)
		}
	}
	if *update {
		b.picture(t, w, href, q)
	}
}

// picture writes what the docs show.
func (b *tab) picture(t *testing.T, w *world, href string, q question) {
	t.Helper()
	b.visit("/")
	b.until("the loop is listed", `[...document.querySelectorAll('.loops a[data-row]')].some((x) => x.innerText === 'release')`)
	release := eval[string](b, `[...document.querySelectorAll('.loops a[data-row]')].find((x) => x.innerText === 'release').getAttribute('href')`)
	for _, p := range []struct {
		name, path, ready string
		width, height     int64
		theme             string
	}{
		{"page-overview", "/", `document.querySelector('.loops tbody tr')`, 1280, 930, "light"}, {"page-question", "/questions/" + q.ID, `document.querySelector('.answer')`, 1280, 540, "dark"},
		{"page-loop", release + "#timeline", `document.querySelector('.timeline tbody tr')`, 1280, 540, "light"}, {"page-phone", "/questions/" + q.ID, `document.querySelector('.answer')`, 390, 844, "light"},
	} {
		b.visit(p.path)
		b.until(p.name, p.ready)
		b.look(p.width, p.theme)
		b.do(chromedp.EmulateViewport(p.width, p.height))
		eval[bool](b, `new Promise((ok) => setTimeout(() => ok(true), 400))`)
		// The directory of the test is no place that readers know.
		eval[bool](b, `(() => { const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT); for (let n = walk.nextNode(); n; n = walk.nextNode()) n.data = n.data.replaceAll(%s, '/home/ann/work'); return true; })()`, w.root)
		b.save(filepath.Join("..", "..", "docs", p.name+".png"))
	}
}

// save writes a picture of what the window shows.
func (b *tab) save(file string) {
	b.t.Helper()
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(file, png, 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// By keys alone: from the overview to a question, an answer, and back.
func TestKeyboardOnly(t *testing.T) {
	w := begin(t)
	repo := w.loop(t, spec{repo: "keys", id: "keys", proposal: proposes("touch ok")})
	q := asks(t, repo, "keys")
	b := open(t).enter(w)
	b.until("the question is listed", `document.querySelector('.needs a[href="/questions/' + %s + '"]')`, q.ID)
	focused := func() string {
		return eval[string](b, `(document.activeElement?.getAttribute('href') ?? '') + ' ' + (document.activeElement?.innerText ?? '') + ' ' + (document.activeElement?.value ?? '')`)
	}
	for range 60 {
		if strings.Contains(focused(), q.ID) {
			break
		}
		b.keys("j")
	}
	if !strings.Contains(focused(), q.ID) {
		t.Fatalf("j does not reach the question, but %s", focused())
	}
	b.keys(enterKey)
	b.until("the question is shown", `document.querySelector('.answer')`)
	for i := range 40 {
		if eval[bool](b, `document.activeElement.matches('button.confirm')`) {
			break
		}
		if i == 39 {
			t.Fatalf("Tab does not reach the button: %s", focused())
		}
		b.keys(tabKey)
	}
	b.keys(enterKey)
	b.until("the answer is shown, and the focus with it", `document.activeElement?.closest('.answer.over')`)
	for i := range 5 {
		if strings.HasPrefix(focused(), "/ ") {
			break
		}
		if i == 4 {
			t.Fatalf("Tab does not reach the way back: %s", focused())
		}
		b.keys(tabKey)
	}
	b.keys(enterKey)
	b.until("the overview is there", `document.querySelector('.loops')`)
	until(t, "it completes", func() bool { return state(repo, "keys") == "completed" })
	// The filter, a row, its choice, and the help.
	b.keys("/")
	b.keys("keys")
	b.until("the filter works", `/^\?q=.*keys$/.test(location.search) && [...document.querySelectorAll('.loops tbody tr')].length === 1`)
	b.keys(enterKey)
	b.until("a row has the focus", `document.activeElement?.closest('.loops tbody tr')`)
	b.keys("x")
	b.until("the row is chosen", `document.querySelector('.loops tbody input').checked && !document.querySelector('.bulk').hidden`)
	b.keys("?")
	b.until("the keys are told", `document.querySelector('dialog[open]')`)
}
