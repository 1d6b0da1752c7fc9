package recovery

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/recovery/action"
)

// Conforms: 004-2-enabled, 004-2-auto, 004-2-human, 004-2-max, 004-2-cooldown, 004-2-unknown, 004-compat-absent
func TestReadPolicyDefaults(t *testing.T) {
	t.Parallel()
	absent, problems := ReadPolicy()
	if len(problems) > 0 || absent.Settings.Enabled {
		t.Errorf("without a section: %+v, %v", absent, problems)
	}
	empty, problems := ReadPolicy(section(`{}`, "/recovery"))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	s := empty.Settings
	if !s.Enabled || len(s.AutoApprove) != 0 || !slices.Equal(s.RequireHuman, []string{"*"}) || s.OnUnknown != "escalate" || s.MaxAuto != 3 || s.Cooldown() != time.Minute ||
		s.OnCooldown != "escalate" || s.MaxTimeout() != 900*time.Second || s.Guard != "scripts" || s.Network != "full" || s.Sandbox.Required || s.StrictRequireHuman || s.AllowPrivileged {
		t.Errorf("%+v", s)
	}
	if off, _ := ReadPolicy(section(`{"enabled": false}`, "/recovery")); off.Settings.Enabled {
		t.Error("enabled: false is not read")
	}
}

// A loop's section wins key by key; sandbox and entries are merged; tests are not
// handed down.
func TestLoopOverride(t *testing.T) {
	t.Parallel()
	top := section(`{"auto_approve": ["npm ci", "npm install"], "require_human": ["curl *"], "on_unknown": "deny", "sandbox": {"required": true},
		"entries": {"npm ci": {"network": "none"}}, "network": "full", "tests": [{"command": "npm ci", "expect": "auto"}]}`, "/recovery")
	loop := section(`{"auto_approve": ["npm ci"], "sandbox": {"caches": ["/x"]}, "entries": {"x": {"network": "none"}}, "cooldown_seconds": 0}`, "/loops/1/recovery")
	p, problems := ReadPolicy(top, loop)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	s := p.Settings
	if !slices.Equal(s.AutoApprove, []string{"npm ci"}) || !slices.Equal(s.RequireHuman, []string{"curl *"}) || s.OnUnknown != "deny" || !s.Sandbox.Required || len(s.Sandbox.Caches) != 1 || len(s.Entries) != 2 || s.CooldownSeconds != 0 || len(s.Tests) != 0 {
		t.Errorf("%+v", s)
	}
	if s.NetworkOf("npm ci") != "none" || s.NetworkOf("x") != "full" || s.NetworkOf("y") != "full" {
		t.Errorf("networks: %q %q %q", s.NetworkOf("npm ci"), s.NetworkOf("x"), s.NetworkOf("y"))
	}
	for key, want := range map[string]string{"auto_approve": "/loops/1/recovery/auto_approve/0", "require_human": "/recovery/require_human/0", "guard": "/recovery/guard/0"} {
		if got := p.Pointer(key, 0); got != want {
			t.Errorf("%s is at %s, want %s", key, got, want)
		}
	}
	if !p.Has("on_unknown") || p.Has("guard") {
		t.Error("Has")
	}
	again, _ := ReadPolicy(top, Section{})
	if len(again.Settings.Tests) != 1 || again.Digest == p.Digest {
		t.Errorf("%+v", again.Settings)
	}
	if off, _ := ReadPolicy(section(`{"enabled": false}`, "/recovery"), section(`{"auto_approve": ["x"]}`, "/loops/0/recovery")); off.Settings.Enabled {
		t.Error("a loop's section switches recovery on by being there")
	}
}

// The digest is of the meaning: not of white space, order or defaults that are
// written out, but of every change.
func TestPolicyDigest(t *testing.T) {
	t.Parallel()
	digest := func(raw string) string {
		p, problems := ReadPolicy(section(raw, "/recovery"))
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		return p.Digest
	}
	base := digest(`{"auto_approve": ["a", "b"], "cooldown_seconds": 5}`)
	for _, same := range []string{`{"cooldown_seconds":5.0,"auto_approve":["\u0061","b"]}`, `{"auto_approve": ["a", "b"], "cooldown_seconds": 5, "on_unknown": "escalate", "require_human": ["*"]}`, `{"// why": "x", "auto_approve": ["a", "b"], "cooldown_seconds": 5}`} {
		if digest(same) != base {
			t.Errorf("another digest: %s", same)
		}
	}
	seen := map[string]string{base: ""}
	for _, other := range []string{`{}`, `{"auto_approve": ["b", "a"], "cooldown_seconds": 5}`, `{"auto_approve": ["a", "b "], "cooldown_seconds": 5}`, `{"auto_approve": ["a", "b"]}`, `{"auto_approve": ["a", "b"], "cooldown_seconds": 5, "require_human": []}`,
		`{"auto_approve": ["a", "b"], "cooldown_seconds": 5, "sandbox": {"required": true}}`, `{"auto_approve": ["a", "b<"], "cooldown_seconds": 5}`} {
		d := digest(other)
		if before, twice := seen[d]; twice {
			t.Errorf("%s and %s have one digest", before, other)
		}
		seen[d] = other
	}
	// A digest that was pinned must fit a later superloop.
	if want := "ae69d12c16931abeebd9a7d0f51099b4ce1718b0fb41ff67daff436d83369f14"; base != want {
		t.Errorf("the digest of %s has become %s", want, base)
	}
}

