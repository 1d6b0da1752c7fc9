package remedy

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/classify"
)

// Every recipe on every system: steps that can run there, or a reason.
// Conforms: 000-1-subplan, 000-5.2-now, 000-12-matrix
func TestEveryRecipeOnEverySystem(t *testing.T) {
	t.Parallel()
	cat, presets := embedded(t), Presets()
	if len(presets) < 14 {
		t.Fatalf("%d presets, want 14 at least", len(presets))
	}
	if len(cat.Recipes) < 60 {
		t.Fatalf("%d recipes, want 60 at least", len(cat.Recipes))
	}
	possible := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(presets)) {
		p := presets[name]
		for i := range cat.Recipes {
			r := &cat.Recipes[i]
			o := Install(cat, r.ID, p, Situation{Dir: "/repo"})
			for _, bad := range checkOption(&o, p, cat) {
				t.Errorf("%s: %s", name, bad)
			}
			if o.GoalKey != "tool/"+r.ID || o.Key != "install/install/tool/"+r.ID {
				t.Errorf("%s: %s has goal %s and key %s", name, r.ID, o.GoalKey, o.Key)
			}
			if o.Availability != Impossible {
				possible[name]++
				if len(o.Own()) == 0 {
					t.Errorf("%s: %s has no steps of its own", name, r.ID)
				}
			}
		}
		t.Logf("%-14s %3d of %d recipes", name, possible[name], len(cat.Recipes))
	}
	for name, least := range map[string]int{"debian12": 120, "ubuntu2404": 120, "debian_slim": 120, "fedora": 100, "alpine": 110, "arch": 110, "macos_brew": 110, "restricted": 20} {
		if possible[name] < least {
			t.Errorf("%s: only %d recipes are possible, want %d at least", name, possible[name], least)
		}
	}
	for _, name := range []string{"offline", "distroless"} {
		if possible[name] > 0 {
			t.Errorf("%s: %d recipes are possible; nothing can be installed there", name, possible[name])
		}
	}
}

// What no system can install is a mistake of the data.
func TestEveryRecipeIsPossibleSomewhere(t *testing.T) {
	t.Parallel()
	cat, presets := embedded(t), Presets()
	for i := range cat.Recipes {
		id := cat.Recipes[i].ID
		var reasons []string
		ok := false
		for name, p := range presets {
			o := Install(cat, id, p, Situation{})
			ok = ok || o.Availability != Impossible
			reasons = append(reasons, name+": "+o.ImpossibleReason)
		}
		if !ok {
			t.Errorf("%s is impossible everywhere:\n%s", id, strings.Join(reasons, "\n"))
		}
	}
}

// Install is the option to install one recipe, by itself: what a locked option needs first. Its own steps are Own, what
// it needs in turn is in UnlockDeps. An unknown recipe gives an impossible option.
func Install(cat *catalog.Catalog, recipe string, p Profile, s Situation) Option {
	r := &resolver{cat: cat, p: p, s: s, root: s.Dir, dir: s.Dir, f: &classify.Failure{}, plan: &Plan{}, projects: map[string]found{}}
	o := Option{
		ID: "install", Label: "Install " + recipe, Strategy: catalog.InstallDep, Executor: catalog.ByWrapper, Risk: catalog.RiskMedium,
		Confidence: .9, From: From{Kind: FromEngine, ID: "install"}, Availability: Ready, WorkingDir: ".",
	}
	res := result{goal: toolGoal(recipe), timeout: installTime}
	if rec, ok := cat.Recipe(recipe); ok {
		o.Label, o.Risk = "Install "+cmp.Or(rec.Label, rec.ID), cmp.Or(rec.Risk, catalog.RiskMedium)
		o.Expect = rec.CLI + " is there"
		res.work = r.builder().tool(rec, nil)
		if p.Has(rec.CLI) {
			res.demoted = installed
		}
	} else {
		res.reason = "there is no recipe for " + recipe
	}
	r.fillIn(&o, res)
	return o
}
