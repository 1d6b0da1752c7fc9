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
)

// source is what an option inherits from its handler or recipe.
type source struct {
	from       From
	family     string // method family of the handler
	confidence float64
	priority   int
	fill       filler
}

// result is what a strategy comes to: work, and what is special about it.
type result struct {
	work
	goal        string // "" for what its steps bring about
	unlock      string // the dependency that the option is about
	substitutes bool
	tries       []time.Duration
	timeout     time.Duration
	demoted     string
	command     string // where it is not the steps' own text
}

// option works one option of the catalog out. False means that it is no option but a hint for an agent.
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
		ID: t.ID, Label: src.fill.text(t.Label), Description: src.fill.text(t.Description), Strategy: t.Strategy,
		Executor: executor, Risk: cmp.Or(t.Risk, catalog.RiskLow), Confidence: src.confidence, From: src.from, Availability: Ready,
		WorkingDir: r.rel(r.dir), Expect: src.fill.text(t.Expect), Instructions: src.fill.text(t.Instructions), priority: src.priority,
	}
	if t.Confidence > 0 {
		o.Confidence = min(o.Confidence, t.Confidence)
	}
	o.Foreign = foreign(src.from.Origin, "the handler "+src.from.ID)
	res := r.refused(t)
	if res.reason == "" {
		res = r.strategy(t, src)
	}
	if res.reason == "" && executor == catalog.ByRunner {
		res.steps = nil
	}
	r.fillIn(&o, res)
	return o, true
}

// refused says why nothing that the option is about can work here.
func (r *resolver) refused(t *catalog.Option) (res result) {
	for _, c := range t.Requires {
		if why := r.p.meets(c); why != "" {
			res.reason = why
			return res
		}
	}
	for _, program := range t.RequiresBinary {
		if !r.p.Has(program) {
			res.reason = program + " is not on this system"
			return res
		}
	}
	if slices.Contains(t.ArchExclude, r.p.Arch) {
		res.reason = "it does not work on " + r.p.Arch
	}
	return res
}

// fillIn puts a result into an option.
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

// repeats reports whether an option is the failed command again, under another name.
func (r *resolver) repeats(o *Option) bool {
	if o.Strategy == catalog.Retry || o.Strategy == catalog.RetryWithModifier || len(o.Steps) != 1 || len(r.argv) == 0 {
		return false
	}
	s := o.Steps[0]
	return slices.Equal(s.Argv, r.argv) && len(s.Env) == 0 && (s.Dir == r.dir || s.Dir == "")
}

// workingDir is where the text of the command is to run. All steps run in one place: that of the project, or of the
// failed command.
func (r *resolver) workingDir(o *Option) string {
	for _, s := range o.Steps {
		if s.Dir != "" && s.For == o.GoalKey {
			return r.rel(s.Dir)
		}
	}
	return r.rel(r.dir)
}

func (r *resolver) builder() builder { return builder{cat: r.cat, p: r.p, dir: r.dir} }

// strategy works out what an option does here.
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

// commands are the option's own command lines, or the project's.
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

// literal are command lines as the catalog writes them.
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
		if len(words) > 0 && words[0] == "sudo" { // the profile says whether that word is needed
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
	return b.unlock(b.steps(filled, sudo), nil)
}

// absent says that a program of the project is not there.
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
