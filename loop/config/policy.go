package config

import (
	"fmt"

	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/schemas"
)

// Policy is the recovery policy of a loop: its own section laid over the config's
// own; of an id that no loop has, the config's own. It is nil when there is
// neither, which is not the same as an empty section: then proposals are not
// looked at. Load has made it once, so it does not fail for a Config of Load's.
func (c *Config) Policy(id string) (*recovery.Policy, []Problem) {
	sections := []recovery.Section{{Raw: c.Recovery, Pointer: "/recovery"}}
	present := c.Recovery != nil
	for i, l := range c.Loops {
		if l.ID == id && l.Recovery != nil {
			sections, present = append(sections, recovery.Section{Raw: l.Recovery, Pointer: fmt.Sprintf("/loops/%d/recovery", i)}), true
		}
	}
	if !present {
		return nil, nil
	}
	return recovery.ReadPolicy(sections...)
}

// policies makes every policy of c and runs its tests, so that a configuration
// whose policy cannot be used, or does not do what its tests say, is refused.
// What lint finds in it are warnings.
func (b *builder) policies(c *Config, tested bool) {
	said := map[string]bool{}
	one := func(id string) {
		p, problems := c.Policy(id)
		if tested && p != nil && len(problems) == 0 {
			problems = p.CheckTests()
		}
		for _, bad := range problems {
			if !said[bad.Pointer+bad.Code] {
				said[bad.Pointer+bad.Code] = true
				b.wrong(bad.Pointer, bad)
			}
		}
		if p == nil || len(problems) > 0 || !p.Settings.Enabled {
			return
		}
		for _, f := range p.Lint() {
			if f.Severity == recovery.SevNote || said[f.Pointer+f.Code] {
				continue
			}
			said[f.Pointer+f.Code] = true
			b.warnings = append(b.warnings, b.at(f.Pointer, schemas.Problem{Code: f.Code, Message: f.Message}))
		}
	}
	one("")
	for _, l := range c.Loops {
		if l.Recovery != nil {
			one(l.ID)
		}
	}
}
