package loop

import (
	"testing"

	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/chain"
)

func TestInstalls(t *testing.T) {
	t.Parallel()
	pip := chain.Choice{Key: "a", Draft: action.Draft{Command: "apt-get install -y python3-pip"}, Strategy: "install_dep", Dep: "pip"}
	jq := chain.Choice{Key: "b", Draft: action.Draft{Command: "pip install jq"}, Dep: "jq"}
	other := chain.Choice{Key: "c", Draft: action.Draft{Command: "rm -f lock"}}
	stack := func(levels ...chain.Level) *chain.Chain { return &chain.Chain{Levels: levels} }
	level := func(chosen string) chain.Level {
		return chain.Level{Chosen: chosen, Options: []chain.Choice{pip, jq, other}}
	}
	for name, c := range map[string]struct {
		command   string
		chain     *chain.Chain
		diagnosis []chain.Choice
		want      string
	}{
		"the chain's option":                  {jq.Command, stack(level("b")), nil, "jq"},
		"what the option above needs":         {pip.Command, stack(level("b"), level("a")), nil, "pip"},
		"the option above, once more":         {jq.Command, stack(level("b"), level("c")), nil, "jq"},
		"one that installs nothing":           {other.Command, stack(level("c")), nil, ""},
		"another option of the level":         {pip.Command, stack(level("b")), nil, ""},
		"none is chosen":                      {pip.Command, stack(level("")), []chain.Choice{pip}, ""},
		"a chain counts, not the diagnosis":   {pip.Command, stack(level("c")), []chain.Choice{pip}, ""},
		"proposed word by word":               {pip.Command, nil, []chain.Choice{other, pip}, "pip"},
		"proposed with other words":           {pip.Command + " --yes", nil, []chain.Choice{pip}, ""},
		"proposed, and nothing was diagnosed": {pip.Command, nil, nil, ""},
		"no command":                          {"", nil, []chain.Choice{{Dep: "x"}}, ""},
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
