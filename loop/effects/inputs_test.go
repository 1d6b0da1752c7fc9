package effects

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/execute"
	"github.com/superloop/superloop/recovery/inputs"
	"github.com/superloop/superloop/recovery/learn"
	"github.com/superloop/superloop/recovery/sandbox"
	"github.com/superloop/superloop/recovery/undo"
)

// recSandbox runs nothing.
type recSandbox struct{ host *recHost }

func (recSandbox) Measure(context.Context) (sandbox.Sandbox, error) {
	return sandbox.Sandbox{Level: sandbox.LandlockMount}, nil
}

func (s recSandbox) Run(context.Context, sandbox.Spec) (sandbox.Result, error) {
	s.host.step("run")
	return sandbox.Result{Ended: proc.Exited}, nil
}

// recListed is a proposal of a listed command.
var recListed = strings.Replace(recProposal, "npm ci", "make deps", 1)

// recReal is a host with the real executor, on a repository whose Makefile a
// listed command reads.
func recReal(t *testing.T) (*recHost, *execute.Executor) {
	t.Helper()
	r := newRecHost(t)
	r.put(filepath.Join(r.Paths.Repo, "Makefile"), "deps:\n\ttrue\n")
	x := &execute.Executor{Repo: r.Paths.Repo, StateDir: r.Paths.State, Ledger: inputs.Ledger{Disk: r.Disk, Dir: r.Paths.Common(), Repo: r.Paths.Repo}, Tmp: t.TempDir(), Disk: r.Disk,
		Undo:    undo.Store{Disk: r.Disk, Dir: r.Paths.Undo(), Repo: r.Paths.Repo},
		Learned: learn.Store{Disk: r.Disk, Path: r.Paths.Learned()}, Sandbox: recSandbox{r}, Environ: []string{"PATH=/usr/bin:/bin", "HOME=/nowhere"},
		Policies: r.policies.InForce, Now: r.Clock, Warn: func(string, error) {}}
	r.recoveries.Executor, r.approvals.Executor = x, x
	return r, x
}

// What a listed command reads cannot be looked at: a human is asked, approves it
// as it is, and it runs. Once it can be looked at, the approval is of something
// else.
func TestInputsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		baseline string
		pinned   bool // before it is begun
		runs     bool
	}{"no baseline": {"", false, true}, "a damaged one": {"cut", false, true}, "a damaged one, mended": {"cut", true, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, x := recReal(t)
			if c.baseline != "" {
				r.put(filepath.Join(r.Paths.Common(), "inputs", "trusted"), c.baseline)
			}
			got, err := r.perform(recTaking(r, recListed))
			f := recAs[loop.Proposed](t, got, err)
			if f.Verdict != string(action.Human) || f.Rule != recovery.RuleGuard || f.InputsDigest != "" {
				t.Fatalf("%+v", f)
			}
			r.wantIn(f.Reason, "what it reads cannot be looked at")
			s := recHumanFor(r, "make deps")
			if q := r.record().Question; q.Command.InputsDigest != "" || q.Command.Dev == 0 || q.Command.Ino == 0 {
				t.Errorf("%+v", q.Command)
			}
			if c.pinned {
				r.noErr(x.Pin(t.Context(), r.Paths.Lock(), true))
			}
			got, err = r.perform(s)
			if c.runs {
				recAs[loop.Executed](t, got, err)
				r.wantSteps("recovery_executing, run")
				return
			}
			r.wantSteps("")
			r.wantIn(recAs[loop.Proposed](t, got, err).Reason, "since it was approved: what the command reads has changed")
		})
	}
}

// A listed command runs by itself while what it reads is as it was pinned.
func TestInputsThatChange(t *testing.T) {
	t.Parallel()
	r, x := recReal(t)
	r.noErr(x.Pin(t.Context(), r.Paths.Lock(), true))
	got, err := r.perform(recTaking(r, recListed))
	f := recAs[loop.Proposed](t, got, err)
	if f.Verdict != string(action.Auto) || f.InputsDigest == "" {
		t.Fatalf("%+v", f)
	}
	s := recApproved(r)
	s.Recovery.Attempt, s.Recovery.InputsDigest = f.Action, f.InputsDigest
	got, err = r.perform(s)
	recAs[loop.Executed](t, got, err)
	r.wantSteps("recovery_executing, run")
	r.put(filepath.Join(r.Paths.Repo, "Makefile"), "deps:\n\tfalse\n")
	got, err = r.perform(s)
	if f := recAs[loop.Proposed](t, got, err); f.Verdict != string(action.Human) || f.Rule != recovery.RuleGuard {
		t.Errorf("%+v", f)
	}
	r.wantSteps("")
}

// What an operator has approved after a look at the difference is asked about once.
func TestApprovedInputsAreTrusted(t *testing.T) {
	t.Parallel()
	r, x := recReal(t)
	r.noErr(x.Pin(t.Context(), r.Paths.Lock(), true))
	r.put(filepath.Join(r.Paths.Repo, "Makefile"), "deps:\n\tfalse\n")
	for _, want := range []action.Decision{action.Human, action.Auto} {
		got, err := r.perform(recTaking(r, recListed))
		if f := recAs[loop.Proposed](t, got, err); f.Verdict != string(want) {
			t.Fatalf("%+v, want %s", f, want)
		}
		if want == action.Human {
			got, err = r.perform(recHumanFor(r, "make deps"))
			recAs[loop.Executed](t, got, err)
		}
	}
}
