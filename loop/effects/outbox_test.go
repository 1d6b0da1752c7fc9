package effects

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/escalation/notify"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
)

// recNotifier is a channel that keeps what it was sent.
type recNotifier struct {
	name string
	err  error         // what it answers
	deaf time.Duration // how long it takes, whatever its context says
	hang bool          // it ends with its context

	mu  sync.Mutex
	got []notify.Message
}

func (n *recNotifier) Name() string { return n.name }

func (n *recNotifier) Send(ctx context.Context, m notify.Message) error {
	if n.hang {
		<-ctx.Done()
		return ctx.Err()
	}
	time.Sleep(n.deaf)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.got = append(n.got, m)
	return n.err
}

func (n *recNotifier) messages() []notify.Message {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.got)
}

var recKinds = []notify.Kind{notify.Opened, notify.Resolved, notify.Reminder, notify.Aged, notify.ConfigChangeHeld, notify.Alert, notify.Ended}

const noCost = "cost so far: no cost, no tokens in 0 role runs"

// recChannels tell the first of everything, and the second where nobody answers.
func recChannels(first, second notify.Notifier) func(*config.Config) Channels {
	return func(*config.Config) Channels {
		c := Channels{First: map[notify.Kind][]string{}, Second: map[notify.Kind][]string{}}
		for _, k := range recKinds {
			if first != nil {
				c.First[k] = []string{first.Name()}
			}
			if second != nil {
				c.Second[k] = []string{second.Name()}
			}
		}
		for _, n := range []notify.Notifier{first, second} {
			if n != nil {
				c.All = append(c.All, n)
			}
		}
		return c
	}
}

// told is what the outbox has taken since the last time, "channel id" each, with
// the question's id as Q.
func (r *recHost) told(rec escalation.Record, seen *int) string {
	r.t.Helper()
	all := r.outboxItems()
	var out []string
	for _, i := range all[*seen:] {
		out = append(out, i.Channel+" "+strings.ReplaceAll(i.ID, rec.Question.ID, "Q"))
	}
	*seen = len(all)
	return strings.Join(out, ", ")
}

// bubble runs a test with two channels in a bubble of its own.
func recBubble(t *testing.T, test func(t *testing.T, r *recHost, first, second *recNotifier)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRecHost(t)
		first, second := &recNotifier{name: "first"}, &recNotifier{name: "second"}
		r.outbox.Channels = recChannels(first, second)
		test(t, r, first, second)
		r.outbox.Close()
	})
}

func TestRemindersAndTheSecondLine(t *testing.T) {
	t.Parallel()
	recBubble(t, func(t *testing.T, r *recHost, _, _ *recNotifier) {
		r.outbox.Configure()
		e := &r.config.Escalation
		e.RemindAfter, e.EscalateAfter, e.ExpiresAfter = 10*time.Minute, 25*time.Minute, time.Hour
		s, _ := r.asks(recQuestion("npm ci"))
		seen := 0
		for _, c := range []struct {
			at, next time.Duration // minutes
			told     string
		}{
			{0, 10, "first Q/escalation_opened"}, {0, 10, ""}, {9, 10, ""},
			{10, 20, "first Q/reminder/1"}, {10, 20, ""}, {19, 20, ""},
			{20, 25, "first Q/reminder/2"}, {24, 25, ""},
			{25, 30, "second Q/aged"}, {25, 30, ""},
			{41, 50, "first Q/reminder/4"}, {50, 60, "first Q/reminder/5"}, {59, 60, ""},
		} {
			r.now = recStart.Add(c.at * time.Minute)
			fact, next := r.look(s, nil)
			if told := r.told(r.record(), &seen); fact != nil || told != c.told || !next.Equal(recStart.Add(c.next*time.Minute)) {
				t.Errorf("after %d minutes: told %q, again at %v; %v", c.at, told, next, fact)
			}
		}
		rec := r.record()
		r.answer(escalation.Approve, "", "")
		r.look(s, nil)
		if told := r.told(rec, &seen); told != "first Q/escalation_resolved, second Q/escalation_resolved/second" {
			t.Errorf("of the end: %q", told)
		}
	})
}

