// Package remedy finds the remedies for a failure on the system at hand. Resolve takes a classified failure, the
// catalog and a Profile of the system. It collects the options of every matching handler, of the category's chain and
// of the tester's proposal, and finds the availability, the steps and the command text of each. ByItself and Gate then
// say whether superloop may run one of them without an operator.
//
// The package runs no command, except that the Index of this machine's profile asks package managers for programs that
// the catalog does not know (package provides). It cannot grant a permission. A command may run if recovery.Decide allows it and
// ByItself does not refuse it. The steps that the catalog gives are lists of arguments. A text that a tool printed
// becomes a part of an argument only if it looks like a name.
package remedy

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/classify"
)

// AskUser is the id of the last option of every plan.
const AskUser = "ask_user"

// resolver makes one plan.
type resolver struct {
	cat   *catalog.Catalog
	p     Profile
	f     *classify.Failure
	s     Situation
	root  string   // the directory of the repository, absolute or ""
	dir   string   // the directory in which the failed command ran, absolute or ""
	argv  []string // the words of the failed command; nil if it is not known
	text  string   // the text of the failed command
	goal  string
	tried map[string]int
	plan  *Plan

	projects map[string]found // by ecosystem
	nodes    *nodeProject     // the result of node; nil before the first search
	wants    *asked           // the result of asked; nil before the first search
}

// Resolve returns the plan with all remedies for a failure on a system. It changes nothing, and reads only the
// project's lock files and manifests, and the profile's Path for programs. With the same files it returns the same plan
// for the same arguments.
func Resolve(cat *catalog.Catalog, f classify.Failure, p Profile, s Situation) Plan {
	plan := Plan{Failure: f}
	r := newResolver(cat, &f, p, s)
	r.plan = &plan
	plan.Goal = r.goal
	if c, ok := cat.Category(f.Category); ok {
		plan.category = *c
	}
	if f.Code {
		plan.Notes = append(plan.Notes, "only a change of the code can fix this")
		if s.ProposalOfTester != nil {
			plan.Notes = append(plan.Notes, "the tester's proposal is left out: no command of the environment fixes a failure of the code")
		}
	} else {
		plan.Options = r.fromHandlers()
		plan.Options = append(plan.Options, r.fromChain(plan.Options)...)
		plan.Options = append(plan.Options, r.fromTester()...)
		plan.Options = merge(plan.Options)
		r.preferMissing(plan.Options)
		r.markTried(plan.Options)
		recommend(plan.Options)
		adapt(plan.Options, s.Past)
		order(plan.Options)
	}
	plan.Options = append(plan.Options, r.askUser())
	return plan
}

func newResolver(cat *catalog.Catalog, f *classify.Failure, p Profile, s Situation) *resolver {
	r := &resolver{cat: cat, p: p, f: f, s: s, tried: map[string]int{}, projects: map[string]found{}}
	r.root = cmp.Or(s.Dir, f.Dir)
	r.dir = cmp.Or(f.Dir, r.root)
	r.text = cmp.Or(s.FailedCommand, f.Command)
	r.argv = failedArgv(f.Argv, r.text)
	if r.text == "" && len(r.argv) > 0 {
		r.text = commandText([]Step{{Argv: r.argv}})
	}
	for _, k := range s.Tried {
		r.tried[k]++
	}
	switch {
	case f.Tool != "":
		r.goal = toolGoal(f.Tool)
	case len(r.argv) > 0:
		r.goal = commandGoal(r.dir, []Step{{Argv: r.argv}})
	}
	return r
}

// failedArgv returns the words of the failed command: argv if it is given, else the words of the text if that is one
// simple command, else a call of bash with the text. It returns nil if both are empty.
func failedArgv(argv []string, text string) []string {
	if len(argv) > 0 {
		return argv
	}
	if strings.TrimSpace(text) == "" {
		return nil
	}
	// python -m pip has a second part, pip.
	if a := recovery.Analyse(text); (len(a.Parts) == 1 || len(a.Parts) == 2 && strings.HasPrefix(text, "python")) && len(a.Opaque) == 0 && len(a.Parts[0].Words) > 0 {
		if words := a.Parts[0].Words; commandText([]Step{{Argv: words}}) == text {
			return slices.Clone(words)
		}
	}
	return []string{"bash", "-c", text}
}

