package notify

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pass lets time go by, and everything that was due happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// bubble runs f with a clock of its own; each case gets a directory.
func bubble(t *testing.T, f func(t *testing.T, dir string)) {
	t.Helper()
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "outbox")
	synctest.Test(t, func(t *testing.T) { f(t, dir) })
}

func TestEveryChannelGetsEachMessageOnce(t *testing.T) {
	bubble(t, func(t *testing.T, dir string) {
		one, two := &script{name: "one"}, &script{name: "two"}
		var h heard
		o := Options{Dir: dir, Channels: []Notifier{one, two}, OnEvent: h.hear}
		b := open(t, o)
		enqueue(t, b, opened("e1"))
		enqueue(t, b, opened("e1")) // at once
		synctest.Wait()
		enqueue(t, b, opened("e1")) // when it was delivered
		synctest.Wait()
		closeNow(t, b)
		b = open(t, o) // and after a restart
		enqueue(t, b, opened("e1"))
		enqueue(t, b, opened("e2"), "two")
		pass(time.Minute)
		if got, want := one.ids(), []string{"e1:opened"}; !reflect.DeepEqual(got, want) {
			t.Errorf("one got %q, want %q", got, want)
		}
		if got, want := two.ids(), []string{"e1:opened", "e2:opened"}; !reflect.DeepEqual(got, want) {
			t.Errorf("two got %q, want %q", got, want)
		}
		for _, e := range h.events() {
			if e.Name != EventSent || e.Attempt != 1 || e.Reason != "" || e.Loop != "web" || e.Kind != Opened {
				t.Errorf("event %+v", e)
			}
		}
		if n := len(h.events()); n != 3 {
			t.Errorf("%d events, want 3", n)
		}
		if len(b.order["one"])+len(b.order["two"]) != 0 || b.lane["two"].running {
			t.Error("an outbox with nothing to do has a lane that runs")
		}
	})
}

func TestTemporaryFailuresBackOff(t *testing.T) {
	bubble(t, func(t *testing.T, dir string) {
		n := &script{name: "n", answers: []error{
			&TemporaryError{Reason: "answer 500"},
			&TemporaryError{Reason: "answer 429", RetryAfter: 40 * time.Second},
			errors.New(`Post "https://user:pw@hooks.slack.com/services/T0/B0/verysecret": EOF`),
			&TemporaryError{Reason: "answer 503", RetryAfter: 99 * time.Hour},
		}}
		var h heard
		b := open(t, Options{Dir: dir, Channels: []Notifier{n}, OnEvent: h.hear})
		start := time.Now()
		enqueue(t, b, opened("e1"))
		if waited := time.Since(start); waited != 0 {
			t.Errorf("Enqueue waited %v for the channel", waited)
		}
		pass(2 * time.Hour)
		if len(n.got) != 5 {
			t.Fatalf("%d tries, want 5", len(n.got))
		}
		for i, bounds := range [][2]time.Duration{
			{500 * time.Millisecond, time.Second}, {40 * time.Second, 40 * time.Second}, {2 * time.Second, 4 * time.Second}, {time.Hour, time.Hour},
		} {
			if d := n.got[i+1].at.Sub(n.got[i].at); d < bounds[0] || d > bounds[1] {
				t.Errorf("after failure %d it waited %v, want %v", i+1, d, bounds)
			}
		}
		events := h.events()
		for i, e := range events[:4] {
			if e.Name != EventFailed || e.Attempt != i+1 || e.Final {
				t.Errorf("event %+v", e)
			}
		}
		if last := events[4]; last.Name != EventSent || last.Attempt != 5 || last.Final {
			t.Errorf("last event %+v", last)
		}
		if r := events[2].Reason; strings.Contains(r, "secret") || strings.Contains(r, "pw") || !strings.Contains(r, "EOF") {
			t.Errorf("reason %q", r)
		}
	})
}

func TestGivesUpVisibly(t *testing.T) {
	for name, c := range map[string]struct {
		answers []error
		options Options
		tries   int
	}{
		"permanent":    {[]error{&PermanentError{"answer 404 Not Found: no_service"}}, Options{}, 1},
		"a panic":      {[]error{panics("index out of range")}, Options{}, 1},
		"too many":     {many(10), Options{MaxAttempts: 4}, 4},
		"too old":      {many(500), Options{MaxAge: 3 * time.Hour, MaxBackoff: time.Hour, MaxAttempts: 1000}, 0},
		"the defaults": {many(500), Options{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, dir string) {
				n := &script{name: "n", answers: c.answers}
				var h heard
				c.options.Dir, c.options.Channels, c.options.OnEvent = dir, []Notifier{n}, h.hear
				b := open(t, c.options)
				enqueue(t, b, opened("e1"))
				pass(48 * time.Hour)
				tries := len(n.got)
				if c.tries > 0 && tries != c.tries || tries > 200 {
					t.Errorf("%d tries, want %d", tries, c.tries)
				}
				if last := n.got[tries-1].at.Sub(n.got[0].at); last > 25*time.Hour {
					t.Errorf("the last try was after %v", last)
				}
				events := h.events()
				if last := events[len(events)-1]; !last.Final || last.Name != EventFailed || last.Reason == "" {
					t.Errorf("last event %+v", last)
				}
				items := list(t, b)
				if len(items) != 1 || items[0].State != Failed || items[0].Reason == "" || items[0].Attempts != tries {
					t.Errorf("listed as %+v", items)
				}
				enqueue(t, b, opened("e1")) // the same message is not taken up again
				pass(time.Hour)
				if len(n.got) != tries {
					t.Error("a message that was given up was sent again")
				}
				closeNow(t, b)
				if got := states(t, dir)["n e1:opened"]; got != Failed {
					t.Errorf("in the file it is %q", got)
				}
			})
		})
	}
}

