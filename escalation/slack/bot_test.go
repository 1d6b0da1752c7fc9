package slack

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superloop/superloop/escalation/notify"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/testkit"
)

// life tells a Bot of a question, reminds it, and tells it of the answer, through a real outbox that may begin anew
// between them.
type life struct {
	t    *testing.T
	dir  string
	bot  *Bot
	disk durable.Disk
	news chan notify.Event
}

func newLife(t *testing.T, b *Bot) *life {
	return &life{t: t, dir: filepath.Join(t.TempDir(), "outbox"), bot: b, news: make(chan notify.Event, 1000)}
}

func (l *life) open() *notify.Outbox {
	l.t.Helper()
	for {
		box, err := notify.Open(notify.Options{Dir: l.dir, Disk: l.disk, Channels: []notify.Notifier{l.bot}, FirstBackoff: time.Millisecond, Pace: time.Millisecond,
			OnEvent: func(e notify.Event) { l.news <- e }})
		if err == nil {
			return box
		}
		if _, held := errors.AsType[*durable.LockedError](err); !held {
			l.t.Fatal(err)
		}
	}
}

// tell delivers a message in a process of its own.
func (l *life) tell(m notify.Message) notify.Event {
	l.t.Helper()
	box := l.open()
	defer func() {
		if err := box.Close(l.t.Context()); err != nil {
			l.t.Error(err)
		}
	}()
	if err := box.Enqueue(m); err != nil {
		l.t.Fatal(err)
	}
	items, err := notify.List(l.dir)
	if i := slices.IndexFunc(items, func(i notify.Item) bool { return i.ID == m.ID }); err != nil || items[i].State == notify.Delivered {
		return notify.Event{Name: notify.EventSent}
	}
	for e := range l.news {
		noSecret(l.t, e.Reason)
		if e.ID == m.ID && (e.Name == notify.EventSent || e.Final) {
			return e
		}
	}
	return notify.Event{}
}

// question is opened, not expired yet.
func question() notify.Message {
	return with(func(m *notify.Message) { m.Expires = time.Time{} })
}

func reminder() notify.Message {
	m := question()
	m.ID, m.Kind = "e1:reminder", notify.Reminder
	return m
}

