package cooldown

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/roles/agent"
	"github.com/superloop/superloop/roles/agent/class"
)

var (
	noon  = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	alice = agent.Account{Provider: "anthropic", ID: "a1b2c3"}
	bob   = agent.Account{Provider: "openai", ID: "key"}
)

// clock is a store's time, which tests set.
type clock struct{ at time.Time }

func newStore(t testing.TB) (*Store, *clock) {
	t.Helper()
	s, c := New(durable.OS(), filepath.Join(t.TempDir(), "state", "cooldowns")), &clock{noon}
	s.now = func() time.Time { return c.at }
	return s, c
}

func limit(until time.Duration) Cooldown {
	return Cooldown{Account: alice, Class: class.Limit, Until: noon.Add(until), SetAt: noon, Strikes: 1}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestRemembers(t *testing.T) {
	t.Parallel()
	s, clock := newStore(t)
	if c, ok, err := s.Get(alice); ok || err != nil || c != (Cooldown{}) {
		t.Fatalf("before anything was set: %+v %v %v", c, ok, err)
	}
	must(t, s.Clear(alice))
	must(t, s.Succeeded(alice))
	if _, err := os.Lstat(s.dir); err == nil {
		t.Error("looking made the directory")
	}

	want := Cooldown{Account: alice, Class: class.Limit, Kind: "five_hour", Text: "resets at 3 pm\x1b[2J \U0001F600", Told: true,
		Until: noon.Add(3 * time.Hour), SetAt: noon.Add(-time.Second), Strikes: 2, By: "demo in /repo"}
	must(t, s.Set(want))
	got, ok, err := s.Get(alice)
	if err != nil || !ok || got != want {
		t.Fatalf("got %+v (%v, %v), want %+v", got, ok, err, want)
	}
	other := New(durable.OS(), s.dir)
	other.now = s.now
	if got, ok, _ := other.Get(alice); !ok || got != want {
		t.Errorf("another store: %+v (%v)", got, ok)
	}
	if _, ok, err := s.Get(bob); ok || err != nil {
		t.Errorf("another account is limited: %v", err)
	}
	must(t, s.Set(Cooldown{Account: bob, Class: class.Network, Until: noon.Add(time.Minute)}))
	if got, ok, err := s.Get(bob); err != nil || !ok || got.Account != bob || !got.SetAt.Equal(noon) {
		t.Errorf("a second account: %+v (%v, %v)", got, ok, err)
	}
	if got, ok, _ := s.Get(alice); !ok || got != want {
		t.Errorf("beside a second account: %+v (%v)", got, ok)
	}
	for path, mode := range map[string]os.FileMode{s.dir: 0o700, s.path(alice): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}

	clock.at = want.Until
	if got, ok, err := s.Get(alice); ok || err != nil || got.Strikes != 2 {
		t.Errorf("at its end: %+v (%v, %v)", got, ok, err)
	}
	clock.at = want.Until.Add(24 * time.Hour)
	if got, ok, err := s.Get(alice); ok || err != nil || got != (Cooldown{}) {
		t.Errorf("a day later: %+v (%v, %v)", got, ok, err)
	}
	clock.at = noon
	must(t, s.Clear(alice))
	if _, ok, _ := s.Get(alice); ok {
		t.Error("it was not cleared")
	}
}

func TestSetReplaces(t *testing.T) {
	t.Parallel()
	with := func(c Cooldown, change func(*Cooldown)) Cooldown { change(&c); return c }
	told := func(d time.Duration, kind string) Cooldown {
		return with(limit(d), func(c *Cooldown) { c.Told, c.Kind = true, kind })
	}
	later := func(c Cooldown) Cooldown { return with(c, func(c *Cooldown) { c.SetAt = noon.Add(time.Minute) }) }
	for name, tt := range map[string]struct {
		old, c Cooldown
		wins   bool
	}{
		"later":                        {limit(time.Hour), limit(2 * time.Hour), true},
		"later, of another class":      {limit(time.Hour), with(limit(2*time.Hour), func(c *Cooldown) { c.Class = class.Network }), true},
		"sooner, a guess":              {limit(time.Hour), later(limit(time.Minute)), false},
		"sooner, told":                 {limit(time.Hour), later(told(time.Minute, "five_hour")), true},
		"sooner, told, older":          {later(limit(time.Hour)), told(time.Minute, "five_hour"), false},
		"sooner, told, same kind":      {told(time.Hour, "five_hour"), later(told(time.Minute, "five_hour")), true},
		"sooner, told, smaller window": {told(time.Hour, "seven_day"), later(told(time.Minute, "five_hour")), false},
		"sooner, told, no kind":        {told(time.Hour, "seven_day"), later(told(time.Minute, "")), false},
		"sooner, guess of a kind":      {with(limit(time.Hour), func(c *Cooldown) { c.Kind = "seven_day" }), later(told(time.Minute, "five_hour")), false},
		"sooner, another class":        {limit(time.Hour), with(later(told(time.Minute, "")), func(c *Cooldown) { c.Class = class.Overloaded }), false},
		"over at once":                 {limit(time.Hour), later(told(-time.Minute, "")), true},
		"the old one is over":          {limit(-time.Minute), limit(-2 * time.Minute), true},
		"the old one's clock is wrong": {with(limit(time.Hour), func(c *Cooldown) { c.SetAt = noon.Add(9 * time.Hour) }), told(time.Minute, ""), true},
	} {
		s, clock := newStore(t)
		clock.at = noon.Add(2 * time.Minute)
		tt.old.By, tt.c.By = "old", "new"
		tt.old.Strikes = 3
		must(t, s.Set(tt.old))
		must(t, s.Set(tt.c))
		got, _, err := s.Get(alice)
		if err != nil || (got.By == "new") != tt.wins || got.Strikes != 3 {
			t.Errorf("%s: it is %+v, %v", name, got, err)
		}
		want := tt.old.Until
		if tt.wins {
			want = tt.c.Until
		}
		if !got.Until.Equal(want) {
			t.Errorf("%s: until %v, want %v", name, got.Until, want)
		}
	}
}

func TestStrikes(t *testing.T) {
	t.Parallel()
	s, clock := newStore(t)
	for want := 1; want < 5; want++ {
		last, _, err := s.Get(alice)
		must(t, err)
		next := Cooldown{Account: alice, Class: class.Limit, Strikes: last.Strikes + 1,
			Until: clock.at.Add(Backoff(class.Limit, last.Strikes+1))}
		must(t, s.Set(next))
		must(t, s.Set(next)) // a second loop meets the same refusal
		got, ok, err := s.Get(alice)
		if err != nil || !ok || got.Strikes != want || got.Until.Sub(clock.at) != time.Minute<<(want-1) {
			t.Fatalf("after refusal %d: %+v (%v, %v)", want, got, ok, err)
		}
		clock.at = got.Until
	}
	must(t, s.Set(Cooldown{Account: alice, Class: class.Limit, Told: true, Strikes: 7, Until: clock.at.Add(time.Hour)}))
	must(t, s.Succeeded(alice))
	if got, ok, _ := s.Get(alice); !ok || got.Strikes != 0 {
		t.Errorf("a success lifts what the provider told: %+v (%v)", got, ok)
	}
	clock.at = clock.at.Add(time.Hour)
	must(t, s.Succeeded(alice))
	if _, err := os.Lstat(s.path(alice)); err == nil {
		t.Error("what is over was not forgotten")
	}
	must(t, s.Set(Cooldown{Account: alice, Class: class.Overloaded, Strikes: 3, Until: clock.at.Add(time.Hour)}))
	must(t, s.Succeeded(alice))
	if got, ok, err := s.Get(alice); ok || err != nil || got != (Cooldown{}) {
		t.Errorf("a guess outlives a success: %+v (%v, %v)", got, ok, err)
	}
}

func TestClockThatIsAhead(t *testing.T) {
	t.Parallel()
	s, clock := newStore(t)
	clock.at = noon.AddDate(1, 0, 0)
	must(t, s.Set(Cooldown{Account: alice, Class: class.Limit, Until: clock.at.Add(time.Hour), Strikes: 1}))
	clock.at = noon
	if c, ok, err := s.Get(alice); ok || c != (Cooldown{}) || err == nil || !strings.Contains(err.Error(), "a clock was wrong") {
		t.Errorf("%+v (%v, %v)", c, ok, err)
	}
	must(t, s.Set(limit(time.Minute)))
	if c, ok, err := s.Get(alice); !ok || err != nil || !c.Until.Equal(noon.Add(time.Minute)) {
		t.Errorf("it is not replaced: %+v (%v, %v)", c, ok, err)
	}
	// What a provider tells may be further ahead than is believed: it is cut.
	must(t, s.Set(limit(30*24*time.Hour)))
	clock.at = noon.Add(-time.Hour)
	if c, ok, err := s.Get(alice); !ok || err != nil || c.Until.Sub(clock.at) != Longest {
		t.Errorf("%+v (%v, %v)", c, ok, err)
	}
	clock.at = noon.Add(-time.Hour - 1)
	if _, ok, _ := s.Get(alice); ok {
		t.Error("it is believed")
	}
	must(t, s.Succeeded(alice))
	if _, err := os.Lstat(s.path(alice)); err == nil {
		t.Error("what is not believed was kept after a success")
	}
}

func TestForeignFiles(t *testing.T) {
	t.Parallel()
	whole := `{"version":1,"provider":"anthropic","account":"a1b2c3","class":"rate_limited","until":"2026-11-21T13:00:00Z","set_at":"2026-11-21T12:00:00Z"}`
	for name, data := range map[string]string{
		"empty": "", "torn": whole[:len(whole)-9], "text": "hello", "null": "null", "list": "[]", "NUL": whole[:40] + "\x00\x00",
		"other version": strings.Replace(whole, `"version":1`, `"version":2`, 1), "no end": `{"version":1,"provider":"anthropic","account":"a1b2c3"}`,
		"another account": strings.Replace(whole, "a1b2c3", "zz", 1), "types": strings.Replace(whole, `"class":"rate_limited"`, `"class":7`, 1),
		"huge": strings.Repeat(" ", maxFile) + whole,
	} {
		s, _ := newStore(t)
		must(t, os.MkdirAll(s.dir, 0o700))
		must(t, os.WriteFile(s.path(alice), []byte(data), 0o600))
		refused(t, name, s)
		must(t, s.Set(limit(time.Hour)))
		if _, ok, err := s.Get(alice); !ok || err != nil {
			t.Errorf("%s: it is not replaced: %v", name, err)
		}
	}
	for name, plant := range map[string]func(path string) error{
		"link":      func(path string) error { return os.Symlink("/dev/zero", path) },
		"pipe":      func(path string) error { return unix.Mkfifo(path, 0o600) },
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		s, _ := newStore(t)
		must(t, os.MkdirAll(s.dir, 0o700))
		must(t, plant(s.path(alice)))
		refused(t, name, s)
		must(t, s.Clear(alice))
		if _, _, err := s.Get(alice); err != nil {
			t.Errorf("%s: it is not cleared: %v", name, err)
		}
	}
}

// refused wants that alice's file is taken for none, with an error that names it
// and says what to do, and that others are not touched by it.
func refused(t *testing.T, name string, s *Store) {
	t.Helper()
	must(t, s.Set(Cooldown{Account: bob, Class: class.Network, Until: noon.Add(time.Minute)}))
	c, ok, err := s.Get(alice)
	if ok || c != (Cooldown{}) || err == nil || !strings.Contains(err.Error(), door.Aside(s.path(alice))) {
		t.Errorf("%s: %+v (%v, %v)", name, c, ok, err)
	}
	if c, ok, err := s.Get(bob); !ok || c.Account != bob || err != nil {
		t.Errorf("%s: another account is %+v (%v, %v)", name, c, ok, err)
	}
	if err := s.Succeeded(alice); err == nil {
		t.Errorf("%s: a success says nothing", name)
	}
}

func TestSetRefuses(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t)
	if err := s.Set(Cooldown{Until: noon}); err == nil {
		t.Error("an account without a provider")
	}
	s.dir = filepath.Join(os.DevNull, "cooldowns")
	if err := s.Set(limit(time.Hour)); err == nil || !strings.Contains(err.Error(), "remembering a limit") {
		t.Errorf("no directory: %v", err)
	}
	if _, ok, _ := s.Get(alice); ok {
		t.Error("limited without a directory")
	}
}

