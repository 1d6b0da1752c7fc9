package trust

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
)

// power is what a configuration allows, as the rooms that act on it see it: the
// model that says what looser means.
type power struct {
	// auto are "<loop>|<command>" for what recovery's own decision would run
	// without an operator, once with a sandbox and once without.
	auto map[string]bool
	// most and least are numbers and switches of each loop: the lower, or the
	// higher, the less is allowed.
	most, least map[string]int
	// grants are sets of which each element allows something.
	grants map[string]bool
}

func powerOf(t interface{ Fatalf(string, ...any) }, c *config.Config) power {
	p := power{auto: map[string]bool{}, most: map[string]int{}, least: map[string]int{}, grants: map[string]bool{}}
	rank := func(list ...string) func(string) int {
		return func(v string) int {
			i := slices.Index(list, v)
			if i < 0 {
				t.Fatalf("%q is none of %v", v, list)
			}
			return i
		}
	}
	guard, network, cooldown := rank("strict", "scripts", "off"), rank("none", "full"), rank("escalate", "wait")
	yes := func(b bool) int { return map[bool]int{true: 1}[b] }
	for i, l := range c.Loops {
		policy, problems := recovery.ReadPolicy(recovery.Section{Raw: c.Recovery, Pointer: "/recovery"},
			recovery.Section{Raw: l.Recovery, Pointer: fmt.Sprintf("/loops/%d/recovery", i)})
		if len(problems) > 0 {
			t.Fatalf("the policy of %s is refused: %v\n%s\n%s", l.ID, problems, c.Recovery, l.Recovery)
		}
		s := policy.Settings
		for _, confined := range []bool{true, false} {
			for _, command := range commands {
				for _, sure := range []string{"", action.Low, action.Medium} {
					v := recovery.Decide(policy, recovery.Command{Text: command, Confidence: sure}, recovery.Facts{LooseOK: true, Confined: confined})
					if s.Enabled && v.Decision == action.Auto {
						p.auto[fmt.Sprintf("%s|%s|%s|%v", l.ID, command, sure, confined)] = true
					}
				}
			}
		}
		at := l.ID + "|"
		if s.Enabled {
			p.most[at+"budget"], p.most[at+"timeout"], p.least[at+"cooldown"] = s.MaxAuto, s.MaxTimeoutSeconds, s.CooldownSeconds
			p.most[at+"guard"], p.most[at+"on_cooldown"], p.most[at+"privileged"] = guard(s.Guard), cooldown(s.OnCooldown), yes(s.AllowPrivileged)
			p.most[at+"network"], p.least[at+"sandbox"] = network(s.Network), yes(s.Sandbox.Required)
			for _, name := range s.EnvPassthrough {
				p.grants[at+"env|"+name] = true
			}
		}
		p.least[at+"tests|"+strings.Join(l.Tests.Commands, ";")] = 2 - rank("every", "on_promise", "disabled")(l.Tests.Mode)
		p.least[at+"change"], p.least[at+"baseline"], p.least[at+"test change"] = yes(l.Completion.RequireChange), yes(l.Completion.TestsBaseline), yes(l.Completion.RequireTestChange)
		p.least[at+"gated"] = 1 - yes(l.Completion.AllowUngated)
		for _, report := range []string{"plan", "review"} {
			p.least[at+"report|"+report] = yes(slices.Contains(l.Completion.RequireReports, report))
		}
		p.least[at+"approval"] = yes(l.Approval.Enabled) + yes(l.Approval.Enabled && l.Approval.RequireOnCompletion)
		for _, r := range l.Roles {
			for _, c := range r.Runners {
				p.most[at+r.Name+"|"+c.Runner+"|rights"] = rights0(c.Permissions)
			}
		}
	}
	for _, place := range []string{"~/.a", "/b"} {
		p.least["protect|"+place] = yes(slices.Contains(c.Protect.Paths, place))
	}
	for _, place := range c.Protect.Allow {
		p.grants["open|"+place] = true
	}
	live := c.Permissions
	p.least["live|mode"] = 2 - rank("enforce", "observe", "off")(live.Mode)
	p.least["live|unknown"] = 1 - rank("deny", "escalate")(live.OnUnknown)
	for name, list := range map[string][]string{"bytes": live.AutoApprove, "programs": live.Programs, "hosts": live.Hosts, "tools": live.Tools} {
		for _, entry := range list {
			p.grants["live|"+name+"|"+entry] = true
		}
	}
	for name, list := range map[string][]string{"deny": live.Deny, "human": live.RequireHuman, "write": live.Paths.Deny, "secret": live.Paths.Secret} {
		for _, entry := range []string{"one", "two", "d", "/e", "*.k"} {
			p.least["live|"+name+"|"+entry] = yes(slices.Contains(list, entry))
		}
	}
	for _, user := range c.Escalation.Slack.Users {
		p.grants["answer|"+user] = true
	}
	for name, r := range c.Runners {
		p.most[name+"|rights"] = rights0(r.Permissions)
		for _, v := range r.PassEnv {
			p.grants[name+"|pass|"+v] = true
		}
	}
	return p
}

