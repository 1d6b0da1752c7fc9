package remedy

import (
	"strings"

	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/classify"
	"github.com/superloop/superloop/recovery/plan"
)

// maxChoices bounds the options of a level.
const maxChoices = 8

// Choices are the options of a plan as a level has them, the best first. Of a locked one that could run by itself but
// for what it lacks, the needs are levels of their own; of any other, Command brings them along.
func Choices(p Plan) []plan.Choice {
	var out []plan.Choice
	for _, o := range p.Options {
		if len(out) == maxChoices {
			break
		}
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
	switch word {
	case high:
		return highValue
	case medium:
		return mediumValue
	}
	return lowValue
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
