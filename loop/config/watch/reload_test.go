package watch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/config/trust"
)

// What needs no trust is in force at the next look, and said once.
func TestFreeChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r, out := w.start(w.options())
	w.is(out, Unchanged)
	w.is(w.check(r), Unchanged)
	w.write(set(base(), "loops/0/max_iterations", 9))
	out = w.is(w.check(r), Reloaded)
	if got := paths(out.Changes); got != "/loops/one/max_iterations 3>9" {
		t.Errorf("changes: %s", got)
	}
	if l, _ := r.Config().Loop("one"); l.MaxIterations != 9 {
		t.Errorf("in force: %+v", l)
	}
	w.is(w.check(r), Unchanged)
	w.write(append([]byte("\n\n"), text(set(base(), "loops/0/max_iterations", 9))...))
	w.is(w.check(r), Unchanged)
	if data, err := os.ReadFile(w.path); err != nil || r.Config().Digest != fingerprint(data, nil) {
		t.Error("white space is no change, but the places of values are those of the new file")
	}
}

// A tightening is in force at once, a loosening is held until it is trusted, and
// both are said.
func TestTightenAndHold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r, _ := w.start(w.options())
	v := base()
	set(v, "recovery/auto_approve", []any{"evil"})
	set(v, "recovery/max_auto_recoveries_per_run", 1)
	set(v, "webhooks/on_escalation", "https://evil/")
	set(v, "loops/0/max_iterations", 5)
	w.write(v)
	out := w.is(w.check(r), Held)
	if got := paths(out.Changes); got != "/loops/one/max_iterations 3>5 | /recovery/auto_approve npm ci><nil> | /recovery/max_auto_recoveries_per_run 3>1" {
		t.Errorf("changes: %s", got)
	}
	if len(out.Diff.Tightening) != 2 || len(out.Diff.Loosening) != 2 || len(out.Digest) != 64 {
		t.Errorf("diff: %+v, %s", out.Diff, out.Digest)
	}
	if got := string(r.Config().Recovery); got != `{"auto_approve":[],"enabled":true,"max_auto_recoveries_per_run":1}` &&
		got != `{"enabled":true,"max_auto_recoveries_per_run":1}` {
		t.Errorf("in force: %s", got)
	}
	if !strings.Contains(string(r.Config().Webhooks), secretText) {
		t.Errorf("in force: %s", r.Config().Webhooks)
	}
	w.is(w.check(r), Unchanged)
	// Another change that needs no trust does not say again what is held.
	w.write(set(v, "loops/0/max_iterations", 6))
	if got := paths(w.is(w.check(r), Reloaded).Changes); got != "/loops/one/max_iterations 5>6" {
		t.Errorf("changes: %s", got)
	}
	// An operator trusts it: all of it is in force at the next look.
	cfg, err := config.Load(w.path)
	w.ok(err)
	s, err := trust.Of(cfg)
	w.ok(err)
	if s.Digest() != out.Digest {
		t.Fatal("the digest is not that of what is to be trusted")
	}
	_, err = w.store.Save(trust.Pin{Section: s, At: w.now, How: trust.Trusted, By: "ann"})
	w.ok(err)
	if got := paths(w.is(w.check(r), Reloaded).Changes); got != "/recovery/auto_approve <nil>>evil | /webhooks/on_escalation <secret>><secret>" {
		t.Errorf("changes: %s", got)
	}
	w.is(w.check(r), Unchanged)
	if !strings.Contains(string(r.Config().Recovery), "evil") {
		t.Errorf("in force: %s", r.Config().Recovery)
	}
}

// Where the agents cannot have made it a loosening is in force at once, pinned,
// and said.
func TestLoosenAtALevel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.options()
	o.Loosen, o.Level = true, "mount"
	r, _ := w.start(o)
	w.write(set(base(), "recovery/auto_approve", []any{"npm ci", "more"}))
	out := w.is(w.check(r), Reloaded)
	if got := paths(out.Changes); got != "/recovery/auto_approve [npm ci]>[npm ci more]" || len(out.Diff.Loosening) != 1 {
		t.Errorf("changes: %s, %+v", got, out.Diff)
	}
	pin, err := w.store.Load()
	if err != nil || pin.How != trust.Loosened || pin.Level != "mount" || pin.By != "" || pin.Digest != out.Digest {
		t.Errorf("%+v, %v", pin, err)
	}
	w.is(w.check(r), Unchanged)
	// When it cannot be pinned nothing is in force.
	n := 0
	r.o.Store.Disk = durable.OS().WithFault(func(op string) error {
		if op == "trust:sync" {
			n++
			return syscall.ENOSPC
		}
		return nil
	})
	w.write(set(base(), "recovery/auto_approve", []any{"npm ci", "more", "most"}))
	if out := w.is(w.check(r), Rejected); n != 1 || codes(out.Problems) != "trust " || !strings.Contains(out.Problems[0].Message, "no space") {
		t.Errorf("%d, %v", n, out.Problems)
	}
	w.is(w.check(r), Unchanged)
	r.o.Store.Disk = durable.OS()
	w.is(w.check(r), Reloaded)
}

