package remedy

import (
	"testing"

	"github.com/superloop/superloop/recovery/catalog"
)

func TestDepOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		strategy catalog.Strategy
		goal     string
		want     string
	}{
		{catalog.InstallDep, "tool/jq", "jq"},
		{catalog.UpgradeDep, "tool/node", "node"},
		{catalog.InstallDepThenSwitch, "tool/ruff", "ruff"},
		{catalog.SwitchMethod, "tool/ruff", "ruff"},
		{catalog.InstallDep, "cmd/0123", ""},
		{catalog.Manual, "tool/jq", ""},
		{catalog.Retry, "tool/jq", ""},
		{catalog.EnvFix, "tool/jq", ""},
	} {
		if got := depOf(Option{Strategy: c.strategy, GoalKey: c.goal}); got != c.want {
			t.Errorf("%s of %s: %q, want %q", c.strategy, c.goal, got, c.want)
		}
	}
}

// What a locked option lacks says which recipe its command brings.
func TestNeedsNameTheirRecipe(t *testing.T) {
	t.Parallel()
	all := needs(Option{UnlockPreview: []Preview{{Dep: "pip", GoalKey: "tool/pip", Command: "apt-get install -y python3-pip"}}}, true)
	if len(all) != 1 || all[0].Options[0].Dep != "pip" {
		t.Errorf("%+v", all)
	}
}
