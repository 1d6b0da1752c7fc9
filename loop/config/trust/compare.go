package trust

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/config"
)

// Change is one difference between two Sections. Path is a JSON pointer, except that it names a loop by its id, as in
// config.Change. From and To are values of a key. For a set, they are one element that came or went, and the other one
// is nil. A secret is redact.Mark.
type Change struct {
	config.Change
	Why string `json:"why"` // the effect of the change
}

// Diff holds the changes between two Sections. Each list is sorted by path.
type Diff struct {
	Tightening []Change `json:"tightening"`
	Loosening  []Change `json:"loosening"`
}

// Empty reports whether the two Sections are the same.
func (d Diff) Empty() bool { return len(d.Tightening)+len(d.Loosening) == 0 }

// Compare returns the changes from the pinned Section to the present one. A change that it does not understand is a
// loosening.
func Compare(pinned, now Section) Diff {
	_, d := join(pinned, now)
	return d
}

// Effective returns the Section that is in force while the file loosens something: the pinned Section with every
// tightening of the present one.
func Effective(pinned, now Section) Section {
	in, _ := join(pinned, now)
	return in
}

// join compares two Sections once. It returns both the Section in force and the changes, so that the two results always
// agree.
func join(pinned, now Section) (Section, Diff) {
	in := Section{Loops: map[string]Loop{}, Webhooks: map[string]any{}, Runners: map[string]Runner{}}
	j := &joiner{p: pinned, n: now, in: &in, d: Diff{Tightening: []Change{}, Loosening: []Change{}}}
	in.Recovery = j.policy("/recovery", pinned.Recovery, now.Recovery)
	j.runnersOfBoth()
	for _, id := range sortedKeys(pinned.Loops, now.Loops) {
		p, had := pinned.Loops[id]
		n, has := now.Loops[id]
		at := "/loops" + config.Pointer(id)
		switch {
		case !had:
			j.looser(at, nil, shown(n.bare()), "a loop that nobody trusted would run")
		case !has:
			j.tighter(at, shown(p.bare()), nil, "the loop is gone")
		default:
			l := j.loop(at, p, n)
			if p.Recovery != nil || n.Recovery != nil {
				l.Recovery = in.Recovery.unless(j.policy(at+"/recovery", pinned.Policy(id), now.Policy(id)))
			}
			in.Loops[id] = l
		}
	}
	j.runnersOfOne()
	for _, k := range sortedKeys(pinned.Webhooks, now.Webhooks) {
		if p, n := pinned.Webhooks[k], now.Webhooks[k]; !same(p, n) {
			j.looser("/webhooks"+config.Pointer(k), masked(p != nil), masked(n != nil), "news would go elsewhere, or nowhere")
		}
	}
	maps.Copy(in.Webhooks, pinned.Webhooks)
	in.Escalation = j.escalation("/escalation", pinned.Escalation, now.Escalation)
	in.Protect = j.protect("/protect", pinned.Protect, now.Protect)
	in.Permissions = j.permissions("/permissions", pinned.Permissions, now.Permissions)
	for _, list := range [][]Change{j.d.Tightening, j.d.Loosening} {
		slices.SortStableFunc(list, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	}
	return in, j.d
}

// masked returns redact.Mark for a value that exists, and nil for one that does not.
func masked(there bool) any {
	if !there {
		return nil
	}
	return redact.Mark
}

// joiner collects the Section in force and the changes.
type joiner struct {
	p, n Section
	in   *Section
	d    Diff
}

func (j *joiner) tighter(path string, from, to any, why string) {
	j.d.Tightening = append(j.d.Tightening, Change{config.Change{Path: path, From: from, To: to}, why})
}

func (j *joiner) looser(path string, from, to any, why string) {
	j.d.Loosening = append(j.d.Loosening, Change{config.Change{Path: path, From: from, To: to}, why})
}

// value compares the values of one key by the order o and returns the value in force. If o is nil, or does not know one
// of the values, the pinned value stays.
func (j *joiner) value(path string, o order, pinned, now any, less, more string) any {
	if same(pinned, now) {
		return pinned
	}
	v := whole(pinned, now, false)
	if o != nil {
		v = cmp.Or(o(pinned, now), v)
	}
	for _, s := range v.tighter {
		j.tighter(path, s.from, s.to, less)
	}
	for _, s := range v.looser {
		j.looser(path, s.from, s.to, more)
	}
	return v.in
}

// rule says how to compare the values of one key. less and more describe the effect of a tightening and of a loosening.
type rule struct {
	order      order
	less, more string
}

// joined compares two objects key by key and returns the object in force. The keys in but keep their pinned values.
func joined[T any](j *joiner, at string, pinned, now T, rules func(key string) rule, but ...string) T {
	p, _ := shown(pinned).(map[string]any)
	n, _ := shown(now).(map[string]any)
	for _, key := range sortedKeys(p, n) {
		if !slices.Contains(but, key) {
			r := rules(key)
			p[key] = j.value(at+config.Pointer(key), r.order, p[key], n[key], r.less, r.more)
		}
	}
	var in T
	if err := text.Decode(canonical(p), &in); err != nil {
		panic("trust: reading a section back: " + err.Error())
	}
	return in
}

// policy compares two policies key by key and returns the one in force.
func (j *joiner) policy(at string, pinned, now Policy) Policy {
	p, n := pinned.full(), now.full()
	in, known := map[string]any{}, map[string]bool{}
	for _, k := range keys() {
		known[k.name] = true
		in[k.name] = j.value(at+"/"+k.name, k.order, p[k.name], n[k.name], k.less, k.more)
	}
	pe, ne := entriesOf(p), entriesOf(n)
	if (pe != nil || p[keyEntries] == nil) && (ne != nil || n[keyEntries] == nil) {
		known[keyEntries] = true
		if entries := j.entries(at, in, p, n, pe, ne); len(entries) > 0 {
			in[keyEntries] = entries
		}
	}
	for _, name := range sortedKeys(p, n) {
		if !known[name] {
			j.unknown(in, at+"/"+name, name, p, n)
		}
	}
	return nest(in).normal()
}

// unknown handles a key that superloop does not understand. The pinned value stays, and any change is a loosening.
func (j *joiner) unknown(in map[string]any, path, key string, p, n map[string]any) {
	if v, had := p[key]; had {
		in[key] = v
	}
	j.value(path, nil, p[key], n[key], "", "superloop cannot tell what this key does")
}

// entries compares the entries of single commands (pe and ne) and returns those in force. in holds the other keys that
// are in force.
func (j *joiner) entries(at string, in, p, n map[string]any, pe, ne map[string]map[string]any) map[string]any {
	out := map[string]any{}
	for _, name := range sortedKeys(pe, ne) {
		a, b := pe[name], ne[name]
		path := at + "/" + keyEntries + config.Pointer(name)
		e := map[string]any{}
		e[keyNetwork] = j.value(path+"/"+keyNetwork, ranked("none", "full"), networkOf(p, a), networkOf(n, b),
			"the command has no network", "the command would have the network")
		for _, k := range sortedKeys(a, b) {
			if k != keyNetwork {
				j.unknown(e, path+config.Pointer(k), k, a, b)
			}
		}
		if e[keyNetwork] != in[keyNetwork] || len(e) > 1 {
			out[name] = e
		}
	}
	return out
}

// The effects of changes, as Change.Why names them.
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
	otherOutputs = "other files could change after the tests without another run"

	newChannel    = "news would go there too, or a program would run"
	lostChannel   = "nobody would be told there any more"
	otherChannel  = "news would go elsewhere, later, or nowhere"
	fewerAnswer   = "the user may not answer any more"
	moreAnswer    = "another user could answer"
	otherWayClick = "clicks would arrive in another way, or from elsewhere"
)

