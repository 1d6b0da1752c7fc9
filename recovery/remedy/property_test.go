package remedy

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/classify"
	"github.com/superloop/superloop/recovery/learn"
	"pgregory.net/rapid"
)

// drawOption is any option that a catalog may hold.
func drawOption(t *rapid.T, i int) catalog.Option {
	program := rapid.SampledFrom([]string{"npm", "rm", "git", "cmake", "frobnicate", "{pkg}", "./x", "sudo"})
	word := rapid.SampledFrom([]string{"install", "{pkg}", "{dir}", "{command}", "a b", "", "--x", "$(x)", "../..", "{none}"})
	o := catalog.Option{
		ID: fmt.Sprintf("o%d", i), Label: "L {pkg}",
		Strategy:    rapid.SampledFrom([]catalog.Strategy{catalog.InstallDep, catalog.InstallDepThenSwitch, catalog.InstallPackages, catalog.SwitchMethod, catalog.RetryWithModifier, catalog.AddRepo, catalog.UpgradeDep, catalog.EnvFix, catalog.Manual, catalog.CleanupRetry, catalog.Retry}).Draw(t, "strategy"),
		Executor:    rapid.SampledFrom([]catalog.Executor{"", catalog.ByWrapper, catalog.ByRole, catalog.ByRunner, catalog.ByHuman}).Draw(t, "executor"),
		Risk:        rapid.SampledFrom([]catalog.Risk{"", catalog.RiskLow, catalog.RiskMedium, catalog.RiskHigh}).Draw(t, "risk"),
		Confidence:  rapid.SampledFrom([]float64{0, .3, .6, .9}).Draw(t, "confidence"),
		Dep:         rapid.SampledFrom([]string{"jq", "uv", "git", "{pkg}", "nosuch"}).Draw(t, "dep"),
		SwitchTo:    rapid.SampledFrom([]string{"pipx", "apt", "nosuch"}).Draw(t, "switch"),
		Prefer:      []string{"apt", "pipx"},
		Project:     rapid.SampledFrom([]string{"", "", "install", "clean_build", "nosuch"}).Draw(t, "project"),
		Sudo:        rapid.Bool().Draw(t, "sudo"),
		Recommended: rapid.Bool().Draw(t, "recommended"),
		Packages:    map[string][]string{"debian": {"x-{pkg}"}},
		Modifier:    catalog.Modifier{Wait: rapid.SliceOfN(rapid.IntRange(-1, 9), 0, 3).Draw(t, "wait"), LessParallel: rapid.Bool().Draw(t, "less"), Sudo: rapid.Bool().Draw(t, "msudo")},
		Requires:    rapid.SliceOfN(rapid.SampledFrom(catalog.Conditions[:]), 0, 1).Draw(t, "requires"),
	}
	for range rapid.IntRange(0, 2).Draw(t, "commands") {
		o.Commands = append(o.Commands, append([]string{program.Draw(t, "program")}, rapid.SliceOfN(word, 0, 3).Draw(t, "words")...))
	}
	return o
}