func TestNobodyIsRemindedOfWhatIsAnsweredSoon(t *testing.T) {
	t.Parallel()
	recBubble(t, func(t *testing.T, r *recHost, _, _ *recNotifier) {
		r.outbox.Configure()
		seen := 0
		s, _ := r.asks(recQuestion("npm ci"))
		if _, next := r.look(s, nil); !next.Equal(recStart.Add(escalation.DefaultPatience)) {
			t.Errorf("without reminders it is looked at again at %v", next)
		}
		r.told(r.record(), &seen)
		r.config.Escalation.EscalateAfter = time.Hour
		for _, c := range []struct {
			at   time.Duration
			told string
		}{{time.Hour - 1, "first Q/escalation_resolved"}, {time.Hour, "second Q/escalation_resolved/second"}} {
			r.now = recStart.Add(c.at)
			r.outbox.Ended(r.record())
			if told := r.told(r.record(), &seen); told != c.told {
				t.Errorf("after %v: %q", c.at, told)
			}
		}
	})
}

func TestWhatIsTold(t *testing.T) {
	t.Parallel()
	recBubble(t, func(t *testing.T, r *recHost, first, _ *recNotifier) {
		r.Environ = []string{"API_TOKEN=hunter2-hunter2-hunter2"}
		r.outbox.Configure()
		s := recQuestion("curl -H hunter2-hunter2-hunter2")
		s = r.opens(s)
		rec := r.record()
		r.answer(escalation.Reject, "no", "")
		synctest.Wait()
		r.look(s, nil)
		r.outbox.Close()
		got := first.messages()
		if len(got) != 2 {
			t.Fatalf("%+v", got)
		}
		q := rec.Question
		ways := rec.Ways()
		ways = slices.Insert(ways, 2, escalation.Way{Does: "by hand", Line: strings.ReplaceAll(rec.Actions().Manual, "hunter2-hunter2-hunter2", "<secret>")})
		want := notify.Message{ID: q.ID + "/escalation_opened", Escalation: q.ID, Kind: notify.Opened, Loop: "l", Repo: r.Paths.Repo, Iteration: 3, Type: "recovery_approval_required",
			Status: "pending", Reason: "no list names it", Command: got[0].Command, WorkingDir: ".", Category: "dependency", Severity: "blocking", Confidence: "high", RootCause: "cause", Evidence: []string{"line 1"}, Diff: q.Command.GuardDiff, Digest: rec.Digest,
			Ways: ways, Facts: []string{noCost}, Created: q.Created, Expires: q.Expires}
		if !reflect.DeepEqual(got[0], want) || !strings.HasPrefix(got[0].Command, "curl -H ") || strings.Contains(got[0].Command, "hunter2") {
			t.Errorf("%+v\nwant %+v", got[0], want)
		}
		if m := got[1]; m.Kind != notify.Resolved || m.Status != "rejected" || m.By != "cli:ada" || m.Note != "no" || m.ID != q.ID+"/escalation_resolved" {
			t.Errorf("%+v", m)
		}
	})
}

// An end is told once, also by a supervisor that follows a killed one, and kept for the inbox.
func TestAnEndIsToldOnceAndKept(t *testing.T) {
	t.Parallel()
	recBubble(t, func(t *testing.T, r *recHost, first, second *recNotifier) {
		r.outbox.Configure()
		s := loop.State{LoopID: "l", RunID: "r1", Status: loop.StuckEnd, Iteration: 3, EndedAt: recStart}
		for range 2 {
			r.noErr(r.outbox.LoopEnded(s, nil))
		}
		r.outbox.Close()
		got := first.messages()
		if len(got) != 1 || len(second.messages()) != 0 {
			t.Fatalf("%d messages", len(got))
		}
		kept, err := escalation.AllEnded(r.Paths.State)
		if err != nil || len(kept) != 1 || kept[0].Status != "stuck" || kept[0].Next != got[0].Next || kept[0].Repo != r.Paths.Repo {
			t.Errorf("kept %+v, %v", kept, err)
		}
		r.noErr(escalation.Forget(r.Disk, r.Paths.Private))
		if kept, err := escalation.AllEnded(r.Paths.State); len(kept) != 0 || err != nil {
			t.Errorf("still kept %+v, %v", kept, err)
		}
	})
}