// rel returns a directory as a path relative to the repository, or "." if it is not inside.
func (r *resolver) rel(dir string) string {
	if r.root == "" || dir == "" || !within(r.root, dir) {
		return "."
	}
	rel, err := filepath.Rel(r.root, dir)
	if err != nil {
		return "."
	}
	return filepath.ToSlash(rel)
}

// fromHandlers returns the options of every handler that matched, in the order of the matches. An option for an agent
// becomes a hint instead.
func (r *resolver) fromHandlers() []Option {
	var out []Option
	chain, _ := r.cat.Chain(r.f.Category)
	for i := range r.f.Matches {
		m := &r.f.Matches[i]
		if m.Handler == nil || m.Vetoed {
			continue
		}
		h := m.Handler
		sure := r.f.Confidence
		if h.Confidence > 0 {
			sure = min(sure, h.Confidence)
		}
		for j := range h.Options {
			src := source{from: From{Kind: FromHandler, ID: h.ID, Layer: h.Layer, Origin: h.Origin}, family: h.Family, confidence: sure}
			if h.Layer != catalog.LayerMethod {
				src.family = ""
			}
			src.fill = r.filler(m.Captures)
			src.priority = covered(chain, h.Options[j].Strategy)
			if !r.found(h.Options[j].When) {
				continue
			}
			o, ok := r.option(&h.Options[j], src)
			if !ok {
				r.plan.advised = r.plan.advised || h.Options[j].Recommended && h.ID == r.f.Handler
				continue
			}
			o.pressing = len(h.Options[j].When) > 0
			o.layer, o.handlers = h.Layer.Rank(), h.Options[j].Recommended || o.pressing
			out = append(out, o)
		}
	}
	return out
}

// found reports whether the findings of the probes meet the condition When of an option.
func (r *resolver) found(when map[string]string) bool {
	for probe, want := range when {
		f, ok := r.f.Findings[probe]
		if !ok || f.Value != want && string(f.Holds) != want {
			return false
		}
	}
	return true
}

func (r *resolver) filler(captures map[string]string) filler {
	f := filler{captures: captures, dir: r.dir, command: r.argv, shell: r.text}
	if len(r.argv) == 3 && r.argv[1] == "-c" && isShell(r.argv[0]) {
		f.shell = r.argv[2]
	}
	return f
}

// covered returns the priority of the chain's first approach that covers a strategy. If no approach covers it, the
// result is larger than the priority of every approach.
func covered(chain catalog.Chain, s catalog.Strategy) int {
	last := 1
	for _, a := range chain.Approaches {
		last = max(last, a.Priority+1)
	}
	for _, a := range chain.Approaches {
		if slices.Contains(a.Covers, s) {
			last = min(last, a.Priority)
		}
	}
	return last
}

// fromChain returns options for the approaches of the category's chain that no possible option of a handler covers. An
// approach for an agent becomes a hint instead. A guess says nothing that an agent may be told, or a command may follow
// from, so it has the approaches of what is unknown.
func (r *resolver) fromChain(have []Option) []Option {
	category := r.f.Category
	if r.f.Guessed() {
		category = classify.CategoryUnknown
	}
	chain, _ := r.cat.Chain(category)
	approaches := slices.Clone(chain.Approaches)
	slices.SortStableFunc(approaches, func(a, b catalog.Approach) int { return cmp.Compare(a.Priority, b.Priority) })
	var out []Option
	for i := range approaches {
		a := &approaches[i]
		if a.Executor == catalog.ByRole {
			r.hint(cmp.Or(a.Hint, a.Label))
			continue
		}
		given := a.Option
		if given == nil && a.Executor == catalog.ByRunner {
			given = &catalog.Option{Strategy: catalog.Retry}
		}
		if given == nil || slices.ContainsFunc(have, func(o Option) bool {
			return o.Availability != Impossible && slices.Contains(a.Covers, o.Strategy)
		}) {
			continue
		}
		t := *given
		t.ID, t.Label = cmp.Or(t.ID, a.ID), cmp.Or(t.Label, a.Label)
		t.Executor = a.Executor
		t.RequiresBinary = append(slices.Clone(t.RequiresBinary), a.RequiresTools...)
		src := source{from: From{Kind: FromChain, ID: category}, confidence: a.Confidence, priority: a.Priority}
		if r.f.Confidence > 0 {
			src.confidence = min(a.Confidence, r.f.Confidence)
		}
		src.fill = r.filler(r.f.Captures)
		if len(r.f.Matches) > 0 && r.f.Matches[0].Handler != nil && r.f.Matches[0].Handler.Layer == catalog.LayerMethod {
			src.family = r.f.Matches[0].Handler.Family
		}
		o, ok := r.option(&t, src)
		if !ok {
			continue
		}
		o.Foreign = cmp.Or(o.Foreign, foreign(a.Origin, "the approach "+a.ID))
		o.layer, o.ProposalOnly = -1, a.Proposal
		out = append(out, o)
	}
	return out
}

