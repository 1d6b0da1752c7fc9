//go:build linux

package webtest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// TestLoad measures the page under the load of design section 4 and prints the figures: 200 loops, 50 events a second, 5
// tabs. It judges none of them: a busy machine is no fault. SUPERLOOP_WEBTEST_LOAD is how long it lasts, such as 10m.
func TestLoad(t *testing.T) {
	long, err := time.ParseDuration(os.Getenv("SUPERLOOP_WEBTEST_LOAD"))
	if err != nil || long < 10*time.Second {
		t.Skip("it takes minutes, and prints figures; SUPERLOOP_WEBTEST_LOAD=10m runs it (10s at least)")
	}
	const loops, rate, tabs = 200, 50, 5
	w := begin(t)
	all := w.many(t, loops)
	pid := w.daemon.Process.Pid
	quiet, begun := memory(t, pid, "VmRSS"), memory(t, pid, "VmHWM")
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil { // VmHWM begins anew
		t.Skip(err)
	}
	b := open(t).enter(w)
	b.until("all loops are listed", `document.querySelectorAll('.loops tbody tr').length >= %s`, loops)
	figure := func(what, format string, args ...any) { t.Logf("%-46s "+format, append([]any{what}, args...)...) }

	// First paint: of the page, and of a plain answer of the same server.
	paint := func(path, ready string) (first, whole float64) {
		var firsts, wholes []float64
		for range 10 {
			b.do(navigate("http://superloop.localhost:" + w.port + path))
			b.until("it is painted", `performance.getEntriesByName('first-contentful-paint').length && `+ready)
			firsts = append(firsts, eval[float64](b, `performance.getEntriesByName('first-contentful-paint')[0].startTime`))
			wholes = append(wholes, eval[float64](b, `performance.now()`))
		}
		return quantile(firsts, .5), quantile(wholes, .5)
	}
	keep := open(t).enter(w) // the session ends with the last tab
	b.expect("404")
	static, _ := paint("/static-page", `true`)
	page, whole := paint("/", fmt.Sprintf(`document.querySelectorAll('.loops tbody tr').length >= %d`, loops))
	figure("first paint of the page / of a static page", "%.2f   (%.0f ms, %.0f ms; with all %d loops %.0f ms)", page/static, page, static, loops, whole)

	// Click to recorded: a note to a loop, until the answer is there.
	clicks := eval[[]float64](b, `(async () => {
		const c = await import('/client.js'), id = [...c.world.rows.keys()][0], took = [];
		for (let i = 0; i < 40; i++) {
			const button = document.createElement('button');
			const done = new Promise((ok) => button.onclick = async () => { const t = performance.now(); await c.change('POST', '/api/v1/loops/' + id + '/note', {note: 'n' + i}); took.push(performance.now() - t); ok(0); });
			button.click();
			await done;
		}
		return took;
	})()`)
	figure("click to recorded", "p50 %.0f ms, p95 %.0f ms", quantile(clicks, .5), quantile(clicks, .95))

	looking := []*tab{b, keep}
	for len(looking) < tabs {
		looking = append(looking, open(t).enter(w))
	}
	for _, l := range looking {
		l.until("all loops are listed", `document.querySelectorAll('.loops tbody tr').length >= %s`, loops)
	}
	eval[bool](b, `(() => {
		window.painted = [];
		new MutationObserver((list) => {
			const cells = new Set(list.map((m) => (m.target.nodeType === 1 ? m.target : m.target.parentElement)?.closest?.('td.iter')).filter(Boolean));
			if (cells.size) requestAnimationFrame(() => { const c = new MessageChannel(); c.port1.onmessage = () => { for (const x of cells) window.painted.push([x.closest('tr').querySelector('.name').innerText, parseInt(x.innerText), performance.timeOrigin + performance.now()]); }; c.port2.postMessage(0); });
		}).observe(document.querySelector('.loops tbody'), {subtree: true, childList: true, characterData: true});
		return true;
	})()`)
	b.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error { // the others are behind it, as tabs are
		_, err := cdp.Call(ctx, target, cdppage.BringToFront, cdp.Empty{})
		return err
	}))
	heap := func() (most float64) {
		for _, l := range looking {
			most = max(most, l.heap())
		}
		return most
	}
	idle := cpu(t, pid)
	<-time.After(10 * time.Second)
	idle = (cpu(t, pid) - idle) / 10
	before, busy, began := heap(), cpu(t, pid), time.Now()
	wrote := map[string]float64{}
	var heaps, late []float64
	painted := func() { // the tab does not keep it: its heap is measured
		for _, p := range eval[[][3]any](b, `window.painted.splice(0)`) {
			at, ok := wrote[fmt.Sprintf("%v %v", p[0], p[1])]
			if ms, num := p[2].(float64); ok && num {
				late = append(late, ms-at)
			}
		}
	}
	tick := time.NewTicker(time.Second / rate)
	defer tick.Stop()
	for n := 0; time.Since(began) < long; n++ {
		<-tick.C
		l := all[n%len(all)]
		at := l.event(t)
		wrote[l.id+" "+strconv.Itoa(l.iteration)] = at
		if n%(rate*max(1, int(long.Seconds())/6)) == rate {
			painted()
			heaps = append(heaps, heap())
		}
	}
	took := time.Since(began).Seconds()
	used := (cpu(t, pid) - busy) / took
	<-time.After(2 * time.Second)
	painted()
	var sum int
	for _, l := range all {
		sum += l.iteration
	}
	figure("events a second, loops, tabs, seconds", "%.0f, %d, %d, %.0f", float64(len(wrote))/took, loops, tabs, took)
	figure("daemon, share of a core", "%.1f %%   (before, without events: %.1f %%); %.2f ms an event", 100*used, 100*idle, 1000*used*took/float64(len(wrote)))
	figure("daemon, memory", "%.0f MiB, at most %.0f (without tabs %.0f; while loops began %.0f); the target is %.0f", memory(t, pid, "VmRSS"), memory(t, pid, "VmHWM"), quiet, begun, 60+.1*loops)
	figure("event on disk to painted", "p50 %.0f ms, p95 %.0f ms, of %d painted", quantile(late, .5), quantile(late, .95), len(late))
	figure("heap of a tab, the largest", "%.1f MB before, then %.1f, at the end %.1f", before, heaps, heap())

	// A log of 64 MiB.
	l := all[0]
	l.bigLog(t)
	b.visit("/")
	b.until("the overview is there", `document.querySelector('.loops tbody tr')`)
	was := b.heap()
	href := eval[string](b, `[...document.querySelectorAll('.loops a[data-row]')].find((x) => x.innerText === %s).getAttribute('href')`, l.id)
	b.visit(href + "#log")
	b.until("the log is shown", `document.querySelectorAll('.items li').length > 100 && /64/.test(document.querySelector('#panel .bar').innerText)`)
	items := b.heap() - was
	b.click("#panel input[type=checkbox]", "as it was recorded")
	b.until("its end is shown", `document.querySelector('#panel pre.out')`)
	figure("heap that a log of 64 MiB takes", "%.1f MB as items, %.1f MB as it was recorded", items, b.heap()-was)

	// A journal of a million events.
	l = all[1]
	l.million(t)
	b.visit("/")
	b.until("the overview is there", `document.querySelector('.loops tbody tr')`)
	href = eval[string](b, `[...document.querySelectorAll('.loops a[data-row]')].find((x) => x.innerText === %s).getAttribute('href')`, l.id)
	opens := eval[float64](b, `new Promise((ok) => {
		const t = performance.now();
		history.pushState(null, '', %s);
		dispatchEvent(new PopStateEvent('popstate'));
		const f = () => Number(document.querySelector('.events li')?.dataset.seq) >= 1e6 ? requestAnimationFrame(() => ok(performance.now() - t)) : setTimeout(f, 5);
		f();
	})`, href+"#events")
	figure("a journal of a million events opens in", "%.0f ms", opens)
}

