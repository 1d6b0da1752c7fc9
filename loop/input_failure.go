package loop

import (
	"encoding/json"

	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/failures"
)

// FailureFact is how a role has failed, and who could have its work now.
type FailureFact struct {
	failures.Event
	Candidates []failures.Candidate `json:"candidates"`
	// Tripped: the runner became unfit by it.
	Tripped *failures.TrippedFields `json:"tripped,omitempty"`
	// DetectMS is from the end of the process to this fact, ClassifyUS what
	// classifying took, RespondUS what deciding takes.
	DetectMS   int64 `json:"detect_ms"`
	ClassifyUS int64 `json:"classify_us"`
	RespondUS  int64 `json:"respond_us"`
}

// EnvironmentBroken: the pending role, the first of an iteration, was not started,
// because an environment check fails. Nothing was spent.
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
	EffectID string            `json:"effect_id"`
	Analysis failures.Analysis `json:"analysis"`
	// Instruction is what the fix is, in words, where it is no command.
	Instruction string   `json:"instruction,omitempty"`
	Evidence    []string `json:"evidence"`
	WhyChain    []string `json:"why_chain,omitempty"`
	File        string   `json:"file,omitempty"` // root-cause.json
	// Command is the environment's remedy, a proposal for the gate.
	Command    *action.Action       `json:"command,omitempty"`
	Candidates []failures.Candidate `json:"candidates,omitempty"`
	// Runner, Usage and CostUSD are of the Diagnostician, if it was asked.
	Runner  string   `json:"runner,omitempty"`
	Usage   *Usage   `json:"usage,omitempty"`
	CostUSD *float64 `json:"cost_usd,omitempty"`
}

func (EnvironmentBroken) Event() string { return failures.EventPreflight }
func (Analysed) Event() string          { return failures.EventAnalysed }

// Effect is the id of the answered effect.
func (a Analysed) Effect() string { return a.EffectID }

// decodeRespond gives the facts of this file; nil for every other event.
func decodeRespond(event string, fields json.RawMessage) (Fact, error) {
	switch event {
	case failures.EventPreflight:
		return decode[EnvironmentBroken](event, fields)
	case failures.EventAnalysed:
		return decode[Analysed](event, fields)
	}
	return nil, nil
}