// Whatever the options are: the plan holds together, the gate never lets pass
// what ByItself refuses, and the order in which the options of one handler stand
// changes nothing but ties.
// Conforms: 000-3.1-recommended, 002-rule-1
func TestPlanHoldsTogether(t *testing.T) {
	t.Parallel()
	cat, presets, dir := embedded(t), Presets(), npmRepo(t)
	names := make([]string, 0, len(presets))
	for n := range presets {
		names = append(names, n)
	}
	slices.Sort(names)
	everything := map[string]bool{}
	rapid.Check(t, func(t *rapid.T) {
		var options []catalog.Option
		for i := range rapid.IntRange(1, 6).Draw(t, "options") {
			options = append(options, drawOption(t, i))
		}
		h := handler("h", rapid.SampledFrom([]catalog.Layer{catalog.LayerRecipe, catalog.LayerMethod, catalog.LayerInfra}).Draw(t, "layer"), "npm", options...)
		f := failure(rapid.SampledFrom([]string{"dependency", "network_error", "unknown", "auth", "disk_full", "build_failure"}).Draw(t, "category"),
			dir, []string{"npm", "run", "x y"}, h, map[string]string{"pkg": rapid.SampledFrom([]string{"esbuild", "@a/b", "-zz", "a;b", "../x", "x\ny", "", "http://x"}).Draw(t, "pkg")})
		f.Tool = rapid.SampledFrom([]string{"", "ruff", "nosuch"}).Draw(t, "tool")
		f.Weak, f.Code = rapid.Bool().Draw(t, "weak"), rapid.Float64Range(0, 1).Draw(t, "code") > .9
		p := presets[rapid.SampledFrom(names).Draw(t, "system")]
		s := Situation{Dir: dir}
		plan := Resolve(cat, f, p, s)
		for _, bad := range check(&plan, p, cat) {
			t.Fatal(bad)
		}
		for _, o := range plan.Options {
			for _, step := range o.Steps {
				if o.From.Kind == FromHandler && slices.Contains(step.Argv, f.Captures["pkg"]) && !plainName(f.Captures["pkg"]) && f.Captures["pkg"] != "" {
					t.Fatalf("%q got into %q", f.Captures["pkg"], step.Argv)
				}
			}
			everything[o.Command] = true
		}
		all := recovery.Defaults()
		for _, o := range plan.Options {
			if o.Command != "" {
				all.AutoApprove = append(all.AutoApprove, o.Command)
			}
		}
		policy, problems := recovery.Compile(all)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		gate, chosen := Gate(&plan, policy)
		if gate == GateAuto || gate == GateRetry {
			if !ByItselfUnlocked(*chosen, f) || f.Code || f.Weak {
				_, why := ByItself(*chosen, f)
				t.Fatalf("the gate is %s for %q, and it is refused: %s", gate, chosen.Command, why)
			}
		}
		rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)).Shuffle(len(options), func(i, j int) { options[i], options[j] = options[j], options[i] })
		shuffled := Resolve(cat, f, p, s)
		for i := range plan.Options {
			if len(shuffled.Options) != len(plan.Options) {
				t.Fatalf("%d options, shuffled %d", len(plan.Options), len(shuffled.Options))
			}
			a, b := &plan.Options[i], &shuffled.Options[i]
			if a.Executor != b.Executor && !a.Recommended && !b.Recommended && one1(plan) == one1(shuffled) {
				t.Fatalf("place %d: %s by %s, shuffled %s by %s", i, a.Key, a.Executor, b.Key, b.Executor)
			}
		}
		again := Resolve(cat, f, p, s)
		x, _ := json.Marshal(again)
		y, _ := json.Marshal(shuffled)
		if string(x) != string(y) {
			t.Fatal("the same arguments gave two plans")
		}
	})
	if len(everything) < 20 {
		t.Errorf("only %d commands were seen", len(everything))
	}
}

// one1 is the key of what a plan recommends.
func one1(p Plan) string {
	if p.Options[0].Recommended {
		return p.Options[0].Key
	}
	return ""
}

// Conforms: 002-future-1-move, 002-future-3-across, 002-future-5
func TestThePastOrders(t *testing.T) {
	t.Parallel()
	cat := embedded(t)
	h := handler("h", catalog.LayerMethod, "npm", catalog.Option{ID: "a", Strategy: catalog.EnvFix, Commands: [][]string{{"npm", "a"}}}, catalog.Option{ID: "b", Strategy: catalog.EnvFix, Commands: [][]string{{"npm", "b"}}})
	f := failure("auth", npmRepo(t), []string{"npm", "test"}, h, nil)
	for name, c := range map[string]struct {
		a, b                learn.Past
		first               string
		confidence, granted float64 // of b; the diagnosis has .9
		experience          string
		recommendA          bool
	}{
		"nothing is known":               {first: "a", confidence: .9, granted: .9},
		"b has helped":                   {b: learn.Past{Helped: 1}, first: "b", confidence: .95, granted: .9, experience: "worked 1 of 1 times here, so its confidence is 0.95 instead of 0.90"},
		"a has failed":                   {a: learn.Past{Failed: 1}, first: "b", confidence: .9, granted: .9},
		"b has failed":                   {b: learn.Past{Failed: 2}, first: "a", confidence: .8, granted: .8, experience: "worked 0 of 2 times here, so its confidence is 0.80 instead of 0.90"},
		"b has helped, a is recommended": {b: learn.Past{Helped: 9}, recommendA: true, first: "a", confidence: .95, granted: .9, experience: "worked 9 of 9 times here, so its confidence is 0.95 instead of 0.90"},
		"an operator chose b":            {b: learn.Past{Chosen: 1}, recommendA: true, first: "b", confidence: .9, granted: .9, experience: "an operator chose it once"},
		"an operator refused a":          {a: learn.Past{Refused: 1}, first: "b", confidence: .9, granted: .9},
	} {
		h.Options[0].Recommended = c.recommendA
		past := func(key string) learn.Past {
			switch {
			case strings.HasPrefix(key, "h/a/"):
				return c.a
			case strings.HasPrefix(key, "h/b/"):
				return c.b
			}
			return learn.Past{}
		}
		plan := Resolve(cat, f, Presets()["debian12"], Situation{Dir: f.Dir, Past: past})
		if plan.Options[0].ID != c.first {
			t.Errorf("%s: the first is %s, want %s", name, plan.Options[0].ID, c.first)
		}
		b := plan.Options[slices.IndexFunc(plan.Options, func(o Option) bool { return o.ID == "b" })]
		if math.Abs(b.Confidence-c.confidence) > .001 || math.Abs(b.granted()-c.granted) > .001 || b.Experience != c.experience {
			t.Errorf("%s: %v, granted %v, %q", name, b.Confidence, b.granted(), b.Experience)
		}
	}
}