// loop compares two loops, except for their recovery sections.
func (j *joiner) loop(at string, p, n Loop) Loop {
	in := Loop{
		Roles:      j.roles(at+"/roles", p.Roles, n.Roles),
		Tests:      joined(j, at+"/tests", p.Tests, n.Tests, gateRules(slices.Equal(p.Tests.Commands, n.Tests.Commands))),
		Validation: joined(j, at+"/validation", p.Validation, n.Validation, gateRules(slices.Equal(p.Validation.Commands, n.Validation.Commands))),
		Approval:   joined(j, at+"/approval", p.Approval, n.Approval, gateRules(true)),
		Completion: joined(j, at+"/completion", p.Completion, n.Completion, completionRules),
		PreCommit:  p.PreCommit,
		Gates:      joined(j, at+"/gates", p.Gates, n.Gates, finalRules),
	}
	j.value(at+"/git/pre_commit_commands", nil, anys(p.PreCommit), anys(n.PreCommit), "", otherCommand)
	in.Diagnostician = j.diagnostician(at+"/respond/diagnostician", p.Diagnostician, n.Diagnostician)
	return in
}

// gateRules returns the rules for the keys of a gate. A stricter gate counts as a tightening only if the gate's
// commands are the same.
func gateRules(sameCommands bool) func(key string) rule {
	return func(key string) rule {
		switch {
		case key == "commands":
			return rule{more: otherCommand}
		case key == "outputs":
			return rule{more: otherOutputs}
		case !sameCommands:
			return rule{nil, stricterGate, looserGate}
		case key == "mode":
			return rule{ranked("every", "on_promise", "disabled"), stricterGate, looserGate}
		}
		return rule{ranked(true, false), stricterGate, looserGate}
	}
}