func same(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("the workspace shows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

const (
	asks     = "superloop: loop web needs an operator: may a command run?"
	reminds  = "superloop: loop web still waits for an operator: may a command run?"
	decided  = "superloop: loop web: the question is answered: approved, by cli:ada (uid 1000)"
	details  = "thread of 00000001, 0 edits: Details of " + asks
	answered = "channel, 1 edits: " + decided
)

// A question, a reminder and the answer are one thread; the decided messages have no buttons any more.
func TestBotFollowsAQuestion(t *testing.T) {
	t.Parallel()
	w, b := newWebAPI(t)
	l := newLife(t, b)
	l.tell(question())
	same(t, w.shows(), "channel, 0 edits with buttons: "+asks, details)
	l.tell(reminder())
	l.tell(answeredMessage())
	same(t, w.shows(), answered, details, "thread of 00000001 and channel, 1 edits: "+decided, "thread of 00000001, 0 edits: "+decided)
	if slices.Contains(w.calls, "conversations.history") {
		t.Errorf("the channel is read without need: %q", w.calls)
	}
	blocks := string(w.all[0].Blocks)
	if !strings.Contains(blocks, "bun install") || !strings.Contains(blocks, "2026-05-01 12:00 UTC") || !strings.Contains(blocks, "cli:ada") {
		t.Errorf("the first message does not say who decided what, when: %s", blocks)
	}
	if below := string(w.all[1].Blocks); !strings.Contains(below, "no such module") || strings.Contains(blocks, "no such module") {
		t.Errorf("the evidence is not in the thread: %s", below)
	}
}

// What became of a question is told although its messages cannot be changed, or are gone.
func TestBotWithoutItsMessages(t *testing.T) {
	t.Parallel()
	t.Run("deleted", func(t *testing.T) {
		t.Parallel()
		w, b := newWebAPI(t)
		l := newLife(t, b)
		l.tell(question())
		w.lose()
		l.tell(answeredMessage())
		same(t, w.shows(), "channel, 0 edits: "+decided)
	})
	t.Run("closed", func(t *testing.T) {
		t.Parallel()
		w, b := newWebAPI(t)
		l := newLife(t, b)
		l.tell(question())
		w.refuse = func(method string, _ int) string {
			if method == "chat.update" {
				return "edit_window_closed"
			}
			return ""
		}
		l.tell(answeredMessage())
		same(t, w.shows(), "channel, 0 edits with buttons: "+asks, details, "thread of 00000001 and channel, 0 edits: "+decided)
	})
	t.Run("never asked", func(t *testing.T) {
		t.Parallel()
		w, b := newWebAPI(t)
		newLife(t, b).tell(answeredMessage())
		same(t, w.shows(), "channel, 0 edits: "+decided)
	})
}

// Each trouble of Slack: what is said of it, and that nothing is lost or comes twice once it has passed.
func TestBotInTrouble(t *testing.T) {
	t.Parallel()
	for word, says := range map[string]string{
		"invalid_auth":      "install the app again",
		"token_revoked":     "install the app again",
		"channel_not_found": "it is private and the app is not in it",
		"not_in_channel":    "/invite @APP",
		"is_archived":       "name another in channel",
		"restricted_action": "ask its administrator",
		"ratelimited":       "Slack has a trouble: ratelimited",
		"internal_error":    "Slack has a trouble: internal_error",
		"429":               "answer 429",
		"503":               "answer 503",
	} {
		t.Run(word, func(t *testing.T) {
			t.Parallel()
			w, b := newWebAPI(t)
			l, calls, last := newLife(t, b), 0, 5
			if word == "429" { // which asks for a second
				last = 1
			}
			w.refuse = func(string, int) string {
				if calls++; calls <= last {
					return word
				}
				return ""
			}
			e := l.tell(question())
			if e.Name != notify.EventSent {
				t.Errorf("in the end %+v", e)
			}
			same(t, w.shows(), "channel, 0 edits with buttons: "+asks, details)
		})
		t.Run(word+" is said", func(t *testing.T) {
			t.Parallel()
			w, b := newWebAPI(t)
			w.refuse = func(string, int) string { return word }
			err := b.Send(t.Context(), opened())
			temporary, ok := errors.AsType[*notify.TemporaryError](err)
			if !ok || !strings.Contains(temporary.Reason, says) {
				t.Fatalf("%v", err)
			}
			if word == "429" && temporary.RetryAfter != time.Second {
				t.Errorf("a pause of %v", temporary.RetryAfter)
			}
		})
	}
	t.Run("once", func(t *testing.T) {
		t.Parallel()
		w, b := newWebAPI(t)
		tries := 0
		w.refuse = func(method string, _ int) string {
			if method != "chat.postMessage" {
				return ""
			}
			if tries++; tries <= 6 {
				return "not_in_channel"
			}
			return ""
		}
		l, said := newLife(t, b), 0
		box := l.open()
		if err := box.Enqueue(question()); err != nil {
			t.Fatal(err)
		}
		for e := range l.news {
			if e.Name == notify.EventSent {
				break
			}
			said++
		}
		if err := box.Close(t.Context()); err != nil || said != 1 {
			t.Errorf("said %d times, %v", said, err)
		}
	})
	t.Run("unknown", func(t *testing.T) {
		t.Parallel()
		w, b := newWebAPI(t)
		w.refuse = func(string, int) string { return "some_new_word" }
		if e := newLife(t, b).tell(question()); !e.Final || !strings.Contains(e.Reason, "Slack refused the message: some_new_word") {
			t.Errorf("%+v", e)
		}
	})
	t.Run("blocks", func(t *testing.T) {
		t.Parallel()
		w, b := newWebAPI(t)
		w.refuse = func(_ string, n int) string {
			if n == 1 {
				return "invalid_blocks"
			}
			return ""
		}
		newLife(t, b).tell(question())
		if got := w.shows(); len(got) != 2 || !strings.Contains(got[0], "```\n"+asks) {
			t.Errorf("%q", got)
		}
	})
}

// The answer to a post breaks off: nobody knows whether it has arrived. With the scope to read the channel it stands
// there once, without it twice, and never not at all.
func TestBotFindsWhatItHasPosted(t *testing.T) {
	t.Parallel()
	for lost := 1; lost <= 2; lost++ {
		for _, scope := range []string{"channels:history", "none"} {
			t.Run(fmt.Sprint(lost, scope), func(t *testing.T) {
				t.Parallel()
				w, b := newWebAPI(t)
				w.lost, w.scopes[1] = lost, scope
				l := newLife(t, b)
				l.tell(question())
				if got, want := len(w.shows()), map[bool]int{true: 2, false: 3}[scope != "none"]; got != want {
					t.Errorf("%d messages, want %d: %q", got, want, w.shows())
				}
				l.tell(answeredMessage())
				if strings.Contains(strings.Join(w.shows()[:1], ""), "buttons") && scope != "none" {
					t.Errorf("%q", w.shows())
				}
			})
		}
	}
}

// A question is withdrawn after its message has arrived and before superloop knew: the message is found and changed.
func TestBotChangesWhatItDidNotKnowOf(t *testing.T) {
	t.Parallel()
	w, b := newWebAPI(t)
	w.lost = 1
	l := newLife(t, b)
	box, err := notify.Open(notify.Options{Dir: l.dir, Channels: []notify.Notifier{b}, FirstBackoff: time.Hour, Pace: time.Millisecond,
		OnEvent: func(e notify.Event) { l.news <- e }})
	if err == nil {
		err = box.Enqueue(question())
	}
	if err != nil {
		t.Fatal(err)
	}
	if e := <-l.news; e.Name != notify.EventFailed || e.Final {
		t.Errorf("%+v", e)
	}
	box.Withdraw("e1")
	if err := box.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended := answeredMessage()
	ended.Status, ended.By = "expired", ""
	l.tell(ended)
	const late = "superloop: loop web: the question is not answered in time"
	same(t, w.shows(), "channel, 1 edits: "+late, "thread of 00000001, 0 edits: "+late)
}

var errKilled = errors.New("killed")

// TestBotKilledAtEachStep stops the disk at each durable step of the life of a question, as a crash does, and begins
// anew: every message stands in Slack once, and in the end no button is left.
func TestBotKilledAtEachStep(t *testing.T) {
	t.Parallel()
	for n := 0; ; n++ {
		w, b := newWebAPI(t)
		l, step := newLife(t, b), 0
		var mu sync.Mutex
		reached := ""
		l.disk = durable.OS().WithFault(func(op string) error {
			mu.Lock()
			defer mu.Unlock()
			if step++; step > n && !strings.HasPrefix(op, "lock") {
				if reached == "" {
					reached = op
				}
				return errKilled
			}
			return nil
		})
		w.refuse = func(string, int) string { // who was killed posts nothing
			mu.Lock()
			defer mu.Unlock()
			return map[bool]string{true: "503"}[reached != ""]
		}
		l.crash(question())
		l.disk, w.refuse = durable.OS(), nil
		l.tell(question())
		l.tell(answeredMessage())
		same(t, w.shows(), answered, details, "thread of 00000001, 0 edits: "+decided)
		if t.Failed() {
			t.Fatalf("killed at step %d, %s; calls %q", n, reached, w.calls)
		}
		if reached == "" {
			if n < 10 {
				t.Errorf("only %d steps", n)
			}
			return
		}
	}
}

// crash delivers a message on a disk that fails from some step on, and returns as if the process had been killed.
func (l *life) crash(m notify.Message) {
	box, err := notify.Open(notify.Options{Dir: l.dir, Disk: l.disk, Channels: []notify.Notifier{l.bot}, FirstBackoff: time.Hour, Pace: time.Millisecond,
		OnEvent: func(e notify.Event) { l.news <- e }})
	if err != nil {
		return
	}
	if box.Enqueue(m) == nil {
		<-l.news
	}
	_ = box.Close(l.t.Context())
	files, err := filepath.Glob(filepath.Join(l.dir, "*.json"))
	if err != nil || len(files) > 1 {
		l.t.Errorf("%q %v", files, err)
	}
	for _, f := range files { // the pause after a failure is over
		data, err := os.ReadFile(f)
		if err != nil {
			l.t.Fatal(err)
		}
		var s map[string]any
		if err := json.Unmarshal(data, &s); err != nil {
			l.t.Fatal(err)
		}
		if _, waits := s["next_try"]; waits {
			s["next_try"] = s["enqueued"]
		}
		if data, err = json.Marshal(s); err == nil {
			err = os.WriteFile(f, data, 0o600)
		}
		if err != nil {
			l.t.Fatal(err)
		}
	}
}

func TestBotOptions(t *testing.T) {
	for _, c := range []struct{ token, channel, says string }{
		{"xapp-verysecret", channelID, "no bot token"}, {"", channelID, "no bot token"}, {botToken.Reveal(), "#alerts", "no id of a Slack channel"},
	} {
		if _, err := NewBot("team", "", c.channel, BotOptions{}); err == nil {
			t.Error("taken")
		} else {
			testkit.Message(t, err)
		}
	}
}
