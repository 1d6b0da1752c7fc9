package effects

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superloop/superloop/loop"
)

func TestEnv(t *testing.T) {
	t.Setenv("REC_HOST_TEST", "1")
	h := &Host{}
	if !slices.Contains(h.Env(), "REC_HOST_TEST=1") {
		t.Error("it is not that of the process")
	}
	for _, env := range [][]string{{"A=1"}, {}} {
		if h.Environ = env; !slices.Equal(h.Env(), env) {
			t.Error(h.Env())
		}
	}
}

func TestNow(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 6_700_000, time.FixedZone("x", 3600))
	h := &Host{Clock: func() time.Time { return at }}
	if got := h.Now(loop.State{}); got != time.Date(2026, 1, 2, 2, 4, 5, 6_000_000, time.UTC) {
		t.Error(got)
	}
	last := recStart
	if got := h.Now(loop.State{UpdatedAt: last}); got != last {
		t.Error("it goes back", got)
	}
}

func TestSays(t *testing.T) {
	t.Parallel()
	h := &Host{}
	if h.Says("tester") != nil {
		t.Error("nobody wants the lines")
	}
	var got string
	h.Said = func(who, line string) { got = who + ": " + line }
	if h.Says("tester")("ok"); got != "tester: ok" {
		t.Error(got)
	}
}

func TestHurryAndMark(t *testing.T) {
	t.Parallel()
	if Hurry(t.Context()) != nil {
		t.Error("there is none")
	}
	c := make(chan struct{})
	if Hurry(WithHurry(t.Context(), c)) != (<-chan struct{})(c) {
		t.Error("it is another one")
	}
	if Mark("r") != "SUPERLOOP_MARK=r" {
		t.Error(Mark("r"))
	}
}

func TestShort(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		own    time.Duration
		left   int64
		want   time.Duration
		capped bool
	}{{0, 0, 0, false}, {time.Second, 0, time.Second, false}, {time.Second, 1000, time.Second, false}, {time.Second, 999, 999 * time.Millisecond, true},
		{0, 5, 5 * time.Millisecond, true}, {time.Second, 1001, time.Second, false}, {time.Second, -1, time.Second, false}} {
		if got, capped := capTimeout(c.own, c.left); got != c.want || capped != c.capped {
			t.Errorf("%+v: %v %v", c, got, capped)
		}
	}
	if got := []string{loop.Times(0), loop.Times(1), loop.Times(2), loop.Times(3)}; !slices.Equal(got, []string{"0 times", "once", "twice", "3 times"}) {
		t.Error(got)
	}
	if at := recStart; !earlier(at, at.Add(1)).Equal(at) || !earlier(at.Add(1), at).Equal(at) {
		t.Error("the later one")
	}
}

// Short work is finished after the supervisor has to leave; long work ends three seconds later, or with the hurry.
func TestLinger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		lingers, stop := Linger(ctx)
		defer stop()
		begun := time.Now()
		time.Sleep(time.Minute)
		if lingers.Err() != nil {
			t.Fatal("it ended while nobody had to leave")
		}
		leave()
		<-lingers.Done()
		if took := time.Since(begun) - time.Minute; took != 3*time.Second {
			t.Errorf("it went on for %v", took)
		}
		hurry := make(chan struct{})
		ctx, leave = context.WithCancel(WithHurry(t.Context(), hurry))
		hurried, stop2 := Linger(ctx)
		defer stop2()
		leave()
		time.Sleep(time.Second)
		if hurried.Err() != nil {
			t.Fatal("it ended at once")
		}
		close(hurry)
		synctest.Wait()
		if hurried.Err() == nil {
			t.Error("it goes on in a hurry")
		}
	})
}
