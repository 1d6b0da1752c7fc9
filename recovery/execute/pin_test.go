package execute

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/inputs"
)

// dirty is a repository whose work tree is not what is committed.
func dirty(t *testing.T) *testEnv {
	t.Helper()
	e := newEnv(t, policy(t, nil, "./fix.sh"))
	e.put("fix.sh", "#!/bin/sh\ntrue\n")
	e.commit()
	e.put("fix.sh", "#!/bin/sh\nother\n")
	return e
}

func (e *testEnv) wantFrom(from inputs.Source, d action.Decision) {
	e.t.Helper()
	base, err := inputs.Load(e.Baseline)
	if err != nil || base.From != from || !base.Taken.Equal(e.now) {
		e.t.Errorf("%+v (%v), want from %s", base, err, from)
	}
	for _, again := range []bool{false, true} { // by this process, and by the next
		if again {
			e.base = nil
		}
		if j := e.judge(command("./fix.sh"), recovery.Budget{}); j.Decision != d {
			e.t.Errorf("%s: %s, want %s", j.Decision, j.Reason, d)
		}
	}
}

func TestPin(t *testing.T) {
	t.Parallel()
	t.Run("first", func(t *testing.T) {
		t.Parallel()
		e := dirty(t)
		e.pin(true) // the operator has it so
		e.wantFrom(inputs.Now, action.Auto)
		// The second time only what is committed counts.
		e.now = start.Add(time.Hour)
		e.pin(true)
		e.wantFrom(inputs.Head, action.Human)
		e.wantWarned()
	})
	t.Run("later", func(t *testing.T) {
		t.Parallel()
		e := dirty(t)
		e.pin(false)
		e.wantFrom(inputs.Head, action.Human)
		e.put("fix.sh", "#!/bin/sh\ntrue\n")
		e.wantFrom(inputs.Head, action.Auto)
		e.wantWarned()
	})
	t.Run("damaged", func(t *testing.T) {
		t.Parallel()
		e := dirty(t)
		if err := os.WriteFile(e.Baseline, []byte("cut"), 0o600); err != nil {
			t.Fatal(err)
		}
		e.pin(true) // it was not the first time
		e.wantFrom(inputs.Head, action.Human)
		e.wantWarned("the baseline of what listed commands read is damaged; it is made anew: reading the baseline")
	})
	t.Run("no commit", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t, policy(t, nil, "./fix.sh"))
		e.put("fix.sh", "#!/bin/sh\n")
		e.pin(false)
		e.wantFrom(inputs.Now, action.Auto)
	})
	t.Run("what is in no commit stays pinned", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t, policy(t, nil, "./fix.sh"))
		e.put(".gitignore", "fix.sh\n")
		e.commit()
		e.put("fix.sh", "#!/bin/sh\n")
		e.pin(true)
		e.pin(false)
		e.wantFrom(inputs.Head, action.Auto)
		e.put("fix.sh", "#!/bin/sh\nevil\n")
		e.wantFrom(inputs.Head, action.Human)
	})
	t.Run("stopped", func(t *testing.T) {
		t.Parallel()
		e := dirty(t)
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := e.Pin(ctx, false); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if _, err := os.Stat(e.Baseline); !errors.Is(err, fs.ErrNotExist) {
			t.Error("a baseline was written")
		}
	})
}

// The content of what listed commands read is pinned, for all policies, so that a
// operator can be shown what has changed.
func TestPinKeepsWhatIsListed(t *testing.T) {
	t.Parallel()
	for _, from := range []bool{true, false} {
		e := newEnv(t, policy(t, nil, "touch a"), policy(t, nil, "touch b", "sh odd"))
		e.put("odd", "old\n")
		e.commit()
		e.pin(from)
		e.put("odd", "new\n")
		if j := e.judge(command("sh odd"), recovery.Budget{}); j.Diff == "" || !strings.Contains(j.Diff, "-old\n+new\n") {
			t.Errorf("first %v: %q", from, j.Diff)
		}
	}
}
