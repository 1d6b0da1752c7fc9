package notify

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/internal/testkit"
)

// services make a channel of each service for a server on loopback, and name the answer with which the service takes a
// message.
var services = map[string]struct {
	path, answer string
	status       int
	make         func(url string) (*Service, error)
}{
	"discord": {"/api/webhooks/17/verysecretverysecret", `{"id":"1300000000000000000","type":0,"content":"x"}`, 200,
		func(url string) (*Service, error) { return NewDiscord("d", redact.Secret(url), EndpointOptions{}) }},
	"teams": {"/workflows/SECRET/triggers/manual/paths/invoke?sig=verysecretverysecret", ``, 202,
		func(url string) (*Service, error) { return NewTeams("t", redact.Secret(url), EndpointOptions{}) }},
	"ntfy": {"/verysecretverysecret", `{"id":"sPs71M8A2T","time":1600000000,"event":"message","topic":"x"}`, 200,
		func(url string) (*Service, error) {
			return NewNtfy("n", redact.Secret(url), NtfyOptions{Token: "tk_verysecretverysecret"})
		}},
}

// hostileText is what an agent may write to deceive who reads it.
const hostileText = "@everyone @here <@17> <!channel> **bold** [Approve](https://evil.example/x) https://evil.example/x ``` `x` \u202eabc \x1b[2J <at>all</at> # head\n> quote"

func deceiving() Message {
	m := opened("e1")
	for _, field := range m.texts() {
		*field = hostileText
	}
	m.Ways = []escalation.Way{{Does: "approve", Line: hostileText}}
	return m
}

// said is what a service got.
type said struct {
	path, auth string
	body       map[string]any
	size       int
}

func play(t *testing.T, name string, m Message) said {
	t.Helper()
	var got said
	c := services[name]
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(raw, &got.body)
		}
		if err != nil || r.Method != http.MethodPost || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
			t.Errorf("%v %s %v", err, r.Method, r.Header)
		}
		got.path, got.auth, got.size = r.URL.String(), r.Header.Get("Authorization"), len(raw)
		w.WriteHeader(c.status)
		_, _ = io.WriteString(w, c.answer)
	})
	n, err := c.make(s.URL + c.path)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	return got
}

// The documents are those that the services describe: every key is one of theirs, and nothing in them is active.
func TestServiceDocuments(t *testing.T) {
	t.Parallel()
	t.Run("discord", func(t *testing.T) {
		t.Parallel()
		for _, m := range []Message{opened("e1"), deceiving()} {
			got := play(t, "discord", m)
			text, embeds := got.body["content"].(string), got.body["embeds"].([]any)
			delete(got.body, "content")
			delete(got.body, "embeds")
			if want := map[string]any{"allowed_mentions": map[string]any{"parse": []any{}}}; !reflect.DeepEqual(got.body, want) || len(embeds) != 1 || len(embeds[0].(map[string]any)) != 1 ||
				got.path != services["discord"].path+"?wait=true" {
				t.Errorf("%v at %s", got.body, got.path)
			}
			body := embeds[0].(map[string]any)["description"].(string)
			if strings.Count(text, "`") != 2 || strings.Count(body, "```") != 2 || !strings.HasPrefix(body, "```\n") || !strings.HasSuffix(body, "\n```") || strings.ContainsAny(text+body, "\u202e\x1b") {
				t.Errorf("%s\n%s", text, body)
			}
		}
	})
	t.Run("teams", func(t *testing.T) {
		t.Parallel()
		for _, m := range []Message{opened("e1"), deceiving()} {
			got := play(t, "teams", m)
			one := got.body["attachments"].([]any)[0].(map[string]any)
			card := one["content"].(map[string]any)
			if len(got.body) != 2 || got.body["type"] != "message" || one["contentType"] != "application/vnd.microsoft.card.adaptive" || one["contentUrl"] != nil ||
				card["type"] != "AdaptiveCard" || card["version"] != "1.4" || card["$schema"] != "http://adaptivecards.io/schemas/adaptive-card.json" || card["actions"] != nil {
				t.Errorf("%v", got.body)
			}
			for _, b := range card["body"].([]any) { // no TextBlock: it knows Markdown
				block := b.(map[string]any)
				run := block["inlines"].([]any)[0].(map[string]any)
				if text, _ := run["text"].(string); block["type"] != "RichTextBlock" || run["type"] != "TextRun" || run["selectAction"] != nil || text == "" || strings.Contains(text, "://") || strings.ContainsAny(text, "\u202e\x1b\n") {
					t.Errorf("%v", block)
				}
			}
		}
	})
	t.Run("ntfy", func(t *testing.T) {
		t.Parallel()
		for _, m := range []Message{opened("e1"), deceiving()} {
			got := play(t, "ntfy", m)
			text := got.body["title"].(string) + got.body["message"].(string)
			if len(got.body) != 4 || got.path != "/" || got.body["topic"] != "verysecretverysecret" || got.body["priority"] != float64(NtfyUrgent) || got.auth != "Bearer tk_verysecretverysecret" ||
				strings.Contains(text, "://") || strings.ContainsAny(text, "\u202e\x1b") {
				t.Errorf("%v at %s %s", got.body, got.path, got.auth)
			}
		}
		if got := play(t, "ntfy", Message{ID: "x", Kind: Ended, Loop: "web", Status: "completed"}); got.body["priority"] != nil {
			t.Errorf("an end is urgent: %v", got.body)
		}
	})
}

