package remedy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/recovery/catalog"
)

// installTime bounds what fetches and installs, and buildTime what compiles.
const (
	installTime = 10 * time.Minute
	buildTime   = 15 * time.Minute
)

// work is what an option comes to on this system.
type work struct {
	steps   []Step
	deps    []string // recipe ids that are missing, the direct ones
	method  string
	reason  string // why it is impossible; "" if it is not
	risk    catalog.Risk
	foreign string // an entry of the repository's catalog that a step comes from
	notes   []string
}

func impossible(format string, args ...any) work { return work{reason: fmt.Sprintf(format, args...)} }

// foreign is what, if it comes from the repository's own catalog, else "".
func foreign(from catalog.Origin, what string) string {
	if from.Source == catalog.SourceRepository {
		return what
	}
	return ""
}

// builder works out installs: what they need first is resolved depth-first through the recipes, nothing is installed
// twice in one plan, and a recipe that needs itself is refused.
type builder struct {
	cat      *catalog.Catalog
	p        Profile
	dir      string   // where steps run
	visiting []string // recipes in progress
	done     []string // recipes that the plan installs already
}

// tool installs a recipe by the best of the methods, or of all that it has.
func (b builder) tool(r *catalog.Recipe, methods []string) work {
	if i := slices.Index(b.visiting, r.ID); i >= 0 {
		return impossible("it needs itself: %s", strings.Join(append(slices.Clone(b.visiting[i:]), r.ID), " -> "))
	}
	for _, c := range r.Requires.Conditions {
		if why := b.p.meets(c); why != "" {
			return impossible("%s", why)
		}
	}
	if slices.Contains(r.Requires.ArchExclude, b.p.Arch) {
		return impossible("there is no %s for %s", r.Label, b.p.Arch)
	}
	if methods == nil {
		methods = b.methods(r)
	}
	b.visiting = append(slices.Clone(b.visiting), r.ID)
	var best *work
	var reasons []string
	for _, m := range methods {
		w := b.by(r, m)
		switch {
		case w.reason != "":
			reasons = append(reasons, m+": "+w.reason)
		case len(w.deps) == 0:
			return w
		case best == nil:
			best = &w
		}
	}
	if best != nil {
		return *best
	}
	if len(reasons) == 0 {
		return impossible("the recipe for %s knows no way to install it here", r.Label)
	}
	return impossible("%s", strings.Join(reasons, "; "))
}

// methods orders a recipe's methods: as the recipe prefers, then the system's package managers, then the others by
// name. Managers of other systems come last; they only give their reason.
func (b builder) methods(r *catalog.Recipe) []string {
	var out []string
	add := func(list ...string) {
		for _, m := range list {
			pkgs := len(packaged(r, m)) > 0
			if _, other := r.Install[m]; (pkgs || other) && !slices.Contains(out, m) {
				out = append(out, m)
			}
		}
	}
	add(r.Prefer...)
	add(b.p.Managers...)
	add(slices.Sorted(maps.Keys(r.Install))...)
	native := len(out)
	add(slices.Sorted(maps.Keys(r.Packages))...)
	if native > 0 { // the reasons of managers that other systems have say nothing here
		return slices.DeleteFunc(out, func(m string) bool {
			mgr, ok := b.cat.Manager(m)
			return ok && mgr.Native && !slices.Contains(b.p.Managers, m)
		})
	}
	return out
}

// by installs a recipe by one method.
func (b builder) by(r *catalog.Recipe, method string) work {
	w := work{method: method, risk: r.Risk, foreign: foreign(r.Origin, "the recipe "+r.ID)}
	own, sudo, why := b.commands(r, method)
	if why != "" {
		return impossible("%s", why)
	}
	needs := append(slices.Clone(r.Requires.Binaries["*"]), r.Requires.Binaries[method]...)
	if pkgs := r.Requires.Packages[b.p.Family]; len(pkgs) > 0 && r.Install[method] != nil {
		before := b.packages(pkgs)
		if before.reason != "" {
			return before
		}
		w.steps = append(w.steps, before.steps...)
	}
	main := b.steps(own, sudo)
	if main.reason != "" {
		return main
	}
	if _, isManager := b.cat.Manager(method); !isManager && !inProject(own) && !sudo && !b.p.HomeWritable {
		return impossible("nothing can be installed below the home directory")
	}
	w.steps = append(w.steps, main.steps...)
	for i := range w.steps {
		w.steps[i].For = toolGoal(r.ID)
	}
	return b.unlock(w, needs)
}

// commands are the command lines of one method.
func (b builder) commands(r *catalog.Recipe, method string) (own [][]string, sudo bool, why string) {
	if b.p.Network == NetworkNo {
		return nil, false, "there is no network"
	}
	mgr, isManager := b.cat.Manager(method)
	pkgs := packaged(r, method)
	switch {
	case isManager && len(pkgs) > 0:
		here := slices.Contains(b.p.Managers, method)
		if !here && mgr.Native {
			return nil, false, mgr.ID + " is not the package manager of this system"
		}
		own = append(own, r.RepoSetup[method]...)
		if len(r.RepoSetup[method]) > 0 || b.p.StaleIndex && here {
			own = append(own, mgr.Refresh...)
		}
		own = append(own, slices.Concat(mgr.Install, pkgs))
		return own, mgr.Sudo, ""
	case len(r.Install[method]) > 0:
		own = append(slices.Clone(r.RepoSetup[method]), r.Install[method]...)
		program := own[len(own)-1][0]
		return own, r.NeedsSudo[method] && !slices.Contains(b.p.OwnPrefix, program), ""
	}
	return nil, false, "the recipe for " + r.Label + " has no such method"
}

