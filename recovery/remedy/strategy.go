package remedy

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/classify"
)

// source holds the properties that an option inherits from its handler or from the chain.
type source struct {
	from       From
	family     string // the method family of the handler, or ""
	confidence float64
	priority   int
	fill       filler
}

// result holds the work of a strategy and the properties of the option that the strategy sets.
type result struct {
	work
	goal        string // the GoalKey; "" means that it is derived from the steps
	unlock      string // the missing recipe that the option itself installs, or ""
	substitutes bool
	switches    bool
	tries       []time.Duration
	timeout     time.Duration
	demoted     string
	command     string // the command text; "" means the text of the steps
}

// option turns an option of the catalog into one for this system. It returns false if the option is for an agent; the
// option is then a hint in the plan.
func (r *resolver) option(t *catalog.Option, src source) (Option, bool) {
	executor := cmp.Or(t.Executor, catalog.ByWrapper)
	if executor == catalog.ByWrapper && (t.Strategy == catalog.Manual || t.Modifier.Ask != "") {
		executor = catalog.ByHuman
	}
	if executor == catalog.ByRole {
		r.hint(src.fill.text(cmp.Or(t.Instructions, t.Description, t.Label)))
		return Option{}, false
	}
	o := Option{
		ID: t.ID, Label: src.fill.text(t.Label), Description: src.fill.text(t.Description), Icon: t.Icon, Strategy: t.Strategy,
		Executor: executor, Risk: cmp.Or(t.Risk, catalog.RiskLow), Confidence: src.confidence, From: src.from, Availability: Ready,
		WorkingDir: r.rel(r.dir), Expect: src.fill.text(t.Expect), Instructions: src.fill.text(t.Instructions), priority: src.priority,
	}
	o.Estimate = r.estimate(t)
	if t.Confidence > 0 {
		o.Confidence = min(o.Confidence, t.Confidence)
	}
	o.Foreign = foreign(src.from.Origin, "the handler "+src.from.ID)
	if reruns(t) {
		o.again = r.again()
	}
	res := failed("%s", r.refused(t))
	if res.reason == "" {
		res = r.strategy(t, src)
	}
	if res.reason == "" && executor == catalog.ByRunner {
		res.steps = nil
	}
	r.fillIn(&o, res)
	return o, true
}

// estimate returns the iterations that the chain of the category expects of an option: of the approach itself, else of
// the first one that covers the option's strategy. Without such an approach it is one.
func (r *resolver) estimate(t *catalog.Option) int {
	chain, _ := r.cat.Chain(r.f.Category)
	for _, a := range chain.Approaches {
		if a.ID == t.ID || slices.Contains(a.Covers, t.Strategy) {
			return max(1, a.EstIterations)
		}
	}
	return 1
}

// refused returns the reason why the option's own conditions exclude this system, or "".
func (r *resolver) refused(t *catalog.Option) string {
	for _, c := range t.Requires {
		if why := r.p.meets(c); why != "" {
			return why
		}
	}
	for _, program := range t.RequiresBinary {
		if !r.p.Has(program) {
			return program + " is not on this system"
		}
	}
	full := r.f.Findings[classify.ProbeFreeSpace]
	if len(t.Frees) > 0 && full.Holds == classify.No && full.Value != "" &&
		!slices.ContainsFunc(t.Frees, func(dir string) bool { return classify.OnFileSystem(dir, full.Value) }) {
		return "it frees nothing on " + full.Value
	}
	if slices.Contains(t.ArchExclude, r.p.Arch) {
		return "it does not work on " + r.p.Arch
	}
	return ""
}

