package webtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// attack is a page of somebody else. It tries to ask the daemon at the address of window.daemon, to answer question
// window.eid, with a token that it has got hold of. It says what it got; "" is a refusal.
const attack = `<!doctype html><title>dev server</title><body><script>
async function attack(daemon, eid, digest, token) {
  const got = {}, body = JSON.stringify({method: 'approve', digest});
  const ask = async (what, path, init) => {
    try {
      const res = await fetch(daemon + path, init);
      got[what] = res.type === 'opaque' ? '' : res.status + ' ' + (await res.text()).slice(0, 200);
    } catch { got[what] = ''; }
  };
  const answer = '/api/v1/escalations/' + eid + '/answer';
  await ask('the loops', '/api/v1/loops');
  await ask('the loops with a token', '/api/v1/loops', {headers: {Authorization: 'Bearer ' + token}});
  await ask('the loops, unread', '/api/v1/loops', {mode: 'no-cors', credentials: 'include'});
  await ask('the stream', '/api/v1/stream', {headers: {Authorization: 'Bearer ' + token}});
  await ask('a script of the page', '/app.js');
  await ask('an answer', answer, {method: 'POST', body, headers: {'Content-Type': 'application/json', Authorization: 'Bearer ' + token}});
  await ask('an answer without asking first', answer, {method: 'POST', body, mode: 'no-cors', credentials: 'include'});
  await ask('an answer as a form', answer, {method: 'POST', body: new URLSearchParams({method: 'approve', digest}), mode: 'no-cors'});
  await ask('a session', '/api/v1/sessions', {method: 'POST', body: JSON.stringify({code: 'A'.repeat(22)}), headers: {'Content-Type': 'application/json'}});
  await ask('a code', '/api/v1/codes', {method: 'POST', body: '{}', headers: {'Content-Type': 'application/json', Authorization: 'Bearer ' + token}});
  got['a worker'] = await new Promise((ok) => { try { const w = new SharedWorker(daemon + '/worker.js', {type: 'module', name: 'superloop'}); w.onerror = () => ok(''); w.port.onmessage = () => ok('it speaks'); w.port.start(); w.port.postMessage({op: 'hello'}); setTimeout(() => ok(''), 1500); } catch { ok(''); } });
  got['a script element'] = await new Promise((ok) => { const s = document.createElement('script'); s.src = daemon + '/text.js'; s.type = 'text/javascript'; s.onload = () => ok('it ran'); s.onerror = () => ok(''); document.body.append(s); });
  await Promise.all([['a frame', '/'], ['a frame of the question', '/questions/' + eid]].map(async ([what, path]) => {
    got[what] = await new Promise((ok) => {
      const f = document.createElement('iframe'); f.src = daemon + path; f.id = 'frame';
      f.onload = () => { let at = ''; try { at = f.contentDocument ? 'its document: ' + f.contentDocument.title : ''; } catch {} ok(at); };
      document.body.append(f); setTimeout(() => ok(''), 1500);
    });
  }));
  // A form needs no leave of anybody; what it is answered by is shown in a frame.
  await Promise.all(['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data'].map(async (type) => {
    await new Promise((ok) => {
      const target = document.createElement('iframe'); target.name = 'to ' + type; document.body.append(target);
      const f = document.createElement('form'); f.method = 'POST'; f.action = daemon + answer; f.enctype = type; f.target = target.name;
      const i = document.createElement('input'); i.name = body.slice(0, -1) + ',"note":"'; i.value = '"}'; f.append(i); document.body.append(f);
      target.onload = () => ok(0); setTimeout(ok, 1500); f.submit();
    });
  }));
  return got;
}
</script>`

