package catalog

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/pattern"
)

var (
	handlerID = pattern.Lazy(`^[a-z][a-z0-9_]*$`)
	signalID  = pattern.Lazy(`^SIG[A-Z0-9+-]+$`)
)

// The closed lists of values that the fields of an entry may have.
var (
	recipeCategories = []string{"core", "build", "node", "python", "go", "rust", "ruby", "php", "java", "cloud", "service"}
	persistences     = []string{"transient", "environment", "permanent", "code", "usage", "unknown"}
	actions          = []string{"install", "clean_install", "fetch", "build", "clean_build", "install_loose"}
	facts            = []string{string(FactTimedOut), string(FactOOM), string(FactNotStarted), string(FactNoOutput)}
	executors        = []string{string(ByWrapper), string(ByRole), string(ByRunner), string(ByHuman)}
	risks            = []string{string(RiskLow), string(RiskMedium), string(RiskHigh), string(RiskCritical)}
	strategies       = []string{
		string(InstallDep), string(InstallDepThenSwitch), string(InstallPackages), string(SwitchMethod), string(RetryWithModifier), string(AddRepo),
		string(UpgradeDep), string(EnvFix), string(Manual), string(CleanupRetry), string(Retry),
	}
)

// Probes returns the probes that a handler may name, each with the name of the capture that it reads ("" for none).
func Probes() map[string]string {
	return map[string]string{
		"declared": "pkg", "first_line": "script", "writable": "path", "free_space": "path", "lock_holder": "lock",
		"port_owner": "port", "which": "tool", "service": "port", "exists": "path", "oom": "",
	}
}

func (l *linter) handler(h *Handler) {
	l.failIf(!handlerID().MatchString(h.ID), tokens("id"), "must be lower-case letters, digits and _: %q", clip(h.ID))
	cat, ok := l.c.Category(h.Category)
	switch {
	case h.Category == "":
		l.fail(nil, "has no category")
	case !ok:
		l.known(tokens("category"), "category", h.Category, l.categories)
	}
	if h.Persistence != "" {
		l.known(tokens("persistence"), "persistence", h.Persistence, persistences)
	}
	l.fraction(tokens("confidence"), h.Confidence)
	if r, ok := l.c.Recipe(h.Family); ok && h.Layer == LayerRecipe {
		l.ownRepo = len(r.RepoSetup) > 0
	}
	captures := l.match(h)
	probes := Probes()
	for i, p := range h.Probes {
		capture, known := probes[p]
		if !known {
			l.known(tokens("probes", nth(i)), "probe", p, sortedKeys(probes))
		} else if capture != "" && !captures.some[capture] {
			l.warn(tokens("probes", nth(i)), "the probe %s looks at the capture %q, which no pattern has: write (?P<%s>...)", p, capture, capture)
		}
	}
	l.examples(h)
	isCode := cat != nil && cat.Area == "code"
	switch {
	case h.Layer == LayerGuard && h.Guard != GuardStrong && h.Guard != GuardWeak:
		l.fail(tokens("guard"), "a handler of the guards needs guard: strong or guard: weak")
	case h.Layer != LayerGuard && h.Guard != GuardNone:
		l.fail(tokens("guard"), "a guard stands in a file with layer: guard")
	case h.Guard != GuardNone:
		l.failIf(len(h.Options) > 0, tokens("options"), "a guard has no options: it recognises code, which only a change of the code remedies")
		l.failIf(cat != nil && !isCode, tokens("category"), "a guard's category is code_bug")
		l.failIf(h.Dominates, tokens("dominates"), "a guard cannot dominate")
	default:
		l.options(h, captures)
		for i := range h.Options {
			if o := &h.Options[i]; isCode && o.Executor == ByWrapper {
				l.fail(tokens("options", "@"+o.ID), "nothing of the category %s may be run by superloop: give it executor: role or strategy: manual", cat.ID)
			}
		}
	}
}

// captures holds the named groups of a handler's patterns: some has the groups of any pattern, every has the groups
// that each possible match fills.
type captures struct{ some, every map[string]bool }

func (l *linter) match(h *Handler) captures {
	m := &h.Match
	c := captures{some: map[string]bool{}, every: map[string]bool{}}
	if len(m.Any)+len(m.All)+len(m.Not) > maxPatterns && l.origin.Source != SourceEmbedded {
		l.fail(tokens("match"), "more than %d patterns: split the handler", maxPatterns)
		return c
	}
	for i, p := range m.Any {
		now := map[string]bool{}
		for _, name := range l.pattern(tokens("match", "any", nth(i)), p) {
			c.some[name] = true
			if i == 0 || c.every[name] {
				now[name] = true
			}
		}
		c.every = now
	}
	for i, p := range m.All {
		for _, name := range l.pattern(tokens("match", "all", nth(i)), p) {
			c.some[name], c.every[name] = true, true
		}
	}
	for i, p := range m.Not {
		l.pattern(tokens("match", "not", nth(i)), p)
	}
	l.failIf(len(m.Any)+len(m.All)+len(m.ExitCodes)+len(m.Signals)+len(m.Facts) == 0, tokens("match"),
		"says nothing that a failure must have: give any, all, exit_codes, signals or facts")
	for i, code := range m.ExitCodes {
		l.failIf(code < 1 || code > 255, tokens("match", "exit_codes", nth(i)), "must be from 1 to 255, not %d", code)
	}
	for i, s := range m.Signals {
		l.failIf(!signalID().MatchString(s), tokens("match", "signals", nth(i)), "must be a name like SIGKILL, not %q", clip(s))
	}
	allKnown(l, tokens("match", "facts"), "fact", m.Facts, facts)
	allKnown(l, tokens("match", "streams"), "stream", m.Streams, []string{"stdout", "stderr"})
	for i, s := range m.Commands {
		l.failIf(strings.TrimSpace(s) == "", tokens("match", "commands", nth(i)), "is empty")
	}
	return c
}