// rights0 ranks what can be compared; "" and workspace cannot, so they rank the
// same.
func rights0(v string) int {
	return map[string]int{"read-only": 0, "full": 2, "workspace": 1, "": 1}[v]
}

// looser says in what a allows more than b.
func (a power) looser(b power) []string {
	var out []string
	for k := range a.auto {
		if !b.auto[k] {
			out = append(out, k+" would run")
		}
	}
	for k, v := range a.most {
		if w, ok := b.most[k]; ok && v > w {
			out = append(out, fmt.Sprintf("%s is %d and not %d", k, v, w))
		}
	}
	for k, v := range a.least {
		if w, ok := b.least[k]; ok && v < w {
			out = append(out, fmt.Sprintf("%s is %d and not %d", k, v, w))
		}
	}
	for k := range a.grants {
		if !b.grants[k] {
			out = append(out, k+" would be granted")
		}
	}
	return out
}

// programs are what would be started, by which the agents and gates are told
// apart: nothing but what is pinned may ever be.
func programs(c *config.Config) map[string]bool {
	out := map[string]bool{}
	note := func(v ...any) {
		line, _ := json.Marshal(v)
		out[string(line)] = true
	}
	for _, l := range c.Loops {
		note(l.ID, "tests", list(l.Tests.Commands))
		note(l.ID, "validation", list(l.Validation.Commands))
		note(l.ID, "commit", list(l.Git.PreCommitCommands))
		for _, r := range l.Roles {
			note(l.ID, r.Name, "first", r.Runner)
			for _, c := range r.Runners {
				note(l.ID, r.Name, c.Runner)
			}
		}
		if d := l.Respond.Diagnostician; d != nil {
			note(l.ID, "diagnostician", d.Runner)
		}
	}
	for name, r := range c.Runners {
		note(name, r.Command, list(r.Args), r.FastArgs, r.PromptMode, r.Adapter, table(r.Env))
	}
	note("webhooks", c.Webhooks)
	for _, ch := range c.Escalation.Channels {
		note(ch.Name, ch.Type, ch.URL.Reveal(), ch.URLEnv, ch.SecretEnv, ch.TokenEnv, ch.SlackID, ch.Priority, ch.From, ch.To, ch.Command.Reveal(), ch.Timeout, ch.Tell, ch.Second)
	}
	if s := c.Escalation.Slack; s.Buttons() {
		note("clicks", s.AppTokenEnv, s.SigningSecretEnv, s.Listen, list(s.Teams))
	}
	return out
}

