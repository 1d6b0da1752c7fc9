package remedy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/superloop/superloop/recovery/catalog"
)

const installed = "already installed: look at PATH"

// recipe finds the recipe that an option names: by its id, or else by its program, because the output of the failed
// command may have given the name. The string is the reason if there is none.
func (r *resolver) recipe(dep string, src source) (*catalog.Recipe, string) {
	name, err := src.fill.word(dep)
	if err != nil {
		return nil, err.Error()
	}
	rec, ok := r.cat.Recipe(name)
	if !ok {
		rec, ok = r.cat.RecipeByCLI(name)
	}
	if !ok {
		rec, ok = r.indexed(name)
	}
	if !ok {
		return nil, "there is no recipe for " + name
	}
	return rec, ""
}

// missing returns the program that the shell did not find, or "". Only a handler of that very failure captures it.
func (r *resolver) missing() string {
	for i := range r.f.Matches {
		m := &r.f.Matches[i]
		name := cmp.Or(m.Captures["tool"], m.Captures["shell"])
		if m.Handler != nil && !m.Vetoed && m.Handler.Family == "" && m.Handler.Category == "command_not_found" && plainName(name) {
			return name
		}
	}
	return ""
}

// preferMissing makes the install of the very program that is missing the handlers' recommendation. A handler of a
// family knows another program of the family, such as the interpreter: that does not bring rspec.
func (r *resolver) preferMissing(list []Option) {
	name := r.missing()
	if name == "" || r.p.Has(name) {
		return
	}
	rec, why := r.recipe(name, source{})
	if why != "" {
		return
	}
	top := 0
	for i := range list {
		top = max(top, list[i].layer)
	}
	for i := range list {
		if o := &list[i]; o.GoalKey == toolGoal(rec.ID) && o.Strategy == catalog.InstallDep && o.Availability != Impossible {
			o.layer, o.handlers, o.pressing = top, true, true
			return
		}
	}
}

// indexed makes a recipe of the package that has a program, as far as the index of the system's package manager says.
func (r *resolver) indexed(program string) (*catalog.Recipe, bool) {
	if r.p.Index == nil || !plainName(program) {
		return nil, false
	}
	for _, id := range r.p.Managers {
		mgr, ok := r.cat.Manager(id)
		if !ok || !slices.Contains(mgr.Families, r.p.Family) {
			continue
		}
		if pkgs := r.p.Index.Providers(program); len(pkgs) > 0 {
			return &catalog.Recipe{ID: program, Label: program, CLI: program, Risk: catalog.RiskMedium, Packages: map[string][]string{id: pkgs[:1]}}, true
		}
	}
	return nil, false
}

func (r *resolver) installDep(t *catalog.Option, src source) result {
	rec, why := r.recipe(t.Dep, src)
	if why != "" {
		return failed("%s", why)
	}
	res := result{work: r.builder().tool(rec, nil), goal: toolGoal(rec.ID), timeout: installTime}
	res.deps = nil
	if r.p.Has(rec.CLI) {
		res.demoted = installed
	} else {
		res.unlock = rec.ID
	}
	return res
}

// tool returns the recipe of the tool whose install failed: of superloop's own install, or of the one that the failed
// command asks for. The string is the reason if there is none.
func (r *resolver) tool() (*catalog.Recipe, string) {
	if r.f.Tool == "" {
		if rec := r.asked().recipe; rec != nil {
			return rec, ""
		}
		return nil, "what failed is not the install of a tool"
	}
	rec, ok := r.cat.Recipe(r.f.Tool)
	if !ok {
		return nil, "there is no recipe for " + r.f.Tool
	}
	return rec, ""
}

func (r *resolver) thenSwitch(t *catalog.Option, src source) result {
	rec, why := r.tool()
	dep, noDep := r.recipe(t.Dep, src)
	if why = cmp.Or(why, noDep); why != "" {
		return failed("%s", why)
	}
	b := r.builder()
	w := b.tool(rec, []string{t.SwitchTo})
	if w.reason == "" && !r.p.Has(dep.CLI) && !slices.Contains(w.deps, dep.ID) {
		w = b.unlock(w, []string{dep.ID})
	}
	return result{work: w, goal: toolGoal(rec.ID), substitutes: true, switches: true, timeout: installTime}
}

func (r *resolver) switchMethod(t *catalog.Option, _ source) result {
	rec, why := r.tool()
	if why != "" {
		return failed("%s", why)
	}
	wanted := slices.DeleteFunc(append([]string{t.Method}, t.Prefer...), func(m string) bool { return m == "" })
	var methods []string
	for _, m := range wanted {
		list := []string{m}
		if m == "_default" || m == "system" { // all methods of the recipe on this system
			list = r.builder().methods(rec)
		}
		for _, m := range list {
			_, other := rec.Install[m]
			if (len(packaged(rec, m)) > 0 || other) && m != r.f.Method && m != r.asked().method && !slices.Contains(methods, m) {
				methods = append(methods, m)
			}
		}
	}
	if len(methods) == 0 {
		return failed("the recipe for %s has no other such method (%s)", rec.Label, strings.Join(wanted, ", "))
	}
	return result{work: r.builder().tool(rec, methods), goal: toolGoal(rec.ID), substitutes: true, switches: true, timeout: installTime}
}