// TestAnyAccount: whatever the words are, an account has a file of its own in the
// directory, and reads back as it was.
func TestAnyAccount(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t)
	word := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"../..", "/etc/passwd", ".", "..", "a/b", "A", "a\x00b", strings.Repeat("x", 5000)}))
	rapid.Check(t, func(t *rapid.T) {
		a := agent.Account{Provider: word.Filter(func(s string) bool { return s != "" }).Draw(t, "provider"), ID: word.Draw(t, "id")}
		b := agent.Account{Provider: a.Provider + word.Draw(t, "more"), ID: word.Draw(t, "other")}
		path := s.path(a)
		if filepath.Dir(path) != s.dir || len(filepath.Base(path)) > 80 || (a == b) != (path == s.path(b)) {
			t.Fatalf("%q is in %q", a, path)
		}
		c := Cooldown{Account: a, Class: class.Limit, Text: word.Draw(t, "text"), Until: noon.Add(time.Hour), SetAt: noon}
		if err := s.Set(c); err != nil {
			t.Fatal(err)
		}
		got, ok, err := s.Get(a)
		if err != nil || !ok || got.Account != a || len(got.Text) > maxText {
			t.Fatalf("%+v (%v, %v)", got, ok, err)
		}
		if err := s.Clear(a); err != nil {
			t.Fatal(err)
		}
	})
}