// completionRules returns the rules for the keys of completion.
func completionRules(key string) rule {
	switch key {
	case "allow_ungated":
		return rule{ranked(false, true), stricterGate, looserGate}
	case "require_reports":
		return rule{sets(more), stricterGate, looserGate}
	}
	return rule{ranked(true, false), stricterGate, looserGate}
}

// finalRules returns the rules for the keys of the last gates.
func finalRules(key string) rule {
	if key == "setup" {
		return rule{more: otherCommand}
	}
	return rule{ranked(config.FinalCheckout, nil), stricterGate, looserGate}
}

// runnersOfBoth compares the runners that both Sections have.
func (j *joiner) runnersOfBoth() {
	for _, name := range sortedKeys(j.p.Runners, j.p.Runners) {
		if n, has := j.n.Runners[name]; has {
			j.in.Runners[name] = j.runner("/runners"+config.Pointer(name), j.p.Runners[name], n)
		}
	}
}

// runnersOfOne compares the runners that only one Section has. join calls it after the loops, because a runner stays
// while a loop in force may use it.
func (j *joiner) runnersOfOne() {
	for _, name := range sortedKeys(j.p.Runners, j.n.Runners) {
		p, had := j.p.Runners[name]
		n, has := j.n.Runners[name]
		at := "/runners" + config.Pointer(name)
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

// runs reports whether a role of the Section may use the runner, or a diagnostician uses it.
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
		a, had := p.Env[name]
		b, has := n.Env[name]
		if a != b || had != has {
			j.looser(at+"/env"+config.Pointer(name), masked(had), masked(has), otherProgram)
		}
	}
	in.PassEnv = j.passEnv(at+"/pass_env", p.PassEnv, n.PassEnv)
	return in
}

// passEnv compares two lists of variables. A list may name a variable that an agent does not get without a list. So a
// new list is a tightening only when it is empty.
func (j *joiner) passEnv(path string, p, n []string) []string {
	const less, more = "the agent no longer gets the variable", "the agent would get the variable"
	switch {
	case p != nil && n != nil:
		in, _ := stringsOf(j.value(path, sets(fewer), anys(p), anys(n), less, more))
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

// shownRunner returns a runner as a Change shows it, with the values of its variables masked.
func shownRunner(r Runner) any {
	r.Env = table(r.Env)
	for name := range r.Env {
		r.Env[name] = redact.Mark
	}
	return shown(r)
}
