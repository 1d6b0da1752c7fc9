package remedy

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/classify"
	"github.com/superloop/superloop/recovery/plan"
)

// Availability says whether an option can be carried out on this system.
type Availability string

// The availabilities, the best first, and where an option comes from.
const (
	Ready      Availability = "ready"      // at once
	Locked     Availability = "locked"     // after the dependencies in UnlockDeps
	Impossible Availability = "impossible" // never on this system, see ImpossibleReason

	FromHandler  = "handler"
	FromChain    = "chain"
	FromProposal = "proposal" // the tester's
	FromEngine   = "engine"
)

// Step is one command of an option. Steps run in order, each only if the one before succeeded.
type Step struct {
	// Argv is what runs, without a shell. It begins with sudo where this account needs that for the step.
	Argv []string `json:"argv"`
	Env  []string `json:"env,omitempty"` // added to the environment, as NAME=value, sorted
	// Dir is absolute, or "" where the failed command's directory is not known.
	Dir string `json:"dir,omitempty"`
	// Sudo: it changes the system with the rights of the superuser, whether Argv needs sudo for that or not.
	Sudo bool          `json:"sudo,omitempty"`
	Wait time.Duration `json:"wait,omitempty"` // how long to wait before it
	// For is the goal that it works for: the option's own, or that of one of the dependencies.
	For string `json:"for"`
}

// Preview is how one missing dependency would be installed here.
type Preview struct {
	Dep          string       `json:"dep"` // a recipe's id
	GoalKey      string       `json:"goal_key"`
	Method       string       `json:"method,omitempty"`
	Command      string       `json:"command,omitempty"` // its own, without what it needs itself
	Needs        []string     `json:"needs,omitempty"`   // recipe ids that are missing in turn
	Availability Availability `json:"availability"`
	Reason       string       `json:"reason,omitempty"` // why impossible, or what it needs first
}

// From is where an option comes from.
type From struct {
	Kind   string         `json:"kind"`
	ID     string         `json:"id"`
	Layer  catalog.Layer  `json:"layer,omitempty"`
	Origin catalog.Origin `json:"origin,omitzero"`
}

// Option is one way to fix the failure, worked out for this system. It does not embed an action.Draft: options are
// ranked by a confidence that is a number.
type Option struct {
	// Key is handler/option/goal. What has the same key is never tried twice for one failure.
	Key string `json:"key"`
	// GoalKey is what it brings about: tool/<recipe>, or cmd/<digest> of what runs and where.
	GoalKey string `json:"goal_key"`

	ID          string           `json:"id"`
	Label       string           `json:"label"`
	Description string           `json:"description,omitempty"`
	Strategy    catalog.Strategy `json:"strategy"`
	Executor    catalog.Executor `json:"executor"`
	Risk        catalog.Risk     `json:"risk"`
	Confidence  float64          `json:"confidence"`            // Confidence, 0 to 1, is never above that of the diagnosis
	Recommended bool             `json:"recommended,omitempty"` // Recommended is set on one option of a plan at most.
	From        From             `json:"from"`
	// Foreign names the entry of the repository's own catalog that a step comes from, "" without one.
	Foreign string `json:"foreign,omitempty"`

	Availability     Availability `json:"availability"`
	LockReason       string       `json:"lock_reason,omitempty"`
	UnlockDeps       []string     `json:"unlock_deps,omitempty"` // recipe ids, in the order in which they are needed
	UnlockPreview    []Preview    `json:"unlock_preview,omitempty"`
	ImpossibleReason string       `json:"impossible_reason,omitempty"`
	// Demoted says why an option that is ready is not worth trying by itself.
	Demoted string `json:"demoted,omitempty"`
	// Steps are all that runs, dependencies first. Own gives the option's own.
	Steps []Step `json:"steps,omitempty"`
	// Command is the text of the steps, what a policy judges and an operator reads. It is "" for what is not a command.
	Command string `json:"command,omitempty"`
	// WorkingDir is where Command runs, relative to the repository: ".".
	WorkingDir string        `json:"working_dir"`
	Timeout    time.Duration `json:"timeout"`
	// Tries are the waits before each try of a retry, in order; the tries before are not in it.
	Tries []time.Duration `json:"tries,omitempty"`
	// Substitutes: the last step is the failed command itself, or another way to the same goal. If it succeeds the
	// failure is fixed; else the failed command must be run again to know.
	Substitutes  bool     `json:"substitutes,omitempty"`
	Expect       string   `json:"expect,omitempty"`
	Instructions string   `json:"instructions,omitempty"`
	Notes        []string `json:"notes,omitempty"`
	// ProposalOnly: the chain says that an operator decides about it, always.
	ProposalOnly bool `json:"proposal_only,omitempty"`
	// ProposalDigest is that of the tester's proposal if it asks for this very command there, else "".
	ProposalDigest string `json:"proposal_digest,omitempty"`

	proposal *action.Action
	priority int // of the chain's approach
	layer    int
	order    int
	handlers bool // its handler recommends it
	pressing bool // what probes have found speaks for it
	effect   string
}

// Own are the steps of the option itself, without those of its dependencies.
func (o *Option) Own() []Step {
	return slices.DeleteFunc(slices.Clone(o.Steps), func(s Step) bool { return s.For != o.GoalKey })
}