func (l *linter) examples(h *Handler) {
	complain := l.warn
	if l.origin.Source == SourceEmbedded {
		complain = l.fail
	}
	if len(h.Examples) == 0 {
		complain(tokens("examples"), "the handler %q has no example: give a real output that it recognises", h.ID)
	}
	if len(h.CounterExamples) == 0 {
		complain(tokens("counter_examples"), "the handler %q has no counter-example: give a real output that looks alike and is something else", h.ID)
	}
	for i := range h.Examples {
		e := &h.Examples[i]
		if e.ExitCode == 0 && e.Signal == "" && !e.TimedOut && !e.OOM && !slices.Contains(h.Match.Facts, FactNotStarted) {
			l.warn(tokens("examples", nth(i)), "it ended well by its exit code, so that nobody will ask what failed")
		}
		if e.Signal != "" && !signalID().MatchString(e.Signal) {
			complain(tokens("examples", nth(i), "signal"), "must be a name like SIGKILL, not %q", clip(e.Signal))
		}
	}
}

var (
	optionID    = pattern.Lazy(`^[a-z][a-z0-9_-]*$`)
	placeholder = pattern.Lazy(`\{([a-z_][a-z0-9_]*)\}`)
	// packageName matches words that a package manager takes for a name and cannot take for a switch.
	packageName = pattern.Lazy(`^[A-Za-z0-9@{][A-Za-z0-9@._/+:={}-]*$`)
)

func (l *linter) optionID(t []string, id string) {
	l.failIf(!optionID().MatchString(id), sub(t, "id"), "must be lower-case letters, digits, _ and -: %q", clip(id))
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
		if l.optionID(t, o.ID); slices.ContainsFunc(h.Options[:i], func(p Option) bool { return p.ID == o.ID }) {
			l.fail(sub(t, "id"), "the option id %q stands in this handler twice", o.ID)
		}
		if o.Recommended {
			recommended++
		}
		l.option(t, o)
		l.placeholders(t, h, o, c)
	}
	l.failIf(recommended != 1, tokens("options"),
		"the handler %q recommends %d options: exactly one must have recommended: true", h.ID, recommended)
}

// option checks one option of a handler or of a chain's approach.
func (l *linter) option(t []string, o *Option) {
	l.failIf(o.Label == "", t, "has no label")
	l.known(sub(t, "strategy"), "strategy", string(o.Strategy), strategies)
	l.known(sub(t, "executor"), "executor", string(o.Executor), executors)
	l.known(sub(t, "risk"), "risk", string(o.Risk), risks)
	l.fraction(sub(t, "confidence"), o.Confidence)
	if missing := o.missing(); missing != "" && !(o.Strategy == AddRepo && l.ownRepo) {
		l.fail(t, "the strategy %s needs %s", o.Strategy, missing)
	}
	l.resolve(t, o)
	l.argvs(sub(t, "commands"), o.Commands)
	l.repoSetup(sub(t, "repo_setup"), o.RepoSetup, l.methods)
	l.packagesBy(sub(t, "packages"), o.Packages)
	allKnown(l, sub(t, "requires"), "condition", o.Requires, Conditions[:])
	for i, w := range o.Modifier.Wait {
		l.failIf(w < 0 || w > 3600, sub(t, "modifier", "wait_seconds", nth(i)), "must be from 0 to 3600 seconds, not %d", w)
	}
	l.alters(sub(t, "modifier", "alters"), &o.Modifier)
	x := o.Modifier.ExtendTime
	l.failIf(x != 0 && (x < 1 || x > 10), sub(t, "modifier", "extend_time"), "must be a factor from 1 to 10, not %v", x)
}

// alters checks that a modifier that changes arguments names the calls that it may change.
func (l *linter) alters(t []string, m *Modifier) {
	changes := len(m.Args)+len(m.DropArgs) > 0
	complain := l.warn
	if l.origin.Source == SourceEmbedded {
		complain = l.fail
	}
	if changes && len(m.Alters) == 0 {
		complain(t, "names no call, so the remedy is offered for none: give the calls that args and drop_args may change, such as [pip install]")
	}
	l.failIf(!changes && len(m.Alters) > 0, t, "is only for args and drop_args, and the modifier has neither")
	for i, call := range m.Alters {
		l.failIf(strings.TrimSpace(call) == "" || strings.ContainsAny(call[:1], "!.-"), sub(t, nth(i)), "must begin with the name of a program: %q", clip(call))
	}
}

