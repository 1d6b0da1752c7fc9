package walk

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/plan"
)

// scripted carries out by a script: "<command or verify>: <outcome>" in order,
// outcomes as in walk.do, and "error".
type scripted struct {
	t        *testing.T
	s        Store
	remedies map[string][]plan.Choice
	judge    func(plan.Move) (action.Decision, string)
	script   []string
	waited   []time.Duration
	now      time.Time
	stop     func() // called while the last one runs
}

func (d *scripted) Judge(m plan.Move) (action.Decision, string) {
	if d.judge != nil {
		return d.judge(m)
	}
	return action.Auto, ""
}

func (d *scripted) Wait(ctx context.Context, t time.Duration) error {
	d.waited, d.now = append(d.waited, t), d.now.Add(t)
	return ctx.Err()
}

func (d *scripted) Run(ctx context.Context, m plan.Move) (Outcome, error) { return d.next(m.Command) }
func (d *scripted) Verify(ctx context.Context) (Outcome, error)           { return d.next("verify") }

func (d *scripted) next(what string) (Outcome, error) {
	d.t.Helper()
	if len(d.script) == 0 {
		d.t.Fatalf("%s was not expected", what)
	}
	want, outcome, _ := strings.Cut(d.script[0], ": ")
	d.script = d.script[1:]
	if what != want {
		d.t.Fatalf("%s, want %s", what, want)
	}
	if c, err := d.s.Load("c-1"); err != nil || c.Running == nil || c.Running.Command != what && what != "verify" {
		d.t.Fatalf("%s runs and is not on the disk: %v %+v", what, err, c.Running)
	}
	if len(d.script) == 0 && d.stop != nil {
		d.stop()
	}
	kind, signature, _ := strings.Cut(outcome, ":")
	if kind == "error" {
		return Outcome{}, errors.New("the machine is going down")
	}
	return Outcome{OK: kind == "ok", Text: "exit code 1", Failure: failure(signature), Options: d.remedies[signature]}, nil
}

func (d *scripted) walk(c *plan.Chain) error {
	return Walk(d.t.Context(), c, d.s, d, func() time.Time { return d.now })
}

func newScripted(t *testing.T, script ...string) *scripted {
	return &scripted{t: t, s: Store{Dir: t.TempDir()}, script: script, now: start, remedies: map[string][]plan.Choice{}}
}

func TestWalk(t *testing.T) {
	t.Parallel()
	d := newScripted(t, "run-a: fail:deep", "run-b: ok", "run-a: ok", "verify: fail:net", "verify: fail:net", "verify: ok")
	d.remedies["deep"], d.remedies["net"] = []plan.Choice{option("b")}, []plan.Choice{waiting("w", 5000)}
	c := newChain(option("a"))
	if err := d.walk(&c); err != nil || c.Status != plan.Exhausted || len(d.script) != 1 {
		t.Fatalf("%v: %s", err, plan.Describe(c, 0))
	}
	if !slices.Equal(d.waited, []time.Duration{5 * time.Second}) {
		t.Error(d.waited)
	}
	stored, err := d.s.Load("c-1")
	if err != nil || encode(t, stored) != encode(t, c) {
		t.Errorf("%v\n%s\n%s", err, encode(t, stored), encode(t, c))
	}
	if c, err = d.s.Change("c-1", func(c *plan.Chain) error { return c.Pick(0, "w", d.now) }); err != nil {
		t.Fatal(err)
	}
	if err := d.walk(&c); err != nil || c.Status != plan.Done || len(d.script) != 0 {
		t.Fatalf("%v: %s", err, plan.Describe(c, 0))
	}
}

func TestWalkJudged(t *testing.T) {
	t.Parallel()
	d := newScripted(t, "run-c: ok", "verify: fail:first", "run-a: ok", "verify: ok")
	d.judge = func(m plan.Move) (action.Decision, string) {
		switch {
		case m.ID == "a" && !m.Picked:
			return action.Human, "no entry lists it"
		case m.ID == "b":
			return action.Deny, "it is never to run"
		}
		return action.Auto, ""
	}
	c := newChain(option("a"), option("b"), option("c"))
	if err := d.walk(&c); err != nil || c.Status != plan.Exhausted {
		t.Fatalf("%v: %s", err, plan.Describe(c, 0))
	}
	for i, want := range []string{"not run: human: no entry lists it", "not run: deny: it is never", "it did not help"} {
		if len(c.Errors) != 3 || c.Errors[i].Depth != 1 || c.Errors[i].Option != []string{"a", "b", "c"}[i] || !strings.Contains(c.Errors[i].Text, want) {
			t.Errorf("no %q: %+v", want, c.Errors)
		}
	}
	c, err := d.s.Change("c-1", func(c *plan.Chain) error { return c.Pick(0, "a", d.now) })
	if err != nil {
		t.Fatal(err)
	}
	if err := d.walk(&c); err != nil || c.Status != plan.Done {
		t.Fatalf("%v: %s", err, plan.Describe(c, 0))
	}
}