// packaged are a recipe's packages for a manager. yum reads the repositories that dnf reads.
func packaged(r *catalog.Recipe, manager string) []string {
	if pkgs := r.Packages[manager]; len(pkgs) > 0 || manager != "yum" {
		return pkgs
	}
	return r.Packages["dnf"]
}

// inProject reports whether a method installs into the project and nowhere else.
func inProject(commands [][]string) bool {
	for _, argv := range commands {
		venv := strings.HasPrefix(argv[0], ".venv/") || slices.Contains(argv, ".venv")
		if !venv && !slices.Contains(argv, "--save-dev") && !slices.Contains(argv, "--no-save") {
			return false
		}
	}
	return true
}

// packages installs packages by the system's own manager.
func (b builder) packages(pkgs []string) work {
	var mgr *catalog.Manager
	for _, id := range b.p.Managers {
		if m, ok := b.cat.Manager(id); ok && slices.Contains(m.Families, b.p.Family) {
			mgr = m
			break
		}
	}
	switch {
	case mgr == nil && b.p.Family == FamilyMacOS:
		if r, ok := b.cat.Recipe("brew"); ok {
			if m, ok := b.cat.Manager("brew"); ok {
				w := b.unlock(work{method: m.ID}, []string{r.ID})
				if w.reason == "" {
					w.steps = append(w.steps, Step{Argv: slices.Concat(m.Install, pkgs), Dir: b.dir})
				}
				return w
			}
		}
		fallthrough
	case mgr == nil:
		return impossible("this system has no package manager that superloop knows")
	case b.p.Network == NetworkNo:
		return impossible("there is no network")
	}
	var commands [][]string
	if b.p.StaleIndex {
		commands = append(commands, mgr.Refresh...)
	}
	w := b.steps(append(commands, slices.Concat(mgr.Install, pkgs)), mgr.Sudo)
	w.method = mgr.ID
	return w
}

// steps makes steps of commands, with the superuser's rights if they need them.
func (b builder) steps(commands [][]string, sudo bool) (w work) {
	var prefix []string
	if sudo {
		if b.p.ReadOnlyRoot {
			return impossible("the root file system is read-only")
		}
		var ok bool
		if prefix, ok = b.p.superuser(); !ok {
			return impossible("it needs the superuser's rights, and this account may not use sudo")
		}
	}
	for _, argv := range commands {
		w.steps = append(w.steps, Step{Argv: slices.Concat(prefix, argv), Dir: b.dir, Sudo: sudo})
	}
	return w
}

// unlock puts before w what it needs and what is missing: the recipes, and the programs that its steps call.
func (b builder) unlock(w work, needs []string) work {
	if w.reason != "" {
		return w
	}
	needs = slices.Clone(needs)
	for _, program := range programs(w.steps) {
		if r, ok := b.cat.RecipeByCLI(program); ok && !b.p.Has(program) && !slices.Contains(needs, r.ID) {
			needs = append(needs, r.ID)
		} else if !ok && !b.p.Has(program) {
			return impossible("%s is not on this system, and there is no recipe for it", program)
		}
	}
	var before []Step
	for _, id := range needs {
		r, ok := b.cat.Recipe(id)
		if !ok {
			return impossible("it needs %s, and there is no recipe for that", id)
		}
		if b.p.Has(r.CLI) || slices.Contains(w.deps, id) {
			continue
		}
		w.deps = append(w.deps, id)
		if slices.Contains(b.done, id) {
			continue
		}
		dep := b.tool(r, nil)
		if dep.reason != "" {
			return impossible("it needs %s, which cannot be installed here (%s)", id, dep.reason)
		}
		before = append(before, dep.steps...)
		b.done = append(slices.Clone(b.done), id)
		for _, s := range dep.steps {
			b.done = append(b.done, strings.TrimPrefix(s.For, "tool/"))
		}
		w.risk = riskier(w.risk, dep.risk)
		w.foreign = cmp.Or(dep.foreign, w.foreign)
	}
	w.steps = append(before, w.steps...)
	return w
}

// programs are what steps call by name, each once: neither files of the project nor what an earlier step has made.
func programs(steps []Step) []string {
	var out []string
	for _, s := range steps {
		i := slices.IndexFunc(s.Argv, func(a string) bool { return a != "sudo" && a != "-n" })
		if i >= 0 && !strings.Contains(s.Argv[i], "/") && !slices.Contains(out, s.Argv[i]) {
			out = append(out, s.Argv[i])
		}
	}
	return out
}

// preview is how a missing dependency would be installed here.
func (b builder) preview(id string) Preview {
	v := Preview{Dep: id, GoalKey: toolGoal(id), Availability: Impossible}
	w := impossible("there is no recipe for it")
	if r, ok := b.cat.Recipe(id); ok {
		w = b.tool(r, nil)
	}
	if v.Reason = w.reason; v.Reason != "" {
		return v
	}
	v.Method, v.Needs, v.Availability = w.method, w.deps, Ready
	if len(w.deps) > 0 {
		v.Availability, v.Reason = Locked, "it needs "+strings.Join(w.deps, ", ")+" first"
	}
	v.Command = commandText((&Option{GoalKey: v.GoalKey, Steps: w.steps}).Own())
	return v
}