// heap is what a tab holds, in MB, after what it holds no more was collected.
func (b *tab) heap() float64 {
	b.t.Helper()
	var used float64
	b.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		if _, err := cdp.Call(ctx, target, heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
			return err
		}
		u, err := cdp.Call(ctx, target, runtime.GetHeapUsage, cdp.Empty{})
		used = float64(u.UsedSize) / 1e6
		return err
	}))
	return used
}

func quantile(list []float64, q float64) float64 {
	if len(list) == 0 {
		return math.NaN()
	}
	list = slices.Sorted(slices.Values(list))
	return list[int(q*float64(len(list)-1))]
}

// cpu is the processor time that a process has used, in seconds.
func cpu(t *testing.T, pid int) float64 {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Skip("the processor time of a process is read from /proc: ", err)
	}
	f := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	user, _ := strconv.ParseFloat(f[11], 64)
	system, _ := strconv.ParseFloat(f[12], 64)
	return (user + system) / 100
}

// memory is a figure of a process, in MiB.
func memory(t *testing.T, pid int, name string) float64 {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skip(err)
	}
	_, rest, _ := strings.Cut(string(data), name+":")
	kib, _ := strconv.ParseFloat(cmp.Or(strings.Fields(rest + " 0")[0], "0"), 64)
	return kib / 1024
}

