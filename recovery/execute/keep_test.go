package execute

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/learn"
	"github.com/superloop/superloop/recovery/sandbox"
	"github.com/superloop/superloop/recovery/undo"
)

func TestNotes(t *testing.T) {
	t.Parallel()
	list := func(n int) (out []undo.Named) {
		for i := range n {
			out = append(out, undo.Named{Path: fmt.Sprint("p", i), Why: "big"})
		}
		return out
	}
	for _, c := range []struct {
		in            Kept
		missing, note string
	}{
		{Kept{ID: "i"}, "", ""},
		{Kept{NotKept: list(1)}, "p0 (big)", "not kept: p0 (big)"},
		{Kept{NotKept: list(3)}, "p0 (big); p1 (big); p2 (big)", "not kept: p0 (big); p1 (big); p2 (big)"},
		{Kept{NotKept: list(4)}, "p0 (big); p1 (big); p2 (big); and 1 more", "not kept: p0 (big); p1 (big); p2 (big); and 1 more"},
		{Kept{NotKept: list(6)}, "p0 (big); p1 (big); p2 (big); and 3 more", "not kept: p0 (big); p1 (big); p2 (big); and 3 more"},
		{Kept{Err: errors.New("full"), NotKept: list(1)}, "p0 (big)", "nothing could be kept: full"},
	} {
		if c.in.Missing() != c.missing || c.in.Note() != c.note {
			t.Errorf("%q and %q, want %q and %q", c.in.Missing(), c.in.Note(), c.missing, c.note)
		}
	}
}

func TestWhatCannotBeKept(t *testing.T) {
	t.Parallel()
	e, a := ready(t, nil)
	o := e.order(a)
	e.fail["undo-manifest:rename"] = errors.New("full")
	out := e.execute(o) // it runs all the same
	if !out.OK() || out.Undo.ID != "" || !strings.HasPrefix(e.intent.Undo.Note(), "nothing could be kept: keeping what the command may change") {
		t.Errorf("%+v", out)
	}
	e.wantSteps("keep intend run")
	e.wantWarned()

	e, _ = ready(t, nil)
	out = e.execute(e.human(command("rm -rf /elsewhere old")))
	if got := e.intent.Undo.Note(); got != "not kept: /elsewhere (it is not in the repository)" || out.Undo.ID == "" || out.Undo.Note() != got {
		t.Errorf("%q %+v", got, out.Undo)
	}
	// Without a plan there is no set, and nothing to seal or to drop.
	e, _ = ready(t, nil)
	out = e.execute(e.human(action.Draft{Command: "rm old", WorkingDir: "../x"}.Action()))
	if out.Changed == "" {
		t.Errorf("%+v", out)
	}
	e.wantSteps("")
	if k := e.keep(t.Context(), Order{Action: action.Draft{Command: "rm old", WorkingDir: "../x"}.Action()}); k.ID != "" || k.Err == nil || !strings.HasPrefix(k.Note(), "nothing could be kept: planning") {
		t.Errorf("%+v", k)
	}
	e.wantWarned()
}

func TestSealAndPrune(t *testing.T) {
	t.Parallel()
	e, a := ready(t, nil)
	o := e.order(a)
	for range 21 {
		e.execute(o)
		e.now = e.now.Add(time.Minute)
	}
	if all := e.sets(); len(all) != 20 || !all[0].Time.Equal(start.Add(time.Minute)) {
		t.Errorf("%d sets from %s on", len(all), all[0].Time)
	}
	e.now = start.Add(14*24*time.Hour + 10*time.Minute)
	e.execute(o)
	if all := e.sets(); len(all) != 12 || !all[0].Time.Equal(start.Add(10*time.Minute)) {
		t.Errorf("%d sets from %s on", len(all), all[0].Time)
	}
	e.wantWarned()
	e.fail["undo-seal:rename"], e.fail["undo-drop:remove"] = errors.New("full"), errors.New("read only")
	e.now = e.now.Add(time.Hour)
	if out := e.execute(o); !out.OK() {
		t.Errorf("%+v", out)
	}
	e.wantWarned("superloop undo will take what the command changed for somebody else's: undo-seal:rename", "old sets of undo stay: undo-drop:remove")
}

