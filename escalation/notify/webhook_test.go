package notify

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/redact"
)

// secretPath is the part of a webhook's URL that nobody may see.
const secretPath = "/services/T0SECRET/B0SECRET/verysecretverysecret"

// server plays an endpoint on the loopback device.
func server(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func hook(t *testing.T, url string, o WebhookOptions) *Webhook {
	t.Helper()
	w, err := NewWebhook("hook", redact.Secret(url), o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestSignatureOfStandardWebhooks(t *testing.T) {
	// The example of the specification's reference libraries.
	key, err := signingKey("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	got := sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("signature %s, want %s", got, want)
	}
	for _, bad := range []redact.Secret{"whsec_!", "whsec_c2hvcnQ=", "tiny-key"} {
		if _, err := signingKey(bad); err == nil || strings.Contains(err.Error(), bad.Reveal()) {
			t.Errorf("secret %q: %v", bad.Reveal(), err)
		}
	}
}

// Conforms: 004-p2.4
func TestWebhookRequest(t *testing.T) {
	t.Parallel()
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	var ids []string
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		id, stamp := r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp")
		ids = append(ids, id)
		key, _ := signingKey(secret)
		at, err := time.ParseDuration(stamp + "s")
		if err != nil || r.Header.Get("webhook-signature") != sign(key, id, time.Unix(int64(at.Seconds()), 0), body) {
			t.Errorf("headers %v", r.Header)
		}
		var got map[string]any
		if err := json.Unmarshal(body, &got); err != nil || got["event"] != "escalation_opened" || got["loop_id"] != "web" ||
			got["command"] != "bun install" || got["type"] != nil || !strings.HasPrefix(got["text"].(string), "superloop: ") {
			t.Errorf("body %s", body)
		}
		if r.URL.Path != secretPath || r.Method != http.MethodPost || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
			t.Errorf("%s %s %v", r.Method, r.URL, r.Header)
		}
		w.WriteHeader(http.StatusAccepted)
	})
	w := hook(t, s.URL+secretPath, WebhookOptions{Secret: secret})
	for range 2 {
		if err := w.Send(t.Context(), opened("e1")); err != nil {
			t.Error(err)
		}
	}
	if err := w.Send(t.Context(), opened("e2")); err != nil {
		t.Error(err)
	}
	if len(ids) != 3 || ids[0] != ids[1] || ids[1] == ids[2] {
		t.Errorf("ids %q", ids)
	}
}

// TestWebhookOutcomes lets the endpoint misbehave in each way there is.
func TestWebhookOutcomes(t *testing.T) {
	t.Parallel()
	answer := func(status int, body string, headers ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(headers); i += 2 {
				w.Header().Set(headers[i], headers[i+1])
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	var redirected atomic.Int64
	for name, c := range map[string]struct {
		h         http.HandlerFunc
		permanent bool
		ok        bool
		after     time.Duration
		reason    string
	}{
		"200":          {h: answer(200, "ok"), ok: true},
		"204":          {h: answer(204, ""), ok: true},
		"404":          {h: answer(404, "no_service"), permanent: true, reason: "answer 404 Not Found: no_service"},
		"410":          {h: answer(410, ""), permanent: true, reason: "answer 410 Gone"},
		"429 with":     {h: answer(429, "slow down", "Retry-After", "30"), after: 30 * time.Second, reason: "answer 429 Too Many Requests: slow down"},
		"429 without":  {h: answer(429, ""), reason: "answer 429"},
		"429 nonsense": {h: answer(429, "", "Retry-After", "-5"), reason: "answer 429"},
		"500":          {h: answer(500, "\x1b[31moops\u202e"), reason: "oops<U+202E>"},
		"503 with":     {h: answer(503, "", "Retry-After", "7"), after: 7 * time.Second, reason: "answer 503"},
		"408":          {h: answer(408, ""), reason: "answer 408"},
		"echo":         {h: answer(400, "no such hook https://127.0.0.1"+secretPath+" or verysecretverysecret"), permanent: true, reason: "no such hook https://127.0.0.1"},
		"a flood":      {h: answer(500, strings.Repeat("x", 1<<20)), reason: "xxx..."},
		"redirect":     {h: answer(302, "", "Location", "/elsewhere"+secretPath), permanent: true, reason: "redirects are not followed"},
		"hang":         {h: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, reason: "no answer within 2s"},
		"hang in the body": {h: func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(200)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, ok: true},
		"reset":          {h: reset, reason: "no answer"},
		"not even http":  {h: garbage, reason: "no answer"},
		"100000 headers": {h: answer(200, "", "X", strings.Repeat("h", 100_000)), reason: "no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server(t, func(w http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(r.URL.Path, "/elsewhere") {
					redirected.Add(1)
				}
				_, _ = io.Copy(io.Discard, r.Body)
				c.h(w, r)
			})
			timeout := 2 * time.Minute
			if strings.HasPrefix(name, "hang") {
				timeout = 2 * time.Second
			}
			err := hook(t, s.URL+secretPath+"?key=othersecretvalue", WebhookOptions{EndpointOptions: EndpointOptions{Timeout: timeout}}).Send(t.Context(), opened("e1"))
			judge(t, err, c.ok, c.permanent, c.after, c.reason)
		})
	}
	t.Cleanup(func() {
		if redirected.Load() != 0 {
			t.Error("a redirect was followed")
		}
	})
}