// hint adds a hint for an agent to the plan, unless the plan has it already.
func (r *resolver) hint(text string) {
	if text = strings.TrimSpace(text); text != "" && !slices.Contains(r.plan.Hints, text) {
		r.plan.Hints = append(r.plan.Hints, text)
	}
}

// fromTester returns the tester's proposal and its fallback as options.
func (r *resolver) fromTester() []Option {
	p := r.s.ProposalOfTester
	if p == nil {
		return nil
	}
	one := func(id string, a *action.Action) Option {
		o := Option{
			ID: id, Label: "What the tester proposes", Description: p.Diagnosis.RootCause, Strategy: catalog.EnvFix,
			Executor: catalog.ByWrapper, Estimate: 1, Risk: catalog.RiskMedium, Confidence: numeric(a.Confidence),
			From: From{Kind: FromProposal, ID: p.Digest}, Availability: Ready, Command: a.Command,
			WorkingDir: filepath.ToSlash(filepath.Clean(cmp.Or(a.WorkingDir, "."))), Timeout: a.Timeout(), Expect: a.Expected,
			ProposalDigest: a.Digest, proposal: a, layer: -1, priority: 1,
		}
		step := Step{Argv: failedArgv(nil, a.Command)}
		if r.root != "" {
			step.Dir = filepath.Join(r.root, filepath.FromSlash(o.WorkingDir))
		}
		o.GoalKey = commandGoal(step.Dir, []Step{step})
		step.For = o.GoalKey
		o.Steps = []Step{step}
		o.Key = "tester/" + id + "/" + o.GoalKey
		o.effect = effectOf(&o)
		return o
	}
	out := []Option{one("proposal", &p.Recovery)}
	if p.Fallback != nil {
		second := one("fallback", p.Fallback)
		second.Label, second.priority = "What the tester proposes if the first does not help", 2
		second.Expect = cmp.Or(second.Expect, p.Recovery.Expected)
		out = append(out, second)
	}
	return out
}

func (r *resolver) askUser() Option {
	text := cmp.Or(r.f.Why, "superloop does not know this failure.") + " Look at the output, put right what is wrong, and let the loop go on."
	return Option{
		Key: "engine/" + AskUser + "/" + r.goal, GoalKey: r.goal, ID: AskUser, Label: "Ask an operator", Strategy: catalog.Manual,
		Executor: catalog.ByHuman, Estimate: 1, Risk: catalog.RiskLow, Confidence: r.f.Confidence, From: From{Kind: FromEngine, ID: AskUser},
		Availability: Ready, WorkingDir: r.rel(r.dir), Instructions: text,
	}
}

// markTried makes the options impossible that superloop has carried out for this failure before. A retry with waits
// left only loses the waits that it has used.
func (r *resolver) markTried(list []Option) {
	for i := range list {
		o := &list[i]
		n := r.tried[o.Key]
		switch {
		case n == 0:
		case n < len(o.Tries):
			o.Tries = o.Tries[n:]
		default:
			o.Availability, o.ImpossibleReason = Impossible, "it was tried, and the failure is still there"
			o.LockReason, o.UnlockDeps, o.UnlockPreview, o.Tries = "", nil, nil, nil
		}
	}
}
