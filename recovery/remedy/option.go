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
	"github.com/superloop/superloop/recovery/learn"
	"github.com/superloop/superloop/recovery/plan"
)

// Availability says whether an option can be carried out on this system.
type Availability string

// The availabilities of an option, the best first, and the values of From.Kind.
const (
	Ready      Availability = "ready"      // the option can run at once
	Locked     Availability = "locked"     // the option can run after the install of the dependencies in UnlockDeps
	Impossible Availability = "impossible" // the option cannot run on this system, see ImpossibleReason

	FromHandler  = "handler"
	FromChain    = "chain"
	FromProposal = "proposal" // the proposal of the tester
	FromEngine   = "engine"
)

// Step is one command of an option. Steps run in order, each only if the one before succeeded.
type Step struct {
	// Argv is the program and its arguments; it runs without a shell. It begins with sudo if this account needs sudo
	// for the step.
	Argv []string `json:"argv"`
	Env  []string `json:"env,omitempty"` // variables to add to the environment, as sorted NAME=value
	// Dir is absolute, or "" if the failed command's directory is not known.
	Dir string `json:"dir,omitempty"`
	// Sudo is true if the step runs with the rights of the superuser. Argv need not begin with sudo then, because the
	// account may be the superuser.
	Sudo bool          `json:"sudo,omitempty"`
	Wait time.Duration `json:"wait,omitempty"` // how long to wait before the step
	// For is the goal of the step: the option's own GoalKey, or that of one of the dependencies.
	For string `json:"for"`
}

// Preview describes how superloop would install one missing dependency on this system.
type Preview struct {
	Dep          string       `json:"dep"` // the id of the dependency's recipe
	GoalKey      string       `json:"goal_key"`
	Method       string       `json:"method,omitempty"`
	Command      string       `json:"command,omitempty"` // installs this dependency only, without its own dependencies
	Needs        []string     `json:"needs,omitempty"`   // ids of the recipes that this dependency needs and that are missing
	Availability Availability `json:"availability"`
	Reason       string       `json:"reason,omitempty"` // why the install is impossible, or what it needs first
}

// From names the source of an option.
type From struct {
	Kind   string         `json:"kind"`
	ID     string         `json:"id"`
	Layer  catalog.Layer  `json:"layer,omitempty"`
	Origin catalog.Origin `json:"origin,omitzero"`
}

// Option is one remedy for the failure, as commands for this system. It does not embed an action.Draft, because options
// are ranked by a confidence that is a number.
type Option struct {
	// Key is handler/option/goal. For one failure superloop carries out an option with this key once, and a retry once
	// for each of its Tries.
	Key string `json:"key"`
	// GoalKey is the goal of the option: tool/<recipe>, or cmd/<digest> of the commands and their directories.
	GoalKey string `json:"goal_key"`

	ID          string           `json:"id"`
	Label       string           `json:"label"`
	Description string           `json:"description,omitempty"`
	Icon        string           `json:"icon,omitempty"`
	Strategy    catalog.Strategy `json:"strategy"`
	Executor    catalog.Executor `json:"executor"`
	Estimate    int              `json:"estimated_iterations"` // in how many iterations of a loop the option helps, from the chain of the category
	Risk        catalog.Risk     `json:"risk"`
	Confidence  float64          `json:"confidence"`            // 0 to 1; for a catalog option not above that of the diagnosis, until outcomes adapt it
	Recommended bool             `json:"recommended,omitempty"` // true for at most one option of a plan
	From        From             `json:"from"`
	// Foreign names the entry of the catalog from which a step comes and whose commands only an operator starts, and says
	// why: it stands in the repository, or it is held (see catalog.Origin). It is "" if there is none.
	Foreign string `json:"foreign,omitempty"`

	Availability     Availability `json:"availability"`
	LockReason       string       `json:"lock_reason,omitempty"`
	UnlockDeps       []string     `json:"unlock_deps,omitempty"` // ids of the missing recipes, in the order of installation
	UnlockPreview    []Preview    `json:"unlock_preview,omitempty"`
	ImpossibleReason string       `json:"impossible_reason,omitempty"`
	// Experience says how the option did here before, and that Confidence follows it; "" if nothing is known.
	Experience string `json:"experience,omitempty"`
	// Demoted says why superloop should not run an option without an operator although it is ready, or "".
	Demoted string `json:"demoted,omitempty"`
	// Steps holds all steps in order, those of the dependencies first. Own returns only the option's own.
	Steps []Step `json:"steps,omitempty"`
	// Command is the text of the steps, which a policy judges and an operator reads. It is "" if the option has no
	// steps.
	Command string `json:"command,omitempty"`
	// WorkingDir is the directory in which Command runs, relative to the repository, such as ".".
	WorkingDir string        `json:"working_dir"`
	Timeout    time.Duration `json:"timeout"`
	// Tries holds the waits before the remaining tries of a retry, in order.
	Tries []time.Duration `json:"tries,omitempty"`
	// Substitutes is true if the last step is the failed command itself or another way to the same goal. The success of
	// that step then shows that the failure is fixed. If Substitutes is false, the failed command must run again to
	// show it.
	Substitutes bool `json:"substitutes,omitempty"`
	// Switches is true if the option installs the tool for which the failed command asks, another way. Then that command
	// would still fail, and the success of the option is what counts.
	Switches     bool     `json:"switches,omitempty"`
	Expect       string   `json:"expect,omitempty"`
	Instructions string   `json:"instructions,omitempty"`
	Notes        []string `json:"notes,omitempty"`
	// ProposalOnly is true if the chain says that an operator always decides about the option.
	ProposalOnly bool `json:"proposal_only,omitempty"`
	// ProposalDigest is the digest of the tester's proposal if the tester proposes the same command, else "".
	ProposalDigest string `json:"proposal_digest,omitempty"`

	proposal *action.Action
	base     float64 // Confidence before outcomes have adapted it
	past     learn.Past
	again    string // why superloop must not carry the option out by itself because it runs the failed command again, or ""
	priority int    // the priority of the chain's approach that covers the option
	layer    int
	order    int
	handlers bool // the handler recommends the option
	pressing bool // the findings of probes confirm the option's When
	effect   string
}

