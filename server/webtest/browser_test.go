package webtest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// chromium is the path of the browser, "" without one.
func chromium() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

var browser struct {
	once sync.Once
	ctx  context.Context
	stop func()
	err  error
}

func stopBrowser() {
	if browser.stop != nil {
		browser.stop()
	}
}

func startBrowser() {
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium()), chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("force-color-profile", "srgb"),
		chromedp.Flag("host-resolver-rules", "MAP evil.example 127.0.0.1"))
	if os.Getuid() == 0 {
		opts = append(opts, chromedp.NoSandbox)
	}
	alloc, end := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, leave := chromedp.NewContext(alloc)
	browser.ctx, browser.stop = ctx, func() { leave(); end() }
	browser.err = chromedp.Do(ctx)
}

// tab is a tab of the browser.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu    sync.Mutex
	wrong []string // errors of the console, exceptions, violations of the policy
	fine  []string // parts of errors that a test makes happen
}

// open opens a tab. At the test's end it has had no error.
func open(t *testing.T) *tab {
	t.Helper()
	return openWith(t)
}

// openAlone opens a tab of a browser of its own: it shares no session, and nothing that is stored.
func openAlone(t *testing.T) *tab {
	t.Helper()
	return openWith(t, chromedp.WithNewBrowserContext())
}

func openWith(t *testing.T, opts ...chromedp.ContextOption) *tab {
	t.Helper()
	browser.once.Do(startBrowser)
	if browser.err != nil {
		t.Fatal(browser.err)
	}
	ctx, stop := chromedp.NewContext(browser.ctx, opts...)
	b := &tab{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, b.hear); err != nil {
		t.Fatal(err)
	}
	b.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, log.Enable, cdp.Empty{})
		return err
	}))
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, w := range b.wrong {
			t.Errorf("the browser says: %s", w)
		}
		stop()
	})
	return b
}

func (b *tab) hear(ev any) {
	what := ""
	switch e := ev.(type) {
	case *runtime.EventConsoleAPICalled:
		if string(e.Type) == "error" || string(e.Type) == "warning" || string(e.Type) == "assert" {
			data, _ := json.Marshal(e.Args)
			what = "console: " + string(data)
		}
	case *runtime.EventExceptionThrown:
		data, _ := json.Marshal(e.ExceptionDetails)
		what = "exception: " + string(data)
	case *log.EventEntryAdded:
		if string(e.Entry.Level) == "error" || string(e.Entry.Source) == "security" {
			what = "log: " + e.Entry.Text + " " + e.Entry.URL
		}
	}
	if what == "" {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.fine {
		if strings.Contains(what, f) {
			return
		}
	}
	b.wrong = append(b.wrong, what)
}

// expect says that an error with this part is no surprise.
func (b *tab) expect(part string) *tab {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fine = append(b.fine, part)
	return b
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// eval returns the value of an expression; of a promise its result.
func eval[T any](b *tab, js string, args ...any) T {
	b.t.Helper()
	if len(args) > 0 {
		var quoted []any
		for _, a := range args {
			data, err := json.Marshal(a)
			if err != nil {
				b.t.Fatal(err)
			}
			quoted = append(quoted, string(data))
		}
		js = fmt.Sprintf(js, quoted...)
	}
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](js, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%v\n%s", err, js)
	}
	return v
}

// until waits until an expression is true.
func (b *tab) until(what, js string, args ...any) {
	b.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		if eval[bool](b, "!!("+js+")", args...) {
			return
		}
		select {
		case <-late.C:
			b.t.Fatalf("never: %s\n%s\n%s\n%v", what, eval[string](b, "location.pathname"), eval[string](b, "document.body.innerText"), b.wrong)
		case <-time.After(30 * time.Millisecond):
		}
	}
}

// enter opens the page with a session of its own, and waits until it is live.
func (b *tab) enter(w *world) *tab {
	b.t.Helper()
	b.do(chromedp.Navigate(w.link(b.t)))
	b.until("the page is live", `document.querySelector('.state.live')`)
	return b
}

// visit goes to a path as a link does.
func (b *tab) visit(path string) {
	b.t.Helper()
	eval[bool](b, `(() => { history.pushState(null, '', %s); dispatchEvent(new PopStateEvent('popstate')); return true; })()`, path)
}

// text is what a reader sees.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return eval[string](b, `document.querySelector(%s)?.innerText ?? ''`, selector)
}

// click clicks the first element of a selector with a text.
func (b *tab) click(selector, text string) {
	b.t.Helper()
	find := `[...document.querySelectorAll(%s)].find((e) => e.innerText.includes(%s) || e.closest('label')?.innerText.includes(%[2]s))`
	b.until(selector+" "+text, find, selector, text)
	eval[bool](b, "("+find+").click() === undefined", selector, text)
}

func (b *tab) keys(keys string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(keys))
}

const (
	enterKey = kb.Enter
	tabKey   = kb.Tab

	escapeKey = kb.Escape
)

// look sets the width and the theme.
func (b *tab) look(width int64, theme string) {
	b.t.Helper()
	height := int64(900)
	if width < 500 {
		height = 844
	}
	b.do(chromedp.EmulateViewport(width, height), chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}, {Name: "prefers-reduced-motion", Value: "reduce"}}})
		return err
	}))
}

// all reports whether everything is to be played, and not a sample.
func all() bool { return os.Getenv("SUPERLOOP_WEBTEST") == "all" }
