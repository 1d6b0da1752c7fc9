package replay

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
)

var fine = proposal{command: "npm ci", confidence: "high", confined: true, loose: true}

// TestOtherPolicy: what another policy says, and what really became of the command.
func TestOtherPolicy(t *testing.T) {
	t.Parallel()
	is := policy(t, func(s *recovery.Settings) { s.CooldownSeconds = 0 })
	play := func(made ...proposal) *player {
		p := newPlayer(t, is)
		for _, m := range made {
			p.iteration(&m)
		}
		return p
	}
	unlisted := fine
	unlisted.command = "make"
	unsure := fine
	unsure.confidence = "low"
	for name, c := range map[string]struct {
		made   []proposal
		change func(s *recovery.Settings)
		drop   string // a fact that the journal lacks
		at     int    // the decision that is looked at
		want   action.Decision
		rule   string
		lacks  string // Missing
	}{
		"the same":                      {[]proposal{fine}, func(*recovery.Settings) {}, "", 0, "auto", "auto_approve", ""},
		"listed no more":                {[]proposal{fine}, func(s *recovery.Settings) { s.AutoApprove = nil }, "", 0, "human", "require_human", ""},
		"listed now":                    {[]proposal{unlisted}, func(s *recovery.Settings) { s.AutoApprove = []string{"make"} }, "", 0, "auto", "auto_approve", ""},
		"denied":                        {[]proposal{unlisted}, func(s *recovery.Settings) { s.OnUnknown, s.RequireHuman = "deny", nil }, "", 0, "deny", "on_unknown", ""},
		"off":                           {[]proposal{fine}, func(s *recovery.Settings) { s.Enabled = false }, "", 0, "none", "disabled", ""},
		"surer":                         {[]proposal{unsure}, func(s *recovery.Settings) { s.AskBelow = "low" }, "", 0, "auto", "auto_approve", ""},
		"sandbox not looked at":         {[]proposal{fine}, func(s *recovery.Settings) { s.Sandbox.Required = true }, "confined", 0, "unknown", "unknown", "confined"},
		"sandbox does not matter":       {[]proposal{unlisted}, func(s *recovery.Settings) { s.Sandbox.Required = true }, "confined", 0, "human", "require_human", ""},
		"inputs not looked at":          {[]proposal{fine}, func(s *recovery.Settings) { s.MaxAuto = 9 }, "changed", 0, "unknown", "unknown", "changed"},
		"inputs do not matter":          {[]proposal{fine}, func(s *recovery.Settings) { s.Guard = "off" }, "changed", 0, "auto", "auto_approve", ""},
		"a stricter guard":              {[]proposal{fine}, func(s *recovery.Settings) { s.Guard = "strict" }, "", 0, "unknown", "unknown", "changed"},
		"a stricter guard, unlisted":    {[]proposal{unlisted}, func(s *recovery.Settings) { s.Guard = "strict" }, "", 0, "human", "require_human", ""},
		"allow, and nobody looked":      {[]proposal{unlisted}, func(s *recovery.Settings) { s.OnUnknown, s.RequireHuman = "allow", nil }, "loose", 0, "unknown", "unknown", "loose"},
		"a smaller budget":              {[]proposal{fine, fine}, func(s *recovery.Settings) { s.MaxAuto = 1 }, "", 1, "human", "budget", ""},
		"a budget that others may take": {[]proposal{unlisted, fine}, func(s *recovery.Settings) { s.MaxAuto, s.AutoApprove = 1, []string{"make", "npm ci"} }, "", 1, "unknown", "unknown", "history"},
		"a budget with room for all":    {[]proposal{unlisted, fine}, func(s *recovery.Settings) { s.CooldownSeconds, s.AutoApprove = 0, []string{"make", "npm ci"} }, "", 1, "auto", "auto_approve", ""},
		"a cooldown after what may run": {[]proposal{unlisted, fine}, func(s *recovery.Settings) { s.CooldownSeconds, s.AutoApprove = 9999, []string{"make", "npm ci"} }, "", 1, "unknown", "unknown", "history"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			events := play(c.made...).events
			if c.drop != "" {
				events = without(t, events, c.drop)
			}
			p := policy(t, func(s *recovery.Settings) { s.CooldownSeconds = 0; c.change(s) })
			r := fold(t, Options{Policy: p, Kept: keeps(is)}, events)
			if len(r.Decisions) != len(c.made) {
				t.Fatalf("%d decisions, want %d", len(r.Decisions), len(c.made))
			}
			d := r.Decisions[c.at]
			if d.Now.Verdict != c.want || d.Now.Rule != c.rule || strings.Join(d.Missing, " ") != c.lacks || d.Now.Reason == "" {
				t.Fatalf("%+v", d)
			}
			if d.Differs != (c.want != Unknown && c.want != d.Was.Verdict) || (len(d.Possible) > 1) != (c.want == Unknown) {
				t.Fatalf("differs %v, possible %v: %+v", d.Differs, d.Possible, d)
			}
		})
	}
}