func many(n int) []error {
	var all []error
	for range n {
		all = append(all, &TemporaryError{Reason: "answer 500"})
	}
	return all
}

func TestAHangingChannelHoldsUpNothing(t *testing.T) {
	bubble(t, func(t *testing.T, dir string) {
		hangs, works := &script{name: "hangs", hold: make(chan struct{})}, &script{name: "works"}
		b := open(t, Options{Dir: dir, Channels: []Notifier{hangs, works}, SendTimeout: time.Hour})
		start := time.Now()
		for _, id := range []string{"e1", "e2", "e3"} {
			enqueue(t, b, opened(id))
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("Enqueue took %v", d)
		}
		pass(10 * time.Second)
		if got := works.ids(); len(got) != 3 {
			t.Errorf("the channel that works got %q", got)
		}
		for i := 1; i < len(works.got); i++ {
			if d := works.got[i].at.Sub(works.got[i-1].at); d < time.Second {
				t.Errorf("two messages within %v", d)
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		start = time.Now()
		if err := b.Close(ctx); err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d != 3*time.Second {
			t.Errorf("Close took %v, its bound was 3 s", d)
		}
		if err := b.Enqueue(opened("e4")); !errors.Is(err, ErrClosed) {
			t.Errorf("Enqueue after Close: %v", err)
		}
		// What was under way is no failure of the channel, and goes out at once after the next start.
		for _, i := range list(t, b) {
			if i.Channel == "hangs" && (i.State != Pending || i.Attempts != 0 || i.Reason != "") {
				t.Errorf("after Close: %+v", i)
			}
		}
		again := &script{name: "hangs"}
		start = time.Now()
		open(t, Options{Dir: dir, Channels: []Notifier{again, works}})
		pass(time.Minute)
		if got := again.ids(); !reflect.DeepEqual(got, []string{"e1:opened", "e2:opened", "e3:opened"}) || again.got[0].at.Sub(start) > 0 {
			t.Errorf("after the restart: %v (started %v)", again.got, start)
		}
	})
}

func TestCloseDeliversWhatIsDue(t *testing.T) {
	bubble(t, func(t *testing.T, dir string) {
		n := &script{name: "n"}
		b := open(t, Options{Dir: dir, Channels: []Notifier{n}})
		for _, id := range []string{"e1", "e2", "e3"} {
			enqueue(t, b, opened(id))
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := b.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if len(n.ids()) != 3 {
			t.Errorf("delivered %q", n.ids())
		}
		failing := &script{name: "n", answers: many(100)}
		b = open(t, Options{Dir: dir, Channels: []Notifier{failing}})
		enqueue(t, b, opened("e4"))
		synctest.Wait()
		start := time.Now()
		if err := b.Close(ctx); err != nil || time.Since(start) != 0 {
			t.Errorf("Close waited %v for a channel that does not work: %v", time.Since(start), err)
		}
	})
}

func TestOneEscalationStaysInOrder(t *testing.T) {
	bubble(t, func(t *testing.T, dir string) {
		n := &script{name: "n", answers: many(3)}
		b := open(t, Options{Dir: dir, Channels: []Notifier{n}})
		resolved := opened("e1")
		resolved.ID, resolved.Kind = "e1:resolved", Resolved
		enqueue(t, b, opened("e1"))
		synctest.Wait()
		enqueue(t, b, resolved)
		enqueue(t, b, opened("e2"))
		pass(time.Hour)
		got := strings.Join(n.ids(), " ")
		// Each failure pauses the channel, and then another escalation has its turn; "resolved" of e1 waits.
		if strings.Index(got, "e1:resolved") < strings.LastIndex(got, "e1:opened") || strings.Count(got, "e1:resolved") != 1 {
			t.Errorf("sent in this order: %s", got)
		}
		if !strings.HasPrefix(got, "e1:opened e2:opened") {
			t.Errorf("a message that fails held up another escalation: %s", got)
		}
	})
}

func TestWithdrawAndExpiry(t *testing.T) {
	bubble(t, func(t *testing.T, dir string) {
		n := &script{name: "n", answers: many(3)}
		var h heard
		b := open(t, Options{Dir: dir, Channels: []Notifier{n}, FirstBackoff: time.Minute, OnEvent: h.hear})
		resolved := opened("e1")
		resolved.ID, resolved.Kind = "e1:resolved", Resolved
		enqueue(t, b, opened("e1"))
		synctest.Wait() // it failed once
		late := opened("e2")
		late.Expires = time.Now().Add(10 * time.Second)
		enqueue(t, b, late)
		b.Withdraw("e1")
		enqueue(t, b, resolved)
		pass(time.Hour)
		for _, id := range n.ids()[1:] {
			if id != "e1:resolved" {
				t.Errorf("%s was sent", id)
			}
		}
		closeNow(t, b)
		want := map[string]State{"n e1:opened": Withdrawn, "n e1:resolved": Delivered, "n e2:opened": Failed}
		if got := states(t, dir); !reflect.DeepEqual(got, want) {
			t.Errorf("states %v, want %v", got, want)
		}
	})
	t.Run("while it is sent", func(t *testing.T) {
		bubble(t, func(t *testing.T, dir string) {
			n := &script{name: "n", hold: make(chan struct{}), answers: many(9)}
			b := open(t, Options{Dir: dir, Channels: []Notifier{n}})
			enqueue(t, b, opened("e1"))
			synctest.Wait()
			b.Withdraw("e1")
			n.hold <- struct{}{}
			pass(time.Hour)
			if got := states(t, dir)["n e1:opened"]; got != Withdrawn || len(n.ids()) != 1 {
				t.Errorf("%q after %d tries", got, len(n.ids()))
			}
		})
	})
}

func TestChannelsThatGoAndCome(t *testing.T) {
	bubble(t, func(t *testing.T, dir string) {
		failing := &script{name: "n", answers: many(1000)}
		var h heard
		b := open(t, Options{Dir: dir, Channels: []Notifier{failing}, OnEvent: h.hear})
		if err := b.Enqueue(opened("e0"), "m"); err == nil || !strings.Contains(err.Error(), `"m"`) || !strings.Contains(err.Error(), "there is: n") {
			t.Errorf("an unknown channel: %v", err)
		}
		enqueue(t, b, opened("e1"))
		pass(time.Minute)
		b.Configure(nil)
		pass(time.Hour)
		tries := len(failing.ids())
		works := &script{name: "n"}
		b.Configure([]Notifier{works})
		pass(time.Hour)
		if len(works.ids()) != 1 || len(failing.ids()) != tries {
			t.Errorf("the new channel got %q", works.ids())
		}
		b.Configure([]Notifier{failing})
		enqueue(t, b, opened("e2"))
		pass(time.Minute)
		closeNow(t, b)
		pass(25 * time.Hour)
		open(t, Options{Dir: dir, OnEvent: h.hear})
		synctest.Wait()
		if got := states(t, dir)["n e2:opened"]; got != Failed {
			t.Errorf("a message for a channel that is gone for a day is %q", got)
		}
		if e := h.events()[len(h.events())-1]; !e.Final || !strings.Contains(e.Reason, "configured") {
			t.Errorf("event %+v", e)
		}
	})
}

func TestRetryAfterTheChannelWasPutRight(t *testing.T) {
	bubble(t, func(t *testing.T, dir string) {
		wrong := &script{name: "n", answers: []error{&PermanentError{"answer 404"}, &PermanentError{"answer 404"}, &PermanentError{"answer 404"}}}
		b := open(t, Options{Dir: dir, Channels: []Notifier{wrong}})
		enqueue(t, b, opened("old"))
		pass(24 * time.Hour)
		enqueue(t, b, opened("e1"))
		enqueue(t, b, opened("e2"))
		pass(time.Minute)
		right := &script{name: "n"}
		b.Configure([]Notifier{right})
		pass(time.Minute)
		if len(right.ids()) != 0 {
			t.Error("what was given up was taken up without being asked for")
		}
		if n := b.Retry("n"); n != 2 {
			t.Errorf("Retry took up %d, want 2", n)
		}
		if n := b.Retry("n") + b.Retry("m"); n != 0 {
			t.Errorf("the second Retry took up %d", n)
		}
		pass(time.Minute)
		if got := right.ids(); !reflect.DeepEqual(got, []string{"e1:opened", "e2:opened"}) {
			t.Errorf("sent %q", got)
		}
		want := map[string]State{"n old:opened": Failed, "n e1:opened": Delivered, "n e2:opened": Delivered}
		if got := states(t, dir); !reflect.DeepEqual(got, want) {
			t.Errorf("states %v, want %v", got, want)
		}
	})
}