// What has helped is shown with a higher confidence, and is granted nothing for it. What has failed too often goes to an
// operator.
//
// Conforms: 002-future-5
func TestThePastGrantsNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		base float64
		past learn.Past
		free bool
	}{
		"low, helped for ever":     {.4, learn.Past{Helped: 1000}, false},
		"medium, nothing is known": {.5, learn.Past{}, true},
		"medium, failed often":     {.5, learn.Past{Failed: 10}, false},
	} {
		list := []Option{{Executor: catalog.ByWrapper, Availability: Ready, Risk: catalog.RiskLow, Confidence: c.base, Command: "npm ci", Steps: []Step{{Argv: []string{"npm", "ci"}, Dir: "/r"}}}}
		adapt(list, func(string) learn.Past { return c.past })
		if free, why := ByItself(list[0], classify.Failure{Dir: "/r"}); free != c.free {
			t.Errorf("%s: %v %s (%v, was %v)", name, free, why, list[0].Confidence, list[0].base)
		}
	}
}

// Conforms: 002-plan-5
func TestQuotedWordsAreTheSameForBash(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		argv := append([]string{"x"}, rapid.SliceOfN(rapid.StringMatching(`[a-z $'"\\*;&|()<>~#=-]{0,6}`), 0, 4).Draw(t, "words")...)
		text := commandText([]Step{{Argv: argv}})
		a := recovery.Analyse(text)
		if len(a.Parts) != 1 || !slices.Equal(a.Parts[0].Words, argv) {
			t.Fatalf("%q is read back from %s as %+v", argv, text, a.Parts)
		}
	})
}

// Conforms: 000-5.2-now
func TestDetectThisMachine(t *testing.T) {
	t.Parallel()
	p := Detect(context.Background(), t.TempDir())
	if p.OS == "" || p.Arch == "" || !p.Has("sh") || p.Has("no-such-program-anywhere") {
		t.Errorf("%+v", p)
	}
	if p.OS == "linux" && p.Libc == "glibc" && !strings.HasPrefix(p.LibcVersion, "2.") {
		t.Errorf("the version of glibc is %q", p.LibcVersion)
	}
	t.Logf("%s %s %s, %s %s, managers %v, sudo %s, root %t, container %t, network %s", p.OS, p.Distro, p.Version, p.Libc, p.LibcVersion, p.Managers, p.Sudo, p.Root, p.Container, p.Network)
	plan := Resolve(embedded(t), classify.Failure{Category: "unknown"}, p, Situation{})
	for _, bad := range check(&plan, p, embedded(t)) {
		t.Error(bad)
	}
}

func TestOSRelease(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][3]string{
		"ID=debian\nVERSION_ID=\"12\"\n":                         {"debian", "12", FamilyDebian},
		"ID=linuxmint\nID_LIKE=\"ubuntu debian\"\nVERSION_ID=22": {"linuxmint", "22", FamilyDebian},
		"ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n":         {"rocky", "", FamilyRHEL},
		"ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\n":      {"opensuse-leap", "", FamilySUSE},
		"ID=alpine\n":               {"alpine", "", FamilyAlpine},
		"ID=garuda\nID_LIKE=arch\n": {"garuda", "", FamilyArch},
		"ID=nixos\n":                {"nixos", "", FamilyUnknown},
		"":                          {"", "", FamilyUnknown},
	} {
		d, v, f := osRelease(text)
		if got := [3]string{d, v, f}; got != want {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
	}
	names := []string{"dev", "%wheel"}
	for text, want := range map[string]bool{"dev ALL=(ALL) NOPASSWD: ALL\n": true, "%wheel ALL=(ALL:ALL) NOPASSWD:ALL": true, "dev ALL=(ALL) ALL": false, "# dev NOPASSWD: ALL": false, "other ALL=NOPASSWD: ALL": false, "dev ALL=NOPASSWD: /bin/ls": false} {
		if nopasswd(text, names) != want {
			t.Errorf("%q: %t", text, !want)
		}
	}
}
