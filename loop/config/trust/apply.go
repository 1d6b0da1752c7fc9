package trust

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/superloop/superloop/loop/config"
)

// Apply returns the configuration that is in force with the Section s: a copy of c in which every pinned value comes
// from s. It leaves out the loops that s does not have. The Section of the result is s. The places of problems stay
// those of the file of c. Where a loop overrides recovery, the result holds the loop's whole policy, which does not
// depend on the top-level section.
//
// Apply fails when s does not fit c, which means that s is not the result of Effective with the Section of c.
func Apply(c *config.Config, s Section) (*config.Config, error) {
	out := *c
	out.Runners = make(map[string]config.Runner, len(s.Runners))
	for name, r := range s.Runners {
		r = copied(r)
		r.Name = name
		out.Runners[name] = r
	}
	out.Loops = nil
	for _, l := range c.Loops {
		in, ok := s.Loops[l.ID]
		if !ok {
			continue
		}
		roles, err := s.roles(l, in)
		if err != nil {
			return nil, err
		}
		l.Roles = roles
		if l.Respond.Diagnostician, err = s.diagnostician(l, in); err != nil {
			return nil, err
		}
		l.Tests.Mode, l.Tests.Commands, l.Tests.Outputs = in.Tests.Mode, list(in.Tests.Commands), in.Tests.Outputs
		v := in.Validation
		v.Timeout, v.Preflight, v.Commands = l.Validation.Timeout, l.Validation.Preflight, list(v.Commands)
		l.Validation = v
		l.Approval, l.Completion = in.Approval, in.Completion
		l.Completion.RequireReports = list(in.Completion.RequireReports)
		l.Git.PreCommitCommands = list(in.PreCommit)
		l.Gates = in.Gates
		l.Recovery = nil
		if in.Recovery != nil {
			l.Recovery = in.Recovery.over(s.Recovery)
		}
		out.Loops = append(out.Loops, l)
	}
	if len(out.Loops) != len(s.Loops) {
		return nil, fmt.Errorf("the trusted section has %d loops, of which %s has %d", len(s.Loops), c.Path, len(out.Loops))
	}
	if out.Recovery = nil; len(s.Recovery) > 0 {
		out.Recovery = s.Recovery.over(Policy{})
	}
	if out.Webhooks = nil; len(s.Webhooks) > 0 {
		out.Webhooks = canonical(s.Webhooks)
	}
	out.Escalation = s.Escalation.over(c.Escalation)
	out.Permissions = s.Permissions.over(c.Permissions)
	out.Protect = config.Protect{Paths: slices.Clone(s.Protect.Paths), Allow: slices.Clone(s.Protect.Allow)}
	return &out, nil
}

// roles returns the pinned roles, those of in. Their values that are not pinned come from the file, or from the pin if
// the file no longer has the role.
func (s Section) roles(l config.Loop, in Loop) ([]config.Role, error) {
	var out []config.Role
	for _, r := range in.Roles {
		for _, runner := range r.runners() {
			if _, ok := s.Runners[runner]; !ok {
				return nil, fmt.Errorf("the trusted section has no runner %q for the %s of loop %s", runner, r.Name, l.ID)
			}
		}
		role := config.Role{Name: r.Name}
		if i := slices.IndexFunc(l.Roles, func(o config.Role) bool { return o.Name == r.Name }); i >= 0 {
			role = l.Roles[i]
		} else if rest := r.Rest; rest != nil {
			role.Model, role.Thinking, role.Timeout, role.Inactivity, role.Resume = rest.Model, rest.Thinking, rest.Timeout, rest.Inactivity, rest.Resume
			role.Runners = rest.Choices
		}
		role.Runners = s.choices(r, role)
		first := role.Runners[0]
		role.Runner, role.Model, role.Permissions = first.Runner, first.Model, first.Permissions
		out = append(out, role)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("the trusted section has no role for loop %s", l.ID)
	}
	return out, nil
}

// choices returns the runners of a role that the Section allows. The pinned first runner comes first; the others are in
// the order of the file.
func (s Section) choices(r Role, role config.Role) []config.Choice {
	allowed := r.runners()
	out := slices.DeleteFunc(slices.Clone(role.Runners), func(c config.Choice) bool { return !slices.Contains(allowed, c.Runner) })
	for _, runner := range allowed {
		if !slices.ContainsFunc(out, func(c config.Choice) bool { return c.Runner == runner }) {
			out = append(out, config.Choice{Runner: runner})
			if runner == r.Runner {
				out[len(out)-1].Model = role.Model // the model is not pinned, so it comes from the file
			}
		}
	}
	first := slices.IndexFunc(out, func(c config.Choice) bool { return c.Runner == r.Runner })
	out = slices.Concat(out[first:first+1], out[:first], out[first+1:])
	for i, c := range out {
		out[i].Permissions = s.Rights(r, c.Runner)
	}
	return out
}

// diagnostician returns the pinned diagnostician. Its values that are not pinned come from the file.
func (s Section) diagnostician(l config.Loop, in Loop) (*config.Diagnostician, error) {
	if in.Diagnostician == "" {
		return nil, nil
	}
	if _, ok := s.Runners[in.Diagnostician]; !ok {
		return nil, fmt.Errorf("the trusted section has no runner %q for the diagnostician of loop %s", in.Diagnostician, l.ID)
	}
	out := config.Diagnostician{Timeout: l.Respond.AnalysisTime}
	if d := l.Respond.Diagnostician; d != nil {
		out = *d
		if d.Runner != in.Diagnostician {
			out.Model = "" // the file's model belongs to another runner
		}
	}
	out.Runner = in.Diagnostician
	return &out, nil
}

// over writes the policy as a section that is laid over the policy under. It also writes default values of keys that
// under sets, so that the values of under do not apply.
func (p Policy) over(under Policy) json.RawMessage {
	flat, below := p.flat(), under.flat()
	for _, k := range keys() {
		_, sets := below[k.name]
		if _, ok := flat[k.name]; !ok && (sets || k.name == keyEnabled) {
			flat[k.name] = k.def
		}
	}
	entries := map[string]any{}
	own, others := entriesOf(flat), entriesOf(below)
	for _, name := range sortedKeys(own, others) {
		e := maps.Clone(own[name])
		if _, overridden := others[name]; overridden {
			e = map[string]any{keyNetwork: networkOf(flat, e)}
			maps.Copy(e, own[name])
		}
		entries[name] = e
	}
	if len(entries) > 0 {
		flat[keyEntries] = entries
	}
	return canonical(nest(flat))
}
