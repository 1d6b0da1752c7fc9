package remedy

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/classify"
)

// Every example of every handler, classified for real, on every system: a plan
// that holds together, in which something can be done or the reasons are told.
// Conforms: 000-3.1-plural, 000-3.1-lock, 000-5.1-dedupe, 000-6-options, 000-12-matrix, 002-tree-plan, 002-1-p3
// Conforms: 002-3-p3, 002-5-p3, 002-8-p4, 002-10-p3, 002-rule-1
func TestEveryExampleOnEverySystem(t *testing.T) {
	t.Parallel()
	cat, presets := embedded(t), Presets()
	c, err := classify.New(cat, classify.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dirs := map[string]string{
		"node": npmRepo(t), "rust": repo(t, map[string]string{"Cargo.toml": "", "Cargo.lock": ""}), "go": repo(t, map[string]string{"go.mod": "module x", "go.sum": ""}),
		"python": repo(t, map[string]string{"requirements.txt": "x"}), "cc": repo(t, map[string]string{"CMakeLists.txt": ""}), "": repo(t, nil),
	}
	names := slices.Sorted(maps.Keys(presets))
	plans, gates, options := 0, map[string]int{}, 0
	strategies := map[catalog.Strategy]int{}
	suggested, everywhere := suggestedPolicy(t), testkit.Sample(0, 1, 1) == 1 && !underRace
	for i := range cat.Handlers {
		h := &cat.Handlers[i]
		for n, e := range h.Examples {
			in := classify.ExampleInput(h, e)
			if in.Exit.OK() {
				continue
			}
			in.Dir = dirs[ecosystemOf(h.Family)]
			if in.Dir == "" {
				in.Dir = dirs[""]
			}
			f, err := c.Classify(context.Background(), in)
			if err != nil {
				t.Fatalf("%s: %v", h.ID, err)
			}
			for k, name := range names {
				if (n > 0 || !everywhere) && k != (i+n)%len(names) { // the first everywhere, the others in one place
					continue
				}
				p := presets[name]
				plan := Resolve(cat, f, p, Situation{Dir: in.Dir})
				plans++
				for _, bad := range check(&plan, p, cat) {
					t.Errorf("%s on %s: %s", h.ID, name, bad)
				}
				gate, chosen := Gate(&plan, suggested)
				gates[gate]++
				if (gate == GateAuto || gate == GateRetry) && (f.Code || chosen == nil) {
					t.Errorf("%s on %s: the gate is %s", h.ID, name, gate)
				}
				if f.Code != (gate == GateNone) && f.Code {
					t.Errorf("%s on %s: the gate of a failure of the code is %s", h.ID, name, gate)
				}
				for j := range plan.Options {
					options++
					strategies[plan.Options[j].Strategy]++
				}
			}
		}
	}
	t.Logf("%d handlers, %d plans, %d options, gates %v, strategies %v", len(cat.Handlers), plans, options, gates, strategies)
	for _, s := range []catalog.Strategy{
		catalog.InstallDep, catalog.InstallDepThenSwitch, catalog.InstallPackages, catalog.SwitchMethod, catalog.RetryWithModifier,
		catalog.AddRepo, catalog.UpgradeDep, catalog.EnvFix, catalog.Manual, catalog.CleanupRetry, catalog.Retry,
	} {
		if strategies[s] == 0 {
			t.Errorf("no plan has the strategy %s", s)
		}
	}
}

// suggestedPolicy lists what recovery-engine.md suggests.
func suggestedPolicy(t testing.TB) *recovery.Policy {
	t.Helper()
	s := recovery.Defaults()
	s.AutoApprove = suggestedList()
	p, problems := recovery.Compile(s)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return p
}

func suggestedList() []string {
	list := []string{
		"npm ci", "npm cache verify", "go mod download", "go mod vendor", "go clean -cache", "cargo fetch", "cmake -B build", "git worktree prune",
	}
	for _, pm := range []string{"bun", "npm", "yarn", "pnpm"} {
		list = append(list, pm+" install", "rm -rf node_modules && "+pm+" install", "rm -rf .next && "+pm+" run build", "rm -rf dist && "+pm+" run build")
	}
	return list
}