// fillIn sets the fields of an option from the result of its strategy.
func (r *resolver) fillIn(o *Option, res result) {
	o.Notes, o.Demoted = append(o.Notes, res.notes...), res.demoted
	o.Foreign = cmp.Or(o.Foreign, res.foreign)
	o.GoalKey = res.goal
	if o.GoalKey == "" {
		o.GoalKey = r.goal
		if len(res.steps) > 0 {
			own := slices.DeleteFunc(slices.Clone(res.steps), func(s Step) bool { return s.For != "" })
			o.GoalKey = commandGoal(r.dir, own)
		}
	}
	o.Key = o.From.ID + "/" + o.ID + "/" + o.GoalKey
	o.Risk = riskier(o.Risk, res.risk)
	if i := slices.IndexFunc(res.steps, func(s Step) bool { return r.root != "" && s.Dir != "" && !within(r.root, s.Dir) }); i >= 0 && res.tries == nil {
		res.reason = "it would run outside the repository"
	}
	if res.reason != "" {
		o.Availability, o.ImpossibleReason = Impossible, res.reason
		o.effect = effectOf(o)
		return
	}
	o.Switches = res.switches && r.f.Tool == ""
	o.Steps, o.Substitutes, o.Tries, o.Timeout = res.steps, res.substitutes, res.tries, res.timeout
	for i := range o.Steps {
		o.Steps[i].For = cmp.Or(o.Steps[i].For, o.GoalKey)
	}
	if len(o.Steps) > 0 {
		o.Command = cmp.Or(res.command, commandText(o.Steps))
		o.Timeout = cmp.Or(o.Timeout, recovery.DefaultTimeout)
		o.WorkingDir = r.workingDir(o)
	}
	o.UnlockDeps = res.deps
	if res.unlock != "" {
		o.UnlockDeps = []string{res.unlock}
	}
	if len(o.UnlockDeps) > 0 {
		o.Availability = Locked
		o.LockReason = strings.Join(o.UnlockDeps, ", ") + " not installed"
		b := r.builder()
		for _, d := range o.UnlockDeps {
			o.UnlockPreview = append(o.UnlockPreview, b.preview(d))
		}
	}
	if r.repeats(o) {
		o.Demoted = cmp.Or(o.Demoted, "it is the command that failed")
	}
	o.effect = effectOf(o)
}

// repeats reports whether an option that is not a retry has the failed command as its only step.
func (r *resolver) repeats(o *Option) bool {
	if o.Strategy == catalog.Retry || o.Strategy == catalog.RetryWithModifier || len(o.Steps) != 1 || len(r.argv) == 0 {
		return false
	}
	s := o.Steps[0]
	return slices.Equal(s.Argv, r.argv) && len(s.Env) == 0 && (s.Dir == r.dir || s.Dir == "")
}

// workingDir returns the directory in which the option's command must run: that of its first own step, else that of the
// failed command.
func (r *resolver) workingDir(o *Option) string {
	for _, s := range o.Steps {
		if s.Dir != "" && s.For == o.GoalKey {
			return r.rel(s.Dir)
		}
	}
	return r.rel(r.dir)
}

func (r *resolver) builder() builder {
	return builder{cat: r.cat, p: r.p, dir: r.dir, manage: r.forManager, lookup: r.indexed}
}

// strategy calls the function that carries out the option's strategy on this system.
func (r *resolver) strategy(t *catalog.Option, src source) result {
	do, ok := map[catalog.Strategy]func(*catalog.Option, source) result{
		catalog.InstallDep: r.installDep, catalog.InstallDepThenSwitch: r.thenSwitch, catalog.InstallPackages: r.installPackages,
		catalog.SwitchMethod: r.switchMethod, catalog.UpgradeDep: r.upgradeDep, catalog.AddRepo: r.addRepo,
		catalog.RetryWithModifier: r.modified, catalog.EnvFix: r.commands, catalog.CleanupRetry: r.commands,
		catalog.Retry:  func(*catalog.Option, source) result { return r.retry(nil) },
		catalog.Manual: func(*catalog.Option, source) result { return result{goal: r.goal} },
	}[t.Strategy]
	if !ok {
		return failed("nobody knows the strategy %q", t.Strategy)
	}
	return do(t, src)
}

func failed(format string, args ...any) result { return result{work: impossible(format, args...)} }

// commands makes the steps of the option's own command lines and then those of the project's action, if it names one.
func (r *resolver) commands(t *catalog.Option, src source) result {
	b := r.builder()
	if t.Project != "" {
		limit := installTime
		if strings.Contains(t.Project, "build") {
			limit = buildTime
		}
		w := r.project(b, t.Project, src.family)
		if w.reason == "" && len(t.Commands) > 0 {
			own := r.literal(b, t, src)
			if own.reason != "" {
				return result{work: own}
			}
			own.steps = append(own.steps, w.steps...)
			own.deps, own.foreign, own.notes = append(own.deps, w.deps...), w.foreign, w.notes
			w = own
		}
		return result{work: w, timeout: limit}
	}
	return result{work: r.literal(b, t, src), timeout: installTime}
}

