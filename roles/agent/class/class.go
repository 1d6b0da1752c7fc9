// Package class names the kinds of failure of an agent CLI, in words that all CLIs share. It imports nothing, so
// that what only decides about a failure (the loop's machine) is not linked with what runs agents.
package class

// Class is what kind of failure a run was, in words that all CLIs share. It decides what happens next, so an
// adapter gives one only on structured evidence (a field of an event, a status code, an exit code that the CLI
// documents, a message that the CLI itself printed as its error), never on text that the agent wrote.
type Class string

// The classes.
const (
	// None: the stream shows no failure.
	None Class = ""
	// Limit: a limit of rate or quota, which time lifts.
	Limit Class = "rate_limited"
	// Overloaded: the provider is busy or broken (500, 502, 503, 529).
	Overloaded Class = "overloaded"
	// Network: the provider was not reached, or the connection broke.
	Network Class = "network"
	// Auth: no login, or one that is not accepted (401, 403).
	Auth Class = "auth"
	// Billing: the account has no credit; only a person can pay.
	Billing Class = "billing"
	// Model: the model does not exist or the account may not use it.
	Model Class = "bad_model"
	// Context: the conversation is longer than the model takes.
	Context Class = "context_overflow"
	// Config: the CLI does not take its command line or its settings.
	Config Class = "config_error"
	// Turns: the CLI's own bound of turns was reached.
	Turns Class = "max_turns"
	// Budget: the CLI's own bound of money was reached.
	Budget Class = "budget"
	// Refused: the model refused the work.
	Refused Class = "refused"
	// Request: the provider calls the request invalid (400).
	Request Class = "invalid_request"
	// Session: the session to be resumed does not exist (any more).
	Session Class = "no_session"
	// NoResult: the CLI ended without the event that ends its stream.
	NoResult Class = "no_result"
	// Unknown: an error that none of these says.
	Unknown Class = "unknown"
)

// Waits reports whether time alone cures the class.
func (c Class) Waits() bool {
	return c == Limit || c == Overloaded || c == Network
}

// NeedsPerson reports whether only a person with an account can cure it.
func (c Class) NeedsPerson() bool { return c == Auth || c == Billing }
