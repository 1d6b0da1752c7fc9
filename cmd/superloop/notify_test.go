package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/superloop/superloop/escalation/notify"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/layout"
)

// What comes of a sample on each kind of channel, and that neither a URL nor a
// secret is in what is said of it.
func TestNotifyVerdicts(t *testing.T) {
	t.Parallel()
	var signature atomic.Value
	hold := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch path := strings.TrimSuffix(r.URL.Path, "/"+hookSecret); path {
		case "/api/chat.postMessage":
			if r.Header.Get("Authorization") != "Bearer xoxb-"+hookSecret {
				fmt.Fprint(rw, `{"ok":false,"error":"invalid_auth"}`)
				return
			}
			fmt.Fprint(rw, `{"ok":true,"ts":"1700000000.000001"}`)
		case "/discord", "/": // the latter is ntfy: its topic is in the document
			fmt.Fprint(rw, `{"id":"17"}`)
		case "/ok":
			fmt.Fprint(rw, "ok")
		case "/signed":
			if v := r.Header.Get("webhook-signature"); v != "" {
				signature.Store(v)
			}
			var m struct{ Event, Text string }
			if json.Unmarshal(body, &m) != nil || m.Event != "test" || !strings.Contains(m.Text, "test message") {
				rw.WriteHeader(http.StatusBadRequest)
			}
		case "/gone":
			rw.WriteHeader(http.StatusNotFound)
			fmt.Fprint(rw, "no_service at "+r.URL.Path)
		case "/broken":
			rw.WriteHeader(http.StatusInternalServerError)
		case "/moved":
			http.Redirect(rw, r, "/ok/"+hookSecret, http.StatusFound)
		case "/hangs":
			<-hold
		}
	}))
	defer s.Close()
	defer close(hold)
	repo, post := t.TempDir(), testkit.NewMailServer(t, false, false)
	u := func(path string) string { return s.URL + path + "/" + hookSecret }
	text, err := json.Marshal(map[string]any{
		"runners": map[string]any{"a": map[string]any{"command": "a"}}, "loops": []any{map[string]any{"id": "l", "spec_file": "s.md"}},
		"webhooks": map[string]any{"on_escalation": u("/ok")},
		"escalation": map[string]any{"channels": map[string]any{
			"slack":   map[string]any{"type": "slack", "url": u("/ok")},
			"lies":    map[string]any{"type": "slack", "url": u("/signed")}, // an endpoint that is no Slack
			"signed":  map[string]any{"type": "webhook", "url_env": "HOOK", "secret_env": "SIGN"},
			"short":   map[string]any{"type": "webhook", "url_env": "HOOK", "secret_env": "SHORT"},
			"gone":    map[string]any{"type": "webhook", "url": u("/gone")},
			"broken":  map[string]any{"type": "webhook", "url": u("/broken")},
			"moved":   map[string]any{"type": "webhook", "url": u("/moved")},
			"hangs":   map[string]any{"type": "webhook", "url": u("/hangs"), "timeout": "200ms"},
			"plain":   map[string]any{"type": "webhook", "url_env": "PLAIN"},
			"bot":     map[string]any{"type": "slack", "token_env": "BOT", "channel": "C012AB3CD"},
			"revoked": map[string]any{"type": "slack", "token_env": "REVOKED", "channel": "C012AB3CD"},
			"swapped": map[string]any{"type": "slack", "token_env": "SHORT", "channel": "C012AB3CD"},
			"unset":   map[string]any{"type": "slack", "token_env": "UNSET", "channel": "C012AB3CD"},
			"discord": map[string]any{"type": "discord", "url": u("/discord")},
			"teams":   map[string]any{"type": "teams", "url": u("/ok")},
			"phone":   map[string]any{"type": "ntfy", "url": s.URL + "/" + hookSecret, "token_env": "SHORT"},
			"mail":    map[string]any{"type": "smtp", "url": "smtp://" + post.Addr, "from": "a@example.com", "to": []string{"b@example.com"}},
			"lost":    map[string]any{"type": "smtp", "url_env": "NOMAIL", "from": "a@example.com", "to": []string{"b@example.com"}},
			"program": map[string]any{"type": "command", "command": "sh -c 'echo " + hookSecret + " >&2; exit 3' " + hookSecret},
		}},
	})
	if err == nil {
		err = os.MkdirAll(filepath.Join(repo, ".superloop"), 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(repo, ".superloop/config.json"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	vars := map[string]string{"XDG_STATE_HOME": t.TempDir(), "HOOK": u("/signed"), "SIGN": "whsec_aHVudGVyMmh1bnRlcjJodW50ZXIy", "SHORT": "hunter2",
		"PLAIN": "http://h.example.invalid/" + hookSecret, "BOT": "xoxb-" + hookSecret, "REVOKED": "xoxb-" + hookSecret + "1", "NOMAIL": "smtp://bot:" + hookSecret + "@h.example.invalid", "USER": "ann"}
	call := func(args ...string) (code int, out string) {
		var stdout, stderr bytes.Buffer
		a := newApp(durable.OS(), strings.NewReader(""), &stdout, &stderr)
		a.env = func(name string) string { return vars[name] }
		a.slack.api = s.URL + "/api/"
		code = a.main(append([]string{"superloop", "notify", "test", "--repo", repo}, args...))
		if all := stdout.String() + stderr.String(); strings.Contains(all, "hunter2") {
			t.Errorf("a secret is shown: %s", all)
		}
		return code, stdout.String() + stderr.String()
	}
	for name, want := range map[string]struct {
		status string
		says   string
	}{
		config.OnEscalation: {tryDelivered, ""},
		"slack":             {tryDelivered, ""},
		"lies":              {tryRefused, ""},
		"signed":            {tryDelivered, ""},
		"short":             {tryRefused, "too short"},
		"gone":              {tryRefused, "answer 404"},
		"broken":            {tryFailed, "answer 500"},
		"moved":             {tryRefused, "redirects are not followed"},
		"hangs":             {tryTimeout, "no answer within 200ms"},
		"plain":             {tryRefused, "use https"},
		"program":           {tryFailed, "exit code 3"},
		"bot":               {tryDelivered, ""},
		"revoked":           {tryFailed, "invalid_auth; install the app again"},
		"swapped":           {tryRefused, "no bot token"},
		"unset":             {tryRefused, "the variable UNSET is not set"},
		"discord":           {tryDelivered, ""},
		"teams":             {tryDelivered, ""},
		"phone":             {tryDelivered, ""},
		"mail":              {tryDelivered, ""},
		"lost":              {tryRefused, "the URL holds a password"},
	} {
		code, out := call("--channel", name, "--json")
		var got struct {
			OK       bool
			Channels []tried
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Channels) != 1 {
			t.Fatalf("%s: %s (%v)", name, out, err)
		}
		v := got.Channels[0]
		if v.Channel != name || v.Status != want.status || !strings.Contains(v.Reason, want.says) || got.OK != (v.Status == tryDelivered) || (code == exitOK) != got.OK {
			t.Errorf("%s: exit %d, %+v; want %s %q", name, code, v, want.status, want.says)
		}
	}
	if v, _ := signature.Load().(string); !strings.HasPrefix(v, "v1,") {
		t.Errorf("signed with %q", v)
	}
	code, out := call("--all")
	for _, line := range []string{"signed: delivered in ", "gone: refused: answer 404", "hangs: timeout after ", "broken: failed: answer 500"} {
		if code != exitFailed || !strings.Contains(out, "\n"+line) {
			t.Errorf("exit %d, no %q in\n%s", code, line, out)
		}
	}
}

// One line of configuration is enough: whoever listens there is told when a loop
// needs an operator, once, over a restart too, and what became of it.
// Conforms: 004-principle-graceful, 004-3.3-webhook, 004-p2.4, 004-ac9
func TestWebhookAlone(t *testing.T) {
	t.Parallel()
	posts := make(chan map[string]any, 10)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var m map[string]any
		if r.URL.Path == "/"+hookSecret && json.NewDecoder(r.Body).Decode(&m) == nil {
			posts <- m
		}
	}))
	defer s.Close()
	n := newTestEnv(t, false)
	agent, err := os.ReadFile("testdata/agent.sh")
	if err != nil {
		t.Fatal(err)
	}
	n.write("agent.sh", string(agent))
	n.write("tester.sh", "[ -f ok ] || propose 'touch ok'\n")
	n.env = append(n.env, "WORK="+n.root)
	n.write("repo/.superloop/config.json", fmt.Sprintf(`{
  "runners": {"sh": {"command": ["sh", %q]}}, "recovery": {}, "webhooks": {"on_escalation": "%s/%s"},
  "loops": [{"id": "l", "spec_file": ".superloop/specs/l.md", "completion_promise": "DONE", "max_iterations": 3, "roles": ["implementer", "tester", "reviewer"],
    "tests": {"commands": ["test -f ok"]}}]}`, n.path("agent.sh"), s.URL, hookSecret))
	said := ""
	run := func(want int, args ...string) {
		t.Helper()
		code, out := n.superloop(nil, args...)
		if said += out; code != want {
			t.Fatalf("%v: exit %d, want %d\n%s", args, code, want, out)
		}
	}
	run(exitHuman, "run", "--exit-on-escalation")
	m := receive(t, posts, "message")
	if m["event"] != "escalation_opened" || m["command"] != "touch ok" || !strings.Contains(fmt.Sprint(m["text"]), "approve-recovery") {
		t.Errorf("told %v", m)
	}
	run(exitHuman, "run", "--exit-on-escalation")
	run(exitOK, "approve-recovery", "--by", "eve")
	run(exitOK, "run")
	if m := receive(t, posts, "message"); m["event"] != "escalation_resolved" || !strings.Contains(fmt.Sprint(m["by"]), "eve") {
		t.Errorf("told %v", m)
	}
	if m := receive(t, posts, "message"); m["event"] != "loop_ended" || m["status"] != "completed" || !strings.Contains(fmt.Sprint(m["facts"]), "1 answered") {
		t.Errorf("told %v", m)
	}
	if len(posts) > 0 {
		t.Errorf("told once more: %v", <-posts)
	}
	paths, err := layout.NewPaths(n.path("repo"), "l", n.path("state"))
	if err != nil {
		t.Fatal(err)
	}
	items, err := notify.List(paths.Outbox())
	if err != nil || len(items) != 3 || slices.ContainsFunc(items, func(i notify.Item) bool { return i.State != notify.Delivered }) {
		t.Errorf("the outbox is %+v (%v)", items, err)
	}
	run(exitOK, "events", "--loop", "l")
	run(exitOK, "config", "show")
	if strings.Contains(said+n.journalText(), hookSecret) {
		t.Error("the URL is shown")
	}
}