func TestCut(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in, n := rapid.String().Draw(t, "in"), rapid.IntRange(0, 20).Draw(t, "n")
		if got := cut(in, n); len(got) > n || !strings.HasPrefix(in, got) || len(in) <= n && got != in || n-len(got) > 3 && len(in) > n {
			t.Fatalf("cut(%q, %d) is %q", in, n, got)
		}
	})
	if got := cut("a\xffb", 10); got != "a\uFFFDb" {
		t.Errorf("%q", got)
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	for failure, want := range map[class.Class][]time.Duration{
		class.Limit:      {1 * time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 30 * time.Minute, 30 * time.Minute},
		class.Overloaded: {2 * time.Second, 2500 * time.Millisecond, 3125 * time.Millisecond},
		class.Network:    {2 * time.Second, 2500 * time.Millisecond, 3125 * time.Millisecond},
		class.Auth:       {0, 0}, class.None: {0},
	} {
		for i, w := range want {
			if got := Backoff(failure, i+1); got != w {
				t.Errorf("%s, strike %d: %s, want %s", failure, i+1, got, w)
			}
		}
		for _, n := range []int{math.MinInt, -1, 0} {
			if got := Backoff(failure, n); got != want[0] {
				t.Errorf("%s, strike %d: %s", failure, n, got)
			}
		}
		if got := Backoff(failure, math.MaxInt); got != backoffs[failure].most {
			t.Errorf("%s, the last strike: %s", failure, got)
		}
	}
}

