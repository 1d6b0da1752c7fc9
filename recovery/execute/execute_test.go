package execute

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/sandbox"
	"github.com/superloop/superloop/recovery/undo"
)

// ready is an environment with a listed command that deletes a file.
func ready(t testing.TB, change func(*recovery.Settings)) (*testEnv, action.Action) {
	t.Helper()
	e := newEnv(t, policy(t, change, "rm -f old", "./fix.sh"))
	e.put("old", "content")
	e.put("fix.sh", "#!/bin/sh\n")
	e.pin(true)
	e.steps = nil
	return e, command("rm -f old")
}

// Conforms: 000-1-subplan, 004-p1.5
func TestTheOrderOfSteps(t *testing.T) {
	t.Parallel()
	e, a := ready(t, nil)
	o := e.order(a)
	e.wantSteps("")
	e.run = func(_ context.Context, s sandbox.Spec) (sandbox.Result, error) {
		if info, err := os.Stat(s.Writable[0]); err != nil || !info.IsDir() || filepath.Dir(s.Writable[0]) != e.Tmp {
			t.Errorf("no directory for temporary files: %v", err)
		}
		if err := os.Remove(filepath.Join(e.Repo, "old")); err != nil {
			t.Error(err)
		}
		return sandbox.Result{Ended: proc.Exited, Duration: time.Second, LeftBehind: 2, Appeared: []string{"x"}, Sandbox: sandbox.Sandbox{Level: sandbox.Mount}, OutputErr: fs.ErrClosed}, nil
	}
	out := e.execute(o)
	e.wantSteps("keep intend run seal")
	e.wantWarned()
	e.noTemps()
	sets := e.sets()
	if len(sets) != 1 || !sets[0].Sealed || sets[0].Label != (undo.Label{Loop: "l", Run: "r", Recovery: 7, Command: "rm -f old"}) || !sets[0].Time.Equal(start) || sets[0].Files != 1 {
		t.Fatalf("%+v", sets)
	}
	if !out.OK() || out.Changed != "" || out.Undo.ID != sets[0].ID || out.Undo.Note() != "" || out.Duration != time.Second || out.LeftBehind != 2 ||
		len(out.Appeared) != 1 || out.Sandbox.Level != sandbox.Mount || !errors.Is(out.OutputErr, fs.ErrClosed) || out.Now.Decision != action.Auto {
		t.Errorf("%+v", out)
	}
	in := e.intent
	if in.Timeout != time.Minute || in.Network != sandbox.FullNetwork || in.Undo.ID != out.Undo.ID || in.Judgement.Basis() != o.Basis || in.Judgement.PolicyDigest != e.policies[0].Digest {
		t.Errorf("%+v", in)
	}
	if e.learned() != nil {
		t.Errorf("what ended well is not learned before it is verified: %+v", e.learned())
	}
	report, err := e.Undo.Restore(t.Context(), out.Undo.ID, undo.Options{})
	if data, rerr := os.ReadFile(filepath.Join(e.Repo, "old")); err != nil || rerr != nil || string(data) != "content" || !report.Complete() {
		t.Errorf("%q %v %v %+v", data, err, rerr, report)
	}
}

func TestNothingBeginsWithoutAnIntent(t *testing.T) {
	t.Parallel()
	e, a := ready(t, nil)
	o := e.order(a)
	e.intendErr = errors.New("the disk is full")
	out, err := e.Execute(t.Context(), o)
	if !errors.Is(err, e.intendErr) || out.OK() && out.End != "" {
		t.Errorf("%+v %v", out, err)
	}
	e.wantSteps("keep intend drop")
	e.noTemps()
	if sets := e.sets(); len(sets) != 0 {
		t.Errorf("%+v", sets)
	}
	o.Intend = nil
	if _, err := e.Execute(t.Context(), o); err == nil || !strings.Contains(err.Error(), "no place for its intent") {
		t.Error(err)
	}
	e.wantSteps("")
	e.wantWarned()
}