// How a start comes out that finds another file than the pin is of.
func TestStart(t *testing.T) {
	t.Parallel()
	loose := func() obj { return set(base(), "recovery/auto_approve", []any{"npm ci", "more"}) }
	for name, c := range map[string]struct {
		options func(*Options)
		kind    Kind
		how     trust.How
		force   string
	}{
		"held":     {func(*Options) {}, Held, trust.FirstRun, `["npm ci"]`},
		"trusted":  {func(o *Options) { o.Trust = true }, Unchanged, trust.Trusted, `["npm ci","more"]`},
		"at level": {func(o *Options) { o.Loosen, o.Level = true, "mount" }, Reloaded, trust.Loosened, `["npm ci","more"]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if _, out := w.start(w.options()); out.Kind != Unchanged {
				t.Fatalf("the first run: %+v", out)
			}
			if pin, err := w.store.Load(); err != nil || pin.How != trust.FirstRun || pin.By != "ann" || pin.Config != w.path {
				t.Fatalf("%+v, %v", pin, err)
			}
			w.write(loose())
			o := w.options()
			c.options(&o)
			r, out := w.start(o)
			if out.Kind != c.kind || out.Config != r.Config() || len(out.Changes) > 0 || (len(out.Diff.Loosening) > 0) != (name != "trusted") {
				t.Errorf("%+v", out)
			}
			if !strings.Contains(string(r.Config().Recovery), c.force) {
				t.Errorf("in force: %s", r.Config().Recovery)
			}
			if pin, err := w.store.Load(); err != nil || pin.How != c.how {
				t.Errorf("%+v, %v", pin, err)
			}
			w.is(w.check(r), Unchanged)
			w.write(base())
			out = w.check(r)
			if want := map[Kind]Kind{Held: Unchanged, Unchanged: Reloaded, Reloaded: Reloaded}[c.kind]; out.Kind != want {
				t.Errorf("then %+v", out)
			}
		})
	}
}

// A loop that nobody trusted does not start, and a pin that cannot be believed
// stops everything but an operator's word.
func TestStartRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(w.options())
	v := base()
	v["loops"] = append(v["loops"].([]any), obj{"id": "new", "spec_file": "other.md", "max_iterations": 1, "completion_promise": "D"})
	w.write(v)
	cfg, err := config.Load(w.path)
	w.ok(err)
	o := w.options()
	o.Running = []string{"new"}
	if _, _, err := New(cfg, o); err == nil || !strings.Contains(err.Error(), "superloop config trust") {
		t.Errorf("got %v", err)
	}
	w.ok(os.WriteFile(w.store.Path, []byte(`{"version": 1, "sec`), 0o600))
	_, _, err = New(cfg, w.options())
	if _, ok := errors.AsType[*trust.DamagedError](err); !ok {
		t.Errorf("got %v", err)
	}
	o.Trust = true
	if _, _, err := New(cfg, o); err != nil {
		t.Error(err)
	}
}

// What happens to the pin while a loop runs.
func TestPinWhileRunning(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r, _ := w.start(w.options())
	before, err := w.store.Load()
	w.ok(err)
	w.ok(os.Remove(w.store.Path))
	w.write(set(base(), "recovery/auto_approve", []any{"evil"}))
	out := w.is(w.check(r), Held)
	if codes(out.Warnings) != "trust " || !strings.Contains(out.Warnings[0].Message, "written again") {
		t.Errorf("%v", out.Warnings)
	}
	if again, err := w.store.Load(); err != nil || again.Digest != before.Digest || again.How != before.How {
		t.Errorf("%+v, %v", again, err)
	}
	if out := w.is(w.check(r), Unchanged); len(out.Warnings) > 0 {
		t.Errorf("%v", out.Warnings)
	}
	w.ok(os.WriteFile(w.store.Path, []byte("{}"), 0o600))
	out = w.is(w.check(r), Unchanged)
	if codes(out.Warnings) != "trust " || !strings.Contains(out.Warnings[0].Message, "superloop config trust") {
		t.Errorf("%v", out.Warnings)
	}
	w.write(set(base(), "recovery/auto_approve", []any{"evil", "eviler"}))
	if out := w.is(w.check(r), Held); len(out.Warnings) > 0 || strings.Contains(string(r.Config().Recovery), "evil") {
		t.Errorf("%v, in force: %s", out.Warnings, r.Config().Recovery)
	}
	w.ok(os.RemoveAll(filepath.Dir(w.store.Path)))
	w.ok(os.WriteFile(filepath.Dir(w.store.Path), nil, 0o600))
	if out := w.check(r); len(out.Warnings) != 1 {
		t.Errorf("%+v", out)
	}
}

// A Check that finds nothing new reads nothing.
func TestQuickCheck(t *testing.T) {
	w := newWorld(t)
	r, _ := w.start(w.options())
	deadline := time.Now().Add(patience)
	for r.file.ino == 0 || r.file.fresh || r.pinned.fresh || !r.pinned.proves(stampOf(w.store.Path)) {
		if w.check(r); time.Now().After(deadline) {
			t.Fatal("the look never becomes quick")
		}
	}
	if n := testing.AllocsPerRun(10, func() { r.Check(w.now) }); n > 4 {
		t.Errorf("it allocates %v times", n)
	}
}

// A changed loop that is not among those that run may do what it likes.
func TestOtherLoops(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	two := func() obj {
		v := base()
		v["loops"] = append(v["loops"].([]any), obj{"id": "two", "spec_file": "spec.md", "max_iterations": 1, "completion_promise": "D"})
		return v
	}
	w.write(two())
	r, _ := w.start(w.options())
	v := two()
	w.write(set(v, "loops/1/spec_file", "other.md"))
	if got := paths(w.is(w.check(r), Reloaded).Changes); got != "/loops/two/spec_file spec.md>other.md" {
		t.Errorf("changes: %s", got)
	}
	w.write(base())
	out := w.is(w.check(r), Reloaded)
	if len(out.Changes) == 0 || len(r.Config().Loops) != 1 {
		t.Errorf("%+v", out)
	}
	// It comes back as it was trusted.
	w.write(two())
	w.is(w.check(r), Reloaded)
	// One that nobody trusted does not.
	v = two()
	v["loops"] = append(v["loops"].([]any), obj{"id": "three", "spec_file": "spec.md", "max_iterations": 1, "completion_promise": "D"})
	w.write(v)
	out = w.is(w.check(r), Held)
	if len(out.Changes) > 0 || len(r.Config().Loops) != 2 {
		t.Errorf("%+v", out)
	}
	if fmt.Sprint(out.Diff.Loosening[0].Path) != "/loops/three" {
		t.Errorf("%+v", out.Diff)
	}
}

// Who is told and who may answer is held when it is more, in force when it is
// less; when an operator is reminded is as the file says.
func TestEscalationIsHeld(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := base()
	v["escalation"] = obj{"remind_after": "5m", "slack": obj{"app_token_env": "A", "users": []any{"U1", "U2"}},
		"channels": obj{"ops": obj{"type": "webhook", "url": "https://h/" + secretText}}}
	w.write(v)
	r, out := w.start(w.options())
	w.is(out, Unchanged)
	set(v, "escalation/remind_after", "9m")
	set(v, "escalation/slack/users", []any{"U2", "U9"})
	set(v, "escalation/channels/evil", obj{"type": "command", "command": "evil " + secretText})
	set(v, "escalation/channels/ops/url", "https://evil/"+secretText)
	w.write(v)
	out = w.is(w.check(r), Held)
	if got := paths(out.Changes); got != "/escalation/remind_after 5m>9m | /escalation/slack/users U1><nil>" {
		t.Errorf("changes: %s", got)
	}
	e := r.Config().Escalation
	if len(e.Slack.Users) != 1 || e.Slack.Users[0] != "U2" || len(e.Channels) != 1 || e.Channels[0].URL.Reveal() != "https://h/"+secretText || e.RemindAfter != 9*time.Minute {
		t.Errorf("in force: %+v", e)
	}
}