// TestPolicyGone: without the policy that judged, a verdict of itself is not known; another policy judges all the same,
// but for what the lost policy has looked at.
func TestPolicyGone(t *testing.T) {
	t.Parallel()
	is := policy(t, func(*recovery.Settings) {})
	p := newPlayer(t, is)
	p.iteration(&fine)
	if d := fold(t, Options{}, p.events).Decisions[0]; d.Now.Verdict != Unknown || !slices.Equal(d.Missing, []string{Policy}) {
		t.Fatalf("%+v", d)
	}
	off := policy(t, func(s *recovery.Settings) { s.Guard = recovery.GuardOff })
	if d := fold(t, Options{Policy: off}, p.events).Decisions[0]; d.Now.Verdict != action.Auto {
		t.Fatalf("%+v", d)
	}
	on := policy(t, func(s *recovery.Settings) { s.MaxAuto = 9 })
	if d := fold(t, Options{Policy: on}, p.events).Decisions[0]; d.Now.Verdict != Unknown || !slices.Equal(d.Missing, []string{Changed}) {
		t.Fatalf("%+v", d)
	}
}

// TestBecame: the course of a command after its verdict, and what --since leaves out.
func TestBecame(t *testing.T) {
	t.Parallel()
	is := policy(t, func(*recovery.Settings) {})
	p := newPlayer(t, is)
	p.ends = func() int { return 7 }
	asked := fine
	asked.command = "make"
	p.iteration(&fine)
	since := p.now
	p.iteration(&asked)
	p.answer = func() string { return loop.MethodReject }
	p.iteration(&asked)
	r := fold(t, Options{Kept: keeps(is)}, p.events)
	if len(r.Decisions) != 3 || r.Judged != 3 || r.Differ != 0 || r.Unknown != 0 {
		t.Fatalf("%+v", r)
	}
	auto, human, refused := r.Decisions[0].Became, r.Decisions[1].Became, r.Decisions[2].Became
	if auto.Approved != "auto" || auto.Runs != 1 || auto.ExitCode == nil || *auto.ExitCode != 7 || auto.Ended != "exited" || auto.By == "" {
		t.Errorf("%+v", auto)
	}
	if !human.Asked || human.Answer != "reject" || human.By != "cli:ann" || human.Approved != "human" || human.Runs != 1 {
		t.Errorf("%+v", human)
	}
	if !refused.Asked || refused.Answer != "reject" || refused.Runs != 0 || refused.Approved != "" {
		t.Errorf("%+v", refused)
	}
	if r := fold(t, Options{Kept: keeps(is), Since: since}, p.events); len(r.Decisions) != 2 || r.Judged != 2 || r.Decisions[0].Command != "make" || !r.Decisions[0].Became.Asked {
		t.Errorf("since: %+v", r)
	}
}

// TestHits: an entry has the decisions that it has a say in, whatever the facts were.
func TestHits(t *testing.T) {
	t.Parallel()
	is := policy(t, func(s *recovery.Settings) { s.RequireHuman = []string{"rm *"} })
	p := newPlayer(t, is)
	for _, c := range []string{"npm ci", "npm ci", "rm x", "make"} {
		one := fine
		one.command, one.changed = c, "package.json"
		p.iteration(&one)
	}
	h := fold(t, Options{Policy: is, Kept: keeps(is)}, p.events).Hits
	if !slices.Equal(h.AutoApprove, []int{2}) || !slices.Equal(h.RequireHuman, []int{1}) || h.OnUnknown != 1 {
		t.Fatalf("%+v", h)
	}
}

// drawn draws settings that the courses of runs depend on.
func drawn(t *rapid.T) *recovery.Policy {
	return policy(t, func(s *recovery.Settings) {
		s.AutoApprove = rapid.SliceOfDistinct(rapid.SampledFrom(commands[:6]), func(c string) string { return c }).Draw(t, "auto_approve")
		s.RequireHuman = rapid.SliceOfN(rapid.SampledFrom([]string{"*", "rm *", "npm ci"}), 0, 2).Draw(t, "require_human")
		s.OnUnknown = rapid.SampledFrom([]string{"escalate", "deny", "allow"}).Draw(t, "on_unknown")
		s.MaxAuto = rapid.IntRange(0, 3).Draw(t, "max")
		s.CooldownSeconds = rapid.SampledFrom([]int{0, 5, 60}).Draw(t, "cooldown")
		s.OnCooldown = rapid.SampledFrom([]string{"escalate", "wait"}).Draw(t, "on_cooldown")
		s.AskBelow = rapid.SampledFrom([]string{"low", "medium", "high"}).Draw(t, "below")
		s.Guard = rapid.SampledFrom([]string{"off", "scripts", "strict"}).Draw(t, "guard")
		s.Sandbox.Required = rapid.Bool().Draw(t, "sandbox")
		s.Enabled = rapid.IntRange(0, 9).Draw(t, "enabled") > 0
	})
}

var commands = []string{"npm ci", "make", "rm -rf x", "sudo true", "npm ci && rm y", "eval \"$X\"", " ", "a\x00b"}

