package trust

import (
	"slices"

	"github.com/superloop/superloop/internal/redact"
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
	in := Loop{
		Roles:      j.roles(at+"/roles", p.Roles, n.Roles),
		Tests:      joined(j, at+"/tests", p.Tests, n.Tests, gateRules(slices.Equal(p.Tests.Commands, n.Tests.Commands))),
		Validation: joined(j, at+"/validation", p.Validation, n.Validation, gateRules(slices.Equal(p.Validation.Commands, n.Validation.Commands))),
		Approval:   joined(j, at+"/approval", p.Approval, n.Approval, gateRules(true)),
		PreCommit:  p.PreCommit,
	}
	j.value(at+"/git/pre_commit_commands", nil, anys(p.PreCommit), anys(n.PreCommit), "", otherCommand)
	in.Diagnostician = j.diagnostician(at+"/respond/diagnostician", p.Diagnostician, n.Diagnostician)
	return in
}

// gateRules: how strict a gate is may only be taken from the file together with
// the commands that it means.
func gateRules(sameCommands bool) func(key string) rule {
	return func(key string) rule {
		switch {
		case key == "commands":
			return rule{more: otherCommand}
		case !sameCommands:
			return rule{nil, stricterGate, looserGate}
		case key == "mode":
			return rule{ladder("every", "on_promise", "disabled"), stricterGate, looserGate}
		}
		return rule{ladder(true, false), stricterGate, looserGate}
	}
}

// runnersOfBoth compares the runners that are in both Sections.
func (j *joiner) runnersOfBoth() {
	for _, name := range sortedKeys(j.p.Runners, j.p.Runners) {
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
			j.looser(at, nil, shownRunner(n), "a runner that nobody trusted could be used")
		case has:
		case j.in.runs(name):
			j.in.Runners[name] = p
			j.looser(at, shownRunner(p), nil, "a role that is in force may use it, or the diagnostician")
		default:
			j.tighter(at, shownRunner(p), nil, "the runner is gone")
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
	in := joined(j, at, p, n, func(key string) rule {
		if key == "permissions" {
			return rule{rights, lessRights, moreRights}
		}
		return rule{more: otherProgram}
	}, "env", "pass_env")
	for _, name := range sortedKeys(p.Env, n.Env) {
		value := func(env map[string]string) any {
			v, is := env[name]
			if !is {
				return nil
			}
			return v
		}
		if a, b := value(p.Env), value(n.Env); a != b {
			j.looser(at+"/env"+pointer(name), masked(a), masked(b), otherProgram)
		}
	}
	in.PassEnv = j.passEnv(at+"/pass_env", p.PassEnv, n.PassEnv)
	return in
}

// passEnv: a list may name what an agent does not get without one, so the two
// cannot be compared, but that the empty list is the tightest.
func (j *joiner) passEnv(path string, p, n []string) []string {
	const less, more = "the agent no longer gets the variable", "the agent would get the variable"
	switch {
	case p != nil && n != nil:
		in, _ := stringsOf(j.value(path, fewer, anys(p), anys(n), less, more))
		return in
	case n != nil && len(n) == 0:
		j.tighter(path, nil, anys(n), "the agent gets no variable but the basic ones and its own keys")
		return n
	case p == nil && n != nil:
		j.looser(path, nil, anys(n), "the agent would get other variables")
	case p != nil:
		j.looser(path, anys(p), nil, "the agent would get other variables")
	}
	return p
}

// shownRunner is a runner as a change shows it, the values of its variables
// masked.
func shownRunner(r Runner) any {
	r.Env = table(r.Env)
	for name := range r.Env {
		r.Env[name] = redact.Mark
	}
	return shown(r)
}
