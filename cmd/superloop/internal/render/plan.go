package render

import (
	"slices"
	"strings"

	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/remedy"
)

// mostOptions bounds the options of a plan that are shown before the last one, which asks an operator.
const mostOptions = 4

// StepView is one step of an option, in the words of the published plan.
type StepView struct {
	Action   string   `json:"action"` // run_command, wait, switch_runner, ask_user
	Tool     string   `json:"tool,omitempty"`
	Args     []string `json:"args,omitempty"`
	Expected string   `json:"expectedOutcome,omitempty"` // only of the last step
}

// stepsOf returns the steps of an option.
func stepsOf(o *remedy.Option) []StepView {
	var out []StepView
	if o.Availability == remedy.Impossible {
		return nil
	}
	for i, s := range o.Steps {
		wait := s.Wait
		if i == 0 && len(o.Tries) > 0 {
			wait = max(wait, o.Tries[0])
		}
		if wait > 0 {
			out = append(out, StepView{Action: "wait", Args: []string{wait.String()}})
		}
		out = append(out, StepView{Action: "run_command", Tool: s.Argv[0], Args: slices.Concat(s.Argv[1:])})
	}
	switch {
	case o.Executor == catalog.ByRunner:
		out = append(out, StepView{Action: "switch_runner"})
	case len(out) == 0:
		out = append(out, StepView{Action: remedy.AskUser, Args: []string{strings.TrimSpace(o.Label + ". " + o.Instructions)}})
	}
	out[len(out)-1].Expected = o.Expect
	return out
}

// fold leaves in Options the first mostOptions that are possible, the one that superloop would carry out, and the last
// one, which asks an operator. The others are in More.
func (c *Classification) fold() {
	var first, more, last []OptionView
	for _, o := range c.Options {
		switch {
		case o.ID == remedy.AskUser:
			last = append(last, o)
		case o.Availability == string(remedy.Impossible):
			more = append(more, o)
		case len(first) < mostOptions:
			first = append(first, o)
		case c.GateOption != "" && o.ID == c.GateOption:
			more = slices.Insert(more, 0, first[mostOptions-1])
			first[mostOptions-1] = o
		default:
			more = append(more, o)
		}
	}
	c.Options, c.More = append(append([]OptionView{}, first...), last...), more
	c.Fallback = []string{}
	for i, o := range c.Options {
		if i > 0 {
			c.Fallback = append(c.Fallback, o.ID)
		}
	}
}

// Unfold shows all options, the best first, those that are impossible last.
func (c *Classification) Unfold() {
	n := len(c.Options)
	if n > 0 && c.Options[n-1].ID == remedy.AskUser {
		n--
	}
	c.Options, c.More = slices.Concat(c.Options[:n], c.More, c.Options[n:]), nil
}
