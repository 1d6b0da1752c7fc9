package catalog

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/pattern"
)

var (
	recipeID = pattern.Lazy(`^[a-z0-9][a-z0-9_.+-]*$`)
	program  = pattern.Lazy(`^[A-Za-z0-9_][A-Za-z0-9_.+-]*$`)
)

// allMethods is the key "*" in a recipe's tables, which stands for every method.
const allMethods = "*"

func (l *linter) recipe(r *Recipe) {
	l.recipeID(r.ID)
	l.program(r.CLI)
	l.known(tokens("category"), "recipe category", r.Category, recipeCategories)
	l.known(tokens("risk"), "risk", string(r.Risk), risks)
	l.failIf(len(r.Packages)+len(r.Install) == 0, nil, "the recipe %q says no way to install it: give packages or install", r.ID)
	own := slices.Concat(sortedKeys(r.Packages), sortedKeys(r.Install))
	for m, list := range r.Packages {
		l.known(tokens("packages", m), "package manager", m, l.managers)
		l.failIf(len(list) == 0, tokens("packages", m), "names no package")
		l.packages(tokens("packages", m), list)
	}
	for m, cmds := range r.Install {
		if slices.Contains(l.managers, m) {
			l.warn(tokens("install", m), "%s is a package manager: name the packages under packages, superloop knows its command line", m)
		}
		l.commands(tokens("install", m), cmds)
	}
	for m, cmds := range r.Update {
		l.argvs(tokens("update", m), cmds)
	}
	l.repoSetup(tokens("repo_setup"), r.RepoSetup, l.managers)
	for m, family := range r.InstallVia {
		if m != "_default" && m != allMethods {
			l.known(tokens("install_via", m), "method of this recipe", m, own)
		}
		l.known(tokens("install_via", m), "method family", family, l.methods)
	}
	for m := range r.NeedsSudo {
		l.known(tokens("needs_sudo", m), "method of this recipe", m, own)
	}
	allKnown(l, tokens("prefer"), "method of this recipe", r.Prefer, own)
	for m, ids := range r.Requires.Binaries {
		t := tokens("requires", "binaries", m)
		if m != allMethods {
			l.known(t, "method of this recipe", m, own)
		}
		allKnown(l, t, "recipe", ids, l.recipes)
		if i := slices.Index(ids, r.ID); i >= 0 {
			l.fail(sub(t, nth(i)), "the recipe %q needs itself", r.ID)
		}
	}
	l.packagesBy(tokens("requires", "packages"), r.Requires.Packages)
	allKnown(l, tokens("requires", "conditions"), "condition", r.Requires.Conditions, Conditions[:])
	l.verify("verify", &r.Verify)
	l.verify("health", &r.Health)
}

func (l *linter) recipeID(id string) {
	l.failIf(!recipeID().MatchString(id), tokens("id"), "must be lower-case letters, digits, _ . + and -: %q", clip(id))
}

func (l *linter) program(cli string) {
	l.failIf(!program().MatchString(cli), tokens("cli"), "must be the name of a program, without a path: %q", clip(cli))
}

func (l *linter) commands(t []string, cmds [][]string) {
	l.failIf(len(cmds) == 0, t, "has no command")
	l.argvs(t, cmds)
}

func (l *linter) verify(key string, v *Verify) {
	if v.Command == "" {
		return
	}
	t := tokens(key)
	if v.Mode != "" {
		l.known(sub(t, "mode"), "mode", v.Mode, []string{ModeVersion, ModeOutput})
	}
	l.failIf(v.Mode == ModeOutput && v.Pattern == "", t, "mode: output needs a pattern")
	if v.Pattern != "" {
		l.pattern(sub(t, "pattern"), v.Pattern)
	}
	l.failIf(v.ExitCode < 0 || v.ExitCode > 255, sub(t, "exit_code"), "must be from 0 to 255, not %d", v.ExitCode)
	l.failIf(strings.ContainsAny(v.Command, "\n\r;|&<>`$"), sub(t, "command"),
		"must be one plain command without a shell's signs: %q", clip(v.Command))
}

func (l *linter) project(p *ProjectRecipe) {
	if l.recipeID(p.ID); p.Method == "" {
		l.fail(nil, "has no method: the family of its handlers, such as npm")
	} else {
		l.known(tokens("method"), "method", p.Method, l.methods)
	}
	l.failIf(len(p.Manifests)+len(p.LockFiles) == 0, nil,
		"the project recipe %q has neither lock_files nor manifests, so that nothing can choose it", p.ID)
	for key, files := range map[string][]string{"lock_files": p.LockFiles, "manifests": p.Manifests, "produces": p.Produces} {
		for i, f := range files {
			l.failIf(f == "" || strings.HasPrefix(f, "/") || slices.Contains(strings.Split(f, "/"), ".."), tokens(key, nth(i)),
				"must be a path inside of the project, not %q", clip(f))
		}
	}
	for a, cmds := range p.Actions {
		l.known(tokens("actions", a), "project action", a, actions)
		l.commands(tokens("actions", a), cmds)
	}
	l.failIf(len(p.Actions) == 0, nil, "the project recipe %q has no actions", p.ID)
	allKnown(l, tokens("requires"), "recipe", p.Requires, l.recipes)
}

