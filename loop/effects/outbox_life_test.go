package effects

import (
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superloop/superloop/escalation/notify"
)

// outboxItems are the messages in the outbox's files, the oldest first.
func (r *recHost) outboxItems() []notify.Item {
	items, err := notify.List(r.Paths.Outbox())
	r.noErr(err)
	return items
}

// A channel that was put right by a reload gets what was given up.
func TestReloadTriesAgain(t *testing.T) {
	t.Parallel()
	recBubble(t, func(t *testing.T, r *recHost, first, _ *recNotifier) {
		first.err = &notify.PermanentError{Reason: "no such hook"}
		r.outbox.Configure()
		r.opens(recQuestion("npm ci"))
		synctest.Wait()
		if items := r.outboxItems(); items[0].State != notify.Failed {
			t.Errorf("%+v", items)
		}
		good := &recNotifier{name: "first"}
		r.outbox.Channels = recChannels(good, nil)
		r.outbox.Configure()
		time.Sleep(time.Second) // the pace of a channel, in the time of the bubble
		synctest.Wait()
		if len(good.messages()) != 1 {
			t.Errorf("%+v", r.outboxItems())
		}
	})
}

// Another supervisor has the outbox: that is said, and the next reload tries again.
func TestOutboxCannotBeOpened(t *testing.T) {
	t.Parallel()
	recBubble(t, func(t *testing.T, r *recHost, _, _ *recNotifier) {
		other, err := notify.Open(notify.Options{Dir: r.Paths.Outbox()})
		r.noErr(err)
		r.outbox.Configure()
		if r.outbox.box != nil || r.logged.FilterMessageSnippet("nobody can be told").Len() != 1 {
			t.Error(r.logged.All())
		}
		r.noErr(other.Close(t.Context()))
		if r.outbox.Configure(); r.outbox.box == nil {
			t.Error(r.logged.All())
		}
	})
}

func TestDeliveriesAreRecorded(t *testing.T) {
	t.Parallel()
	recBubble(t, func(t *testing.T, r *recHost, first, _ *recNotifier) {
		news := r.outbox.News()
		if r.outbox.News() != news {
			t.Error("there are two")
		}
		r.outbox.Configure()
		first.err = &notify.PermanentError{Reason: "no"}
		s := r.opens(recQuestion("npm ci"))
		synctest.Wait()
		select {
		case <-news:
		default:
			t.Fatal("no news")
		}
		r.outbox.take(notify.Event{Name: notify.EventSent, Loop: "other"})
		r.outbox.take(notify.Event{Name: notify.EventSent, Notifier: "x", Attempt: 2, Kind: notify.Test})
		<-news
		select {
		case <-news:
			t.Error("one look is enough for all that came")
		default:
		}
		r.noErr(r.outbox.TellDeliveries())
		want := []any{notificationFields{"first", 1, "escalation_opened", s.Human.Question, "no", true}, notificationFields{Notifier: "x", Attempt: 2, Kind: "test"}}
		if !slices.Equal(r.journal.records, []string{"notification_failed", "notification_sent"}) || !reflect.DeepEqual(r.journal.fields, want) {
			t.Errorf("%v %+v", r.journal.records, r.journal.fields)
		}
		if r.noErr(r.outbox.TellDeliveries()); len(r.journal.records) != 2 {
			t.Error("they are recorded twice")
		}
		r.outbox.take(notify.Event{Name: notify.EventSent, Loop: "l"})
		r.journal.err = errRec
		r.wantErr(r.outbox.TellDeliveries(), errRec)
	})
}

// News before anybody waits for them are not lost.
func TestNewsBeforeAnybodyAsks(t *testing.T) {
	t.Parallel()
	o := &Outbox{}
	o.take(notify.Event{})
	<-o.News()
}

func TestCloseDrains(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*recHost, *recNotifier)
		takes  time.Duration
		sent   int
		warned string
	}{
		"at once":    {func(*recHost, *recNotifier) {}, 0, 1, ""},
		"a second":   {func(_ *recHost, n *recNotifier) { n.deaf = time.Second }, time.Second, 1, ""},
		"it hangs":   {func(_ *recHost, n *recNotifier) { n.hang = true }, 2 * time.Second, 0, ""},
		"it is deaf": {func(_ *recHost, n *recNotifier) { n.deaf = 8 * time.Second }, 7 * time.Second, 0, "still in the outbox"},
		"no journal": {func(r *recHost, _ *recNotifier) { r.journal.err = errRec }, 0, 0, "could not be recorded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			recBubble(t, func(t *testing.T, r *recHost, first, _ *recNotifier) {
				c.change(r, first)
				r.outbox.Configure()
				r.opens(recQuestion("npm ci"))
				synctest.Wait()
				began := time.Now()
				r.outbox.Close()
				if took := time.Since(began); took != c.takes || len(r.journal.records) != c.sent {
					t.Errorf("took %v, recorded %v", took, r.journal.records)
				}
				if n := r.logged.FilterMessageSnippet(c.warned).Len(); c.warned != "" && n != 1 || c.warned == "" && r.logged.Len() != 0 {
					t.Error(r.logged.All())
				}
				time.Sleep(time.Minute) // what is deaf comes to its end, in the time of the bubble
			})
		})
	}
}

// A kind of news that no channel wants is nobody's.
func TestNewsThatNobodyWants(t *testing.T) {
	t.Parallel()
	recBubble(t, func(t *testing.T, r *recHost, first, _ *recNotifier) {
		r.outbox.Channels = recChannels(first, nil)
		r.outbox.Configure()
		r.config.Escalation.EscalateAfter = time.Minute
		r.now = recStart
		s := r.opens(recQuestion("npm ci"))
		seen := 0
		r.told(r.record(), &seen)
		r.now = recStart.Add(time.Minute)
		r.look(s, nil)
		if told := r.told(r.record(), &seen); told != "" || r.logged.FilterMessageSnippet("could not be told").Len() != 0 {
			t.Errorf("%q %v", told, r.logged.All())
		}
	})
}
