package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/config"
)

// Off is a part of superloop that a configuration leaves off, and that an operator would miss at night.
type Off struct {
	What  string   // the part: "recovery"
	Loops []string // the loops that lack it; empty if the part is not of a loop
	Means string   // what follows from it
	Key   string   // the key, or the flag, that turns it on
}

// String returns one line: the part, the loops, what follows, and the key.
func (o Off) String() string {
	of := ""
	if len(o.Loops) > 0 {
		of = " of " + strings.Join(o.Loops, ", ")
	}
	return fmt.Sprintf("%s%s: %s (%s turns it on)", o.What, of, o.Means, o.Key)
}

// switches are the parts that a loop can lack. A part is one entry here: what run and doctor say comes from it.
var switches = []struct {
	what, means, key string
	on               func(*config.Config, config.Loop) bool
}{
	{"recovery", "nothing is ever executed, failures are diagnosed only", "recovery.auto_approve", recovers},
	{"gates", "no test, validation, prerequisite, evidence or approval stands before completion", "loops[].tests.commands", gated},
	{"limits", "nothing bounds its iterations, its time or its money", "loops[].max_iterations", bounded},
}

func recovers(c *config.Config, l config.Loop) bool {
	policy, _ := c.Policy(l.ID) // the loader has refused an invalid policy
	return policy != nil && policy.Settings.Enabled
}

// gated reports whether superloop itself executes something before it lets a loop complete.
func gated(_ *config.Config, l config.Loop) bool {
	return l.Tests.Mode != config.TestsDisabled && len(l.Tests.Commands) > 0 ||
		l.Validation.Enabled && l.Validation.RequireOnCompletion && (len(l.Validation.Commands) > 0 || l.Validation.Preflight != nil) ||
		l.Prerequisites.Enabled && l.Prerequisites.RequireOnCompletion && len(l.Prerequisites.Checks) > 0 ||
		l.Evidence.Enabled && l.Evidence.RequireOnCompletion || l.Approval.Enabled && l.Approval.RequireOnCompletion
}

func bounded(_ *config.Config, l config.Loop) bool {
	return l.MaxIterations > 0 || l.MaxWallTime > 0 || l.MaxCostUSD > 0 || l.MaxTokens > 0
}

// SwitchedOff returns what the configuration leaves off for these loops. unprotected says that the operator has chosen
// level L0 for the agents.
func SwitchedOff(c *config.Config, loops []config.Loop, unprotected bool) []Off {
	var off []Off
	for _, s := range switches {
		var lack []string
		for _, l := range loops {
			if !s.on(c, l) {
				lack = append(lack, l.ID)
			}
		}
		if len(lack) > 0 {
			off = append(off, Off{What: s.what, Loops: lack, Means: s.means, Key: s.key})
		}
	}
	if unprotected {
		off = append(off, Off{What: "enforcement (L0)", Means: "nothing keeps an agent from your files, your processes and this configuration", Key: "superloop run without --unprotected"})
	}
	if len(c.Channels()) == 0 {
		off = append(off, Off{What: "channels", Means: "nobody is told when a loop needs an operator", Key: "webhooks.on_escalation"})
	}
	return off
}

// switchedOff is the check of what the configuration leaves off. The check "enforcement" has the level of the agents.
func (p Target) switchedOff(context.Context) Result {
	off := SwitchedOff(p.Config, p.Config.Loops, false)
	if len(off) == 0 {
		return ok("recovery, gates, limits and a channel are on")
	}
	lines := make([]string, len(off))
	for i, o := range off {
		lines[i] = o.String()
	}
	return warn("set these keys in "+text.Paste(p.ConfigPath)+"; superloop init --dry-run --force shows what fits this repository",
		"%s off: %s", render.Number(len(off), "part"), strings.Join(lines, "; "))
}
