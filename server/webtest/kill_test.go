package webtest

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// The daemon is killed while a tab looks at the events of a loop, and comes back: the tab has each event once. A session
// outlives the daemon.
func TestDaemonKilled(t *testing.T) {
	w := begin(t)
	repo := w.loop(t, spec{repo: "killed", id: "killed", roles: `["implementer", "reviewer"]`, iterations: 200,
		more: `"tests": {"commands": ["./check"]}, "respond": {"enabled": false}, "recovery": {"enabled": false}, "stuck": {"threshold": 100}`})
	b := open(t).enter(w).expect("ERR_CONNECTION_REFUSED").expect("ERR_INCOMPLETE_CHUNKED_ENCODING").expect("ERR_CONNECTION_RESET").expect("ERR_EMPTY_RESPONSE")
	id := eval[string](b, `new Promise((ok) => { const f = () => { const a = [...document.querySelectorAll('.loops a[data-row]')].find((x) => x.innerText === 'killed'); a ? ok(a.getAttribute('href')) : setTimeout(f, 50); }; f(); })`)
	b.visit(id + "#events")
	last := func() int64 { return eval[int64](b, `Number(document.querySelector('.events li')?.dataset.seq ?? 0)`) }
	until(t, "events are shown", func() bool { return last() > 20 })
	for range 2 {
		w.kill()
		b.until("the tab says so", `document.querySelector('.state.lost')`)
		before := last()
		if err := w.serve(); err != nil {
			t.Fatal(err)
		}
		b.until("the tab is live again", `document.querySelector('.state.live')`)
		until(t, "the loop goes on, it is "+state(repo, "killed"), func() bool { return last() > before+10 })
	}
	w.verb(t, "stop", "--repo", repo, "--loop", "killed")
	until(t, "nothing runs it", func() bool { return eval[bool](b, `!/Stop/.test(document.querySelector('.acts').innerText)`) })
	var events []string
	f, err := os.Open(filepath.Join(repo, ".superloop", "loops", "killed", "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var ev struct{ Event string }
		if err := json.Unmarshal(lines.Bytes(), &ev); err != nil {
			t.Fatal(err)
		}
		events = append(events, ev.Event)
	}
	until(t, "the last event is shown", func() bool { return last() == int64(len(events)) })
	for eval[bool](b, `(() => { const o = [...document.querySelectorAll('#panel button')].find((x) => x.innerText === 'Older events'); if (o?.hidden !== false) return false; o.click(); return true; })()`) {
		n := eval[int](b, `document.querySelectorAll('.events li').length`)
		b.until("older events come", `document.querySelectorAll('.events li').length > %s`, n)
	}
	type line struct {
		Seq   int    `json:"seq"`
		Event string `json:"event"`
	}
	shown := eval[[]line](b, `[...document.querySelectorAll('.events li')].map((l) => ({seq: Number(l.dataset.seq), event: l.querySelector('.ev').textContent}))`)
	if len(shown) != len(events) {
		t.Errorf("%d events are shown, and the journal has %d", len(shown), len(events))
	}
	for i, l := range shown {
		if want := len(events) - i; l.Seq != want || l.Event != events[want-1] {
			t.Fatalf("line %d from the top is event %d, %s; it should be %d, %s", i+1, l.Seq, l.Event, want, events[want-1])
		}
	}
}

// A code opens one session. What has no session sees no data, and the address does not keep the code.
func TestCodeCountsOnce(t *testing.T) {
	w := begin(t)
	link := w.link(t)
	b := open(t)
	b.do(navigate(link))
	b.until("the page is live", `document.querySelector('.state.live')`)
	if at := eval[string](b, `location.href`); at != "http://superloop.localhost:"+w.port+"/" {
		t.Errorf("the address is %s", at)
	}
	if n := eval[int](b, `history.length`); n > 2 {
		t.Errorf("the history has %d entries", n)
	}
	if secret := eval[string](b, `document.cookie + JSON.stringify(localStorage) + JSON.stringify(sessionStorage)`); len(secret) > 120 {
		t.Errorf("something is stored: %s", secret)
	}
	b.expect("403").expect("401")
	// A worker of another browser has no session; the code was used.
	status := eval[int](b, `fetch('/api/v1/sessions', {method: 'POST', headers: {'Content-Type': 'application/json'}, body: JSON.stringify({code: %s})}).then((r) => r.status)`, link[len(link)-22:])
	if status != 403 {
		t.Errorf("the second use of a code: %d", status)
	}
	if status := eval[int](b, `fetch('/api/v1/loops').then((r) => r.status)`); status != 401 {
		t.Errorf("without a token: %d", status)
	}
	// The session ends at once where it is ended.
	name := eval[string](b, `import('/client.js').then((c) => c.world.who.name)`)
	b.expect("ERR_INCOMPLETE_CHUNKED_ENCODING")
	w.verb(t, "token", "revoke", "--session", name)
	b.until("the page says that it has no session", `/has no session/.test(document.querySelector('main').innerText)`)
	if eval[bool](b, `document.querySelector('.loops') !== null`) {
		t.Error("loops are still shown")
	}
}
