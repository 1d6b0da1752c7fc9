package cooldown

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/roles/agent"
	"github.com/superloop/superloop/roles/agent/class"
)

// dirVar makes this test binary a writer: it sets what TestProcesses wants.
const dirVar = "SUPERLOOP_TEST_COOLDOWN_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(dirVar); dir != "" {
		if err := write(dir, os.Getenv(dirVar+"_N")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const rounds = 12

func write(dir, who string) error {
	s := New(durable.OS(), dir)
	var n int
	if _, err := fmt.Sscan(who, &n); err != nil {
		return err
	}
	begin := time.Now()
	for i := range rounds {
		err := errors.Join(
			s.Set(Cooldown{Account: alice, Class: class.Limit, Until: begin.Add(time.Hour + time.Duration((i*7+n)%13)*time.Minute), Strikes: n*rounds + i, By: who}),
			s.Set(Cooldown{Account: agent.Account{Provider: "p", ID: who}, Class: class.Limit, Told: true, Until: begin.Add(time.Hour)}))
		if err != nil {
			return err
		}
		if c, ok, err := s.Get(alice); err != nil || !ok || c.Until.Before(begin.Add(time.Hour+time.Duration((i*7+n)%13)*time.Minute)) {
			return fmt.Errorf("round %d: %+v (%v, %v)", i, c, ok, err)
		}
		if _, _, err := s.Get(agent.Account{Provider: "p", ID: "0"}); err != nil {
			return err
		}
		if i%4 == 3 {
			if err := s.Succeeded(agent.Account{Provider: "p", ID: who}); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestProcesses: several processes write at the same time; each sees its own word
// or a longer one at once, nothing is torn, and the longest remains.
func TestProcesses(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t)
	s.now = time.Now
	began := time.Now()
	const processes = 6
	var all sync.WaitGroup
	for n := range processes {
		all.Go(func() {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), dirVar+"="+s.dir, fmt.Sprintf("%s_N=%d", dirVar, n))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("writer %d: %v\n%s", n, err, out)
			}
		})
	}
	all.Wait()
	for n := range processes {
		if _, ok, err := s.Get(agent.Account{Provider: "p", ID: fmt.Sprint(n)}); !ok || err != nil {
			t.Errorf("the account of writer %d: %v, %v", n, ok, err)
		}
	}
	c, ok, err := s.Get(alice)
	if err != nil || !ok || c.Until.Before(began.Add(time.Hour+12*time.Minute)) || c.Strikes != processes*rounds-1 {
		t.Errorf("%+v (%v, %v)", c, ok, err)
	}
	entries, err := os.ReadDir(s.dir)
	must(t, err)
	for _, e := range entries {
		if strings.Contains(e.Name(), ".tmp-") {
			t.Errorf("%s was left", e.Name())
		}
	}
}

