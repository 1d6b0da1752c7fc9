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

// installTime is the time limit of commands that fetch and install, and buildTime that of commands that compile.
const (
	installTime = 10 * time.Minute
	buildTime   = 15 * time.Minute
)

// work holds the steps that carry out an option on this system, or the reason why that is impossible.
type work struct {
	steps   []Step
	deps    []string // ids of the recipes that the option needs directly and that are missing
	method  string
	reason  string // why the option is impossible; "" if it is possible
	risk    catalog.Risk
	foreign string // the entry from which a step comes and whose commands only an operator starts, with the reason; or ""
	notes   []string
}

func impossible(format string, args ...any) work { return work{reason: fmt.Sprintf(format, args...)} }

// foreign says why only an operator may start the commands of what, an entry at this origin, or returns "".
func foreign(from catalog.Origin, what string) string {
	if why := from.Foreign(); why != "" {
		return what + " " + why
	}
	return ""
}

// builder makes the steps of installs. It resolves the dependencies of a recipe depth-first, installs no recipe twice
// in one option, and refuses a recipe that depends on itself.
type builder struct {
	cat      *catalog.Catalog
	p        Profile
	dir      string                                                        // the directory in which the steps run
	lookup   func(id string) (*catalog.Recipe, bool)                       // finds a recipe that the catalog has not, or nil
	manage   func(commands [][]string) (out [][]string, place, why string) // forManager, or nil
	visiting []string                                                      // ids of the recipes whose dependencies are being resolved
	done     []string                                                      // ids of the recipes that earlier steps install
}

// recipe finds a recipe by its id.
func (b builder) recipe(id string) (*catalog.Recipe, bool) {
	r, ok := b.cat.Recipe(id)
	if !ok && b.lookup != nil {
		return b.lookup(id)
	}
	return r, ok
}

// tool makes the steps that install a recipe by the best of the methods. If methods is nil, it tries all methods of the
// recipe. It prefers a method without missing dependencies.
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

// methods returns the methods of a recipe in order: first those that the recipe prefers, then the package managers of
// this system, then the others by name. It returns native package managers of other systems only if the recipe has no
// other method, so that the plan can say why the install is impossible.
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
	if native > 0 { // the operator does not need the reasons why managers of other systems cannot work
		return slices.DeleteFunc(out, func(m string) bool {
			mgr, ok := b.cat.Manager(m)
			return ok && mgr.Native && !slices.Contains(b.p.Managers, m)
		})
	}
	return out
}

// by makes the steps that install a recipe by one method, with the steps for missing dependencies before them.
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
	at := b
	if b.manage != nil && inProject(own) {
		mine, place, why := b.manage(own)
		if why != "" {
			return impossible("%s", why)
		}
		if at.dir = cmp.Or(place, b.dir); mine[0][0] != own[0][0] {
			needs = slices.DeleteFunc(needs, func(id string) bool { return id == own[0][0] })
		}
		own = mine
	}
	main := at.steps(own, sudo)
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

// commands returns the command lines of one method of a recipe, and whether they need the superuser's rights. why is
// the reason if the method is impossible on this system, else "".
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

// packaged returns a recipe's packages for a manager. For yum it falls back to those for dnf, because yum reads the
// same repositories.
func packaged(r *catalog.Recipe, manager string) []string {
	if pkgs := r.Packages[manager]; len(pkgs) > 0 || manager != "yum" {
		return pkgs
	}
	return r.Packages["dnf"]
}

// inProject reports whether the commands of a method install into the project only.
func inProject(commands [][]string) bool {
	for _, argv := range commands {
		venv := strings.HasPrefix(argv[0], ".venv/") || slices.Contains(argv, ".venv")
		if !venv && !slices.Contains(argv, "--save-dev") && !slices.Contains(argv, "--no-save") {
			return false
		}
	}
	return true
}

// packages makes the steps that install packages by the system's own package manager.
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

// steps makes a step of each command. If sudo is true, the steps run with the superuser's rights.
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

// unlock adds to w, before its own steps, the steps that install its missing dependencies. The dependencies are the
// recipes in needs and the recipes of the programs that the steps of w call.
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
		r, ok := b.recipe(id)
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

// programs returns the programs that steps call by name, each once. It leaves out programs that are called by a path,
// such as files of the project.
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

// preview describes how superloop would install a missing dependency on this system.
func (b builder) preview(id string) Preview {
	v := Preview{Dep: id, GoalKey: toolGoal(id), Availability: Impossible}
	w := impossible("there is no recipe for it")
	if r, ok := b.recipe(id); ok {
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