// The promise of the package: what is in force while the pin and the file differ
// allows nothing that the pin does not, and nothing that the file does not; no
// program and no receiver of news is another than the pinned one.
func TestEffectiveIsNeverLooser(t *testing.T) {
	t.Parallel()
	held, tightened, auto, loose := 0, 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		pinned, now := two(t)
		p, n := section(t, pinned), section(t, now)
		in := Effective(p, n)
		cfg, err := Apply(now, in)
		if err != nil {
			t.Fatal(err)
		}
		force := powerOf(t, cfg)
		if more := force.looser(powerOf(t, pinned)); len(more) > 0 {
			t.Fatalf("looser than the pin: %q", more)
		}
		file := powerOf(t, now)
		dropIncomparable(force, file, p, n)
		if more := force.looser(file); len(more) > 0 {
			t.Fatalf("looser than the file: %q", more)
		}
		trusted := programs(pinned)
		for what := range programs(cfg) {
			if !trusted[what] && !(strings.HasPrefix(what, `["webhooks"`) && cfg.Webhooks == nil) {
				t.Fatalf("not pinned: %s", what)
			}
		}
		d := Compare(p, n)
		held, tightened, auto = held+len(d.Loosening), tightened+len(d.Tightening), auto+len(force.auto)
		loose += len(file.looser(powerOf(t, pinned)))
	})
	if held == 0 || tightened == 0 || auto == 0 || loose == 0 {
		t.Errorf("the generator shows too little: %d held, %d tightened, %d automatic, %d looser in the file", held, tightened, auto, loose)
	}
}

// dropIncomparable takes out what has no order, where the pinned value is in
// force whatever the file says: lists of variables against none at all.
func dropIncomparable(force, file power, p, n Section) {
	for name, r := range p.Runners {
		if o, ok := n.Runners[name]; ok && (r.PassEnv == nil) == (o.PassEnv == nil) {
			continue
		}
		maps.DeleteFunc(force.grants, func(k string, _ bool) bool { return strings.HasPrefix(k, name+"|pass|") })
	}
}

// Effective changes nothing the second time, from whichever side, and what
// Compare says is what it does.
func TestEffectiveAndCompareAgree(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pinned, now := two(t)
		p, n := section(t, pinned), section(t, now)
		if d := Compare(p, p); !d.Empty() {
			t.Fatalf("differs from itself: %v", d)
		}
		d, in := Compare(p, n), Effective(p, n)
		if d.Empty() != (p.Digest() == n.Digest()) {
			t.Fatalf("the digests say otherwise than %v", d)
		}
		for name, again := range map[string]Section{"the pin": Effective(p, in), "the file": Effective(in, n), "itself": Effective(in, in)} {
			if again.Digest() != in.Digest() {
				t.Fatalf("with %s it is another one: %v\n%s\n%s", name, Compare(in, again), canonical(in), canonical(again))
			}
		}
		if l := Compare(p, in).Loosening; len(l) > 0 {
			t.Fatalf("looser than the pin: %v", l)
		}
		if len(d.Loosening) == 0 && in.Digest() != n.Digest() {
			t.Fatalf("nothing is held, but %v", Compare(in, n))
		}
		if len(d.Tightening) == 0 && in.Digest() != p.Digest() {
			t.Fatalf("nothing was tightened, but %v", Compare(p, in))
		}
		whole, err := json.Marshal(d)
		if err != nil || strings.Contains(string(whole), secretText) {
			t.Fatalf("a secret is shown: %s, %v", whole, err)
		}
	})
}

// The configuration that Apply gives has the Section that it was given, through
// the disk and back.
func TestApplyGivesTheSection(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pinned, now := two(t)
		in := Effective(section(t, pinned), section(t, now))
		data, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		read, err := parse(fmt.Appendf(nil, `{"version":1,"section":%s,"digest":%q,"at":"2026-01-02T03:04:05Z","how":"trusted"}`, data, in.Digest()))
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := Apply(now, read.Section)
		if err != nil {
			t.Fatal(err)
		}
		if got := section(t, cfg); got.Digest() != in.Digest() {
			t.Fatalf("got %v", Compare(in, got))
		}
		before := section(t, now).Digest()
		for _, l := range cfg.Loops { // whoever changes it must not change the file's
			if d := l.Respond.Diagnostician; d != nil {
				d.Runner = "changed"
			}
			for i := range l.Roles {
				l.Roles[i].Runner = "changed"
				l.Roles[i].Runners[0].Runner = "changed"
			}
		}
		if section(t, now).Digest() != before {
			t.Fatal("Apply shares memory with its argument")
		}
	})
}