// refused plays the attack in a tab, and looks whether anything came of it.
func (b *tab) refused(w *world, repo, id string, q question, where, token string) {
	b.t.Helper()
	hosts := []string{"superloop.localhost", "localhost", "127.0.0.1"}
	if !all() {
		hosts = hosts[:1]
	}
	for _, host := range hosts {
		got := eval[map[string]string](b, `attack(%s, %s, %s, %s)`, "http://"+host+":"+w.port, q.ID, q.Digest, token)
		if len(got) < 10 {
			b.t.Fatalf("%s tried only %v", where, got)
		}
		for what, is := range got {
			if is != "" {
				b.t.Errorf("%s, at %s, gets %s: %s", where, host, what, is)
			}
		}
	}
	if now := asks(b.t, repo, id); now != q {
		b.t.Errorf("%s has changed the question to %v", where, now)
	}
}

func (w *world) token(t *testing.T, name string) string {
	t.Helper()
	c := w.verb(t, "token", "create", "--name", name, "--scope", "read,control,approve", "--json")
	var made struct{ Token string }
	if err := json.Unmarshal([]byte(c), &made); err != nil || made.Token == "" {
		t.Fatal(err, c)
	}
	return made.Token
}

// refusals are what the daemon has refused, as it has recorded it: the reasons by path.
func (b *tab) refusals() []string {
	b.t.Helper()
	return eval[[]string](b, `import('/client.js').then((c) => c.get('/api/v1/audit?limit=500')).then((p) => p.lines.filter((l) => l.verdict !== 'done').map((l) => l.method + ' ' + l.path + ' ' + l.status + ' ' + l.reason))`)
}

// A page of another origin, of another site, and one whose name leads here (rebinding), with a stolen token that may
// answer: none reads, frames or changes anything.
func TestForeignPages(t *testing.T) {
	w := begin(t)
	repo := w.loop(t, spec{repo: "foreign", id: "foreign", proposal: proposes("touch theirs")})
	q := asks(t, repo, "foreign")
	token := w.token(t, "stolen")
	person := open(t).enter(w) // a session that the foreign pages would like to use
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		fmt.Fprint(rw, attack)
	}))
	t.Cleanup(s.Close)
	_, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "http://"), ":")
	names := []string{"superloop.localhost", "evil.example", "localhost"}
	if !all() {
		names = names[:2]
	}
	for _, name := range names {
		b := open(t).expect("") // it is theirs what it says
		b.do(navigate("http://" + name + ":" + port + "/"))
		b.refused(w, repo, "foreign", q, "a page of "+name+":"+port, token)
	}
	b := open(t).expect("403")
	// The policy of the refusal binds no page that was there before its name was led here.
	b.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, page.SetBypassCSP, page.SetBypassCSPParams{Enabled: true})
		return err
	}))
	b.do(navigate("http://evil.example:" + w.port + "/"))
	if text := b.text("body"); !strings.Contains(text, "bad-host") || strings.Contains(text, "superloop needs JavaScript") {
		t.Errorf("another name that leads here reads %q", text)
	}
	for _, path := range []string{"/app.js", "/api/v1/loops", "/api/v1/stream", "/api/v1/openapi.json", "/healthz"} {
		if got := eval[int](b, `fetch(%s, {headers: {Authorization: 'Bearer ' + %s}}).then((r) => r.status)`, path, token); got != 403 {
			t.Errorf("another name that leads here: %s: %d", path, got)
		}
	}
	if got := eval[int](b, `fetch('/api/v1/escalations/' + %s + '/answer', {method: 'POST', headers: {'Content-Type': 'application/json', Authorization: 'Bearer ' + %s}, body: JSON.stringify({method: 'approve', digest: %s})}).then((r) => r.status)`, q.ID, token, q.Digest); got != 403 {
		t.Errorf("another name that leads here answers: %d", got)
	}
	if now := asks(t, repo, "foreign"); now != q || exists(filepath.Join(repo, "theirs")) {
		t.Errorf("the question has changed to %v", now)
	}
	all := strings.Join(person.refusals(), "\n")
	if !strings.Contains(all, "/answer 403") {
		t.Errorf("the refused answers are not recorded:\n%s", all)
	}
	w.verb(t, "token", "revoke", "stolen")
}