// TestReadersDuringWrites: whoever reads while others write sees a whole file.
func TestReadersDuringWrites(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t)
	must(t, s.Set(limit(time.Hour)))
	var stop atomic.Bool
	var readers, writers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for !stop.Load() {
				if c, ok, err := s.Get(alice); err != nil || !ok || c.Until.Before(noon.Add(time.Hour)) {
					t.Errorf("%+v (%v, %v)", c, ok, err)
					return
				}
			}
		})
	}
	for n := range 3 {
		writers.Go(func() {
			for i := range 20 {
				c := limit(time.Hour + time.Duration(i)*time.Minute)
				c.Text = strings.Repeat("x", n*500)
				if err := s.Set(c); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	stop.Store(true)
	readers.Wait()
	if c, _, _ := s.Get(alice); !c.Until.Equal(noon.Add(79 * time.Minute)) {
		t.Errorf("it ends %v", c.Until)
	}
}

// TestLockIsHeld: who cannot get the lock says who has it, in a bounded time.
func TestLockIsHeld(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t)
	s.patience = 50 * time.Millisecond
	must(t, s.Set(limit(time.Minute)))
	lock, err := durable.OS().Lock(s.dir+"/lock", []byte("a test"))
	must(t, err)
	err = s.Set(limit(time.Hour))
	var held *durable.LockedError
	if !errors.As(err, &held) || string(held.Holder) != "a test" {
		t.Errorf("%v", err)
	}
	if _, ok, err := s.Get(alice); !ok || err != nil {
		t.Errorf("a reader needs the lock: %v", err)
	}
	s.patience = 2 * time.Minute
	released := make(chan error)
	go func() { released <- s.Set(limit(time.Hour)) }()
	must(t, lock.Unlock())
	must(t, <-released)
}

// TestFaults fails each physical step of a Set once: the old word or the new one
// is there, whole, and the next Set works.
func TestFaults(t *testing.T) {
	t.Parallel()
	var steps []string
	record, _ := newStore(t)
	must(t, record.Set(limit(time.Minute)))
	record.disk = record.disk.WithFault(func(op string) error { steps = append(steps, op); return nil })
	must(t, record.Set(limit(time.Hour)))
	if len(steps) < 8 {
		t.Fatalf("only the steps %q", steps)
	}
	for i, step := range steps {
		s, _ := newStore(t)
		must(t, s.Set(limit(time.Minute)))
		n := 0
		s.disk = s.disk.WithFault(func(op string) error {
			n++
			if n == i+1 {
				return &durable.ShortWrite{N: 3}
			}
			return nil
		})
		err := s.Set(limit(time.Hour))
		if err == nil && step != "lock:write" { // text for messages only
			t.Errorf("%s failed and nobody knows", step)
		}
		s.disk = durable.OS()
		c, ok, err := s.Get(alice)
		if err != nil || !ok || !c.Until.Equal(noon.Add(time.Minute)) && !c.Until.Equal(noon.Add(time.Hour)) {
			t.Errorf("after %s failed: %+v (%v, %v)", step, c, ok, err)
		}
		must(t, s.Set(limit(2*time.Hour)))
		if c, _, _ := s.Get(alice); !c.Until.Equal(noon.Add(2 * time.Hour)) {
			t.Errorf("after %s failed nothing is set any more", step)
		}
	}
}

// TestHistory plays random histories of one account against what the doc
// comments promise.
// Conforms: 003-c2.6-prevent
func TestHistory(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := New(durable.OS(), t.TempDir())
		now := noon
		s.now = func() time.Time { return now }
		var running Cooldown
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 90).Draw(rt, "minutes")) * time.Minute)
			before, ok, err := s.Get(alice)
			if err != nil || ok != before.Until.After(now) || ok && !before.Until.Equal(running.Until) {
				rt.Fatalf("at %v: %+v (%v, %v), it was %+v", now, before, ok, err, running)
			}
			switch rapid.IntRange(0, 5).Draw(rt, "what") {
			case 0:
				if err := s.Clear(alice); err != nil {
					rt.Fatal(err)
				}
				running = Cooldown{}
			case 1:
				if err := s.Succeeded(alice); err != nil {
					rt.Fatal(err)
				}
				if after, still, err := s.Get(alice); err != nil || still != (ok && before.Told) || after.Strikes != 0 {
					rt.Fatalf("after a success %+v (%v, %v)", after, still, err)
				} else if !still {
					running = Cooldown{}
				}
			default:
				c := Cooldown{Account: alice, Class: rapid.SampledFrom([]class.Class{class.Limit, class.Network}).Draw(rt, "class"),
					Kind: rapid.SampledFrom([]string{"", "five_hour", "seven_day"}).Draw(rt, "kind"), Told: rapid.Bool().Draw(rt, "told"),
					Until: now.Add(time.Duration(rapid.IntRange(-60, 400).Draw(rt, "until")) * time.Minute), Strikes: rapid.IntRange(0, 9).Draw(rt, "strikes")}
				if err := s.Set(c); err != nil {
					rt.Fatal(err)
				}
				after, _, err := s.Get(alice)
				if err != nil || after.Strikes != max(c.Strikes, before.Strikes) && after != (Cooldown{}) {
					rt.Fatalf("%+v, then %+v, gives %+v (%v)", before, c, after, err)
				}
				if ok && after.Until.Before(before.Until) && (!c.Told || c.Class != before.Class) {
					rt.Fatalf("%+v is shortened by %+v", before, c)
				}
				if after.Until.Before(c.Until) {
					rt.Fatalf("%+v is not remembered: %+v", c, after)
				}
				running = after
			}
		}
	})
}
