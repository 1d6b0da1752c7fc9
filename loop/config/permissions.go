package config

import (
	"fmt"
	"strings"

	"github.com/superloop/superloop/recovery/permit"
	"github.com/superloop/superloop/roles/agent"
	"github.com/superloop/superloop/schemas"
)

// permissions decodes and checks the section about what agents ask for while they work.
func (b *builder) permissions() permit.Settings {
	s := permit.Defaults()
	b.into(b.file.Permissions, &s)
	const at = "/permissions"
	if _, problems := permit.Compile(s, nil); len(b.schema) == 0 {
		for _, p := range problems {
			b.wrong(at+p.Pointer, p)
		}
	}
	if b.present(at) && !s.On() && !b.present(at+"/mode") {
		b.warn(at, CodeNoEffect, `the mode is off, so nothing of this section has an effect; set mode to "observe" or "enforce"`)
	}
	return s
}

// Permits returns the policy for what agents of a loop ask for. For a Config from Load there is no error, because Load has
// compiled the section, and every policy of recovery.
func (c *Config) Permits(id string) (*permit.Policy, error) {
	of, problems := c.Policy(id)
	if len(problems) > 0 {
		return nil, &Error{Path: c.Path, Problems: problems}
	}
	p, problems := permit.Compile(c.Permissions, of)
	if len(problems) > 0 {
		return nil, &Error{Path: c.Path, Problems: problems}
	}
	return p, nil
}

// Asked returns the mode in which agents of a runner are asked about their tools: permit.Observe, permit.Enforce, or "" if
// they are not. An agent that cannot be asked is not observed. It is never returned as one that is not to be asked if
// the mode is enforce: then its start fails.
func (c *Config) Asked(runner string) string {
	switch {
	case c.Permissions.Mode == permit.Enforce:
		return permit.Enforce
	case c.Permissions.Mode == permit.Observe && c.canBeAsked(runner):
		return permit.Observe
	}
	return ""
}

func (c *Config) canBeAsked(runner string) bool {
	r := c.Runners[runner]
	_, ok := agent.For(agent.CLI{Command: r.Command, Adapter: r.Adapter}).(agent.Asker)
	return ok
}

// asked checks that a runner can be asked about its tools if permissions wants that.
func (k *checker) asked(runner string) {
	if k.c.Permissions.Mode != permit.Enforce || k.c.canBeAsked(runner) {
		return
	}
	k.wrong("/permissions/mode", Problem{Code: schemas.CodeCombination, Found: quoted(runner), Allowed: "runners that can be asked",
		Message: fmt.Sprintf(`the mode is enforce, and superloop cannot be asked by the runner %s before it uses a tool: only runners with the adapter %s can; set mode to "off" or "observe", or give the roles another runner`,
			quoted(runner), strings.Join(agent.Askers(), ", "))})
}
