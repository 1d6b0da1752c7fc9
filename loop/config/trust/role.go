package trust

import (
	"cmp"
	"slices"

	"github.com/superloop/superloop/loop/config"
)

// roleOf returns the pinned part of a role.
func roleOf(c *config.Config, r config.Role) Role {
	out := Role{Name: r.Name, Runner: r.Runner,
		Rest: &RoleRest{Model: r.Model, Thinking: r.Thinking, Timeout: r.Timeout, Inactivity: r.Inactivity, Resume: r.Resume}}
	out.Permissions = unless(r.Permissions, c.Runners[r.Runner].Permissions)
	if len(r.Runners) < 2 {
		return out
	}
	others := map[string]string{}
	for _, choice := range r.Runners {
		out.Rest.Choices = append(out.Rest.Choices, config.Choice{Runner: choice.Runner, Model: choice.Model, Tier: choice.Tier})
		if choice.Runner != r.Runner {
			others[choice.Runner] = unless(choice.Permissions, c.Runners[choice.Runner].Permissions)
		}
	}
	if len(others) > 0 {
		out.Others = others
	}
	return out
}

// unless returns s, or "" if s equals usual.
func unless(s, usual string) string {
	if s == usual {
		return ""
	}
	return s
}

// runners returns all runners that may do the role: the first one, then the others sorted by name.
func (r Role) runners() []string {
	return append([]string{r.Runner}, less(sortedKeys(r.Others, r.Others), r.Runner)...)
}

// own returns the permissions that the role gives one of its runners. "" means that the role leaves the runner its own.
func (r Role) own(runner string) string {
	if runner == r.Runner {
		return r.Permissions
	}
	return r.Others[runner]
}

// Rights returns the permissions that a runner has in a role of the Section.
func (s Section) Rights(r Role, runner string) string {
	return cmp.Or(r.own(runner), s.Runners[runner].Permissions)
}

// roles compares the runners of the roles. The list of roles and their order are pinned, because a reviewer checks the
// other roles.
func (j *joiner) roles(at string, p, n []Role) []Role {
	if a, b := names(p), names(n); !slices.Equal(a, b) {
		j.looser(at, anys(a), anys(b), otherRoles)
	}
	in := slices.Clone(p)
	for i, r := range in {
		k := slices.IndexFunc(n, func(o Role) bool { return o.Name == r.Name })
		if k < 0 {
			in[i].Permissions, in[i].Others = j.inForce(r.Runner, r.Permissions), map[string]string{}
			for name, rights := range r.Others {
				in[i].Others[name] = j.inForce(name, rights)
			}
			continue
		}
		in[i].Rest = n[k].Rest
		j.value(at+config.Pointer(r.Name)+"/runner", nil, r.Runner, n[k].Runner, "", otherRunner)
		in[i].Permissions = j.roleRights(at+config.Pointer(r.Name)+"/permissions", r, n[k], r.Runner)
		in[i].Others = j.others(at+config.Pointer(r.Name)+"/runners", r, n[k])
	}
	for _, r := range n {
		if !slices.Contains(names(p), r.Name) {
			r.Permissions, r.Rest = j.n.Rights(r, r.Runner), nil
			j.looser(at+config.Pointer(r.Name), nil, shown(r), otherRoles)
		}
	}
	return in
}

func names(roles []Role) []string {
	var out []string
	for _, r := range roles {
		out = append(out, r.Name)
	}
	return out
}

// others compares the further runners of a role. It ignores a changed first runner, because roles has already recorded
// that change.
func (j *joiner) others(path string, p, n Role) map[string]string {
	had, has := less(p.runners(), p.Runner), less(n.runners(), p.Runner)
	if !slices.Contains(had, n.Runner) {
		has = less(has, n.Runner)
	}
	both, _ := stringsOf(j.value(path, sets(fewer), anys(distinct(had)), anys(distinct(has)), lessRunners, moreRunners))
	in := map[string]string{}
	for _, runner := range both {
		in[runner] = j.roleRights(path+config.Pointer(runner)+"/permissions", p, n, runner)
	}
	return in
}

// roleRights compares the permissions that the role gives a runner. If the role leaves the runner its own, the
// comparison of the runners covers them.
func (j *joiner) roleRights(path string, p, n Role, runner string) string {
	now := n.Runner
	if slices.Contains(n.runners(), runner) {
		now = runner
	}
	if now == runner && p.own(runner) == "" && n.own(runner) == "" {
		return ""
	}
	in, _ := j.value(path, rights, j.p.Rights(p, runner), j.n.Rights(n, now), lessRights, moreRights).(string)
	return j.inForce(runner, in)
}

// diagnostician compares the diagnosticians of a loop. A diagnostician has no role, so its permissions are those of its
// runner.
func (j *joiner) diagnostician(path, p, n string) string {
	switch {
	case p != "" && n == "":
		j.tighter(path, p, nil, noCauses)
		return ""
	case p == "" && n != "":
		j.looser(path, nil, n, otherCauses)
	case p != n:
		j.looser(path, p, n, otherCauses)
	}
	return p
}

// inForce returns permissions in the form in which a role holds them: "" if they are those of its runner.
func (j *joiner) inForce(runner, rights string) string {
	r, both := j.in.Runners[runner]
	if !both {
		r = j.p.Runners[runner] // the file no longer has the runner, so the pinned one is in force
	}
	return unless(rights, r.Permissions)
}
