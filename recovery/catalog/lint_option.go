package catalog

import (
	"path"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/pattern"
)

var (
	placeholder = pattern.Lazy(`\{([a-z_][a-z0-9_]*)\}`)
	// packageName is what a package manager takes for a name, and cannot take
	// for a switch.
	packageName = pattern.Lazy(`^[A-Za-z0-9@{][A-Za-z0-9@._/+:={}-]*$`)
)

func strategies() []string {
	return []string{string(InstallDep), string(InstallDepThenSwitch), string(InstallPackages), string(SwitchMethod),
		string(RetryWithModifier), string(AddRepo), string(UpgradeDep), string(EnvFix), string(Manual), string(CleanupRetry), string(Retry)}
}

func actions() []string {
	return []string{"install", "clean_install", "fetch", "build", "clean_build", "install_loose"}
}

func (l *linter) options(h *Handler, c captures) {
	if len(h.Options) == 0 {
		l.fail(nil, "the handler %q has no options: give at least one, if only a manual one", h.ID)
		return
	}
	recommended := 0
	for i := range h.Options {
		o := &h.Options[i]
		t := tokens("options", "@"+o.ID)
		if !optionID().MatchString(o.ID) {
			l.fail(sub(t, "id"), "must be lower-case letters, digits, _ and -: %q", clip(o.ID))
		}
		if slices.ContainsFunc(h.Options[:i], func(p Option) bool { return p.ID == o.ID }) {
			l.fail(sub(t, "id"), "the option id %q stands in this handler twice", o.ID)
		}
		if o.Recommended {
			recommended++
		}
		l.option(t, o)
		l.placeholders(t, h, o, c)
	}
	if recommended != 1 {
		l.fail(tokens("options"), "the handler %q recommends %d options: exactly one must have recommended: true", h.ID, recommended)
	}
}

// option judges an option by itself; of a handler or of a chain's approach.
func (l *linter) option(t []string, o *Option) {
	if o.Label == "" {
		l.fail(t, "has no label")
	}
	l.known(sub(t, "strategy"), "strategy", string(o.Strategy), strategies())
	l.known(sub(t, "executor"), "executor", string(o.Executor), executors())
	l.known(sub(t, "risk"), "risk", string(o.Risk), risks())
	l.fraction(sub(t, "confidence"), o.Confidence)
	if missing := o.missing(); missing != "" && !(o.Strategy == AddRepo && l.ownRepo) {
		l.fail(t, "the strategy %s needs %s", o.Strategy, missing)
	}
	l.resolve(t, o)
	l.argvs(sub(t, "commands"), o.Commands)
	for m, cmds := range o.RepoSetup {
		l.known(sub(t, "repo_setup", m), "package manager", m, l.methods)
		l.argvs(sub(t, "repo_setup", m), cmds)
	}
	for family, list := range o.Packages {
		l.known(sub(t, "packages", family), "distribution family", family, l.distros)
		l.packages(sub(t, "packages", family), list)
	}
	for i, s := range o.Requires {
		l.known(sub(t, "requires", nth(i)), "condition", s, Conditions[:])
	}
	for i, w := range o.Modifier.Wait {
		if w < 0 || w > 3600 {
			l.fail(sub(t, "modifier", "wait_seconds", nth(i)), "must be from 0 to 3600 seconds, not %d", w)
		}
	}
	if x := o.Modifier.ExtendTime; x != 0 && (x < 1 || x > 10) {
		l.fail(sub(t, "modifier", "extend_time"), "must be a factor from 1 to 10, not %v", x)
	}
}

func executors() []string {
	return []string{string(ByWrapper), string(ByRole), string(ByRunner), string(ByHuman)}
}

func risks() []string {
	return []string{string(RiskLow), string(RiskMedium), string(RiskHigh), string(RiskCritical)}
}

// missing says what the strategy of the option needs and does not have. A role
// reads text: its options need no mechanism.
func (o *Option) missing() string {
	has := func(ok bool, what string) string {
		if ok {
			return ""
		}
		return what
	}
	switch o.Strategy {
	case InstallDep, UpgradeDep:
		return has(o.Dep != "", "dep")
	case InstallDepThenSwitch:
		return has(o.Dep != "" && o.SwitchTo != "", "dep and switch_to")
	case InstallPackages:
		return has(len(o.Packages) > 0 || o.PackageGroup != "" || o.DynamicPackages != "", "packages, package_group or dynamic_packages")
	case SwitchMethod:
		return has(o.Method != "" || len(o.Prefer) > 0, "method or prefer")
	case RetryWithModifier:
		return has(!o.Modifier.isZero(), "modifier")
	case AddRepo:
		return has(len(o.RepoSetup) > 0, "repo_setup")
	case EnvFix, CleanupRetry:
		return has(len(o.Commands) > 0 || o.Project != "" || o.Executor == ByRole, "commands or project")
	case Manual:
		return has(o.Instructions != "", "instructions")
	}
	return ""
}

