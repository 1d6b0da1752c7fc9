package execute

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/inputs"
)

func (e *testEnv) wantFix(d action.Decision, why string) {
	e.t.Helper()
	if j := e.judge(command("./fix.sh"), recovery.Budget{}); j.Decision != d || !strings.Contains(j.Reason, why) {
		e.t.Errorf("%s: %s, want %s %q", j.Decision, j.Reason, d, why)
	}
}

func (e *testEnv) unpin() {
	e.t.Helper()
	if err := e.Unpin(e.t.Context()); err != nil {
		e.t.Fatal(err)
	}
}

// What changes while a run is under way is a question in that run and in the next ones, committed or not; what changes
// between runs is the operator's.
func TestPin(t *testing.T) {
	t.Parallel()
	e := newEnv(t, policy(t, nil, "./fix.sh"))
	e.put("fix.sh", "#!/bin/sh\ntrue\n")
	e.commit()
	e.put("fix.sh", "#!/bin/sh\nother\n")
	e.pin(true) // the operator has it so
	e.wantFix(action.Auto, "")
	e.put("fix.sh", "#!/bin/sh\nevil thing\n")
	e.git("commit", "-q", "-a", "-m", "x")
	e.wantFix(action.Human, "fix.sh changed")
	e.unpin()
	e.unpin() // it has ended
	e.pin(true)
	e.wantFix(action.Human, "fix.sh changed")
	e.put("fix.sh", "#!/bin/sh\nother\n")
	e.unpin()
	e.put("fix.sh", "#!/bin/sh\nmine\n")
	e.wantFix(action.Human, "fix.sh changed")
	e.pin(false)
	e.wantFix(action.Auto, "")
	e.wantWarned()
}

// A baseline that is missing where agents may have been, or that is damaged, is not made anew from what they have left.
func TestNoPin(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(e *testEnv){
		"there was none": func(e *testEnv) { e.pin(false) },
		"it is damaged": func(e *testEnv) {
			e.pin(true)
			e.unpin()
			if err := os.WriteFile(filepath.Join(e.StateDir, "inputs", "trusted"), []byte("cut"), 0o600); err != nil {
				e.t.Fatal(err)
			}
		},
		"it is gone": func(e *testEnv) {
			e.pin(true)
			e.unpin()
			if err := os.Remove(filepath.Join(e.StateDir, "inputs", "trusted")); err != nil {
				e.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, policy(t, nil, "./fix.sh"))
			e.put("fix.sh", "#!/bin/sh\n")
			lose(e)
			for range 2 {
				e.pin(true)
				e.wantFix(action.Human, "then: superloop config trust")
				e.unpin()
			}
			if err := e.Ledger.Renew(t.Context(), e.Repo, inputs.Outside{}, nil, time.Now()); err != nil {
				t.Fatal(err)
			}
			e.pin(true)
			e.wantFix(action.Auto, "")
		})
	}
}

func TestPinIsStopped(t *testing.T) {
	t.Parallel()
	e := newEnv(t, policy(t, nil, "./fix.sh"))
	e.put("fix.sh", "#!/bin/sh\n")
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := e.Pin(ctx, e.lockFile(), true); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(e.StateDir, "inputs", "trusted")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a baseline was written")
	}
}

// The content of what listed commands read is pinned, for all policies, so that an operator can be shown what has
// changed.
func TestPinKeepsWhatIsListed(t *testing.T) {
	t.Parallel()
	e := newEnv(t, policy(t, nil, "touch a"), policy(t, nil, "touch b", "python3 odd"))
	e.put("odd", "old\n")
	e.pin(true)
	e.put("odd", "new\n")
	if j := e.judge(command("python3 odd"), recovery.Budget{}); j.Diff == "" || !strings.Contains(j.Diff, "-old\n+new\n") {
		t.Errorf("%q", j.Diff)
	}
}

// What an operator has approved after a look at the whole difference is no question any more, in this run and the next.
func TestTrust(t *testing.T) {
	t.Parallel()
	e := newEnv(t, policy(t, nil, "./fix.sh"))
	e.put("fix.sh", "#!/bin/sh\ntrue\n")
	e.pin(true)
	e.put("fix.sh", "#!/bin/sh\nbetter\n")
	j := e.judge(command("./fix.sh"), recovery.Budget{})
	if err := e.Trust(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	e.wantFix(action.Auto, "")
	e.unpin()
	e.put("fix.sh", "#!/bin/sh\nbetter\nand mine\n") // an operator builds upon it
	e.pin(true)
	e.wantFix(action.Auto, "")
	e.put("fix.sh", "#!/bin/sh\n"+strings.Repeat("more and more\n", 500)) // what is cut was not looked at
	j = e.judge(command("./fix.sh"), recovery.Budget{})
	if err := e.Trust(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	e.wantFix(action.Human, "fix.sh changed")
}
