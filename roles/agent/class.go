package agent

// Class is what kind of failure a run was, in words that all CLIs share. It
// decides what happens next, so an adapter gives one only on structured
// evidence (a field of an event, a status code, an exit code that the CLI
// documents, a message that the CLI itself printed as its error), never on
// text that the agent wrote.
type Class string

// The classes.
const (
	// ClassNone: the stream shows no failure.
	ClassNone Class = ""
	// ClassLimit: a limit of rate or quota, which time lifts.
	ClassLimit Class = "rate_limited"
	// ClassOverloaded: the provider is busy or broken (500, 502, 503, 529).
	ClassOverloaded Class = "overloaded"
	// ClassNetwork: the provider was not reached, or the connection broke.
	ClassNetwork Class = "network"
	// ClassAuth: no login, or one that is not accepted (401, 403).
	ClassAuth Class = "auth"
	// ClassBilling: the account has no credit; only a person can pay.
	ClassBilling Class = "billing"
	// ClassModel: the model does not exist or the account may not use it.
	ClassModel Class = "bad_model"
	// ClassContext: the conversation is longer than the model takes.
	ClassContext Class = "context_overflow"
	// ClassConfig: the CLI does not take its command line or its settings.
	ClassConfig Class = "config_error"
	// ClassTurns: the CLI's own bound of turns was reached.
	ClassTurns Class = "max_turns"
	// ClassBudget: the CLI's own bound of money was reached.
	ClassBudget Class = "budget"
	// ClassRefused: the model refused the work.
	ClassRefused Class = "refused"
	// ClassRequest: the provider calls the request invalid (400).
	ClassRequest Class = "invalid_request"
	// ClassSession: the session to be resumed does not exist (any more).
	ClassSession Class = "no_session"
	// ClassNoResult: the CLI ended without the event that ends its stream.
	ClassNoResult Class = "no_result"
	// ClassUnknown: an error that none of these says.
	ClassUnknown Class = "unknown"
)

// Waits reports whether time alone cures the class.
func (c Class) Waits() bool {
	return c == ClassLimit || c == ClassOverloaded || c == ClassNetwork
}

// NeedsPerson reports whether only a person with an account can cure it.
func (c Class) NeedsPerson() bool { return c == ClassAuth || c == ClassBilling }