func (m *Modifier) isZero() bool {
	return len(m.Wait)+len(m.Args)+len(m.DropArgs)+len(m.Env) == 0 && !m.LessParallel && m.ExtendTime == 0 && !m.Sudo && m.Ask == ""
}

// resolve looks up every name that the option mentions.
func (l *linter) resolve(t []string, o *Option) {
	if o.Dep != "" && !placeholder().MatchString(o.Dep) {
		l.known(sub(t, "dep"), "recipe", o.Dep, l.recipes)
	}
	for _, m := range []struct{ key, name string }{{"switch_to", o.SwitchTo}, {"method", o.Method}} {
		if m.name != "" {
			l.known(sub(t, m.key), "method", m.name, l.methods)
		}
	}
	for i, m := range o.Prefer {
		l.known(sub(t, "prefer", nth(i)), "method", m, l.methods)
	}
	if o.PackageGroup != "" {
		l.known(sub(t, "package_group"), "package group", o.PackageGroup, l.groups)
	}
	if o.DynamicPackages != "" {
		l.known(sub(t, "dynamic_packages"), "table of packages", o.DynamicPackages, []string{"lib", "header", "pkgconfig", "cmake", "soname", "tool"})
	}
	if o.Project != "" {
		l.known(sub(t, "project"), "project action", o.Project, actions())
	}
}

// argvs judges lists of arguments: they run without a shell.
func (l *linter) argvs(t []string, cmds [][]string) {
	shell := []string{"&&", "||", "|", ";", ">", ">>", "<", "&", "2>&1"}
	for i, argv := range cmds {
		at := sub(t, nth(i))
		switch {
		case len(argv) == 0 || strings.TrimSpace(argv[0]) == "":
			l.fail(at, "has no program")
			continue
		case path.Base(argv[0]) == "sudo" || path.Base(argv[0]) == "doas":
			l.fail(at, "leave %s out and write sudo: true (needs_sudo in a recipe): it depends on the machine whether it is needed", argv[0])
		case strings.ContainsAny(argv[0], " \t"):
			l.fail(at, "a list of arguments, not a shell's text: write [%s]", strings.Join(strings.Fields(argv[0]), ", "))
		}
		for j, a := range argv {
			if slices.Contains(shell, a) {
				l.fail(sub(at, nth(j)), "%q is for a shell, and these arguments are run without one: write several lists", a)
			}
			if strings.ContainsAny(a, "\x00\n\r") {
				l.fail(sub(at, nth(j)), "an argument cannot hold a line end")
			}
		}
	}
}

func (l *linter) packages(t []string, list []string) {
	for i, p := range list {
		if p == "--classic" && slices.Contains(t, "snap") || p == "--cask" && slices.Contains(t, "brew") {
			continue
		}
		if !packageName().MatchString(p) {
			l.fail(sub(t, nth(i)), "%q is not a package's name", clip(p))
		}
	}
}

// placeholders checks that what an option puts into its arguments is captured.
func (l *linter) placeholders(t []string, h *Handler, o *Option, c captures) {
	if d := o.DynamicPackages; d != "" && !c.some[d] {
		l.fail(sub(t, "dynamic_packages"), "no pattern captures it: write (?P<%s>...)", d)
	}
	for _, name := range o.placeholders() {
		switch {
		case name == "dir" || name == "command" || c.every[name]:
		case !c.some[name]:
			l.fail(t, "{%s} is captured by no pattern: write (?P<%s>...)", name, name)
		case !hasFallback(h, o, c):
			l.fail(t, "{%s} is not captured by every alternative, and no other option does without it", name)
		case o.Recommended:
			l.warn(t, "{%s} is not captured by every alternative, so that what is recommended cannot always be done", name)
		}
	}
}

// placeholders are the names in braces of everything that is run.
func (o *Option) placeholders() []string {
	texts := []string{o.Dep}
	for _, argv := range o.Commands {
		texts = append(texts, argv...)
	}
	for _, list := range o.Packages {
		texts = append(texts, list...)
	}
	for _, cmds := range o.RepoSetup {
		for _, argv := range cmds {
			texts = append(texts, argv...)
		}
	}
	texts = append(texts, o.Modifier.Args...)
	for _, v := range o.Modifier.Env {
		texts = append(texts, v)
	}
	var out []string
	for _, text := range texts {
		for _, m := range placeholder().FindAllStringSubmatch(text, -1) {
			out = append(out, m[1])
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func hasFallback(h *Handler, but *Option, c captures) bool {
	for i := range h.Options {
		o := &h.Options[i]
		if o.ID != but.ID && !slices.ContainsFunc(o.placeholders(), func(name string) bool { return !c.every[name] }) {
			return true
		}
	}
	return false
}