// Own returns the steps of the option itself, without those of its dependencies.
func (o *Option) Own() []Step {
	return slices.DeleteFunc(slices.Clone(o.Steps), func(s Step) bool { return s.For != o.GoalKey })
}

// Plain reports whether the option only runs the failed command again, without a change.
func (o *Option) Plain() bool {
	return len(o.Tries) > 0 && o.Executor == catalog.ByWrapper && o.Availability != Impossible
}

// Plan holds the remedies for a failure, the best first. The last option is always to ask an operator.
type Plan struct {
	Failure classify.Failure `json:"failure"`
	Goal    string           `json:"goal"` // the goal of the failed command
	Options []Option         `json:"options"`
	// Hints holds sentences for an agent's next prompt, which say how an agent can repair the failure.
	Hints []string `json:"hints,omitempty"`
	Notes []string `json:"notes,omitempty"` // sentences for an operator about options that were left out, with the reason

	category catalog.Category
	advised  bool // the primary handler recommends an option that only an agent can carry out
}

// Situation holds the arguments of Resolve besides the catalog, the failure and the system.
type Situation struct {
	Dir              string             // the absolute path of the repository; "" means the failure's own directory
	ProposalOfTester *recovery.Proposal // the fresh and valid proposal of this iteration, or nil
	Tried            []string           // the keys of the options that superloop has carried out for this failure, once for each time
	// FailedCommand is the text of the command in the configuration. "" means the text in the failure.
	FailedCommand string
	// Listed says that the policy lists the failed command byte for byte, so an operator has said that it may run
	// whenever it is due. Then a rule may run it again, whatever it does.
	Listed  bool
	Timeout time.Duration               // the time limit of the failed command; 0: unknown
	Past    func(key string) learn.Past // how an option did here before; nil: nothing is known
}

// maxChoices bounds the options of a level in a remediation plan.
const maxChoices = 8

