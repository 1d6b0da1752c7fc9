// Package class names the kinds of failure of an agent CLI, in terms that all CLIs share. It imports nothing, so a
// package that only decides about failures, such as loop, does not link the code that runs agents.
package class

// Class is the kind of failure of a run, in terms that all CLIs share. The class decides what the loop does next. So an
// adapter gives a class only on structured evidence: a field of an event, a status code, an exit code that the CLI
// documents, or a message that the CLI itself printed as its error. It never derives a class from text that the agent
// wrote.
type Class string

// The classes.
const (
	None       Class = ""                   // the stream shows no failure
	Limit      Class = "rate_limited"       // a limit of rate or quota, which ends with time
	Overloaded Class = "overloaded"         // the provider is busy or broken (500, 502, 503, 529)
	Network    Class = "network"            // the provider was not reached, or the connection broke
	Auth       Class = "auth"               // no login, or the provider does not accept it (401, 403)
	Billing    Class = "billing"            // the account has no credit; only an operator can pay
	Model      Class = "bad_model"          // the model does not exist or the account may not use it
	Context    Class = "context_overflow"   // the conversation is longer than the model's context window
	Config     Class = "config_error"       // the CLI does not accept its command line or its settings
	Turns      Class = "max_turns"          // the CLI has reached its own limit of turns
	Budget     Class = "budget"             // the CLI has reached its own limit of cost
	Refused    Class = "refused"            // the model refused the task
	Request    Class = "invalid_request"    // the provider calls the request invalid (400)
	Permission Class = "refused_permission" // the agent asked for the same thing again although permissions refuses it; superloop ended it
	Session    Class = "no_session"         // the session to resume does not exist (any more)
	NoResult   Class = "no_result"          // the CLI ended without the event that ends its stream
	Repository Class = "no_repository"      // the role has left no git repository; superloop looks, no CLI says so
	Unknown    Class = "unknown"            // an error of no other class
)

// Waits reports whether waiting is enough to get over the failure.
func (c Class) Waits() bool { return c == Limit || c == Overloaded || c == Network }

// NeedsPerson reports whether only an operator can remove the cause.
func (c Class) NeedsPerson() bool { return c == Auth || c == Billing || c == Repository }
