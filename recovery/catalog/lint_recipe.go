package catalog

import (
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/pattern"
)

var (
	recipeID = pattern.Lazy(`^[a-z0-9][a-z0-9_.+-]*$`)
	program  = pattern.Lazy(`^[A-Za-z0-9_][A-Za-z0-9_.+-]*$`)
)

// allMethods is the key that stands for every method of a recipe.
const allMethods = "*"

func recipeCategories() []string {
	return []string{"core", "build", "node", "python", "go", "rust", "ruby", "php", "java", "cloud", "service"}
}

func (l *linter) recipe(r *Recipe) {
	if !recipeID().MatchString(r.ID) {
		l.fail(tokens("id"), "must be lower-case letters, digits, _ . + and -: %q", clip(r.ID))
	}
	if !program().MatchString(r.CLI) {
		l.fail(tokens("cli"), "must be the name of a program, without a path: %q", clip(r.CLI))
	}
	l.known(tokens("category"), "recipe category", r.Category, recipeCategories())
	l.known(tokens("risk"), "risk", string(r.Risk), risks())
	if len(r.Packages)+len(r.Install) == 0 {
		l.fail(nil, "the recipe %q says no way to install it: give packages or install", r.ID)
	}
	managers := []string{}
	for _, m := range l.c.Managers {
		managers = append(managers, m.ID)
	}
	own := slices.Concat(sortedKeys(r.Packages), sortedKeys(r.Install))
	for _, m := range sortedKeys(r.Packages) {
		l.known(tokens("packages", m), "package manager", m, managers)
		if len(r.Packages[m]) == 0 {
			l.fail(tokens("packages", m), "names no package")
		}
		l.packages(tokens("packages", m), r.Packages[m])
	}
	for _, m := range sortedKeys(r.Install) {
		if len(r.Install[m]) == 0 {
			l.fail(tokens("install", m), "has no command")
		}
		if slices.Contains(managers, m) {
			l.warn(tokens("install", m), "%s is a package manager: name the packages under packages, superloop knows its command line", m)
		}
		l.argvs(tokens("install", m), r.Install[m])
	}
	for _, m := range sortedKeys(r.Update) {
		l.argvs(tokens("update", m), r.Update[m])
	}
	for _, m := range sortedKeys(r.RepoSetup) {
		l.known(tokens("repo_setup", m), "package manager", m, managers)
		l.argvs(tokens("repo_setup", m), r.RepoSetup[m])
	}
	for _, m := range sortedKeys(r.InstallVia) {
		if m != "_default" && m != allMethods {
			l.known(tokens("install_via", m), "method of this recipe", m, own)
		}
		l.known(tokens("install_via", m), "method family", r.InstallVia[m], l.methods)
	}
	for _, m := range sortedKeys(r.NeedsSudo) {
		l.known(tokens("needs_sudo", m), "method of this recipe", m, own)
	}
	for i, m := range r.Prefer {
		l.known(tokens("prefer", nth(i)), "method of this recipe", m, own)
	}
	l.needs(r, own)
	l.verify("verify", &r.Verify)
	l.verify("health", &r.Health)
}

func (l *linter) needs(r *Recipe, own []string) {
	t := tokens("requires")
	for _, m := range sortedKeys(r.Requires.Binaries) {
		if m != allMethods {
			l.known(sub(t, "binaries", m), "method of this recipe", m, own)
		}
		for i, id := range r.Requires.Binaries[m] {
			l.known(sub(t, "binaries", m, nth(i)), "recipe", id, l.recipes)
			if id == r.ID {
				l.fail(sub(t, "binaries", m, nth(i)), "the recipe %q needs itself", id)
			}
		}
	}
	for _, f := range sortedKeys(r.Requires.Packages) {
		l.known(sub(t, "packages", f), "distribution family", f, l.distros)
		l.packages(sub(t, "packages", f), r.Requires.Packages[f])
	}
	for i, s := range r.Requires.Conditions {
		l.known(sub(t, "conditions", nth(i)), "condition", s, Conditions[:])
	}
}

func (l *linter) verify(key string, v *Verify) {
	if v.Command == "" {
		return
	}
	t := tokens(key)
	if v.Mode != "" {
		l.known(sub(t, "mode"), "mode", v.Mode, []string{ModeVersion, ModeOutput})
	}
	if v.Mode == ModeOutput && v.Pattern == "" {
		l.fail(t, "mode: output needs a pattern")
	}
	if v.Pattern != "" {
		l.pattern(sub(t, "pattern"), v.Pattern)
	}
	if v.ExitCode < 0 || v.ExitCode > 255 {
		l.fail(sub(t, "exit_code"), "must be from 0 to 255, not %d", v.ExitCode)
	}
	if strings.ContainsAny(v.Command, "\n\r;|&<>`$") {
		l.fail(sub(t, "command"), "must be one plain command without a shell's signs: %q", clip(v.Command))
	}
}

func (l *linter) project(p *ProjectRecipe) {
	if !recipeID().MatchString(p.ID) {
		l.fail(tokens("id"), "must be lower-case letters, digits, _ . + and -: %q", clip(p.ID))
	}
	if p.Method == "" {
		l.fail(nil, "has no method: the family of its handlers, such as npm")
	} else {
		l.known(tokens("method"), "method", p.Method, l.methods)
	}
	if len(p.Manifests)+len(p.LockFiles) == 0 {
		l.fail(nil, "the project recipe %q has neither lock_files nor manifests, so that nothing can choose it", p.ID)
	}
	for _, key := range []struct {
		name  string
		files []string
	}{{"lock_files", p.LockFiles}, {"manifests", p.Manifests}, {"produces", p.Produces}} {
		for i, f := range key.files {
			if f == "" || strings.HasPrefix(f, "/") || slices.Contains(strings.Split(f, "/"), "..") {
				l.fail(tokens(key.name, nth(i)), "must be a path inside of the project, not %q", clip(f))
			}
		}
	}
	for _, a := range sortedKeys(p.Actions) {
		l.known(tokens("actions", a), "project action", a, actions())
		if len(p.Actions[a]) == 0 {
			l.fail(tokens("actions", a), "has no command")
		}
		l.argvs(tokens("actions", a), p.Actions[a])
	}
	if len(p.Actions) == 0 {
		l.fail(nil, "the project recipe %q has no actions", p.ID)
	}
	for i, id := range p.Requires {
		l.known(tokens("requires", nth(i)), "recipe", id, l.recipes)
	}
}

func (l *linter) manager(m *Manager) {
	if !program().MatchString(m.CLI) {
		l.fail(tokens("cli"), "must be the name of a program, without a path: %q", clip(m.CLI))
	}
	if len(m.Install) == 0 {
		l.fail(nil, "the package manager %q has no install", m.ID)
	} else {
		l.argvs(tokens("install"), [][]string{m.Install})
	}
	l.argvs(tokens("refresh"), m.Refresh)
	l.argvs(tokens("clean"), m.Clean)
}

func (l *linter) names() {
	for _, kind := range nameKinds() {
		for _, name := range sortedKeys(l.c.Names.Kind(kind)) {
			o := l.c.NameOrigin(kind, name)
			var t []string
			if o.Source == SourceEmbedded {
				o.Pointer, t = join("", kind), tokens(name)
			}
			if !l.enter(o) {
				continue
			}
			families := l.c.Names.Kind(kind)[name]
			if len(families) == 0 {
				l.fail(t, "names no packages")
			}
			for _, f := range sortedKeys(families) {
				l.known(sub(t, f), "distribution family", f, l.distros)
				l.packages(sub(t, f), families[f])
			}
		}
	}
}