// written is a loop whose journal the test writes, as a supervisor would.
type written struct {
	id, dir   string
	iteration int
	seq       int
	prev      string
	state     map[string]any
}

// many makes a real loop run for an iteration, and then loops that have its files.
func (w *world) many(t *testing.T, n int) (all []*written) {
	t.Helper()
	const each = 20
	more := `"tests": {"commands": ["./check"]}, "respond": {"enabled": false}, "recovery": {"enabled": false}`
	first := w.loop(t, spec{repo: "load", id: "load-x", roles: `["implementer", "reviewer"]`, iterations: 2, more: more})
	until(t, "it ends", func() bool { return state(first, "load-x") == "limit_reached" })
	from := filepath.Join(first, ".superloop", "loops", "load-x")
	for r := 0; r*each < n; r++ {
		repo := w.loop(t, spec{repo: fmt.Sprintf("load-%d", r), id: fmt.Sprintf("load-%d-0", r), roles: `["implementer", "reviewer"]`, iterations: 2, more: more, idle: true})
		config := filepath.Join(repo, ".superloop", "config.json")
		data, err := os.ReadFile(config)
		if err != nil {
			t.Fatal(err)
		}
		head, loop, _ := bytes.Cut(data, []byte(`"loops": [`))
		one := strings.TrimSuffix(strings.TrimSpace(string(loop)), "]}")
		var list, ids []string
		for i := range each {
			ids = append(ids, fmt.Sprintf("load-%d-%d", r, i))
			list = append(list, strings.Replace(one, fmt.Sprintf("load-%d-0", r), ids[i], 1))
		}
		if err := os.WriteFile(config, []byte(string(head)+`"loops": [`+strings.Join(list, ",")+"]}"), 0o600); err != nil {
			t.Fatal(err)
		}
		w.verb(t, "start", "--repo", repo)
		for _, id := range ids {
			l := &written{id: id, dir: filepath.Join(repo, ".superloop", "loops", id)}
			all = append(all, l)
		}
	}
	// Nothing is to run them but the test.
	token := w.token(t, "load")
	var known struct{ Loops []struct{ ID, Loop string } }
	if err := json.Unmarshal(w.ask(t, token, "GET", "/api/v1/loops?limit=1000"), &known); err != nil {
		t.Fatal(err)
	}
	for _, l := range known.Loops {
		w.ask(t, token, "POST", "/api/v1/loops/"+l.ID+"/stop")
	}
	for _, l := range all {
		l.copy(t, from)
	}
	return all
}