// literal makes the steps of the command lines in the catalog, with their placeholders filled.
func (r *resolver) literal(b builder, t *catalog.Option, src source) work {
	if len(t.Commands) == 0 {
		return impossible("it has no commands")
	}
	var filled [][]string
	sudo := t.Sudo
	for _, argv := range t.Commands {
		words, err := src.fill.words(argv)
		if err != nil {
			return impossible("%s", err)
		}
		if len(words) > 0 && words[0] == "sudo" { // steps adds the word again if the profile needs it
			words, sudo = words[1:], true
		}
		if len(words) == 0 || words[0] == "" {
			return impossible("one of its commands is empty")
		}
		if why := r.absent(words); why != "" && len(filled) == 0 {
			return impossible("%s", why)
		}
		filled = append(filled, words)
	}
	filled, place, why := r.forManager(filled)
	if why != "" {
		return impossible("%s", why)
	}
	b.dir = cmp.Or(place, b.dir)
	return b.unlock(b.steps(filled, sudo), nil)
}

// absent returns a reason if a program that is called by its path does not exist, else "".
func (r *resolver) absent(argv []string) string {
	if !strings.Contains(argv[0], "/") {
		return ""
	}
	path := argv[0]
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.dir, path)
	}
	if executable(path) || !filepath.IsAbs(argv[0]) && r.dir == "" {
		return ""
	}
	return fmt.Sprintf("there is no %s in %s that can be run", argv[0], r.rel(r.dir))
}

// retry makes a retry of the failed command: one try after each wait, in seconds. Without waits it takes those of the
// category, and without these it makes one try at once.
func (r *resolver) retry(waits []int) result {
	if len(r.argv) == 0 {
		return failed("the failed command is not known")
	}
	if c, ok := r.cat.Category(r.f.Category); ok && len(waits) == 0 {
		waits = c.Retry
	}
	if len(waits) == 0 {
		waits = []int{0}
	}
	res := result{goal: r.goal, substitutes: true, timeout: r.s.Timeout, command: r.text}
	for _, s := range waits {
		res.tries = append(res.tries, time.Duration(max(s, 0))*time.Second)
	}
	res.steps = []Step{{Argv: r.argv, Dir: r.dir, For: r.goal}}
	return res
}

// modified makes the failed command with the changes of the option's modifier. If the modifier changes nothing but the
// waits, it makes a retry.
func (r *resolver) modified(t *catalog.Option, src source) result {
	m := t.Modifier
	if len(r.argv) == 0 {
		return failed("the failed command is not known")
	}
	env, err := src.fill.environ(m.Env)
	if err != nil {
		return failed("%s", err)
	}
	argv, why := r.changedArgs(m, src)
	if why != "" {
		inner := r.byVariables(m, src)
		if inner == nil {
			return failed("%s", why)
		}
		argv, env = r.argv, append(env, inner...)
		slices.Sort(env)
	}
	if m.LessParallel {
		var more []string
		argv, more = lessParallel(argv)
		env = append(env, more...)
		slices.Sort(env)
		env = slices.Compact(env)
	}
	if !m.Sudo && m.Ask == "" && m.ExtendTime == 0 && len(env) == 0 && slices.Equal(argv, r.argv) {
		return r.retry(m.Wait)
	}
	if manager := changer(r.argv); manager != "" {
		if n, ok := r.node(); ok && n.manager != manager {
			return failed("%s", n.notIts(manager))
		}
	}
	res := result{substitutes: true, timeout: r.s.Timeout}
	if m.ExtendTime > 0 {
		limit := cmp.Or(max(0, r.s.Timeout), recovery.DefaultTimeout)
		res.timeout = time.Duration(float64(limit) * m.ExtendTime)
		res.notes = append(res.notes, "with a time limit of "+res.timeout.String())
	}
	if m.Ask != "" {
		res.notes = append(res.notes, "an operator must give the "+src.fill.text(m.Ask)+" first")
	}
	sudo := m.Sudo
	if sudo && isSudo(argv) {
		return failed("the failed command runs by sudo already")
	}
	if sudo && len(env) > 0 && !r.p.Root {
		argv, env = slices.Concat([]string{"env"}, env, argv), nil
	}
	w := r.builder().steps([][]string{argv}, sudo)
	if w.reason != "" {
		return result{work: w}
	}
	if sudo && r.p.Root {
		return failed("the failed command ran as the superuser already")
	}
	w.steps[0].Env, w.notes = env, res.notes
	if len(m.Wait) > 0 {
		w.steps[0].Wait = time.Duration(max(m.Wait[0], 0)) * time.Second
	}
	res.work = w
	if !sudo && slices.Equal(argv, r.argv) && len(env) == 0 {
		res.command = r.text
	}
	return res
}

func isShell(program string) bool {
	return slices.Contains([]string{"sh", "bash", "dash", "ash", "zsh", "ksh"}, filepath.Base(program))
}
