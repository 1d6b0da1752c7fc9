package loop

import (
	"testing"

	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/plan"
)

func TestInstalls(t *testing.T) {
	t.Parallel()
	pip := plan.Choice{Key: "a", Draft: action.Draft{Command: "apt-get install -y python3-pip"}, Strategy: "install_dep", Dep: "pip"}
	jq := plan.Choice{Key: "b", Draft: action.Draft{Command: "pip install jq"}, Dep: "jq"}
	other := plan.Choice{Key: "c", Draft: action.Draft{Command: "rm -f lock"}}
	stack := func(levels ...plan.Level) *plan.Chain { return &plan.Chain{Levels: levels} }
	level := func(chosen string) plan.Level {
		return plan.Level{Chosen: chosen, Options: []plan.Choice{pip, jq, other}}
	}
	for name, c := range map[string]struct {
		command   string
		chain     *plan.Chain
		diagnosis []plan.Choice
		want      string
	}{
		"the chain's option":                  {jq.Command, stack(level("b")), nil, "jq"},
		"what the option above needs":         {pip.Command, stack(level("b"), level("a")), nil, "pip"},
		"the option above, once more":         {jq.Command, stack(level("b"), level("c")), nil, "jq"},
		"one that installs nothing":           {other.Command, stack(level("c")), nil, ""},
		"another option of the level":         {pip.Command, stack(level("b")), nil, ""},
		"none is chosen":                      {pip.Command, stack(level("")), []plan.Choice{pip}, ""},
		"a chain counts, not the diagnosis":   {pip.Command, stack(level("c")), []plan.Choice{pip}, ""},
		"proposed word by word":               {pip.Command, nil, []plan.Choice{other, pip}, "pip"},
		"proposed with other words":           {pip.Command + " --yes", nil, []plan.Choice{pip}, ""},
		"proposed, and nothing was diagnosed": {pip.Command, nil, nil, ""},
		"no command":                          {"", nil, []plan.Choice{{Dep: "x"}}, ""},
	} {
		r := &RecoveryState{Attempt: action.Action{Command: c.command}, Plan: c.chain}
		var d *Diagnosis
		if c.diagnosis != nil {
			d = &Diagnosis{Options: c.diagnosis}
		}
		if got := r.installs(d); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