// Each change between the approval and the start keeps the command from being
// begun, and leaves nothing behind.
func TestWhatChangedIsNotBegun(t *testing.T) {
	t.Parallel()
	fix, rm := command("./fix.sh"), command("rm -f old")
	inSub := action.Draft{Command: "rm -f old", WorkingDir: "sub", TimeoutMS: 1000}.Action()
	for _, c := range []struct {
		name   string
		action action.Action
		change func(e *testEnv, o *Order)
		want   string // in Outcome.Changed
		now    action.Decision
	}{
		{"the inputs", fix, func(e *testEnv, _ *Order) { e.put("fix.sh", "evil") }, "what it reads is not what it was", action.Human},
		{"the policy asks now", rm, func(e *testEnv, _ *Order) { e.policies = append(e.policies, policy(t, nil)) }, "require_human", action.Human},
		{"the policy denies now", rm, func(e *testEnv, _ *Order) {
			e.policies = append(e.policies, policy(t, func(s *recovery.Settings) { s.OnUnknown, s.RequireHuman = recovery.UnknownDeny, []string{} }))
		}, "on_unknown is deny", action.Deny},
		{"another policy", rm, func(e *testEnv, _ *Order) {
			e.policies = []*recovery.Policy{policy(t, func(s *recovery.Settings) { s.MaxAuto = 4 }, "rm -f old")}
		}, "the policy has changed", action.Auto},
		{"the directory is gone", inSub, func(e *testEnv, _ *Order) { e.remove("sub") }, "does not exist", action.Invalid},
		{"the directory is another one", inSub, func(e *testEnv, _ *Order) { e.replace("sub") }, "the working directory is another one", action.Auto},
		{"what it reads, without a change of the verdict", fix, func(_ *testEnv, o *Order) { o.Basis.Inputs = "other" }, "what the command reads has changed", action.Auto},
		{"the budget", rm, func(_ *testEnv, o *Order) { o.Budget.Used = 3 }, "has used its 3 automatic recoveries", action.Human},
		{"the cooldown", rm, func(_ *testEnv, o *Order) { o.Budget = recovery.Budget{Last: start, Waits: true} }, "it has to wait until 2026-11-22T12:01:00Z", action.Auto},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e, _ := ready(t, nil)
			e.put("sub/x", "x")
			o := e.order(c.action)
			e.wantSteps("")
			c.change(e, &o)
			out := e.execute(o)
			if !strings.Contains(out.Changed, c.want) || out.Now.Decision != c.now || out.OK() || out.End != "" {
				t.Errorf("%s: %q (%s)", out.Now.Decision, out.Changed, out.End)
			}
			if c.now == action.Invalid && out.Changed != out.Now.Reason {
				t.Errorf("%q, %q", out.Changed, out.Now.Reason)
			}
			e.wantSteps("keep drop")
			e.noTemps()
			e.wantWarned()
			if sets := e.sets(); len(sets) != 0 {
				t.Errorf("%+v", sets)
			}
			if e.learned() != nil {
				t.Error("learned of what was not begun")
			}
		})
	}
}

func (e *testEnv) remove(name string) {
	e.t.Helper()
	if err := os.RemoveAll(filepath.Join(e.Repo, name)); err != nil {
		e.t.Fatal(err)
	}
}

// replace puts another directory in the place of one that stays there.
func (e *testEnv) replace(name string) {
	e.t.Helper()
	path := filepath.Join(e.Repo, name)
	if err := os.Rename(path, path+".old"); err != nil {
		e.t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o755); err != nil {
		e.t.Fatal(err)
	}
}

func TestAHumansApproval(t *testing.T) {
	t.Parallel()
	unlisted := command("rm -f old other")
	t.Run("counts whatever the policy says", func(t *testing.T) {
		t.Parallel()
		e, _ := ready(t, nil)
		out := e.execute(e.human(unlisted))
		e.wantSteps("keep confirm intend run seal")
		if !out.OK() || out.Now.Decision != action.Human {
			t.Errorf("%+v", out)
		}
	})
	t.Run("also of what is denied, if they say so", func(t *testing.T) {
		t.Parallel()
		e, _ := ready(t, func(s *recovery.Settings) { s.OnUnknown, s.RequireHuman = recovery.UnknownDeny, []string{} })
		var seen Judgement
		e.confirm = func(now Judgement) (string, error) { seen = now; return "", nil }
		if out := e.execute(e.human(unlisted)); !out.OK() || seen.Decision != action.Deny || seen.Place == (sandbox.Place{}) || seen.Policy != e.policies[0] {
			t.Errorf("%+v, was shown %+v", out, seen)
		}
	})
	t.Run("is not for something else", func(t *testing.T) {
		t.Parallel()
		e, _ := ready(t, nil)
		e.confirm = func(Judgement) (string, error) { return "the policy is another one", nil }
		if out := e.execute(e.human(unlisted)); out.Changed != "the policy is another one" || out.Now.Decision != action.Human || out.OK() {
			t.Errorf("%+v", out)
		}
		e.wantSteps("keep confirm drop")
		e.noTemps()
	})
	t.Run("cannot be looked at", func(t *testing.T) {
		t.Parallel()
		e, _ := ready(t, nil)
		e.confirm = func(Judgement) (string, error) { return "", fs.ErrPermission }
		if _, err := e.Execute(t.Context(), e.human(unlisted)); !errors.Is(err, fs.ErrPermission) {
			t.Error(err)
		}
		e.wantSteps("keep confirm drop")
	})
	t.Run("is not for a directory that is none", func(t *testing.T) {
		t.Parallel()
		e, _ := ready(t, nil)
		o := e.human(action.Draft{Command: "rm -f old", WorkingDir: "none"}.Action())
		if out := e.execute(o); !strings.Contains(out.Changed, "does not exist") || out.Now.Decision != action.Invalid {
			t.Errorf("%+v", out)
		}
		e.wantSteps("keep drop") // the approval is not used up
	})
}