// An agent serves a page of its own, as agents do, and a person opens it. The page has a stolen token, and so has the agent
// itself.
func TestPageOfAnAgent(t *testing.T) {
	w := begin(t)
	asking := w.loop(t, spec{repo: "asking", id: "asking", proposal: proposes("touch theirs")})
	q := asks(t, asking, "asking")
	token := w.token(t, "agents")
	repo := w.loop(t, spec{repo: "agents-page", id: "agents-page", idle: true, roles: `["implementer"]`, iterations: 2})
	for name, text := range map[string]string{"page.html": attack, "serve.js": devServer} {
		if err := os.WriteFile(filepath.Join(repo, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(repo, "agent.sh"), []byte(fmt.Sprintf("cat >/dev/null\ndate >> work.txt\ndate > \"$SUPERLOOP_LOOP_DIR/implementer.md\"\nexec node serve.js %s %s %s %s '%s'\n", w.port, q.ID, q.Digest, token, w.root+"/state/superloop/daemon/sock")), 0o600); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(repo, ".superloop", "config.json")
	data, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, []byte(strings.Replace(string(data), w.root+"/agent.sh", repo+"/agent.sh", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	w.verb(t, "start", "--repo", repo, "--loop", "agents-page")
	var said struct {
		Port int
		Got  map[string]string
	}
	until(t, "the agent serves", func() bool {
		data, err := os.ReadFile(filepath.Join(repo, "serves.json"))
		return err == nil && json.Unmarshal(data, &said) == nil
	})
	if len(said.Got) < 6 {
		t.Errorf("the agent tried only %v", said.Got)
	}
	for what, got := range said.Got {
		if got != "" {
			t.Errorf("the agent itself gets %s: %s", what, got)
		}
	}
	b := open(t).expect("")
	b.do(navigate(fmt.Sprintf("http://localhost:%d/", said.Port)))
	b.refused(w, asking, "asking", q, "the page of an agent", token)
	if exists(filepath.Join(asking, "theirs")) {
		t.Error("the command ran")
	}
	w.verb(t, "stop", "--repo", repo, "--loop", "agents-page")
	w.verb(t, "token", "revoke", "agents")
}

// devServer is the agent: it asks the daemon by itself, says what came of it, and serves its page.
const devServer = `const http = require('http'), fs = require('fs');
const [port, eid, digest, token, sock] = process.argv.slice(2);
const got = {};
const ask = (what, opts, body) => new Promise((ok) => {
  const req = http.request({method: body ? 'POST' : 'GET', headers: {Authorization: 'Bearer ' + token, 'Content-Type': 'application/json'}, timeout: 3000, ...opts}, (res) => {
    let text = '';
    res.on('data', (d) => { text += d; if (text.length > 300) req.destroy(); });
    res.on('close', () => { got[what] = body && res.statusCode >= 400 ? '' : res.statusCode + ' ' + text.slice(0, 200); ok(); });
  });
  req.on('error', (e) => { got[what] ??= ''; ok(); });
  req.on('timeout', () => req.destroy());
  req.end(body);
});
(async () => {
  const answer = '/api/v1/escalations/' + eid + '/answer', body = JSON.stringify({method: 'approve', digest});
  for (const host of ['127.0.0.1', '::1', 'localhost', '127.0.0.2']) {
    await ask('an answer at ' + host, {host, port, path: answer, headers: {Authorization: 'Bearer ' + token, 'Content-Type': 'application/json', Host: 'localhost:' + port}}, body);
  }
  await ask('an answer by the socket', {socketPath: sock, path: answer}, body);
  await ask('a code by the socket', {socketPath: sock, path: '/api/v1/codes'}, '{}');
  await ask('a session', {host: '127.0.0.1', port, path: '/api/v1/sessions'}, JSON.stringify({code: 'A'.repeat(22)}));
  const page = fs.readFileSync('page.html');
  const s = http.createServer((req, res) => res.writeHead(200, {'Content-Type': 'text/html'}).end(page)).listen(0, '127.0.0.1', () => {
    fs.writeFileSync('serves.tmp', JSON.stringify({port: s.address().port, got}));
    fs.renameSync('serves.tmp', 'serves.json');
  });
})();
`
