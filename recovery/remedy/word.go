package remedy

import "github.com/superloop/superloop/recovery/classify"

// Word is a confidence in the words of a proposal: high, medium or low.
func Word(confidence float64) string { return wordFor(confidence) }

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