func TestErrorsBeforeTheStart(t *testing.T) {
	t.Parallel()
	t.Run("no room for temporary files", func(t *testing.T) {
		t.Parallel()
		e, a := ready(t, nil)
		o := e.order(a)
		e.Tmp = filepath.Join(e.Tmp, "none")
		if _, err := e.Execute(t.Context(), o); !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), "making a directory for temporary files: ") {
			t.Error(err)
		}
		e.wantSteps("")
	})
	t.Run("nobody knows what confines", func(t *testing.T) {
		t.Parallel()
		e, a := ready(t, requires)
		o := e.order(a)
		e.Executor.box, e.boxErr, e.steps = nil, errors.New("no luck"), nil
		if _, err := e.Execute(t.Context(), o); !errors.Is(err, e.boxErr) {
			t.Error(err)
		}
		e.wantSteps("keep drop")
		e.noTemps()
	})
	t.Run("stopped", func(t *testing.T) {
		t.Parallel()
		e, a := ready(t, nil)
		o := e.order(a)
		cause := errors.New("terminated")
		ctx, stop := context.WithCancelCause(t.Context())
		stop(cause)
		if _, err := e.Execute(ctx, o); !errors.Is(err, cause) || !strings.HasPrefix(err.Error(), "executing a command: ") {
			t.Error(err)
		}
		e.wantSteps("") // not even kept
		o = e.human(a)
		if _, err := e.Execute(ctx, o); !errors.Is(err, cause) {
			t.Error(err)
		}
		e.wantSteps("") // the approval is not used up
		e.noTemps()
	})
	t.Run("what was kept stays", func(t *testing.T) {
		t.Parallel()
		e, a := ready(t, nil)
		o := e.order(a)
		e.intendErr, e.fail["undo-drop:remove"] = errors.New("x"), errors.New("read only")
		if _, err := e.Execute(t.Context(), o); !errors.Is(err, e.intendErr) {
			t.Error(err)
		}
		e.wantWarned("what was kept for a command that did not run stays: undo-drop:remove")
	})
	t.Run("temporary files stay", func(t *testing.T) {
		t.Parallel()
		e, a := ready(t, nil)
		e.run = func(context.Context, sandbox.Spec) (sandbox.Result, error) {
			return sandbox.Result{Ended: proc.Exited}, os.Rename(e.Tmp, e.Tmp+".away")
		}
		if out := e.execute(e.order(a)); !out.OK() {
			t.Errorf("%+v", out)
		}
		e.wantWarned("the command's temporary files stay: ")
	})
}

// A signal ends the command; what follows it is done all the same.
func TestEndedInTheMiddle(t *testing.T) {
	t.Parallel()
	e, a := ready(t, nil)
	e.commit() // git is asked what has changed
	e.put("old", "changed before")
	o := e.order(a)
	ctx, stop := context.WithCancel(t.Context())
	e.run = func(inner context.Context, _ sandbox.Spec) (sandbox.Result, error) {
		stop()
		if inner.Err() == nil {
			t.Error("the sandbox does not hear of it")
		}
		return sandbox.Result{Ended: proc.Killed, Code: -1, Signal: "SIGTERM"}, nil
	}
	out, err := e.Execute(ctx, o)
	if err != nil || out.End != Killed || out.Error != "ended because superloop had to leave" || out.OK() {
		t.Errorf("%+v %v", out, err)
	}
	e.wantSteps("keep intend run seal")
	e.wantWarned()
	if sets := e.sets(); len(sets) != 1 || !sets[0].Sealed {
		t.Errorf("%+v", sets)
	}
	// The same where it has failed by itself at that moment.
	e, a = ready(t, nil)
	o = e.order(a)
	ctx, stop = context.WithCancel(t.Context())
	e.run = func(context.Context, sandbox.Spec) (sandbox.Result, error) {
		stop()
		return sandbox.Result{Ended: proc.Exited, Code: 1}, nil
	}
	if _, err := e.Execute(ctx, o); err != nil || len(e.learned()) != 1 {
		t.Errorf("%v %v", err, e.learned())
	}
}

func TestOutputGoesWhereItIsWanted(t *testing.T) {
	t.Parallel()
	e, a := ready(t, nil)
	o := e.order(a)
	var log bytes.Buffer
	hurry := make(chan struct{})
	o.Output, o.Hurry = &log, hurry
	e.execute(o)
	if e.spec.Output != &log || e.spec.Hurry != (<-chan struct{})(hurry) || e.spec.Keep != 0 || e.spec.OutputLimit != 0 {
		t.Errorf("%+v", e.spec)
	}
	if got := e.spec.Secrets.String("it says hunter2-hunter2."); got != "it says <secret>." {
		t.Error(got)
	}
}