// A bot's message about a question says what became of it, also by a later run.
func TestBotAlone(t *testing.T) {
	t.Parallel()
	calls := make(chan string, 20)
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var m struct {
			TS     string `json:"ts"`
			Thread string `json:"thread_ts"`
			Text   string `json:"text"`
		}
		if json.NewDecoder(r.Body).Decode(&m) != nil || r.Header.Get("Authorization") != "Bearer xoxb-"+hookSecret {
			fmt.Fprint(rw, `{"ok":false,"error":"invalid_auth"}`)
			return
		}
		calls <- strings.TrimPrefix(r.URL.Path, "/api/chat.") + " " + m.TS + m.Thread + " " + m.Text
		fmt.Fprintf(rw, `{"ok":true,"ts":"17.00000%d"}`, len(calls))
	}))
	defer s.Close()
	n := newTestEnv(t, false)
	agent, err := os.ReadFile("testdata/agent.sh")
	if err != nil {
		t.Fatal(err)
	}
	n.write("agent.sh", string(agent))
	n.write("tester.sh", "[ -z \"$BOT\" ] || exit 1\n[ -f ok ] || propose 'touch ok'\n")
	n.env = append(n.env, "WORK="+n.root, "BOT=xoxb-"+hookSecret, "SUPERLOOP_TEST_SLACK="+s.URL+"/api/")
	n.write("repo/.superloop/config.json", fmt.Sprintf(`{
  "runners": {"sh": {"command": ["sh", %q]}}, "recovery": {}, "escalation": {"channels": {"team": {"type": "slack", "token_env": "BOT", "channel": "C012AB3CD"}}},
  "loops": [{"id": "l", "spec_file": ".superloop/specs/l.md", "completion_promise": "DONE", "max_iterations": 3, "roles": ["implementer", "tester", "reviewer"],
    "tests": {"commands": ["test -f ok"]}}]}`, n.path("agent.sh")))
	for _, step := range []struct {
		exit int
		args []string
		want []string
	}{
		{exitHuman, []string{"run", "--exit-on-escalation"}, []string{"postMessage  superloop: loop l needs an operator: may a command run?", "postMessage 17.000001 Details of superloop: loop l needs"}},
		{exitOK, []string{"approve-recovery", "--by", "eve"}, nil},
		{exitOK, []string{"run"}, []string{"update 17.000001 superloop: loop l: the question is answered: approved, by cli:eve", "postMessage 17.000001 superloop: loop l: the question is answered", "postMessage  superloop: loop l is completed"}},
	} {
		code, out := n.superloop(nil, step.args...)
		if code != step.exit || strings.Contains(out, hookSecret) {
			t.Fatalf("%v: exit %d, want %d\n%s", step.args, code, step.exit, out)
		}
		for _, want := range step.want {
			if got := receive(t, calls, "call of Slack"); !strings.HasPrefix(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		}
	}
}

// Names are told of the kinds that they want, and each line of its own.
// Conforms: 003-alert-told
func TestChannelsByKind(t *testing.T) {
	t.Parallel()
	cfg, err := config.LoadBytes("/repo/.superloop/config.json", []byte(`{
 "runners": {"a": {"command": "a"}}, "loops": [], "webhooks": {"on_escalation": "https://h.example.invalid/x"},
 "escalation": {"channels": {
  "a": {"type": "command", "command": "true", "tell": ["reminder", "escalation"]},
  "b": {"type": "command", "command": "true", "tell": ["config", "alert"]},
  "c": {"type": "command", "command": "true", "second": true}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	a := newApp(durable.OS(), nil, io.Discard, io.Discard)
	set, problems := a.channels(cfg)
	if len(problems) > 0 || len(set.All) != 4 {
		t.Fatalf("%d channels, %v", len(set.All), problems)
	}
	got := fmt.Sprint(set.First, set.Second)
	want := "map[alert:[on_escalation b] config_change_held:[on_escalation b] escalation_opened:[on_escalation a] escalation_resolved:[on_escalation] loop_ended:[on_escalation] reminder:[on_escalation a]]" +
		" map[aged:[c] escalation_resolved:[c] reminder:[c]]"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
