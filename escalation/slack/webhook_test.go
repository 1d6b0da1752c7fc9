package slack

import (
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superloop/superloop/escalation/notify"
	"github.com/superloop/superloop/internal/redact"
)

// answers plays a Slack that answers each post in turn, and the last way for ever.
type answers struct {
	mu    sync.Mutex
	turns []http.HandlerFunc
	got   []map[string]any
}

func (a *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	_ = json.NewDecoder(r.Body).Decode(&body)
	a.mu.Lock()
	turn := a.turns[min(len(a.got), len(a.turns)-1)]
	a.got = append(a.got, body)
	a.mu.Unlock()
	turn(w, r)
}

func (a *answers) posts() []map[string]any { a.mu.Lock(); defer a.mu.Unlock(); return a.got }

func say(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func hangAfterStatus(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(200)
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

func reset(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	_ = conn.(*net.TCPConn).SetLinger(0)
	conn.Close()
}

func webhook(t *testing.T, url string, timeout time.Duration) *Webhook {
	t.Helper()
	w, err := NewWebhook("slack", redact.Secret(url), WebhookOptions{EndpointOptions: notify.EndpointOptions{Timeout: timeout}})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestWhatSlackMayAnswer(t *testing.T) {
	t.Parallel()
	html := "<html><title>Sign in at https://portal.example/x?ticket=1</title>"
	for name, c := range map[string]struct {
		turns     []http.HandlerFunc
		ok        bool
		permanent bool
		after     time.Duration
		posts     int
		reason    string
	}{
		"ok":                  {turns: []http.HandlerFunc{say(200, "ok")}, ok: true, posts: 1},
		"ok, newline":         {turns: []http.HandlerFunc{say(200, "ok\n")}, ok: true, posts: 1},
		"200 no_service":      {turns: []http.HandlerFunc{say(200, "no_service")}, permanent: true, posts: 1, reason: "Slack refused the message: no_service"},
		"200 invalid_payload": {turns: []http.HandlerFunc{say(200, "invalid_payload")}, permanent: true, posts: 2, reason: "refused the message: invalid_payload"},
		"200 html":            {turns: []http.HandlerFunc{say(200, html)}, posts: 1, reason: "answer 200 that is not Slack's"},
		"200 nothing":         {turns: []http.HandlerFunc{say(200, "")}, posts: 1, reason: "answer 200 that is not Slack's"},
		"200 breaks off":      {turns: []http.HandlerFunc{hangAfterStatus}, posts: 1, reason: "broke off"},
		"blocks refused":      {turns: []http.HandlerFunc{say(400, "invalid_blocks"), say(200, "ok")}, ok: true, posts: 2},
		"all refused":         {turns: []http.HandlerFunc{say(400, "invalid_payload"), say(400, "no_text")}, permanent: true, posts: 2, reason: "answer 400 Bad Request: no_text"},
		"plain fails":         {turns: []http.HandlerFunc{say(400, "invalid_blocks"), say(503, "")}, posts: 2, reason: "answer 503"},
		"403":                 {turns: []http.HandlerFunc{say(403, "action_prohibited")}, permanent: true, posts: 1, reason: "answer 403 Forbidden: action_prohibited"},
		"404":                 {turns: []http.HandlerFunc{say(404, "channel_not_found")}, permanent: true, posts: 1, reason: "channel_not_found"},
		"410":                 {turns: []http.HandlerFunc{say(410, "channel_is_archived")}, permanent: true, posts: 1, reason: "channel_is_archived"},
		"429 with":            {turns: []http.HandlerFunc{say(429, "rate_limited", "Retry-After", "3")}, after: 3 * time.Second, posts: 1, reason: "answer 429 Too Many Requests: rate_limited"},
		"429 without":         {turns: []http.HandlerFunc{say(429, "")}, posts: 1, reason: "answer 429"},
		"500":                 {turns: []http.HandlerFunc{say(500, "rollup_error")}, posts: 1, reason: "rollup_error"},
		"hang":                {turns: []http.HandlerFunc{hang}, posts: 1, reason: "no answer within 2s"},
		"reset":               {turns: []http.HandlerFunc{reset}, posts: 1, reason: "no answer"},
		"redirect":            {turns: []http.HandlerFunc{say(302, "", "Location", secretPath)}, permanent: true, posts: 1, reason: "redirects are not followed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &answers{turns: c.turns}
			timeout := 2 * time.Minute
			if name == "hang" || name == "200 breaks off" {
				timeout = 2 * time.Second
			}
			err := webhook(t, server(t, a.ServeHTTP).URL+secretPath, timeout).Send(t.Context(), opened())
			_, permanent := errors.AsType[*notify.PermanentError](err)
			temporary, again := errors.AsType[*notify.TemporaryError](err)
			if (err == nil) != c.ok || permanent != c.permanent || err != nil && again == permanent || again && temporary.RetryAfter != c.after {
				t.Fatalf("error %T %+v", err, err)
			}
			if err != nil {
				noSecret(t, err.Error())
				if !strings.Contains(err.Error(), c.reason) {
					t.Errorf("reason %q, want %q", err, c.reason)
				}
			}
			posts := a.posts()
			if len(posts) != c.posts || posts[0]["blocks"] == nil || posts[0]["text"] == "" {
				t.Errorf("%d posts, want %d: %v", len(posts), c.posts, posts)
			}
			if len(posts) == 2 && (posts[1]["blocks"] != nil || !strings.Contains(posts[1]["text"].(string), "bun install")) {
				t.Errorf("the plain message is %v", posts[1])
			}
		})
	}
}

func TestWebhookTLSFailure(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(say(200, "ok"))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	w, err := NewWebhook("slack", redact.Secret(s.URL+secretPath), WebhookOptions{})
	if err != nil {
		t.Fatal(err)
	}
	err = w.Send(t.Context(), opened())
	if _, ok := errors.AsType[*notify.TemporaryError](err); !ok || !strings.Contains(err.Error(), "certificate") {
		t.Fatalf("%T %v", err, err)
	}
	noSecret(t, err.Error())
}

// TestThroughABadDay sends one message through everything that can go wrong for a while.
// Conforms: 004-3.3-slack
func TestThroughABadDay(t *testing.T) {
	t.Parallel()
	a := &answers{turns: []http.HandlerFunc{say(500, ""), reset, say(429, ""), say(429, "", "Retry-After", "1"), hang, say(200, "<html>"), say(200, "ok"), say(200, "ok")}}
	events := make(chan notify.Event, 100)
	o := notify.Options{Dir: filepath.Join(t.TempDir(), "outbox"), Channels: []notify.Notifier{webhook(t, server(t, a.ServeHTTP).URL+secretPath, 2*time.Second)},
		OnEvent: func(e notify.Event) { events <- e }, FirstBackoff: time.Millisecond, MaxBackoff: 10 * time.Millisecond, Pace: time.Millisecond}
	b, err := notify.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	m := opened()
	m.Expires = time.Now().Add(time.Hour)
	if err := b.Enqueue(m); err != nil {
		t.Fatal(err)
	}
	for i := 1; ; i++ {
		e := <-events
		noSecret(t, e.Reason)
		if e.Attempt != i || (e.Name == notify.EventSent) != (i == 7) {
			t.Fatalf("event %+v", e)
		}
		if i == 7 {
			break
		}
	}
	if err := b.Enqueue(m); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(a.posts()); n != 7 {
		t.Errorf("%d posts, want 7", n)
	}
}

func TestForURL(t *testing.T) {
	for url, isSlack := range map[redact.Secret]bool{
		"https://hooks.slack.com" + secretPath: true, "https://HOOKS.slack.com" + secretPath: true, "https://hooks.slack-gov.com" + secretPath: true,
		"https://hooks.slack.com.evil.example" + secretPath: false, "https://mattermost.example/hooks/x": false, "http://127.0.0.1:1/x": false,
	} {
		n, err := ForURL("c", url, Style{}, notify.WebhookOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, got := n.(*Webhook); got != isSlack || n.Name() != "c" {
			t.Errorf("%s: %T", url.Reveal(), n)
		}
	}
	if _, err := ForURL("c", "http://hooks.slack.com"+secretPath, Style{}, notify.WebhookOptions{}); err == nil {
		t.Error("Slack over plain http was taken")
	} else {
		noSecret(t, err.Error())
	}
}
