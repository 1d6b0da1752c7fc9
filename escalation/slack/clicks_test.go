package slack

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slack-go/slack"

	"github.com/superloop/superloop/escalation/notify"
)

// desk is one side that resolves clicks, and the other that shows users the answers.
type desk struct {
	*Clicks
	url      string // for answers
	answered answers
	done     chan struct{} // one for each click that was answered

	mu       sync.Mutex
	clicks   []Click
	outcomes []Outcome
	errs     []error
}

// newDesk resolves with r; U1 and U2 of T1 may answer.
func newDesk(t *testing.T, r Resolver, turns ...http.HandlerFunc) *desk {
	t.Helper()
	d := &desk{done: make(chan struct{}, 1000)}
	d.answered.turns = append(turns, say(200, "ok"))
	d.url = server(t, d.answered.ServeHTTP).URL + secretPath
	c, err := NewClicks(ClicksOptions{
		Users: []string{"U1", "U2"}, Teams: []string{"T1"}, AnswerHosts: []string{"127.0.0.1"}, Resolve: r,
		OnClick: func(c Click, o Outcome, err error) {
			d.mu.Lock()
			d.clicks, d.outcomes, d.errs = append(d.clicks, c), append(d.outcomes, o), append(d.errs, err)
			d.mu.Unlock()
			d.done <- struct{}{}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	d.Clicks = c
	t.Cleanup(func() { c.Close(context.Background()) })
	return d
}

// click is what Slack sends for one press of a button; n tells presses apart.
func (d *desk) click(user string, a Action, raw string, n int) string {
	payload, err := json.Marshal(map[string]any{
		"type": "block_actions", "team": map[string]any{"id": "T1"}, "user": map[string]any{"id": user, "name": "anna"},
		"trigger_id": fmt.Sprintf("trigger.%d", n), "response_url": d.url, "state": map[string]any{"values": map[string]any{}},
		"actions": []map[string]any{{"type": "button", "action_id": "superloop_" + string(a), "block_id": "superloop_answer", "value": raw, "action_ts": fmt.Sprintf("1700000000.%06d", n)}},
	})
	if err != nil {
		panic(err)
	}
	return string(payload)
}

func (d *desk) send(t *testing.T, payload string) {
	t.Helper()
	var cb slack.InteractionCallback
	if err := json.Unmarshal([]byte(payload), &cb); err != nil {
		t.Fatal(err)
	}
	d.take(cb)
}

// wait returns when the next click was answered.
func (d *desk) wait(t *testing.T) (Click, Outcome) {
	t.Helper()
	select {
	case <-d.done:
	case <-time.After(2 * time.Minute):
		t.Fatal("no click was answered")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.errs[len(d.errs)-1]; err != nil {
		noSecret(t, err.Error())
	}
	return d.clicks[len(d.clicks)-1], d.outcomes[len(d.outcomes)-1]
}

const good = `{"id":"e1","digest":"` + digest + `"}`

func TestClicksAreAnswered(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		outcome Outcome
		action  Action
		user    string
		value   string
		want    Status
		said    string // what the user is told in private
		posts   int
	}{
		"approve":         {Outcome{Status: Accepted}, Approve, "U1", good, Accepted, "Approved. superloop runs the command once.", 1},
		"replaced":        {Outcome{Status: Accepted, Message: resolved()}, Approve, "U1", good, Accepted, "", 1},
		"reject":          {Outcome{Status: Accepted}, Reject, "U2", good, Accepted, "Rejected.", 1},
		"details":         {Outcome{Status: Accepted, Text: "parts: <!channel> ``` \u202e"}, Details, "U1", good, Accepted, "Details:\n```\nparts: &lt;!channel&gt; ``&lt;U+0060&gt; &lt;U+202E&gt;\n```", 1},
		"late":            {Outcome{Status: AlreadyDecided, By: "slack:U2`", Message: resolved()}, Approve, "U1", good, AlreadyDecided, "decided already by `slack:U2'`", 2},
		"an old digest":   {Outcome{Status: Outdated}, Approve, "U1", good, Outdated, "no longer asked about", 1},
		"expired":         {Outcome{Status: Expired}, Approve, "U1", good, Expired, "has expired", 1},
		"not ours":        {Outcome{Status: Unknown}, Approve, "U1", good, Unknown, "does not know the question", 1},
		"refused":         {Outcome{Status: Refused, Text: "budget"}, Approve, "U1", good, Refused, "budget", 1},
		"failed":          {Outcome{Status: Failed}, Approve, "U1", good, Failed, "could not record", 1},
		"no status":       {Outcome{}, Approve, "U1", good, "", "could not record", 1},
		"a foreign user":  {Outcome{Status: Accepted, Message: resolved()}, Approve, "U3", good, Foreign, "not among the operators", 1},
		"no value":        {Outcome{Status: Accepted}, Approve, "U1", "", Malformed, "could not read this button", 1},
		"no digest":       {Outcome{Status: Accepted}, Approve, "U1", `{"id":"e1"}`, Malformed, "could not read", 1},
		"two values":      {Outcome{Status: Accepted}, Approve, "U1", good + good, Malformed, "could not read", 1},
		"unknown action":  {Outcome{Status: Accepted}, "explode", "U1", good, Malformed, "could not read", 1},
		"unknown field":   {Outcome{Status: Accepted}, Approve, "U1", `{"id":"e1","digest":"x","sudo":true}`, Malformed, "could not read", 1},
		"foreign details": {Outcome{Status: Accepted, Text: "verysecret"}, Details, "U9", good, Foreign, "not among", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := make(chan Click, 1)
			d := newDesk(t, func(_ context.Context, click Click) Outcome { asked <- click; return c.outcome })
			d.send(t, d.click(c.user, c.action, c.value, 1))
			click, outcome := d.wait(t)
			if outcome.Status != c.want || click.UserID != c.user || click.Team != "T1" || click.UserName != "anna" {
				t.Errorf("click %+v, outcome %+v", click, outcome)
			}
			if resolverMustNotRun := c.want == Foreign || c.want == Malformed; resolverMustNotRun != (len(asked) == 0) {
				t.Errorf("the resolver was asked %d times", len(asked))
			}
			if len(asked) == 1 {
				if got := <-asked; got.ID != "e1" || got.Digest != digest || got.Action != c.action {
					t.Errorf("the resolver was asked %+v", got)
				}
			}
			posts := d.answered.posts()
			if len(posts) != c.posts {
				t.Fatalf("%d posts, want %d: %v", len(posts), c.posts, posts)
			}
			if c.outcome.Message != nil && c.want != Foreign && (posts[0]["replace_original"] != true || posts[0]["blocks"] == nil) {
				t.Errorf("the message was not replaced: %v", posts[0])
			}
			if last := posts[len(posts)-1]; c.said != "" && (last["response_type"] != "ephemeral" || last["replace_original"] != false || !strings.Contains(last["text"].(string), c.said)) {
				t.Errorf("the user was told %v, want %q", last, c.said)
			}
		})
	}
}

func resolved() *notify.Message {
	m := opened()
	m.Kind, m.Status, m.By, m.Ways = notify.Resolved, "approved", "slack:U2", nil
	return &m
}

func TestClicksOnlyOnce(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	decided := ""
	d := newDesk(t, func(_ context.Context, c Click) Outcome {
		mu.Lock()
		defer mu.Unlock()
		if decided != "" {
			return Outcome{Status: AlreadyDecided, By: decided}
		}
		decided = c.UserID
		return Outcome{Status: Accepted}
	})
	// The same delivery ten times is one click; forty presses of two users are forty clicks with one winner.
	for range 10 {
		d.send(t, d.click("U1", Approve, good, 0))
	}
	d.wait(t)
	for n := 1; n <= 40; n++ {
		d.send(t, d.click([]string{"U1", "U2"}[n%2], Approve, good, n))
	}
	for range 40 {
		d.wait(t)
	}
	accepted := 0
	for _, o := range d.outcomes {
		if o.Status == Accepted {
			accepted++
		}
	}
	if accepted != 1 || len(d.outcomes) != 41 || len(d.answered.posts()) != 41 {
		t.Errorf("%d accepted of %d clicks, %d answers", accepted, len(d.outcomes), len(d.answered.posts()))
	}
}

func TestClicksThatAreNotForUs(t *testing.T) {
	t.Parallel()
	d := newDesk(t, func(context.Context, Click) Outcome { t.Error("the resolver was asked"); return Outcome{} })
	d.send(t, strings.ReplaceAll(d.click("U1", Approve, good, 1), "superloop_approve", "other_approve"))
	d.send(t, strings.ReplaceAll(d.click("U1", Approve, good, 2), "superloop_answer", "other_block"))
	d.send(t, strings.ReplaceAll(d.click("U1", Approve, good, 3), "block_actions", "view_submission"))
	d.send(t, `{"type":"block_actions","actions":[]}`)
	d.send(t, strings.ReplaceAll(d.click("U1", Approve, good, 4), `"id":"T1"`, `"id":"T2"`)) // ours, from another workspace
	if _, o := d.wait(t); o.Status != Foreign {
		t.Errorf("outcome %+v", o)
	}
	if len(d.clicks) != 1 {
		t.Errorf("clicks %+v", d.clicks)
	}
}

func TestAnswersThatDoNotArrive(t *testing.T) {
	t.Parallel()
	r := func(_ context.Context, c Click) Outcome {
		if c.Action == Reject {
			panic("resolver")
		}
		return Outcome{Status: Accepted}
	}
	d := newDesk(t, r, say(500, ""), say(200, "ok"), say(404, "expired_url"))
	d.send(t, d.click("U1", Approve, good, 1))
	d.wait(t) // tried again
	d.send(t, d.click("U1", Reject, good, 2))
	_, o := d.wait(t)
	if n := len(d.answered.posts()); n != 3 || d.errs[0] != nil || d.errs[1] == nil || o.Status != Failed || strings.Contains(o.Text, "resolver") {
		t.Errorf("%d posts, errors %v, outcome %+v", n, d.errs, o)
	}
	for i, url := range []string{"https://evil.example" + secretPath, "http://hooks.slack.com" + secretPath, "", "file://" + secretPath} {
		d.send(t, strings.ReplaceAll(d.click("U1", Approve, good, 3+i), d.url, url))
		d.wait(t)
		if err := d.errs[2+i]; err == nil {
			t.Errorf("an answer went to %s", url)
		}
	}
}

func TestCloseCutsAnswersShort(t *testing.T) {
	t.Parallel()
	started := make(chan struct{})
	d := newDesk(t, func(ctx context.Context, _ Click) Outcome {
		close(started)
		<-ctx.Done()
		return Outcome{Status: Failed}
	})
	d.send(t, d.click("U1", Approve, good, 1))
	<-started
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	d.Close(ctx)
	if len(d.done) != 1 {
		t.Error("Close did not wait for the click")
	}
	d.send(t, d.click("U1", Approve, good, 2))
	if len(d.clicks) != 1 {
		t.Error("a click was taken after Close")
	}
}

func TestClicksOptionsAreChecked(t *testing.T) {
	ok := func(context.Context, Click) Outcome { return Outcome{} }
	for name, o := range map[string]ClicksOptions{
		"nobody": {Resolve: ok}, "a name": {Users: []string{"anna"}, Resolve: ok}, "everybody": {Users: []string{"*"}, Resolve: ok},
		"empty": {Users: []string{""}, Resolve: ok}, "a team's name": {Users: []string{"U1"}, Teams: []string{"acme"}, Resolve: ok}, "no resolver": {Users: []string{"U1"}},
	} {
		if _, err := NewClicks(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestSeenForgets(t *testing.T) {
	s := seen{limit: 3}
	for i, c := range []struct {
		key string
		new bool
	}{{"a", true}, {"a", false}, {"b", true}, {"c", true}, {"a", false}, {"d", true}, {"a", true}, {"d", false}, {"b", true}} {
		if s.add(c.key) != c.new {
			t.Errorf("step %d: %q is new: %v", i, c.key, !c.new)
		}
	}
	if len(s.keys) != 3 {
		t.Errorf("it holds %d", len(s.keys))
	}
}
