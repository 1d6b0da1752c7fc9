package failures

import (
	"strings"
	"time"

	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/effects"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/recovery/preflight"
	"github.com/superloop/superloop/roles/agent/cooldown"
)

// ConfiguredChecks are the checks that the configuration asks for, as they stand there, in their order and each once.
// Whether checks are made at all, is not asked here (Respond.Preflight.Enabled); neither whether each can be looked at
// (Prevention.Valid): what is not known as a kind is found unknown, not left out.
func ConfiguredChecks(r config.Respond) []failures.Prevention {
	var out []failures.Prevention
	seen := map[string]bool{}
	for _, c := range r.Preflight.Checks {
		p := failures.NewCheck(failures.CheckKind(c.Kind),
			failures.CheckSpec{Path: c.Path, Want: c.Want, Manager: c.Manager, FreeMB: c.FreeMB, Port: c.Port, Name: c.Name, Address: c.Address},
			"the configuration asks for it", failures.AddedByConfig)
		if !seen[p.ID] {
			seen[p.ID] = true
			out = append(out, p)
		}
	}
	return out
}

// LookOf is what loops know, besides the environment, when they look at it: where programs are found, which providers
// are limited, which runners have no login. A limit that cannot be read counts as none: the runner will tell.
func LookOf(cfg *config.Config, loops []config.Loop, health failures.Health, cooldowns *cooldown.Store, environ []string, now time.Time) preflight.Look {
	look := preflight.Look{Path: variable(environ, "PATH"), Limits: map[string]time.Time{}, NoLogin: map[string]string{}, Now: now}
	for _, l := range loops {
		for _, role := range l.Roles {
			for _, c := range role.Runners {
				who, account := effects.AgentOf(cfg, c, environ)
				if known, limited, err := cooldowns.Get(account); err == nil && limited {
					look.Limits[who.Provider] = known.Until
				}
				if b := health.Of(who); b.Circuit == failures.OpenCut && b.Until.IsZero() && b.Kind == failures.KindAuth {
					look.NoLogin[c.Runner] = b.Why
				}
			}
		}
	}
	return look
}

// variable is the value of a variable in an environment.
func variable(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if k, v, ok := strings.Cut(env[i], "="); ok && k == name {
			return v
		}
	}
	return ""
}