func TestNoChannels(t *testing.T) {
	t.Parallel()
	for name, channels := range map[string]func(*config.Config) Channels{"nobody makes them": nil, "there are none": recChannels(nil, nil)} {
		r := newRecHost(t)
		r.outbox.Channels = channels
		r.outbox.Configure()
		r.opens(recQuestion("npm ci"))
		r.outbox.Ended(r.record())
		r.outbox.Held(loop.State{}, "abc", 1)
		r.outbox.Close()
		if got := r.names(r.Paths.Outbox()); got != nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Channels that a reload brings are told what is open.
func TestChannelsThatComeLater(t *testing.T) {
	t.Parallel()
	recBubble(t, func(t *testing.T, r *recHost, first, second *recNotifier) {
		r.outbox.Channels = func(c *config.Config) Channels {
			if c.Digest == "" {
				return Channels{}
			}
			if c.Digest == "2" {
				return recChannels(first, second)(c)
			}
			return recChannels(first, nil)(c)
		}
		r.outbox.Configure()
		s := r.opens(recQuestion("npm ci"))
		seen := 0
		r.config = &config.Config{Digest: "1", Recovery: r.config.Recovery}
		r.outbox.Configure()
		r.look(s, nil)
		if told := r.told(r.record(), &seen); told != "first Q/escalation_opened" {
			t.Errorf("%q", told)
		}
		r.config = &config.Config{Digest: "2", Recovery: r.config.Recovery}
		r.config.Escalation.EscalateAfter = time.Minute
		r.now = recStart.Add(time.Minute)
		box := r.outbox.box
		r.outbox.Configure()
		r.look(s, nil)
		if told := r.told(r.record(), &seen); told != "second Q/aged" || box != r.outbox.box {
			t.Errorf("%q", told)
		}
	})
}

// What the disk does not take is offered again.
func TestNewsOnAFullDisk(t *testing.T) {
	t.Parallel()
	recBubble(t, func(t *testing.T, r *recHost, first, _ *recNotifier) {
		r.outbox.Configure()
		r.fail["notify-enqueue:write"] = syscall.ENOSPC
		s := r.opens(recQuestion("npm ci"))
		if r.logged.FilterMessageSnippet("could not be told").Len() != 1 {
			t.Error(r.logged.All())
		}
		r.mu.Lock()
		delete(r.fail, "notify-enqueue:write")
		r.mu.Unlock()
		r.look(s, nil)
		synctest.Wait()
		if len(first.messages()) != 1 {
			t.Error("nobody was told")
		}
	})
}

// What has not gone out when its escalation ends does not go out any more.
func TestEndedTakesBack(t *testing.T) {
	t.Parallel()
	recBubble(t, func(t *testing.T, r *recHost, first, _ *recNotifier) {
		first.err = &notify.TemporaryError{Reason: "later"}
		r.outbox.Configure()
		r.opens(recQuestion("npm ci"))
		synctest.Wait()
		r.outbox.Ended(r.record())
		if items := r.outboxItems(); len(items) != 2 || items[0].State != notify.Withdrawn {
			t.Errorf("%+v", items)
		}
	})
}

func TestHeld(t *testing.T) {
	t.Parallel()
	recBubble(t, func(t *testing.T, r *recHost, first, _ *recNotifier) {
		r.outbox.Configure()
		for _, digest := range []string{"0123456789abcdef", "012"} {
			r.outbox.Held(loop.State{Iteration: 4}, digest, 2)
			r.outbox.Held(loop.State{Iteration: 4}, digest, 2)
		}
		r.outbox.Close()
		got := first.messages()
		if len(got) != 2 {
			t.Fatalf("%+v", got)
		}
		want := notify.Message{ID: "held/0123456789abcdef", Kind: notify.ConfigChangeHeld, Loop: "l", Repo: r.Paths.Repo, Iteration: 4, Type: "policy_change", Status: "held", Digest: "0123456789abcdef",
			Created: recStart, Facts: []string{noCost}, Reason: "config.json would allow more than was trusted (2 changes); that is not in force, and the loop goes on without it",
			Ways: []escalation.Way{{Does: "look", Line: "superloop config diff --repo " + text.Paste(r.Paths.Repo)}, {Does: "trust", Line: "superloop config trust --repo " + text.Paste(r.Paths.Repo) + " --digest 01234567"}}}
		if !reflect.DeepEqual(got[0], want) || !strings.HasSuffix(got[1].Ways[1].Line, " --digest 012") {
			t.Errorf("%+v\nwant %+v", got, want)
		}
	})
}

func TestPatience(t *testing.T) {
	t.Parallel()
	for after, want := range map[time.Duration]time.Duration{0: escalation.DefaultPatience, 1: 1} {
		if got := patience(&config.Config{Escalation: config.Escalation{ExpiresAfter: after}}); got != want {
			t.Error(after, got)
		}
	}
}