func judge(t *testing.T, err error, ok, permanent bool, after time.Duration, reason string) {
	t.Helper()
	if ok {
		if err != nil {
			t.Errorf("error %v", err)
		}
		return
	}
	_, isPermanent := errors.AsType[*PermanentError](err)
	temporary, isTemporary := errors.AsType[*TemporaryError](err)
	if isPermanent != permanent || isTemporary == permanent || isTemporary && temporary.RetryAfter != after {
		t.Fatalf("error %T %+v", err, err)
	}
	if !strings.Contains(err.Error(), reason) || len(err.Error()) > 2*maxReason {
		t.Errorf("reason %q, want %q", err, reason)
	}
	noSecret(t, err.Error())
}

func noSecret(t *testing.T, text string) {
	t.Helper()
	if strings.Contains(text, "SECRET") || strings.Contains(text, "verysecret") || strings.Contains(text, "othersecret") || strings.Contains(text, "/services") {
		t.Errorf("the URL shows in %q", text)
	}
}

// reset closes the connection with RST, after the request was read.
func reset(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	_ = conn.(*net.TCPConn).SetLinger(0)
	conn.Close()
}

func garbage(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	_, _ = io.WriteString(conn, "SSH-2.0-OpenSSH_9.9 https://x"+secretPath+"\r\n")
	conn.Close()
}

func TestWebhookTLS(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	err := hook(t, s.URL+secretPath, WebhookOptions{}).Send(t.Context(), opened("e1"))
	judge(t, err, false, false, 0, "certificate")
	trusted := EndpointOptions{RootCAs: s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
	if err := hook(t, s.URL+secretPath, WebhookOptions{EndpointOptions: trusted}).Send(t.Context(), opened("e1")); err != nil {
		t.Error(err)
	}
	old := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	old.Config.ErrorLog = log.New(io.Discard, "", 0)
	old.TLS = &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}
	old.StartTLS()
	t.Cleanup(old.Close)
	judge(t, hook(t, old.URL+secretPath, WebhookOptions{EndpointOptions: trusted}).Send(t.Context(), opened("e1")), false, false, 0, "tls")
}

func TestWebhookNobodyThere(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	err = hook(t, "http://"+l.Addr().String()+secretPath, WebhookOptions{}).Send(t.Context(), opened("e1"))
	judge(t, err, false, false, 0, "connection refused")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	judge(t, hook(t, "http://"+l.Addr().String()+secretPath, WebhookOptions{}).Send(ctx, opened("e1")), false, false, 0, "stopped")
}

func TestWhichURLsAreAllowed(t *testing.T) {
	for url, ok := range map[string]bool{
		"https://hooks.slack.com" + secretPath: true, "http://127.0.0.1:80" + secretPath: true, "http://[::1]" + secretPath: true,
		"http://localhost" + secretPath: true, " https://example.org" + secretPath + "\n": true,
		"http://example.org" + secretPath: false, "http://127.0.0.1.example.org" + secretPath: false, "http://10.0.0.1" + secretPath: false,
		"ftp://127.0.0.1" + secretPath: false, "file://" + secretPath: false, secretPath: false, "": false, "https://": false,
		"https://%zz" + secretPath: false, "hooks.slack.com" + secretPath: false, "http://user:verysecret@example.org": false,
	} {
		_, err := NewWebhook("hook", redact.Secret(url), WebhookOptions{})
		if (err == nil) != ok {
			t.Errorf("%s: %v", url, err)
		}
		if err != nil {
			noSecret(t, err.Error())
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "0": 0, "12": 12 * time.Second, " 3 ": 3 * time.Second, "-1": 0, "1.5": 0, "99999999999999999999": 0, "soon": 0,
		"Fri, 01 May 2026 12:01:00 GMT": time.Minute, "Fri, 01 May 2026 11:59:00 GMT": 0,
	} {
		if got := retryAfter(value, now); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
}