func TestWalkLost(t *testing.T) {
	t.Parallel()
	d := newScripted(t, "run-a: error")
	c := newChain(option("a"), option("b"))
	if err := d.walk(&c); err == nil || !strings.Contains(err.Error(), "going down") {
		t.Fatal(err)
	}
	c, err := d.s.Load("c-1")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		var lost *LostError
		if err := d.walk(&c); !errors.As(err, &lost) || lost.Move.Command != "run-a" || !strings.Contains(err.Error(), "superloop chain retry c-1") {
			t.Fatal(err)
		}
	}
	if c, err = d.s.Change("c-1", func(c *plan.Chain) error { c.Lost("ann has looked", d.now); return nil }); err != nil {
		t.Fatal(err)
	}
	d.script = []string{"run-b: ok", "verify: ok"}
	if err := d.walk(&c); err != nil || c.Status != plan.Done {
		t.Fatalf("%v: %s", err, plan.Describe(c, 0))
	}
}

func TestWalkStopped(t *testing.T) {
	t.Parallel()
	d := newScripted(t, "run-a: ok")
	ctx, cancel := context.WithCancel(t.Context())
	d.stop = cancel
	c := newChain(option("a"))
	if err := Walk(ctx, &c, d.s, d, func() time.Time { return start }); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	c, err := d.s.Load("c-1")
	if err != nil || !c.Verifying {
		t.Fatalf("its outcome was lost: %v %+v", err, c)
	}
	d.script, d.stop = []string{"verify: ok"}, nil
	if err := d.walk(&c); err != nil || c.Status != plan.Done {
		t.Fatal(err)
	}
}

func TestWalkAlone(t *testing.T) {
	t.Parallel()
	d := newScripted(t, "run-a: ok", "verify: ok")
	c := newChain(option("a"))
	other := c.Clone()
	d.stop = func() {
		var locked *durable.LockedError
		if err := d.walk(&other); !errors.As(err, &locked) {
			t.Errorf("two walk at once: %v", err)
		}
		if _, err := d.s.Change("c-1", func(c *plan.Chain) error { c.Cancel("ann", start); return nil }); !errors.As(err, &locked) {
			t.Errorf("it is cancelled under the walker's feet: %v", err)
		}
	}
	if err := d.walk(&c); err != nil {
		t.Fatal(err)
	}
	var changed *ChangedError
	if err := d.walk(&other); !errors.As(err, &changed) {
		t.Errorf("an old copy was walked: %v", err)
	}
}

// Nothing runs that is not on the disk, whatever the disk does, and the next walk
// goes on.
// Conforms: 000-5.6-save
func TestWalkOnABadDisk(t *testing.T) {
	t.Parallel()
	full := errors.New("no space left on device")
	for fail := 1; ; fail++ {
		d := newScripted(t, "run-a: ok", "verify: ok")
		n := 0
		bad := d.s
		bad.Disk = durable.OS().WithFault(func(op string) error {
			if strings.HasPrefix(op, "chain:") {
				if n++; n == fail {
					return full
				}
			}
			return nil
		})
		c := newChain(option("a"))
		err := Walk(t.Context(), &c, bad, d, func() time.Time { return start })
		if err == nil {
			if fail < 20 {
				t.Fatalf("only %d steps were tried", fail)
			}
			return
		}
		if !errors.Is(err, full) {
			t.Fatal(err)
		}
		ran := 2 - len(d.script)
		c, err = d.s.Load("c-1")
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if ran > 0 {
				t.Fatalf("step %d: it ran and nothing is known of it", fail)
			}
			c = newChain(option("a"))
		case err != nil:
			t.Fatalf("step %d: %v", fail, err)
		}
		err = d.walk(&c)
		var lost *LostError
		if errors.As(err, &lost) {
			if c, err = d.s.Change("c-1", func(c *plan.Chain) error { return c.Again(start) }); err != nil {
				t.Fatal(err)
			}
			all := []string{"run-a: ok", "verify: ok"}
			d.script = all[map[plan.Kind]int{plan.Run: 0, plan.Verify: 1}[lost.Move.Kind]:]
			err = d.walk(&c)
		}
		if err != nil || c.Status != plan.Done || len(d.script) > 0 {
			t.Fatalf("step %d: %v, %d left: %s", fail, err, len(d.script), plan.Describe(c, 0))
		}
	}
}

func TestBadIDsAreRefused(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", ".", "..", "a/b", "../a", "a..b", "-a", "a.", "a b", "a\x00", strings.Repeat("a", 101)} {
		if _, err := (Store{Dir: t.TempDir()}).Load(bad); err == nil || !strings.Contains(err.Error(), "superloop chain list") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