// played draws the runs of a loop under a policy.
func played(t *rapid.T, real testing.TB, p *recovery.Policy) *player {
	out := newPlayer(real, p)
	out.pause = time.Duration(rapid.IntRange(1, 9000).Draw(t, "pause")) * time.Millisecond
	out.ends = func() int { return rapid.IntRange(0, 1).Draw(t, "exit") }
	out.answer = func() string {
		return rapid.SampledFrom([]string{loop.MethodApprove, loop.MethodReject}).Draw(t, "answer")
	}
	for range rapid.IntRange(1, 8).Draw(t, "iterations") {
		if rapid.IntRange(0, 9).Draw(t, "fresh") == 0 {
			out.s = loop.State{} // another run
		}
		out.iteration(&proposal{command: rapid.SampledFrom(commands).Draw(t, "command"), confidence: rapid.SampledFrom([]string{"", "low", "medium", "high"}).Draw(t, "sure"),
			changed: rapid.SampledFrom([]string{"", "", "package.json"}).Draw(t, "changed"), confined: rapid.Bool().Draw(t, "confined"), loose: rapid.Bool().Draw(t, "loose")})
	}
	return out
}

// TestSamePolicySameVerdicts: the policy that has judged a journal gives every verdict of it again, with its rule and its
// reason; and if the journal lacks facts, still the same verdicts.
func TestSamePolicySameVerdicts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		p := drawn(r)
		events := played(r, t, p).events
		lost := rapid.SampledFrom([]string{"", "confined", "loose", "changed"}).Draw(r, "lost")
		if lost != "" {
			events = without(t, events, lost)
		}
		for _, o := range []Options{{Kept: keeps(p)}, {Policy: p, Kept: keeps(p)}, {Policy: p}} {
			got := fold(t, o, events)
			for _, d := range got.Decisions {
				if d.Differs || d.Now.Verdict != d.Was.Verdict || lost == "" && (d.Now.Rule != d.Was.Rule || d.Now.Reason != d.Was.Reason || !d.Now.NotBefore.Equal(d.Was.NotBefore)) {
					r.Fatalf("was %+v\nis  %+v\nmissing %v", d.Was, d.Now, d.Missing)
				}
			}
			if got.Judged == 0 || got.Differ+got.Unknown > 0 {
				r.Fatalf("%+v", got)
			}
		}
	})
}

// TestSaysNoMoreThanIsKnown: what a replay says of another policy is what a run under that policy has decided, as long as
// both runs went the same way; where facts are missing, the truth is among the possible verdicts.
func TestSaysNoMoreThanIsKnown(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		is, other := drawn(r), drawn(r)
		if !other.Settings.Enabled {
			return
		}
		events := played(r, t, is).events
		whole := fold(t, Options{Policy: other, Kept: keeps(is, other)}, events)
		lost := fold(t, Options{Policy: other, Kept: keeps(is, other)}, without(t, events, rapid.SampledFrom([]string{"confined", "loose", "changed"}).Draw(r, "lost")))
		for i, d := range lost.Decisions {
			w := whole.Decisions[i]
			if w.Now.Verdict == Unknown {
				return // from here on less is known in both
			}
			if d.Now.Verdict != w.Now.Verdict && (d.Now.Verdict != Unknown || !slices.Contains(d.Possible, w.Now.Verdict)) {
				r.Fatalf("with all facts %+v\nwith one lost %+v, possible %v", w.Now, d.Now, d.Possible)
			}
			if d.Now.Verdict != w.Now.Verdict || w.Differs {
				return
			}
		}
	})
}

// TestRightUntilItDiffers: a second run of the same proposals under the other policy really decides as the replay says,
// up to the first decision that differs, and that one included. A command that waits for its cooldown is judged again
// after it, and the two policies need not make it wait at the same places.
func TestRightUntilItDiffers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		is, other := drawn(r), drawn(r)
		if !other.Settings.Enabled || is.Settings.Guard != other.Settings.Guard {
			return
		}
		made := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) proposal {
			return proposal{command: rapid.SampledFrom(commands).Draw(t, "command"), confidence: rapid.SampledFrom([]string{"low", "high"}).Draw(t, "sure"), confined: true, loose: rapid.Bool().Draw(t, "loose")}
		}), 1, 6).Draw(r, "made")
		first, second := newPlayer(t, is), newPlayer(t, other)
		for _, m := range made {
			first.iteration(&m)
			second.iteration(&m)
		}
		said, real := fold(t, Options{Policy: other, Kept: keeps(is)}, first.events), fold(t, Options{Kept: keeps(other)}, second.events)
		decided := unwaited(real.Decisions)
		for i, d := range unwaited(said.Decisions) {
			if d.Now.Verdict == Unknown {
				return
			}
			if was := decided[i].Was; d.Now.Verdict != was.Verdict || d.Now.Rule != was.Rule {
				r.Fatalf("decision %d: the replay says %+v, a run under the policy %+v", i, d.Now, was)
			}
			if d.Differs {
				return
			}
		}
	})
}

// unwaited returns the decisions but for those that only say again, after a wait, what was decided before it.
func unwaited(all []Decision) (out []Decision) {
	waited := false
	for _, d := range all {
		if !waited {
			out = append(out, d)
		}
		waited = !d.Was.NotBefore.IsZero()
	}
	return out
}
