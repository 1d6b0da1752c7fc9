package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/schemas"
)

// defaultRoles checks role_defaults by itself, so that a wrong name in it is
// said once and not for every loop.
func (b *builder) defaultRoles(f file) {
	for _, role := range roleOrder() {
		d, ok := f.RoleDefaults[role]
		if !ok {
			continue
		}
		at := pointer("role_defaults", role)
		if d.Runner != "" {
			b.reference(at+"/runner", d.Runner)
		}
		b.choices(at, d)
		b.longSeconds(at+"/timeout", d.Timeout)
		b.longSeconds(at+"/inactivity", d.Inactivity)
	}
}

// reference reports whether a runner of that name exists.
func (b *builder) reference(ptr, name string) bool {
	if _, ok := b.runners[name]; ok {
		return true
	}
	names := b.runnerNames()
	p := Problem{Code: CodeReference, Found: quoted(name), Allowed: listed(names), Near: schemas.Nearest(name, names)}
	p.Message = fmt.Sprintf("there is no runner %s; known: %s", quoted(name), p.Allowed)
	if p.Near != "" {
		p.Message += fmt.Sprintf("; did you mean %q?", p.Near)
	}
	if len(names) == 0 {
		p.Message = fmt.Sprintf("there is no runner %s, nor any other", quoted(name))
	}
	b.wrong(ptr, p)
	return false
}

// roles puts the roles of a loop together: its own settings, then the defaults,
// then the only runner.
func (b *builder) roles(f file, l fileLoop, at string) []Role {
	names := l.Roles.names
	if len(names) == 0 && !b.named(at+"/roles") {
		names = roleOrder()
	}
	var out []Role
	var homeless []string
	for _, name := range names {
		own, def := l.Roles.settings[name], f.RoleDefaults[name]
		r := Role{Name: name, Thinking: first(own.Thinking, def.Thinking), Resume: first(own.Session, def.Session) == "resume",
			Permissions: first(own.Permissions, def.Permissions)}
		if own.Runner != "" {
			b.reference(at+pointer("roles", name, "runner"), own.Runner)
		}
		b.choices(at+pointer("roles", name), own)
		r.Runners = b.whoMay(at+pointer("roles", name), name, own, def)
		if len(r.Runners) == 0 {
			choice := Choice{Runner: b.onlyRunner(f), Model: first(own.Model, def.Model)}
			if choice.Runner == "" && len(b.runners) > 1 {
				homeless = append(homeless, name)
			}
			r.Runners = []Choice{choice}
		}
		for i, c := range r.Runners {
			r.Runners[i].Permissions = first(r.Permissions, b.runners[c.Runner].Permissions)
		}
		r.Runner, r.Model, r.Permissions = r.Runners[0].Runner, r.Runners[0].Model, r.Runners[0].Permissions
		r.Timeout = b.timeout(l, own.Timeout, def.Timeout, name)
		r.Inactivity = b.inactivity(l, own.Inactivity, def.Inactivity)
		ownAt := at + pointer("roles", name)
		b.longSeconds(ownAt+"/timeout", own.Timeout)
		b.longSeconds(ownAt+"/inactivity", own.Inactivity)
		out = append(out, r)
	}
	if len(homeless) > 0 {
		runners := b.runnerNames()
		b.wrong(at+"/roles", Problem{Code: CodeReference, Found: "no runner for " + strings.Join(homeless, ", "), Allowed: listed(runners),
			Message: fmt.Sprintf(`no runner is chosen for %s, and there are several (%s); set role_defaults.%s.runner, or roles.%s.runner in the loop`,
				strings.Join(homeless, ", "), strings.Join(runners, ", "), homeless[0], homeless[0])})
	}
	b.timeouts(l, at+"/timeouts")
	return out
}

func (l fileLoop) bounded() bool { return l.Timeouts.Enabled != nil && *l.Timeouts.Enabled }

// roleBounds are the role bounds of the timeouts section by role.
func (l fileLoop) roleBounds() map[string]seconds {
	t := l.Timeouts
	return map[string]seconds{"planner": t.Planner, "implementer": t.Implementer, "tester": t.Tester, "reviewer": t.Reviewer}
}

func (b *builder) timeout(l fileLoop, own, def seconds, role string) time.Duration {
	if own.set {
		return own.d
	}
	if l.bounded() {
		if d := l.roleBounds()[role].d; d > 0 {
			return d
		}
		if l.Timeouts.Default.d > 0 {
			return l.Timeouts.Default.d
		}
	}
	return def.d
}

func (b *builder) inactivity(l fileLoop, own, def seconds) time.Duration {
	if own.set {
		return own.d
	}
	if l.bounded() && l.Timeouts.Inactivity.d > 0 {
		return l.Timeouts.Inactivity.d
	}
	return def.d
}

// timeouts warns of bounds that cannot do what they seem to.
func (b *builder) timeouts(l fileLoop, at string) {
	bounds := l.roleBounds()
	bounds["default"], bounds["inactivity"] = l.Timeouts.Default, l.Timeouts.Inactivity
	given := false
	for _, key := range append(roleOrder(), "default", "inactivity") {
		b.longSeconds(at+"/"+key, bounds[key])
		given = given || bounds[key].d > 0
	}
	if given && l.Timeouts.Enabled == nil {
		b.warn(at, CodeNoEffect, "timeouts are not enabled, so no bound holds; set enabled to true")
	}
	longest := l.Timeouts.Default.d
	for _, s := range l.roleBounds() {
		longest = max(longest, s.d)
	}
	if l.bounded() && longest > 0 && l.Timeouts.Inactivity.d >= longest {
		b.warn(at+"/inactivity", CodeSuspicious, "inactivity is not shorter than any role's bound, so it never ends a role")
	}
}

// longSeconds warns of a number that was most likely meant in milliseconds.
func (b *builder) longSeconds(ptr string, s seconds) {
	if s.number && s.d > 24*time.Hour {
		b.warn(ptr, CodeSuspicious, fmt.Sprintf("%.0f is more than a day: the unit is seconds; write it as %q if it is meant", s.d.Seconds(), s.d.Round(time.Second).String()))
	}
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// listed quotes names for a sentence.
func listed(names []string) string {
	q := slices.Clone(names)
	for i := range q {
		q[i] = quoted(q[i])
	}
	return strings.Join(q, ", ")
}