// TestOutage: however long an outage lasts, its end is noticed in proportion, by a bounded number of requests.
func TestOutage(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		failure := rapid.SampledFrom([]class.Class{class.Overloaded, class.Network}).Draw(t, "class")
		outage := time.Duration(rapid.Int64Range(int64(time.Second), int64(time.Hour)).Draw(t, "outage"))
		random := rapid.Float64Range(0, 1)
		refused, now := 0, time.Duration(0)
		for now < outage {
			refused++
			now += Jitter(Backoff(failure, refused), func() float64 { return random.Draw(t, "random") })
		}
		if late := now - outage; late > 2200*time.Millisecond+outage*275/1000 {
			t.Fatalf("an outage of %s ends %s late", outage, late)
		}
		if refused > 31 {
			t.Fatalf("an outage of %s takes %d requests", outage, refused)
		}
	})
}

func TestJitter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		wait := time.Duration(rapid.Int64().Draw(t, "wait"))
		part := rapid.OneOf(rapid.Float64Range(0, 1), rapid.Float64()).Draw(t, "random")
		got := Jitter(wait, func() float64 { return part })
		if got < 0 || got < wait || got-max(wait, 0) > min(max(wait, 0)/10, maxJitter) {
			t.Fatalf("%s of %s with %v", got, wait, part)
		}
	})
	for part, want := range map[float64]time.Duration{0: time.Minute, 0.5: 63 * time.Second, math.NaN(): time.Minute, -3: time.Minute, 7: 66 * time.Second} {
		if got := Jitter(time.Minute, func() float64 { return part }); got != want {
			t.Errorf("%v: %s, want %s", part, got, want)
		}
	}
	if got := Jitter(time.Hour, func() float64 { return 0.5 }); got != time.Hour+30*time.Second {
		t.Errorf("an hour: %s", got)
	}
}