func TestLearning(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		res    sandbox.Result
		err    error
		failed bool
	}{
		"well":        {sandbox.Result{Ended: proc.Exited}, nil, false},
		"badly":       {sandbox.Result{Ended: proc.Exited, Code: 1}, nil, true},
		"by a signal": {sandbox.Result{Ended: proc.Exited, Signal: "SIGSEGV", Code: -1}, nil, true},
		"time":        {sandbox.Result{Ended: proc.TimedOut, Code: -1}, nil, false},
		"killed":      {sandbox.Result{Ended: proc.Killed, Code: -1}, nil, false},
		"not started": {sandbox.Result{Ended: proc.NotStarted, Code: -1}, errors.New("x"), false},
		"lost":        {sandbox.Result{Ended: proc.Lost}, proc.ErrSpawnerLost, false},
	} {
		for _, human := range []bool{false, true} {
			e, a := ready(t, nil)
			e.run = func(context.Context, sandbox.Spec) (sandbox.Result, error) { return c.res, c.err }
			o := e.order(a)
			if human {
				o = e.human(a)
			}
			e.now = start.Add(time.Second)
			e.execute(o)
			got := e.learned()
			if !c.failed {
				if got != nil {
					t.Errorf("%s: %+v", name, got)
				}
				continue
			}
			want := learn.Entry{Signature: "sig", Option: "h/opt", Command: "rm -f old", Failed: 1, First: e.now, Last: e.now}
			if human {
				want.Approved = 1
			}
			if len(got) != 1 || got[0] != want {
				t.Errorf("%s: %+v, want %+v", name, got, want)
			}
		}
	}
}

func TestLearn(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ctx, stop := context.WithCancel(t.Context())
	stop() // what is known is written down all the same
	for _, result := range []string{learn.Verified, learn.Verified, learn.Ineffective, learn.Harmful, learn.Failed, "unknown", ""} {
		e.Learn(ctx, learn.Outcome{Signature: "s", Option: "o", Command: "c", Result: result, ByPerson: true})
	}
	e.Learn(ctx, learn.Outcome{Signature: "s", Option: "o", Result: learn.Verified})
	want := learn.Entry{Signature: "s", Option: "o", Command: "c", Helped: 2, Failed: 3, Harmful: 1, Approved: 7, First: start, Last: start}
	if got := e.learned(); len(got) != 1 || got[0] != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	m, err := e.Learned.Load()
	if err != nil {
		t.Fatal(err)
	}
	past := e.Past("s")
	if got := past("o"); got != m.Past("s", "o") || got.Score() >= 0 || past("x") != (learn.Past{}) || e.Past("t")("o") == got {
		t.Errorf("past %+v", got)
	}
	e.wantWarned()
	e.fail["learned:rename"] = errors.New("full")
	e.Learn(ctx, learn.Outcome{Command: "c", Result: learn.Failed})
	e.wantWarned("what came of a recovery is not remembered: recording an outcome")
	e.put("../state/learned.json", "{")
	if e.Past("s") != nil {
		t.Error("a past out of nothing")
	}
	e.wantWarned("what helped before cannot be read: ")
}

// Another process that holds the file is waited for, and not for ever.
func TestLearnWaitsItsTurn(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	lock, err := e.Disk.Lock(e.Learned.Path+".lock", nil)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		e.Learn(t.Context(), learn.Outcome{Command: "c", Result: learn.Failed})
		if took := time.Since(begun); took != 2*time.Second {
			t.Errorf("it waited for %s", took)
		}
	})
	e.wantWarned("context deadline exceeded")
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
}
