package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/slack-go/slack"

	"github.com/superloop/superloop/escalation/notify"
	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/internal/testkit"
)

// FuzzPayload: whatever Slack, or somebody with the signing secret, sends, the endpoint answers with one of its statuses,
// only an operator's click reaches the Resolver, and nobody is asked to answer to a host that is not Slack's.
func FuzzPayload(f *testing.F) {
	for _, user := range []string{"U1", "U9"} {
		for _, raw := range []string{good, good + good, `{"id":"e1"}`} {
			testkit.Seed(f, []byte((&desk{url: "https://hooks.slack.com/actions/T1/2/3"}).click(user, Approve, raw, 1)))
		}
	}
	for _, kind := range []string{"rich_text", "section", "context", "actions", "input", "file", "image", "video", "call", "table", "nobody_knows"} {
		f.Add([]byte(`{"type":"block_actions","message":{"blocks":[{"type":"` + kind + `"},null,{"type":"` + kind + `","elements":[null,{"type":"x"}]}]},"state":{"values":{"a":{"b":null}}},"actions":[null,{}]}`))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		if len(payload) > maxPayload/3 {
			return
		}
		var asked []Click
		outcomes := make(chan Outcome, 1)
		c, err := NewClicks(ClicksOptions{Users: []string{"U1"}, Teams: []string{"T1"},
			Resolve: func(_ context.Context, c Click) Outcome { asked = append(asked, c); return Outcome{Status: Accepted} },
			OnClick: func(_ Click, o Outcome, _ error) { outcomes <- o },
		})
		if err != nil {
			t.Fatal(err)
		}
		c.halt() // the answers are not sent
		h, err := NewHandler(signingSecret, c)
		if err != nil {
			t.Fatal(err)
		}
		post := func(body string) int {
			stamp := fmt.Sprint(time.Now().Unix())
			req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
			req.Header.Set("X-Slack-Request-Timestamp", stamp)
			req.Header.Set("X-Slack-Signature", signature(signingSecret, stamp, body))
			w := httptest.NewRecorder()
			h.ServeHTTP(w, req)
			if w.Body.Len() > 100 {
				t.Fatalf("an answer of %d bytes: %s", w.Body.Len(), w.Body)
			}
			return w.Code
		}
		code := post(url.Values{"payload": {string(payload)}}.Encode())
		if code != http.StatusOK && code != http.StatusBadRequest {
			t.Fatalf("status %d", code)
		}
		var cb slack.InteractionCallback
		if ok := json.Unmarshal(payload, &cb) == nil; ok != (code == http.StatusOK) {
			t.Fatalf("status %d, and the payload is JSON: %v", code, ok)
		}
		c.Close(t.Context())
		for _, click := range asked {
			if click.UserID != "U1" || click.Team != "T1" || click.ID == "" || click.Digest == "" {
				t.Fatalf("%+v reached the resolver", click)
			}
		}
		if len(asked) > 1 || len(asked) == 1 && (<-outcomes).Status != Accepted {
			t.Fatalf("%d clicks of one payload", len(asked))
		}
		if endpoint, err := c.responseURL(redact.Secret(cb.ResponseURL)); err == nil {
			u, _ := url.Parse(cb.ResponseURL)
			if endpoint == nil || u == nil || !slackHost(u.Hostname()) {
				t.Fatalf("the answer would go to %q", cb.ResponseURL)
			}
		} else {
			testkit.Message(t, err)
		}
		post(string(payload)) // as a whole form
	})
}

// FuzzButton: the value of a button is exactly what superloop puts there, or no value.
func FuzzButton(f *testing.F) {
	testkit.Seed(f, []byte(good))
	f.Fuzz(func(t *testing.T, raw []byte) {
		v, ok := testkit.Decoder[value]{
			Decode: func(raw []byte) (value, error) { return readValue(string(raw)) },
			Encode: func(v value) ([]byte, error) { return json.Marshal(v) },
		}.Check(t, raw)
		if ok && (v.ID == "" || v.Digest == "") {
			t.Fatalf("%+v", v)
		}
	})
}

// FuzzAnswer: whatever answers for Slack, it is an answer of the Web API, a refusal, or a trouble that passes.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{`{"ok":true,"channel":"C1","ts":"1700000001.000001","message":{"text":"x"}}`, `{"ok":false,"error":"missing_scope","needed":"channels:history","provided":"chat:write"}`,
		`{"ok":true,"messages":[{"ts":"1.2","metadata":{"event_type":"superloop_message","event_payload":{"id":"e1"}}}],"response_metadata":{"next_cursor":"x"}}`, `ok`, ``} {
		testkit.Seed(f, []byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		a, err := readAnswer(notify.Reply{Status: 200, Body: string(body), Whole: true})
		refused, no := errors.AsType[*refusedError](err)
		_, passes := errors.AsType[*notify.TemporaryError](err)
		if (err == nil) != a.OK && !no || err != nil && no == passes || no && refused.word == "" {
			t.Fatalf("%+v, %v", a, err)
		}
		if no {
			testkit.Plain(t, verdictOf(err).Error())
		}
		if r := readReceipt(string(body)); r.TS != "" && !isTS(r.TS) {
			t.Fatalf("%+v", r)
		}
	})
}
