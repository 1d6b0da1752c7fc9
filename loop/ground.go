package loop

import (
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/recovery/respond"
)

// ConfiguredChecks are the checks that the configuration asks for, as they stand
// there, in their order and each once. Whether checks are made at all, is not asked
// here (Respond.Preflight.Enabled); neither whether each can be looked at
// (Prevention.Valid): what is not known as a kind is found unknown, not left out.
func ConfiguredChecks(r config.Respond) []respond.Prevention {
	var out []respond.Prevention
	seen := map[string]bool{}
	for _, c := range r.Preflight.Checks {
		p := respond.NewCheck(respond.CheckKind(c.Kind),
			respond.CheckSpec{Path: c.Path, Want: c.Want, Manager: c.Manager, FreeMB: c.FreeMB, Port: c.Port, Name: c.Name, Address: c.Address},
			"the configuration asks for it", respond.AddedByConfig)
		if !seen[p.ID] {
			seen[p.ID] = true
			out = append(out, p)
		}
	}
	return out
}