func TestReadPolicyRefuses(t *testing.T) {
	t.Parallel()
	for raw, pointer := range map[string]string{
		`{"on_unknown": "Allow"}`: "/loops/3/recovery/on_unknown", `{"on_unknown": ""}`: "/loops/3/recovery/on_unknown", `{"on_unknown": null}`: "/loops/3/recovery/on_unknown", `{"on_unknown": true}`: "/loops/3/recovery/on_unknown",
		`{"require_human": ["x", ""]}`: "/loops/3/recovery/require_human/1", `{"require_human": [" \t"]}`: "/loops/3/recovery/require_human/0", `{"require_human": "x"}`: "/loops/3/recovery/require_human", `{"auto_approve": [1]}`: "/loops/3/recovery/auto_approve/0",
		`{"auto_aprove": []}`: "/loops/3/recovery/auto_aprove", `{"auto_approve": [], "auto_approve": ["x"]}`: "/loops/3/recovery/auto_approve", `{"Auto_approve": []}`: "/loops/3/recovery/Auto_approve", `{"auto_approve": ["\ud800"]}`: "/loops/3/recovery/auto_approve/0",
		`{"max_auto_recoveries_per_run": -1}`: "/loops/3/recovery/max_auto_recoveries_per_run", `{"cooldown_seconds": 1.5}`: "/loops/3/recovery/cooldown_seconds", `{"guard": "no"}`: "/loops/3/recovery/guard", `{"tests": [{"command": "x"}]}`: "/loops/3/recovery/tests/0/expect",
		`{"entries": {"x": {"network": "some"}}}`: "/loops/3/recovery/entries/x/network", `[]`: "/loops/3/recovery", `{`: "/loops/3/recovery",
	} {
		p, problems := ReadPolicy(section(`{}`, "/recovery"), section(raw, "/loops/3/recovery"))
		if p != nil || len(problems) == 0 {
			t.Errorf("%s is taken", raw)
			continue
		}
		if !strings.HasPrefix(problems[0].Pointer, pointer) || problems[0].Message == "" {
			t.Errorf("%s: %v, want %s", raw, problems, pointer)
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	s := Defaults()
	s.AutoApprove, s.RequireHuman = []string{"ok", " ", "a\x00", "\xff"}, []string{"ok", ""}
	_, problems := Compile(s)
	var got []string
	for _, p := range problems {
		got = append(got, p.Pointer)
	}
	if want := []string{"/auto_approve/1", "/auto_approve/2", "/auto_approve/3", "/require_human/1"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestPolicyTests(t *testing.T) {
	t.Parallel()
	p, problems := ReadPolicy(section(`{"auto_approve": ["npm ci"], "require_human": [], "on_unknown": "deny", "tests": [
		{"command": "npm ci", "expect": "auto"}, {"command": "npm  ci", "expect": "deny"}, {"command": "npm ci", "working_dir": "../x", "expect": "invalid"}, {"command": "npm ci", "working_dir": "no/such", "expect": "auto"},
		{"command": "npm ci", "working_dir": "a/.git", "expect": "invalid"}, {"command": "npm ci", "working_dir": "/x", "expect": "invalid"}, {"command": "ls", "expect": "auto"}]}`, "/recovery"))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	failed := p.CheckTests()
	if len(failed) != 1 || failed[0].Pointer != "/recovery/tests/6" || failed[0].Found != "deny" || failed[0].Allowed != "auto" || !strings.Contains(failed[0].Message, `"ls" is deny, not auto`) {
		t.Errorf("%+v", failed)
	}
	if published := publishedPolicy(t).CheckTests(); len(published) > 0 {
		t.Errorf("the example's own tests fail: %v", published)
	}
}

// Conforms: 002-future-3, 004-2-max, 004-2-cooldown
func TestLimit(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 23, 6, 0, 0, 0, time.UTC)
	auto := Verdict{Decision: action.Auto, Rule: RuleAutoApprove, Reason: "listed"}
	human := Verdict{Decision: action.Human, Rule: RuleHuman, Reason: "pattern"}
	for name, c := range map[string]struct {
		settings func(*Settings)
		verdict  Verdict
		budget   Budget
		want     action.Decision
		rule     string
		after    time.Duration
	}{
		"the first":                   {nil, auto, Budget{}, action.Auto, RuleAutoApprove, 0},
		"off":                         {func(s *Settings) { s.Enabled = false }, auto, Budget{}, action.Human, RuleDisabled, 0},
		"the last of the budget":      {nil, auto, Budget{Used: 2}, action.Auto, RuleAutoApprove, 0},
		"over the budget":             {nil, auto, Budget{Used: 3}, action.Human, RuleBudget, 0},
		"no budget":                   {func(s *Settings) { s.MaxAuto = 0 }, auto, Budget{}, action.Human, RuleBudget, 0},
		"too soon":                    {nil, auto, Budget{Used: 1, Last: now.Add(-59 * time.Second)}, action.Human, RuleCooldown, 0},
		"just late enough":            {nil, auto, Budget{Used: 1, Last: now.Add(-60 * time.Second)}, action.Auto, RuleAutoApprove, 0},
		"wait":                        {func(s *Settings) { s.OnCooldown = CooldownWait }, auto, Budget{Used: 1, Last: now.Add(-20 * time.Second)}, action.Auto, RuleAutoApprove, 40 * time.Second},
		"a clock that was set back":   {func(s *Settings) { s.OnCooldown = CooldownWait }, auto, Budget{Used: 1, Last: now.Add(time.Hour)}, action.Auto, RuleAutoApprove, time.Minute},
		"no cooldown":                 {func(s *Settings) { s.CooldownSeconds = 0 }, auto, Budget{Used: 1, Last: now}, action.Auto, RuleAutoApprove, 0},
		"human stays":                 {nil, human, Budget{Used: 9, Rejected: 1}, action.Human, RuleHuman, 0},
		"refused twice":               {nil, human, Budget{Rejected: 2}, action.Deny, RuleRejected, 0},
		"deny stays":                  {nil, Verdict{Decision: action.Deny, Rule: RuleUnknown}, Budget{Rejected: 5}, action.Deny, RuleUnknown, 0},
		"invalid stays":               {func(s *Settings) { s.Enabled = false }, Verdict{Decision: action.Invalid, Rule: RuleNUL}, Budget{Rejected: 5}, action.Invalid, RuleNUL, 0},
		"off and refused twice":       {func(s *Settings) { s.Enabled = false }, human, Budget{Rejected: 2}, action.Deny, RuleRejected, 0},
		"the budget before the clock": {nil, auto, Budget{Used: 3, Last: now}, action.Human, RuleBudget, 0},
	} {
		s := Defaults()
		if c.settings != nil {
			c.settings(&s)
		}
		v := Limit(mustCompile(t, s), c.verdict, c.budget, now)
		if v.Decision != c.want || v.Rule != c.rule || c.after == 0 != v.NotBefore.IsZero() || c.after > 0 && !v.NotBefore.Equal(now.Add(c.after)) {
			t.Errorf("%s: %+v, want %s by %s after %s", name, v, c.want, c.rule, c.after)
		}
		if v.Decision != c.verdict.Decision && !strings.Contains(v.Reason, c.verdict.Reason) {
			t.Errorf("%s: the reason forgets what the rule was: %s", name, v.Reason)
		}
	}
	if v := Limit(nil, auto, Budget{}, now); v.Decision != action.Human {
		t.Errorf("%+v", v)
	}
}

// What is kept of a policy is the whole policy: it has the same digest and judges alike, and nothing else is taken for it.
func TestAPolicyIsKeptWhole(t *testing.T) {
	t.Parallel()
	s := Defaults()
	s.AutoApprove, s.RequireHuman, s.Guard, s.AskBelow, s.Remediation = []string{"npm ci", "a <b> & c"}, []string{"git push*"}, GuardStrict, action.High, false
	s.Entries = map[string]EntrySettings{"npm ci": {Network: NetworkNone}}
	s.Tests = []PolicyTest{{Command: "npm ci", Expect: action.Auto}}
	for _, s := range []Settings{s, Defaults(), {}} {
		p, problems := Compile(s)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		kept, err := Kept(p.Digest, p.JSON())
		if err != nil {
			t.Fatal(err)
		}
		if kept.Digest != p.Digest || !bytes.Equal(kept.JSON(), p.JSON()) {
			t.Errorf("kept as %s", kept.JSON())
		}
		for _, command := range []string{"npm ci", "git push -f", "ls", "a <b> & c"} {
			c := Command{Text: command, WorkingDir: "."}
			if a, b := Decide(p, c, Facts{}), Decide(kept, c, Facts{}); a.Decision != b.Decision || a.Rule != b.Rule || a.Reason != b.Reason {
				t.Errorf("%s: %+v, kept %+v", command, a, b)
			}
		}
		if _, err := Kept(p.Digest, append(p.JSON(), ' ')); err == nil || !strings.Contains(err.Error(), "it is not the policy "+p.Digest[:12]) {
			t.Errorf("another text: %v", err)
		}
	}
}
