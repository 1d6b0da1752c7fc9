package trust

import (
	"maps"
	"slices"
)

// What a change of these keys does.
const (
	otherProgram = "another program would run, or the same in another way"
	otherCommand = "other commands would run outside every agent's sandbox, or fewer would judge the work"
	otherRoles   = "other roles would run, or one that watches the others would not"
	otherRunner  = "another agent would play the role"
	lessRunners  = "the agent may no longer play the role"
	moreRunners  = "another agent could play the role, when others fail"
	noCauses     = "no agent looks for the cause of failures"
	otherCauses  = "another agent would look for the cause of failures"
	lessRights   = "the agent may do less without asking"
	moreRights   = "the agent could do more without asking"
	stricterGate = "more is wanted before the loop completes"
	looserGate   = "less would be wanted before the loop completes"
)

// loop compares two loops but for their recovery.
func (j *joiner) loop(at string, p, n Loop) Loop {
	in := Loop{Roles: j.roles(at+"/roles", p.Roles, n.Roles)}
	in.Tests = p.Tests
	if j.commands(at+"/tests/commands", p.Tests.Commands, n.Tests.Commands) {
		in.Tests.Mode = j.text(at+"/tests/mode", ladder{"every", "on_promise", "disabled"}, p.Tests.Mode, n.Tests.Mode)
	} else {
		j.text(at+"/tests/mode", nil, p.Tests.Mode, n.Tests.Mode)
	}
	in.Validation = j.validation(at+"/validation", p.Validation, n.Validation)
	in.Approval = Approval{
		Enabled:             j.required(at+"/approval/enabled", true, p.Approval.Enabled, n.Approval.Enabled),
		RequireOnCompletion: j.required(at+"/approval/require_on_completion", true, p.Approval.RequireOnCompletion, n.Approval.RequireOnCompletion),
	}
	in.PreCommit = p.PreCommit
	j.commands(at+"/git/pre_commit_commands", p.PreCommit, n.PreCommit)
	in.Diagnostician = j.diagnostician(at+"/respond/diagnostician", p.Diagnostician, n.Diagnostician)
	return in
}

// validation: how strict the gate is may only be taken from the file together
// with the commands that it means.
func (j *joiner) validation(at string, p, n Validation) Validation {
	comparable := j.commands(at+"/commands", p.Commands, n.Commands)
	var mode order
	if comparable {
		mode = ladder{"every", "on_promise"}
	}
	return Validation{
		Enabled:             j.required(at+"/enabled", comparable, p.Enabled, n.Enabled),
		Mode:                j.text(at+"/mode", mode, p.Mode, n.Mode),
		RequireOnCompletion: j.required(at+"/require_on_completion", comparable, p.RequireOnCompletion, n.RequireOnCompletion),
		Commands:            p.Commands,
	}
}

// commands reports whether two lists are the same.
func (j *joiner) commands(path string, p, n []string) bool {
	if slices.Equal(p, n) {
		return true
	}
	j.looser(path, anys(p), anys(n), otherCommand)
	return false
}

func (j *joiner) text(path string, o order, p, n string) string {
	s, _ := j.value(path, o, p, n, stricterGate, looserGate).(string)
	return s
}

// required compares a switch that is stricter when it is on.
func (j *joiner) required(path string, comparable, p, n bool) bool {
	var o order
	if comparable {
		o = ladder{true, false}
	}
	b, _ := j.value(path, o, p, n, stricterGate, looserGate).(bool)
	return b
}

// runnersOfBoth compares the runners that are in both Sections.
func (j *joiner) runnersOfBoth() {
	for _, name := range slices.Sorted(maps.Keys(j.p.Runners)) {
		if n, has := j.n.Runners[name]; has {
			j.in.Runners[name] = j.runner("/runners"+pointer(name), j.p.Runners[name], n)
		}
	}
}

// runnersOfOne takes in the runners that came and went; the loops that are in
// force are known by now.
func (j *joiner) runnersOfOne() {
	for _, name := range sortedKeys(j.p.Runners, j.n.Runners) {
		p, had := j.p.Runners[name]
		n, has := j.n.Runners[name]
		at := "/runners" + pointer(name)
		switch {
		case !had:
			j.looser(at, nil, n.shown(), "a runner that nobody trusted could be used")
		case has:
		case j.in.runs(name):
			j.in.Runners[name] = p
			j.looser(at, p.shown(), nil, "a role that is in force may use it, or the diagnostician")
		default:
			j.tighter(at, p.shown(), nil, "the runner is gone")
		}
	}
}

// runs reports whether a role may use the runner, or a diagnostician does.
func (s Section) runs(runner string) bool {
	for _, l := range s.Loops {
		if l.Diagnostician == runner || slices.ContainsFunc(l.Roles, func(r Role) bool { return slices.Contains(r.runners(), runner) }) {
			return true
		}
	}
	return false
}

func (j *joiner) runner(at string, p, n Runner) Runner {
	in := p
	for _, k := range []struct {
		name string
		p, n any
	}{
		{"command", p.Command, n.Command}, {"args", p.Args, n.Args}, {"fast_args", p.FastArgs, n.FastArgs},
		{"prompt_mode", p.PromptMode, n.PromptMode}, {"adapter", p.Adapter, n.Adapter},
	} {
		if !same(k.p, k.n) {
			j.looser(at+"/"+k.name, plain(k.p), plain(k.n), otherProgram)
		}
	}
	for _, name := range sortedKeys(p.Env, n.Env) {
		a, had := p.Env[name]
		b, has := n.Env[name]
		if had == has && a == b {
			continue
		}
		var from, to any
		if had {
			from = masked(a)
		}
		if has {
			to = masked(b)
		}
		j.looser(at+"/env"+pointer(name), from, to, otherProgram)
	}
	in.Permissions = j.rights(at+"/permissions", p.Permissions, n.Permissions)
	in.PassEnv = j.passEnv(at+"/pass_env", p.PassEnv, n.PassEnv)
	return in
}

// passEnv: a list may name what an agent does not get without one, so the two
// cannot be compared, but that the empty list is the tightest.
func (j *joiner) passEnv(path string, p, n []string) []string {
	const less, more = "the agent no longer gets the variable", "the agent would get the variable"
	switch {
	case p != nil && n != nil:
		in, _ := stringsOf(j.value(path, fewer{}, anys(p), anys(n), less, more))
		return in
	case n != nil && len(n) == 0:
		j.tighter(path, nil, plain(n), "the agent gets no variable but the basic ones and its own keys")
		return n
	case (p == nil) != (n == nil):
		j.looser(path, plain(p), plain(n), "the agent would get other variables")
	}
	return p
}

// plain is a list as JSON values; an absent one is nil.
func plain(v any) any {
	list, ok := v.([]string)
	if !ok {
		return v
	}
	if list == nil {
		return nil
	}
	return anys(list)
}