// Choices returns the first maxChoices options of a plan as the choices of a level of the remediation plan, the best
// first. If only its missing dependencies prevent an option from running without an operator, the choice has these
// dependencies as Needs, which become levels of their own. So has any locked option outside of a loop. For another one,
// Command installs them.
func Choices(p Plan) []plan.Choice {
	var out []plan.Choice
	for _, o := range p.Options[:min(len(p.Options), maxChoices)] {
		c := plan.Choice{Key: o.Key, ID: o.ID, Label: o.Label, Strategy: string(o.Strategy), Availability: string(o.Availability),
			Draft: draft(o), Executor: string(o.Executor), Risk: string(o.Risk), Handler: o.From.ID, Instructions: o.Instructions, Dep: depOf(o),
			Description: cmp.Or(o.Description, o.Expect), Icon: cmp.Or(o.Icon, icons[o.Strategy]), Steps: len(o.Own()), UnlockSteps: len(o.Steps) - len(o.Own()),
			Experience: o.Experience, Reaches: o.Switches && p.Failure.Source == classify.SourceCommand}
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
			free := ByItselfUnlocked(o, p.Failure)
			if free {
				c.ByItself, c.Withheld = true, ""
			}
			// A loop asks an operator about one command, so that it holds everything unless the levels run by themselves.
			if own := o.OwnCommand(); own != "" && (free || p.Failure.Source == classify.SourceCommand) {
				c.Command, c.Needs = own, needs(o, free)
			}
		case Impossible:
			c.Reason = o.ImpossibleReason
		}
		out = append(out, c)
	}
	return out
}

// icons are the signs of the strategies for a screen.
var icons = map[catalog.Strategy]string{catalog.InstallDep: "📦", catalog.InstallDepThenSwitch: "📦", catalog.InstallPackages: "📦", catalog.SwitchMethod: "🔀",
	catalog.RetryWithModifier: "🔧", catalog.AddRepo: "📚", catalog.UpgradeDep: "⬆", catalog.EnvFix: "🩹", catalog.Manual: "👤", catalog.CleanupRetry: "🧹",
	catalog.Retry: "🔄"}

// draft returns the command of an option as a draft of an action.
func draft(o Option) action.Draft {
	return action.Draft{Command: o.Command, WorkingDir: o.WorkingDir, TimeoutMS: o.Timeout.Milliseconds(), Confidence: Word(o.granted()), Expected: o.Expect}
}

// needs returns the missing dependencies of a locked option, each with the choice that installs it. free says that this
// may happen without an operator.
func needs(o Option, free bool) []plan.Need {
	var out []plan.Need
	for _, p := range o.UnlockPreview {
		if p.GoalKey == o.GoalKey {
			continue // the option itself installs this dependency
		}
		c := plan.Choice{Key: p.GoalKey + "/" + p.Method, ID: "install-" + p.Dep, Label: "Install " + p.Dep, Strategy: "install_dep",
			Availability: string(p.Availability), Reason: p.Reason, Draft: draft(o), Executor: string(o.Executor), Risk: string(o.Risk),
			Dep: p.Dep, ByItself: free && p.Availability != Impossible, Steps: 1}
		c.Command, c.Expected = p.Command, "" // the option's Expect does not apply to a dependency
		out = append(out, plan.Need{Goal: p.GoalKey, Label: "install " + p.Dep, Options: []plan.Choice{c}})
	}
	return out
}

// depOf returns the id of the recipe that an option installs or upgrades, or "" for any other option.
func depOf(o Option) string {
	switch o.Strategy {
	case "install_dep", "install_dep_then_switch", "switch_method", "upgrade_dep":
		if id, ok := strings.CutPrefix(o.GoalKey, "tool/"); ok {
			return id
		}
	}
	return ""
}

// The words for a proposal's confidence, and their values as numbers. Word maps a number to the nearest word.
const (
	high, medium, low = "high", "medium", "low"

	highValue, mediumValue, lowValue = .9, .6, .3
)

func numeric(word string) float64 {
	return cmp.Or(map[string]float64{high: highValue, medium: mediumValue}[word], lowValue)
}

// Word returns the word of a proposal for a confidence from 0 to 1: high, medium or low.
func Word(confidence float64) string {
	switch {
	case confidence >= (highValue+mediumValue)/2:
		return high
	case confidence >= (mediumValue+lowValue)/2:
		return medium
	}
	return low
}

// ByItselfUnlocked reports whether superloop may carry out an option without an operator after the install of its
// missing dependencies. For an option that is not locked it returns the same as ByItself.
func ByItselfUnlocked(o Option, f classify.Failure) bool {
	if o.Availability == Locked {
		o.Availability = Ready
	}
	free, _ := ByItself(o, f)
	return free
}

// OwnCommand returns the command text of the steps that Own returns.
func (o Option) OwnCommand() string { return commandText(o.Own()) }