// ask sends a request with a token, and returns what it is answered by.
func (w *world) ask(t *testing.T, token, method, path string) []byte {
	t.Helper()
	var body io.Reader
	if method != "GET" {
		body = strings.NewReader("{}")
	}
	req, err := http.NewRequestWithContext(t.Context(), method, "http://localhost:"+w.port+path, body)
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
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// copy gives the loop the files of another one.
func (l *written) copy(t *testing.T, from string) {
	t.Helper()
	if err := os.RemoveAll(l.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(l.dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(l.dir, "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(l.dir, "events.jsonl")); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		l.line(&out, strings.Replace(line[:strings.LastIndex(line, `,"prev":"`)], `"load-x"`, `"`+l.id+`"`, 1))
	}
	if err := os.WriteFile(filepath.Join(l.dir, "events.jsonl"), out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	data, err = os.ReadFile(filepath.Join(l.dir, "state.json"))
	if err == nil {
		err = json.Unmarshal(bytes.ReplaceAll(data, []byte(`"load-x"`), []byte(`"`+l.id+`"`)), &l.state)
	}
	if err != nil {
		t.Fatal(err)
	}
	l.state["status"], l.iteration = "running", 2
	// A loop that works has a supervisor, which holds its lock.
	lock, err := os.OpenFile(filepath.Join(l.dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Close() }) // nothing was written to it
}

// line appends a line with the chain's members to its beginning, as loop/journal does.
func (l *written) line(out *bytes.Buffer, line string) {
	l.seq++
	at := out.Len()
	fmt.Fprintf(out, `%s,"prev":%q`, line, l.prev)
	sum := fmt.Sprintf("%x", sha256.Sum256(out.Bytes()[at:]))
	fmt.Fprintf(out, `,"hash":%q}`+"\n", sum)
	l.prev = sum
}

// event puts an event and the view on the disk, and returns when, in milliseconds.
func (l *written) event(t *testing.T) float64 {
	t.Helper()
	l.iteration++
	now := time.Now().UTC()
	var out bytes.Buffer
	l.line(&out, fmt.Sprintf(`{"seq":%d,"timestamp":%q,"event":"iteration_start","loop_id":%q,"run_id":%q,"iteration":%d`, l.seq+1, now.Format("2006-01-02T15:04:05.000Z"), l.id, l.state["run_id"], l.iteration))
	l.append(t, out.Bytes())
	l.state["iteration"], l.state["seq"], l.state["updated_at"] = l.iteration, l.seq, now.Format(time.RFC3339Nano)
	data, err := json.Marshal(l.state)
	if err == nil {
		err = os.WriteFile(filepath.Join(l.dir, "state.tmp"), data, 0o600)
	}
	if err == nil {
		err = os.Rename(filepath.Join(l.dir, "state.tmp"), filepath.Join(l.dir, "state.json"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return float64(now.UnixMicro()) / 1000
}

func (l *written) append(t *testing.T, data []byte) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(l.dir, "events.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(data); err != nil {
		t.Fatal(err)
	}
}

// bigLog makes the log of the newest role 64 MiB long.
func (l *written) bigLog(t *testing.T) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(l.dir, "logs", "iter-*", "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("the loop has no logs: %v", err)
	}
	for _, file := range logs {
		line := []byte(`{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"` + strings.Repeat("I look at the next file. ", 8) + `"}]},"session_id":"x"}` + "\n")
		if err := os.WriteFile(file, bytes.Repeat(line, (64<<20)/len(line)+1), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// million makes the journal a million events longer.
func (l *written) million(t *testing.T) {
	t.Helper()
	var out bytes.Buffer
	for range 1_000_000 {
		l.line(&out, fmt.Sprintf(`{"seq":%d,"timestamp":"2026-01-01T00:00:00.000Z","event":"iteration_start","loop_id":%q,"run_id":%q,"iteration":%d`, l.seq+1, l.id, l.state["run_id"], l.iteration))
		if out.Len() > 8<<20 {
			l.append(t, out.Bytes())
			out.Reset()
		}
	}
	l.append(t, out.Bytes())
	l.event(t)
}