func (l *linter) manager(m *Manager) {
	if l.program(m.CLI); len(m.Install) == 0 {
		l.fail(nil, "the package manager %q has no install", m.ID)
	} else {
		l.argvs(tokens("install"), [][]string{m.Install})
	}
	l.argvs(tokens("refresh"), m.Refresh)
	l.argvs(tokens("clean"), m.Clean)
}

func (l *linter) names() {
	for _, kind := range nameKinds {
		for name, families := range *l.c.Names.table(kind) {
			o := l.c.NameOrigin(kind, name)
			if o.Pointer = cmp.Or(o.Pointer, join(join("", kind), name)); !l.enter(o) {
				continue
			}
			l.failIf(len(families) == 0, nil, "names no packages")
			if kind == NameProgram {
				families = maps.Clone(families)
				maps.DeleteFunc(families, func(method string, _ []string) bool { _, ok := ProgramMethods[method]; return ok })
			}
			l.packagesBy(nil, families)
		}
	}
}

const (
	// maxApproaches bounds the approaches that a chain lists. AskUser does not count.
	maxApproaches = 4
	// AskUser is the last approach of every chain: to ask an operator. No chain lists it; package remedy appends it.
	AskUser = "ask_user"
)

func (l *linter) chain(ch *Chain) {
	cat, ok := l.c.Category(ch.Category)
	if !ok {
		l.known(tokens("category"), "category", ch.Category, l.categories)
		return
	}
	l.failIf(len(ch.Approaches) > maxApproaches, tokens("approaches"),
		"the chain of %s has %d approaches: a chain has %d at most", ch.Category, len(ch.Approaches), maxApproaches)
	l.failIf(cat.Area == "code" && len(ch.Approaches) > 0, tokens("approaches"),
		"the chain of %s must be empty: code is the normal work of the loop", ch.Category)
	seen := map[int]string{}
	for i := range ch.Approaches {
		a := &ch.Approaches[i]
		t := tokens("approaches", "@"+a.ID)
		l.failIf(a.ID == AskUser, t, "leave %s out: every chain ends with it", AskUser)
		if l.optionID(t, a.ID); slices.ContainsFunc(ch.Approaches[:i], func(p Approach) bool { return p.ID == a.ID }) {
			l.fail(t, "the approach %q stands in this chain twice", a.ID)
		}
		if other, twice := seen[a.Priority]; twice {
			l.fail(sub(t, "priority"), "%s has the priority %d too: an order needs different ones", other, a.Priority)
		}
		seen[a.Priority] = a.ID
		l.approach(t, a)
	}
}

func (l *linter) approach(t []string, a *Approach) {
	l.failIf(a.Label == "", t, "has no label")
	l.fraction(sub(t, "confidence"), a.Confidence)
	l.known(sub(t, "executor"), "executor", string(a.Executor), executors)
	l.failIf(a.Priority < 1, sub(t, "priority"), "must be 1 or more: 1 is tried first")
	allKnown(l, sub(t, "covers"), "strategy", a.Covers, strategies)
	switch {
	case a.Executor == ByWrapper && len(a.Covers) == 0 && a.Option == nil:
		l.fail(t, "the wrapper's approach %q needs an option, or strategies that it covers", a.ID)
	case a.Executor == ByRole && a.Hint == "":
		l.fail(t, "the role's approach %q needs a hint: one sentence for the prompt", a.ID)
	}
	if o := a.Option; o != nil {
		l.option(sub(t, "option"), o)
		for _, name := range o.placeholders() {
			l.failIf(name != "dir" && name != "command", sub(t, "option"), "a chain captures nothing: {%s} cannot be filled in", name)
		}
	}
}

// completeness checks that every category has a chain. Only auth and the categories of area code may have an empty one.
func (l *linter) completeness() {
	for _, cat := range l.c.Categories {
		ch, ok := l.c.Chains[cat.ID]
		if !ok {
			l.fail(nil, "the category %s has no chain", cat.ID)
		} else if len(ch.Approaches) == 0 && cat.Area != "code" && cat.ID != "auth" {
			l.fail(nil, "the chain of %s is empty", cat.ID)
		}
	}
}
