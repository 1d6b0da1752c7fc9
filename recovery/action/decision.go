package action

// Decision is what may happen with an action.
type Decision string

// The decisions, from the loosest to the strictest.
const (
	Auto    Decision = "auto"    // it runs without an operator
	Human   Decision = "human"   // an operator is asked
	Deny    Decision = "deny"    // it does not run, and nobody is asked
	Invalid Decision = "invalid" // it is no command, or its directory is none
)