func (r *resolver) upgradeDep(t *catalog.Option, src source) result {
	rec, why := r.recipe(t.Dep, src)
	if why != "" {
		return failed("%s", why)
	}
	res := result{goal: toolGoal(rec.ID), timeout: installTime}
	if t.MinVersion != "" {
		if v := src.fill.text(t.MinVersion); plainName(v) {
			res.notes = append(res.notes, "at least version "+v+" is needed")
		}
	}
	if !r.p.Has(rec.CLI) {
		res.work = r.builder().tool(rec, nil)
		res.deps, res.unlock = nil, rec.ID
		return res
	}
	renewed := *rec
	if len(rec.Update) > 0 { // to install again by another method may leave the old version
		renewed.Install, renewed.Packages, renewed.RepoSetup = maps.Clone(rec.Update), nil, nil
		renewed.NeedsSudo = map[string]bool{}
		for m := range rec.Update {
			mgr, ok := r.cat.Manager(m)
			renewed.NeedsSudo[m] = rec.NeedsSudo[m] || ok && mgr.Sudo
			if ok && mgr.Native && !slices.Contains(r.p.Managers, m) {
				delete(renewed.Install, m)
			}
		}
	} else {
		res.notes = append(res.notes, "the package manager decides which version comes")
	}
	notes := res.notes
	res.work = r.builder().tool(&renewed, nil)
	res.notes = append(notes, res.work.notes...)
	return res
}

func (r *resolver) installPackages(t *catalog.Option, src source) result {
	pkgs, held, why := r.packageNames(t, src)
	if why != "" {
		return failed("%s", why)
	}
	w := r.builder().unlock(r.builder().packages(pkgs), nil)
	w.foreign = cmp.Or(w.foreign, held)
	return result{work: w, timeout: installTime}
}

// packageNames returns the packages of an option for this distribution family. held says which entry gave a name and why
// only an operator may start its commands, or is "". why is the reason if there are none.
func (r *resolver) packageNames(t *catalog.Option, src source) (pkgs []string, held, why string) {
	family := r.p.Family
	lookup := func(kind, name string) ([]string, string) {
		found, ok := r.cat.Names.Lookup(kind, name, family)
		if !ok || len(found) == 0 {
			return nil, fmt.Sprintf("nobody knows the package of %s for %s", name, family)
		}
		held = foreign(r.cat.NameOrigin(kind, name), "the package name of "+name)
		return found, ""
	}
	switch {
	case t.PackageGroup != "":
		pkgs, why = lookup(catalog.NameGroup, t.PackageGroup)
	case t.DynamicPackages != "":
		name, err := src.fill.word("{" + t.DynamicPackages + "}")
		if err != nil {
			return nil, "", err.Error()
		}
		if t.DynamicPackages == "tool" {
			return r.toolPackages(name)
		}
		kind, ok := map[string]string{"lib": catalog.NameLib, "header": catalog.NameHeader, "pkgconfig": catalog.NamePkgConfig,
			"cmake": catalog.NameCMake, "soname": catalog.NameSoname}[t.DynamicPackages]
		if !ok {
			return nil, "", fmt.Sprintf("nobody knows packages by %q", t.DynamicPackages)
		}
		pkgs, why = lookup(kind, name)
	default:
		for _, p := range t.Packages[family] {
			filled, err := src.fill.word(p)
			if err != nil {
				return nil, "", err.Error()
			}
			pkgs = append(pkgs, filled)
		}
		if len(pkgs) == 0 {
			why = "nobody knows the packages for " + family
		}
	}
	return pkgs, held, why
}

// toolPackages returns the packages that install a program, from its recipe. held and why are as in packageNames.
func (r *resolver) toolPackages(name string) (pkgs []string, held, why string) {
	rec, ok := r.cat.RecipeByCLI(name)
	if !ok {
		rec, ok = r.indexed(name)
	}
	if !ok {
		return nil, "", "nobody knows the package of " + name
	}
	for _, m := range r.p.Managers {
		if mgr, ok := r.cat.Manager(m); ok && slices.Contains(mgr.Families, r.p.Family) && len(packaged(rec, m)) > 0 {
			return packaged(rec, m), foreign(rec.Origin, "the recipe "+rec.ID), ""
		}
	}
	return nil, "", fmt.Sprintf("nobody knows the package of %s for %s", name, r.p.Family)
}

func (r *resolver) addRepo(t *catalog.Option, src source) result {
	setup := t.RepoSetup
	var rec *catalog.Recipe
	if len(setup) == 0 {
		var why string
		if rec, why = r.tool(); why != "" {
			return failed("%s", why)
		}
		setup = rec.RepoSetup
	}
	for _, m := range r.p.Managers {
		mgr, ok := r.cat.Manager(m)
		if !ok || len(setup[m]) == 0 {
			continue
		}
		if r.p.Network == NetworkNo {
			return failed("there is no network")
		}
		b := r.builder()
		if rec != nil {
			return result{work: b.tool(rec, []string{m}), goal: toolGoal(rec.ID), substitutes: true, timeout: installTime}
		}
		var filled [][]string
		for _, argv := range setup[m] {
			words, err := src.fill.words(argv)
			if err != nil {
				return failed("%s", err)
			}
			filled = append(filled, words)
		}
		return result{work: b.unlock(b.steps(append(filled, mgr.Refresh...), mgr.Sudo), nil), timeout: installTime}
	}
	return failed("nobody knows the repository for the package managers of this system (%s)", strings.Join(r.p.Managers, ", "))
}