// missing names the fields that the strategy of the option needs and that the option does not have, or returns "". An
// option for a role needs no commands, because a role reads text.
func (o *Option) missing() string {
	m := &o.Modifier
	modifier := len(m.Wait)+len(m.Args)+len(m.DropArgs)+len(m.Env) > 0 || m.LessParallel || m.ExtendTime != 0 || m.Sudo || m.Ask != ""
	commands := len(o.Commands) > 0 || o.Project != "" || o.Executor == ByRole
	needs, needed := map[Strategy]struct {
		has  bool
		what string
	}{
		InstallDep:           {o.Dep != "", "dep"},
		UpgradeDep:           {o.Dep != "", "dep"},
		InstallDepThenSwitch: {o.Dep != "" && o.SwitchTo != "", "dep and switch_to"},
		InstallPackages:      {len(o.Packages) > 0 || o.PackageGroup != "" || o.DynamicPackages != "", "packages, package_group or dynamic_packages"},
		SwitchMethod:         {o.Method != "" || len(o.Prefer) > 0, "method or prefer"},
		RetryWithModifier:    {modifier, "modifier"},
		AddRepo:              {len(o.RepoSetup) > 0, "repo_setup"},
		EnvFix:               {commands, "commands or project"},
		CleanupRetry:         {commands, "commands or project"},
		Manual:               {o.Instructions != "", "instructions"},
	}[o.Strategy]
	if !needed || needs.has {
		return ""
	}
	return needs.what
}

func (l *linter) resolve(t []string, o *Option) {
	dep := o.Dep
	if placeholder().MatchString(dep) {
		dep = ""
	}
	for _, m := range []struct {
		key, what, name string
		list            []string
	}{
		{"dep", "recipe", dep, l.recipes}, {"switch_to", "method", o.SwitchTo, l.methods}, {"method", "method", o.Method, l.methods},
		{"package_group", "package group", o.PackageGroup, l.groups},
		{"dynamic_packages", "table of packages", o.DynamicPackages, strings.Fields("lib header pkgconfig cmake soname tool")},
		{"project", "project action", o.Project, actions},
	} {
		if m.name != "" {
			l.known(sub(t, m.key), m.what, m.name, m.list)
		}
	}
	allKnown(l, sub(t, "prefer"), "method", o.Prefer, l.methods)
}

func (l *linter) repoSetup(t []string, setup map[string][][]string, managers []string) {
	for m, cmds := range setup {
		l.known(sub(t, m), "package manager", m, managers)
		l.argvs(sub(t, m), cmds)
	}
}

func (l *linter) packagesBy(t []string, families map[string][]string) {
	for f, list := range families {
		l.known(sub(t, f), "distribution family", f, l.distros)
		l.packages(sub(t, f), list)
	}
}

// argvs checks commands that run without a shell, each a list of arguments.
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
			l.failIf(slices.Contains(shell, a), sub(at, nth(j)),
				"%q is for a shell, and these arguments are run without one: write several lists", a)
			l.failIf(strings.ContainsAny(a, "\x00\n\r"), sub(at, nth(j)), "an argument cannot hold a line end")
		}
	}
}

func (l *linter) packages(t []string, list []string) {
	for i, p := range list {
		if p == "--classic" && slices.Contains(t, "snap") || p == "--cask" && slices.Contains(t, "brew") {
			continue
		}
		l.failIf(!packageName().MatchString(p), sub(t, nth(i)), "%q is not a package's name", clip(p))
	}
}

// placeholders checks that the patterns of a handler capture the placeholders in an option's arguments.
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

// placeholders returns the sorted names of the placeholders in the option's commands, packages and other arguments.
func (o *Option) placeholders() []string {
	texts := slices.Concat([]string{o.Dep}, o.Modifier.Args, slices.Collect(maps.Values(o.Modifier.Env)), slices.Concat(o.Commands...))
	texts = append(texts, slices.Concat(slices.Collect(maps.Values(o.Packages))...)...)
	for _, cmds := range o.RepoSetup {
		texts = append(texts, slices.Concat(cmds...)...)
	}
	found := map[string]bool{}
	for _, text := range texts {
		for _, m := range placeholder().FindAllStringSubmatch(text, -1) {
			found[m[1]] = true
		}
	}
	return sortedKeys(found)
}

// hasFallback reports whether another option of the handler needs only captures that every match fills.
func hasFallback(h *Handler, but *Option, c captures) bool {
	return slices.ContainsFunc(h.Options, func(o Option) bool {
		return o.ID != but.ID && !slices.ContainsFunc(o.placeholders(), func(name string) bool { return !c.every[name] })
	})
}
