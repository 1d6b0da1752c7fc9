package loop

import (
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/recovery/plan"
)

// Classified: rules have looked at what failed, before a token was spent on it.
type Classified struct {
	ID     string `json:"id,omitempty"` // of the effect; "" of a failure that nothing waits for
	Source string `json:"source"`       // test_command, recovery_command, role_process
	Role   string `json:"role,omitempty"`

	Command  string `json:"command"`
	ExitCode int    `json:"exit_code"`
	Signal   string `json:"signal,omitempty"`
	TimedOut bool   `json:"timed_out,omitempty"`

	Category   string   `json:"category"`
	Handler    string   `json:"handler"` // "" if nothing is known of it
	Layer      string   `json:"layer"`
	Infra      bool     `json:"infra"`
	Code       bool     `json:"code"`
	Weak       bool     `json:"weak,omitempty"`
	Confidence float64  `json:"confidence"`
	Signature  string   `json:"signature"`
	Why        string   `json:"why"`
	Evidence   []string `json:"evidence"` // lines of the output, as path:line: text where they name one
	DurationUS int64    `json:"duration_us"`

	// Goal is the failed command's key, Options what may fix it, the best first, and Hints what an agent can do about
	// it.
	Goal    string        `json:"goal,omitempty"`
	Options []plan.Choice `json:"options,omitempty"`
	Hints   []string      `json:"hints,omitempty"`
	Gate    string        `json:"gate,omitempty"` // what would happen: auto, retry, propose, human, none
}

// ToolChecked is what a look at an installed tool has found. Its event is verify_self_repaired when only a changed
// check shows that the tool works, verify_self_repair_failed when nothing shows it, else tool_verified.
type ToolChecked struct {
	Tool   string `json:"tool"`   // the recipe's id
	Result string `json:"result"` // one of the Tool constants
	// Original is the recipe's check, ExitCode how it ended (-1: by a signal or its time limit, or it was not started).
	Original string `json:"original,omitempty"`
	ExitCode int    `json:"exit_code"`
	// Repaired to TimeSavedMS are those of a check that was repaired; the time is what an agent would have needed at
	// least to find it out.
	Repaired    string `json:"repaired,omitempty"`
	Method      string `json:"method,omitempty"`
	Mode        string `json:"mode,omitempty"`
	Pattern     string `json:"pattern,omitempty"`
	TimeSavedMS int64  `json:"time_saved_ms,omitempty"`
	Broken      bool   `json:"broken"` // there is evidence that the tool does not work
	Why         string `json:"why,omitempty"`
	Of
}

// Results of a look at a tool.
const (
	ToolWorks    = "works"
	ToolRepaired = "repaired" // the tool works, its recipe's check is wrong here
	ToolDoubtful = "doubtful" // nothing shows that it works
	ToolSkipped  = "skipped"  // it was not looked at; Why says why
)

func (Classified) Event() string { return "failure_classified" }

func (c Classified) Effect() string { return c.ID }

func (c ToolChecked) Event() string {
	switch c.Result {
	case ToolRepaired:
		return "verify_self_repaired"
	case ToolDoubtful:
		return "verify_self_repair_failed"
	}
	return "tool_verified"
}

// FailureFact is how a role has failed, and who could have its work now.
type FailureFact struct {
	failures.Event
	Candidates []failures.Candidate    `json:"candidates"`
	Tripped    *failures.TrippedFields `json:"tripped,omitempty"` // the runner became unfit by it
	// DetectMS is from the end of the process to this fact, ClassifyUS what classifying took, RespondUS what deciding
	// takes.
	DetectMS   int64 `json:"detect_ms"`
	ClassifyUS int64 `json:"classify_us"`
	RespondUS  int64 `json:"respond_us"`
}

// EnvironmentBroken: the pending role, the first of an iteration, was not started, because an environment check fails.
// Nothing was spent.
type EnvironmentBroken struct {
	failures.PreflightFields
	Role string `json:"role"`
	// Command fixes the first finding, where a rule knows one: a proposal for the gate. Category is that finding's.
	Command  *action.Action `json:"command,omitempty"`
	Category string         `json:"category"`
	Why      string         `json:"why"`
	Of
}

// What is done about a check that fails.
const (
	EnvironmentRecover  = "recover"
	EnvironmentPause    = "pause" // until the time that a finding tells
	EnvironmentOperator = "person"
)

// Analysed is what the search for a cause has come to.
type Analysed struct {
	failures.AnalysedFields
	EffectID    string               `json:"effect_id"`
	Analysis    failures.Analysis    `json:"analysis"`
	Instruction string               `json:"instruction,omitempty"` // what the fix is, in words, where it is no command
	Evidence    []string             `json:"evidence"`
	WhyChain    []string             `json:"why_chain,omitempty"`
	File        string               `json:"file,omitempty"`    // root-cause.json
	Command     *action.Action       `json:"command,omitempty"` // the environment's remedy, a proposal for the gate
	Candidates  []failures.Candidate `json:"candidates,omitempty"`
	// Runner, Usage and CostUSD are of the Diagnostician, if it was asked.
	Runner  string   `json:"runner,omitempty"`
	Usage   *Usage   `json:"usage,omitempty"`
	CostUSD *float64 `json:"cost_usd,omitempty"`
}

func (EnvironmentBroken) Event() string { return failures.EventPreflight }
func (Analysed) Event() string          { return failures.EventAnalysed }

func (a Analysed) Effect() string { return a.EffectID }
