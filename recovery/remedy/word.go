package remedy

// Word is a confidence in the words of a proposal: high, medium or low.
func Word(confidence float64) string { return wordFor(confidence) }

// OwnCommand is the text of Own, as Command is of Steps.
func (o Option) OwnCommand() string { return commandText(o.Own()) }