// Plain reports whether the option is the failed command once more and nothing else.
func (o *Option) Plain() bool {
	return len(o.Tries) > 0 && o.Executor == catalog.ByWrapper && o.Availability != Impossible
}

// Plan is all that can be done about a failure, the best first. The last option is always to ask an operator.
type Plan struct {
	Failure classify.Failure `json:"failure"`
	Goal    string           `json:"goal"` // Goal is that of the failed command.
	Options []Option         `json:"options"`
	// Hints are what an agent can do about it: sentences for its next prompt.
	Hints []string `json:"hints,omitempty"`
	Notes []string `json:"notes,omitempty"` // for an operator: what was left out, and why

	category catalog.Category
	advised  bool // the handler recommends what only an agent can do
}

// Situation is what is known besides the failure and the system.
type Situation struct {
	Dir              string             // Dir is the repository, absolute. "" is the failure's own directory.
	ProposalOfTester *recovery.Proposal // the fresh and valid proposal of this iteration
	Tried            []string           // the keys of options that were carried out for this failure, one for each time
	// FailedCommand is the text of the command as it was configured, where it is not the failure's own.
	FailedCommand string
	Timeout       time.Duration            // the time limit that the failed command had; 0: none is known
	Score         func(key string) float64 // Score breaks ties between options by their keys; nil: none.
}

// maxChoices bounds the options of a level.
const maxChoices = 8

// Choices are the options of a plan as a level has them, the best first. Of a locked one that could run by itself but
// for what it lacks, the needs are levels of their own; of any other, Command brings them along.
func Choices(p Plan) []plan.Choice {
	var out []plan.Choice
	for _, o := range p.Options[:min(len(p.Options), maxChoices)] {
		c := plan.Choice{Key: o.Key, ID: o.ID, Label: o.Label, Strategy: string(o.Strategy), Availability: string(o.Availability),
			Draft: draft(o), Executor: string(o.Executor), Risk: string(o.Risk), Handler: o.From.ID, Instructions: o.Instructions, Dep: depOf(o)}
		if o.Plain() {
			c.Command = ""
			for _, w := range o.Tries {
				c.WaitsMS = append(c.WaitsMS, w.Milliseconds())
			}
		}
		c.ByItself, c.Withheld = ByItself(o, p.Failure)
		switch o.Availability {
		case Locked:
			c.Reason = o.LockReason
			if ByItselfUnlocked(o, p.Failure) {
				c.ByItself, c.Withheld = true, ""
				if own := o.OwnCommand(); own != "" { // else to have what it needs is all of it
					c.Command, c.Needs = own, needs(o)
				}
			}
		case Impossible:
			c.Reason = o.ImpossibleReason
		}
		out = append(out, c)
	}
	return out
}

// draft is the command of an option.
func draft(o Option) action.Draft {
	return action.Draft{Command: o.Command, WorkingDir: o.WorkingDir, TimeoutMS: o.Timeout.Milliseconds(), Confidence: Word(o.Confidence), Expected: o.Expect}
}

// needs are what a locked option lacks.
func needs(o Option) []plan.Need {
	var out []plan.Need
	for _, p := range o.UnlockPreview {
		if p.GoalKey == o.GoalKey {
			continue // to have that is what the option itself is for
		}
		c := plan.Choice{Key: p.GoalKey + "/" + p.Method, ID: "install-" + p.Dep, Label: "Install " + p.Dep, Strategy: "install_dep",
			Availability: string(p.Availability), Reason: p.Reason, Draft: draft(o), Executor: string(o.Executor), Risk: string(o.Risk),
			Dep: p.Dep, ByItself: p.Availability != Impossible}
		c.Command, c.Expected = p.Command, "" // what is expected is said of the option, not of what it needs
		out = append(out, plan.Need{Goal: p.GoalKey, Label: "install " + p.Dep, Options: []plan.Choice{c}})
	}
	return out
}

// depOf is the recipe that an option installs or renews, "" for any other option.
func depOf(o Option) string {
	switch o.Strategy {
	case "install_dep", "install_dep_then_switch", "switch_method", "upgrade_dep":
		if id, ok := strings.CutPrefix(o.GoalKey, "tool/"); ok {
			return id
		}
	}
	return ""
}

// The words of a proposal's confidence, and what they are as numbers. A number gets the word that it is nearest to.
const (
	high, medium, low = "high", "medium", "low"

	highValue, mediumValue, lowValue = .9, .6, .3
)

func numeric(word string) float64 {
	return cmp.Or(map[string]float64{high: highValue, medium: mediumValue}[word], lowValue)
}

// Word is a confidence in the words of a proposal: high, medium or low.
func Word(confidence float64) string {
	switch {
	case confidence >= (highValue+mediumValue)/2:
		return high
	case confidence >= (mediumValue+lowValue)/2:
		return medium
	}
	return low
}

// ByItselfUnlocked is ByItself for an option that may only need others first, which run by themselves as well.
func ByItselfUnlocked(o Option, f classify.Failure) bool {
	if o.Availability == Locked {
		o.Availability = Ready
	}
	free, _ := ByItself(o, f)
	return free
}

// OwnCommand is the text of Own, as Command is of Steps.
func (o Option) OwnCommand() string { return commandText(o.Own()) }
