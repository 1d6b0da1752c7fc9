package effects

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/recovery"
)

// recRunning is a loop whose tester runs.
func recRunning() loop.State {
	return loop.State{RunID: "run-1", Iteration: 3, Begun: true, Plan: loop.Plan{Recovery: true, Roles: []string{"planner", "tester"}},
		Pending: &loop.Effect{ID: "e-1", Kind: loop.RunRole, Role: "tester", Attempt: 1}}
}

func TestSight(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	s := recRunning()
	sees := func(want loop.Fact) {
		t.Helper()
		if got := r.recoveries.Sight(t.Context(), s); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	path := r.Paths.File(recovery.ProposalFile)
	sees(nil)
	r.put(path, recProposal[:100]) // it is being written
	sees(nil)
	r.put(path, recProposal)
	r.executor.judgeErr = errRec
	sees(nil)
	r.executor.judgeErr = nil
	seen := loop.Seen{Sighting: loop.Sighting{Role: "tester", Category: "dependency", Command: "npm ci", Verdict: "human", Reason: "no list names it"}, Digest: sha([]byte(recProposal))}
	sees(seen)
	sees(nil)
	s.Pending.ID = "e-2" // the same bytes of another attempt
	sees(seen)
	sees(nil)
	r.put(path, `{"version": 1}`)
	got := recAs[loop.Seen](t, r.recoveries.Sight(t.Context(), s), nil)
	if got.Verdict != "invalid" || got.Command != "" || !strings.Contains(got.Reason, `the key "category" is missing`) || got.Role != "tester" || got.Digest != sha([]byte(`{"version": 1}`)) {
		t.Errorf("%+v", got)
	}
	sees(nil)
	r.noErr(os.Remove(path))
	r.noErr(os.Symlink(filepath.Join(r.Paths.Loop, "x"), path))
	r.put(r.Paths.File("x"), recProposal)
	sees(nil)
	if !r.recoveries.Lies(s) || r.read(path) == "" {
		t.Error("looking took it away")
	}
}

func TestNothingIsSeen(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*loop.State){
		"nothing is under way":   func(s *loop.State) { s.Pending = nil },
		"no role runs":           func(s *loop.State) { s.Pending.Kind = loop.RunTests },
		"the role has not begun": func(s *loop.State) { s.Begun = false },
		"proposals do not count": func(s *loop.State) { s.Plan.Recovery = false },
	} {
		r := newRecHost(t)
		r.put(r.Paths.File(recovery.ProposalFile), recProposal)
		s := recRunning()
		change(&s)
		if got := r.recoveries.Sight(t.Context(), s); got != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestLies(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	s := recRunning()
	if r.recoveries.Lies(s) {
		t.Error("there is none")
	}
	r.noErr(os.Symlink("nowhere", r.Paths.File(recovery.ProposalFile)))
	if !r.recoveries.Lies(s) {
		t.Error("a link is one, though an invalid one")
	}
	s.Plan.Recovery = false
	if r.recoveries.Lies(s) {
		t.Error("proposals do not count")
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	first := loop.Effect{Role: "planner", Attempt: 1}
	const text = "it lay there before iteration 3 began, so it is about an older state of things"
	for name, c := range map[string]struct {
		e       loop.Effect
		text    string
		off     bool
		roles   []string
		command string
		swept   bool
	}{
		"before the first role":  {first, recProposal, false, []string{"planner", "tester"}, "npm ci", true},
		"an invalid one":         {first, "{", false, []string{"planner", "tester"}, "", true},
		"before its next try":    {loop.Effect{Role: "planner", Attempt: 2}, recProposal, false, []string{"planner", "tester"}, "", false},
		"before the second role": {loop.Effect{Role: "tester", Attempt: 1}, recProposal, false, []string{"planner", "tester"}, "", false},
		"no roles":               {first, recProposal, false, nil, "", false},
		"there is none":          {first, "", false, []string{"planner"}, "", false},
		"proposals do not count": {first, recProposal, true, []string{"planner"}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRecHost(t)
			left := filepath.Join(r.Paths.Private, "recovery-0123.json")
			r.put(left, recProposal)
			r.put(filepath.Join(r.Paths.Private, "recovery.json"), "not one")
			if c.text != "" {
				r.put(r.Paths.File(recovery.ProposalFile), c.text)
			}
			s := loop.State{RunID: "run-1", Iteration: 3, Plan: loop.Plan{Recovery: !c.off, Roles: c.roles}}
			r.noErr(r.sweep(c.e, s))
			if got := r.read(left) != ""; got != c.off {
				t.Errorf("the private copy is there: %v", got)
			}
			if r.read(filepath.Join(r.Paths.Private, "recovery.json")) == "" {
				t.Error("another file is gone")
			}
			if !c.swept {
				if len(r.journal.facts) != 0 || r.read(r.Paths.File(recovery.ProposalFile)) != c.text {
					t.Errorf("%+v", r.journal.facts)
				}
				return
			}
			digest := sha([]byte(c.text))
			want := loop.ProposalStale{Rule: loop.RuleStale, Digest: digest, Reason: text, Command: c.command, File: ".superloop/loops/l/proposals/1-" + digest[:12] + ".json"}
			if len(r.journal.facts) != 1 || r.journal.facts[0] != loop.Fact(want) || r.recoveries.Lies(s) {
				t.Errorf("%+v", r.journal.facts)
			}
			if k := r.kept(want.File); k.Verdict != "stale" || k.Reason != text {
				t.Errorf("%+v", k)
			}
		})
	}
}

func TestSweepInTrouble(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(*recHost)
		want  error
	}{
		"a copy cannot be removed": {func(r *recHost) {
			r.put(filepath.Join(r.Paths.Private, "recovery-1.json"), "x")
			r.fail["proposal:remove"] = errRec
		}, errRec},
		"it cannot be taken":        {func(r *recHost) { r.fail["proposal:write"] = syscall.ENOSPC }, syscall.ENOSPC},
		"it cannot be kept":         {func(r *recHost) { r.fail["proposals:write"] = syscall.ENOSPC }, syscall.ENOSPC},
		"the journal refuses it":    {func(r *recHost) { r.journal.err = errRec }, errRec},
		"the private place is none": {func(r *recHost) { r.noErr(os.Remove(r.Paths.Private)); r.put(r.Paths.Private, "") }, syscall.ENOTDIR},
		"a copy was removed already": {func(r *recHost) {
			r.put(filepath.Join(r.Paths.Private, "recovery-1.json"), "x")
			r.at, r.then = "proposal:remove", func() { r.noErr(os.Remove(filepath.Join(r.Paths.Private, "recovery-1.json"))) }
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRecHost(t)
			r.put(r.Paths.File(recovery.ProposalFile), recProposal)
			c.spoil(r)
			s := recRunning()
			r.wantErr(r.sweep(loop.Effect{Role: "planner", Attempt: 1}, s), c.want)
		})
	}
}

// An agent takes its proposal back between the look and the sweep.
func TestSweptProposalIsGone(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	r.put(r.Paths.File(recovery.ProposalFile), recProposal)
	r.at, r.then = "proposal:rename", func() { r.noErr(os.Remove(r.Paths.File(recovery.ProposalFile))) }
	r.noErr(r.sweep(loop.Effect{Role: "planner", Attempt: 1}, recRunning()))
	if len(r.journal.facts) != 0 {
		t.Errorf("%+v", r.journal.facts)
	}
}

// The copy that cannot be removed is an error before any role, not just the first.
func TestSweepCannotRemoveACopy(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	r.put(filepath.Join(r.Paths.Private, "recovery-1.json"), "x")
	r.fail["proposal:remove"] = syscall.ENOSPC
	r.wantErr(r.sweep(loop.Effect{Role: "tester", Attempt: 1}, recRunning()), syscall.ENOSPC)
}

func (r *recHost) sweep(e loop.Effect, s loop.State) error {
	_, err := r.recoveries.Sweep(e, s)
	return err
}