// A message as long as an outbox allows fits into each service, and shows its beginning and the ways to answer.
func TestServiceLimits(t *testing.T) {
	t.Parallel()
	for name, long := range map[string]string{"a line": strings.Repeat("a", 64<<10), "lines": strings.Repeat("a\n", 32<<10), "pairs": strings.Repeat("😀", 16<<10), "wide": strings.Repeat("<漢>", 12<<10)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := opened("e1")
			m.Command = long
			m.Loop = "l" + long[:200]
			m = m.prepared(nil)
			wide := func(s any) int { return len(utf16.Encode([]rune(s.(string)))) }
			d := play(t, "discord", m)
			embed := d.body["embeds"].([]any)[0].(map[string]any)["description"]
			if wide(d.body["content"]) > 2000 || wide(embed) > 4096 {
				t.Errorf("discord: %d and %d", wide(d.body["content"]), wide(embed))
			}
			n := play(t, "ntfy", m)
			if len(n.body["message"].(string)) > 4096 || len(n.body["title"].(string)) > 250 {
				t.Errorf("ntfy: %d and %d bytes", len(n.body["message"].(string)), len(n.body["title"].(string)))
			}
			teams := play(t, "teams", m)
			all, err := json.Marshal(teams.body)
			if err != nil || teams.size > 28<<10 {
				t.Errorf("teams: %d bytes, %v", teams.size, err)
			}
			for who, text := range map[string]string{"discord": embed.(string), "ntfy": n.body["message"].(string), "teams": string(all)} {
				if !strings.Contains(text, "superloop inbox shows all of it") || !strings.Contains(text, "To approve: superloop approve-recovery") || !strings.Contains(text, "Reason: ") {
					t.Errorf("%s does not say it all:\n%s", who, text)
				}
			}
		})
	}
}

func TestServiceAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		who, body string
		status    int
		permanent bool
		after     time.Duration
		says      string
	}{
		"discord 429":      {who: "discord", status: 429, body: `{"message":"You are being rate limited.","retry_after":2.3,"global":false}`, after: 3 * time.Second, says: "rate limited"},
		"discord for days": {who: "discord", status: 429, body: `{"retry_after":1e300}`, after: time.Hour, says: "answer 429"},
		"discord gone":     {who: "discord", status: 404, body: `{"message":"Unknown Webhook","code":10015}`, permanent: true, says: "Unknown Webhook"},
		"discord refuses":  {who: "discord", status: 400, body: `{"code":50035,"errors":{"content":{}},"message":"Invalid Form Body"}`, permanent: true, says: "Invalid Form Body"},
		"discord portal":   {who: "discord", status: 200, body: `<html>sign in</html>`, says: "not Discord's"},
		"teams 429":        {who: "teams", status: 429, says: "answer 429"},
		"teams gone":       {who: "teams", status: 404, body: `{"error":{"code":"WorkflowNotFound"}}`, permanent: true, says: "WorkflowNotFound"},
		"teams broken":     {who: "teams", status: 502, says: "answer 502"},
		"ntfy 429":         {who: "ntfy", status: 429, body: `{"code":42901,"http":429,"error":"limit reached: too many requests"}`, says: "limit reached"},
		"ntfy forbidden":   {who: "ntfy", status: 403, body: `{"code":40301,"http":403,"error":"forbidden"}`, permanent: true, says: "forbidden"},
		"ntfy full":        {who: "ntfy", status: 507, body: `{"code":50701,"http":507}`, says: "answer 507"},
		"ntfy portal":      {who: "ntfy", status: 200, body: `ok`, says: "not ntfy's"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server(t, func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})
			n, err := services[c.who].make(s.URL + services[c.who].path)
			if err != nil {
				t.Fatal(err)
			}
			err = n.Send(t.Context(), opened("e1"))
			_, permanent := errors.AsType[*PermanentError](err)
			temporary, again := errors.AsType[*TemporaryError](err)
			if permanent != c.permanent || again == permanent || !strings.Contains(err.Error(), c.says) || again && temporary.RetryAfter != c.after {
				t.Fatalf("%T %+v", err, err)
			}
			noSecret(t, err.Error())
		})
	}
}

// FuzzReply: whatever a service answers, the message was taken, or the reason why not is a plain line.
func FuzzReply(f *testing.F) {
	for _, c := range services {
		testkit.Seed(f, []byte(c.answer))
	}
	testkit.Seed(f, []byte(`{"message":"You are being rate limited.","retry_after":2.3}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, status := range []int{200, 404, 429} {
			err := Reply{Status: status, Body: string(body), Whole: true}.accepted("Discord")
			if err == nil {
				if status != 200 {
					t.Fatalf("status %d is a success", status)
				}
				continue
			}
			testkit.Plain(t, err.Error())
			if x, ok := errors.AsType[*TemporaryError](err); ok && (x.RetryAfter < 0 || x.RetryAfter > longestAsked) {
				t.Fatalf("a pause of %v", x.RetryAfter)
			}
		}
	})
}
