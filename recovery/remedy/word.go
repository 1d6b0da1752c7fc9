package remedy

import "github.com/superloop/superloop/recovery/classify"

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
