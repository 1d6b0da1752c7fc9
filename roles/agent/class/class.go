// Package class names the kinds of failure of an agent CLI, in words that all CLIs share. It imports nothing, so that
// what only decides about a failure (the loop's machine) is not linked with what runs agents.
package class

// Class is what kind of failure a run was, in words that all CLIs share. It decides what happens next, so an adapter
// gives one only on structured evidence (a field of an event, a status code, an exit code that the CLI documents, a
// message that the CLI itself printed as its error), never on text that the agent wrote.
type Class string

// The classes.
const (
	None       Class = ""                 // the stream shows no failure
	Limit      Class = "rate_limited"     // a limit of rate or quota, which time lifts
	Overloaded Class = "overloaded"       // the provider is busy or broken (500, 502, 503, 529)
	Network    Class = "network"          // the provider was not reached, or the connection broke
	Auth       Class = "auth"             // no login, or one that is not accepted (401, 403)
	Billing    Class = "billing"          // the account has no credit; only an operator can pay
	Model      Class = "bad_model"        // the model does not exist or the account may not use it
	Context    Class = "context_overflow" // the conversation is longer than the model takes
	Config     Class = "config_error"     // the CLI does not take its command line or its settings
	Turns      Class = "max_turns"        // the CLI's own bound of turns was reached
	Budget     Class = "budget"           // the CLI's own bound of money was reached
	Refused    Class = "refused"          // the model refused the work
	Request    Class = "invalid_request"  // the provider calls the request invalid (400)
	Session    Class = "no_session"       // the session to be resumed does not exist (any more)
	NoResult   Class = "no_result"        // the CLI ended without the event that ends its stream
	Unknown    Class = "unknown"          // an error that none of these says
)

// Waits reports whether it is enough to wait.
func (c Class) Waits() bool { return c == Limit || c == Overloaded || c == Network }

// NeedsPerson reports whether only an operator with an account can lift the cause.
func (c Class) NeedsPerson() bool { return c == Auth || c == Billing }
