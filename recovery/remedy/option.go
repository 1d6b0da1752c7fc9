package remedy

import (
	"time"

	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/classify"
)

// Availability says whether an option can be carried out on this system.
type Availability string

// The availabilities, the best first.
const (
	Ready      Availability = "ready"      // at once
	Locked     Availability = "locked"     // after the dependencies in UnlockDeps
	Impossible Availability = "impossible" // never on this system, see ImpossibleReason
)

// Step is one command of an option. Steps run in order, each only if the one before succeeded.
type Step struct {
	// Argv is what runs, without a shell. Where the step needs the superuser and this account is not it, it begins with
	// sudo.
	Argv []string `json:"argv"`
	Env  []string `json:"env,omitempty"` // added to the environment, as NAME=value, sorted
	// Dir is absolute, or "" where the failed command's directory is not known.
	Dir string `json:"dir,omitempty"`
	// Sudo: it changes the system with the rights of the superuser, whether Argv needs sudo for that or not.
	Sudo bool          `json:"sudo,omitempty"`
	Wait time.Duration `json:"wait,omitempty"` // how long to wait before it
	// For is the goal that it works for: the option's own, or that of one of the dependencies.
	For string `json:"for"`

	home bool // it writes outside the repository, below the home directory
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

// Where an option comes from.
const (
	FromHandler  = "handler"
	FromChain    = "chain"
	FromProposal = "proposal" // the tester's
	FromEngine   = "engine"
)

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
	// Key is handler/option/goal: the same way, for the same goal, has the same key. It is never tried twice for one
	// failure.
	Key string `json:"key"`
	// GoalKey is what it brings about: tool/<recipe>, or cmd/<digest> of what runs and where.
	GoalKey string `json:"goal_key"`

	ID          string           `json:"id"`
	Label       string           `json:"label"`
	Description string           `json:"description,omitempty"`
	Strategy    catalog.Strategy `json:"strategy"`
	Executor    catalog.Executor `json:"executor"`
	Risk        catalog.Risk     `json:"risk"`
	Confidence  float64          `json:"confidence"` // Confidence, 0 to 1, is never above that of the diagnosis
	// Recommended is set on one option of a plan at most.
	Recommended bool `json:"recommended,omitempty"`
	From        From `json:"from"`
	// Foreign names the entry of the repository's own catalog that a step comes from, "" when all are superloop's or
	// the user's.
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

// Own are the steps of the option itself, without those of its dependencies: what is left to run once UnlockDeps are
// there.
func (o *Option) Own() []Step {
	var own []Step
	for _, s := range o.Steps {
		if s.For == o.GoalKey {
			own = append(own, s)
		}
	}
	return own
}

// Plain reports whether the option is the failed command once more and nothing else.
func (o *Option) Plain() bool {
	return len(o.Tries) > 0 && o.Executor == catalog.ByWrapper && o.Availability != Impossible
}

// Plan is all that can be done about a failure, the best first. The last option is always to ask an operator.
type Plan struct {
	Failure classify.Failure `json:"failure"`
	// Goal is that of the failed command.
	Goal    string   `json:"goal"`
	Options []Option `json:"options"`
	// Hints are what an agent can do about it: sentences for its next prompt.
	Hints []string `json:"hints,omitempty"`
	Notes []string `json:"notes,omitempty"` // for an operator: what was left out, and why

	category catalog.Category
	advised  bool // the handler recommends what only an agent can do
}

// Situation is what is known besides the failure and the system.
type Situation struct {
	// Dir is the repository, absolute. "" is the failure's own directory.
	Dir              string
	ProposalOfTester *recovery.Proposal // the fresh and valid proposal of this iteration
	Tried            []string           // the keys of options that were carried out for this failure, one for each time
	// FailedCommand is the text of the command as it was configured, where it is not the failure's own.
	FailedCommand string
	Timeout       time.Duration // the time limit that the failed command had; 0: none is known
	// Score breaks ties between options by their keys; nil: none.
	Score func(key string) float64
}
