package failures

import "slices"

// Kind is one way in which a role fails.
type Kind string

// The kinds. Those that a class of roles/agent says have its word.
const (
	KindExit       Kind = "exit"
	KindSignal     Kind = "signal"
	KindOOM        Kind = "oom"
	KindTimeout    Kind = "timeout"
	KindInactive   Kind = "inactive"
	KindNotStarted Kind = "not_started"
	KindLost       Kind = "lost"
	KindMissing    Kind = "missing_output"
	KindEmpty      Kind = "empty_output"
	KindStale      Kind = "stale_output"
	KindMalformed  Kind = "malformed_output"
	KindSame       Kind = "same_output"
	KindNoChange   Kind = "no_change"
	KindImpossible Kind = "impossible"
	KindLimit      Kind = "rate_limited"
	KindOverloaded Kind = "overloaded"
	KindNetwork    Kind = "network"
	KindAuth       Kind = "auth"
	KindBilling    Kind = "billing"
	KindModel      Kind = "bad_model"
	KindContext    Kind = "context_overflow"
	KindConfig     Kind = "config_error"
	KindTurns      Kind = "max_turns"
	KindBudget     Kind = "budget"
	KindRefused    Kind = "refused"
	KindRequest    Kind = "invalid_request"
	KindSession    Kind = "no_session"
	KindNoResult   Kind = "no_result"
	KindUnknown    Kind = "unknown"
)

// What becomes of a failure if nothing is done: the classes of an Event. All but the last two are the catalog's words
// for persistence.
const (
	Transient   = "transient"   // time may fix it
	Environment = "environment" // the machine has to be mended
	Permanent   = "permanent"   // it will be the same next time
	Code        = "code"        // only a change of the code fixes it
	Usage       = "usage"       // it was asked in a wrong way
	Impossible  = "impossible"  // nobody can do it
	Unknown     = "unknown"
)

// Blame is what caused a failure: the runner, its provider, the account, the task or the environment.
type Blame string

// The blames.
const (
	BlameRunner      Blame = "runner"   // whoever did it; another one may do better
	BlameProvider    Blame = "provider" // the service behind it; time fixes that
	BlameAccount     Blame = "account"  // a login or credit; an operator fixes that
	BlameSettings    Blame = "settings" // superloop's configuration of the runner
	BlameEnvironment Blame = "ground"   // the machine or the repository's environment
	BlameTask        Blame = "task"     // what was asked for
	BlameNobody      Blame = "nobody"   // chance, or superloop itself
)

// Severities.
const (
	Blocking = "blocking"
	Degraded = "degraded" // something was done, not what was asked
)

// kindRule is what a kind means when nothing more is known.
type kindRule struct {
	kind            Kind
	class, category string
	blame           Blame
	counted         bool
	degraded        bool
	says            string
}

// kindRules has one line for each kind. The last one is that of every kind that has no other.
func kindRules() []kindRule {
	const no, yes = false, true
	return []kindRule{
		{KindExit, Unknown, "unknown", BlameRunner, yes, no, "it ended with a failure"},
		{KindSignal, Unknown, "unknown", BlameRunner, yes, no, "a signal ended it"},
		{KindOOM, Environment, "resources", BlameEnvironment, yes, no, "the kernel ended it for memory"},
		{KindTimeout, Transient, "timeout", BlameRunner, yes, no, "its time was over"},
		{KindInactive, Transient, "timeout", BlameRunner, yes, no, "it said nothing for too long"},
		{KindNotStarted, Usage, "config", BlameSettings, no, no, "its program could not be started"},
		{KindLost, Transient, "unknown", BlameNobody, no, no, "the process that ran it was lost"},
		{KindMissing, Unknown, "unknown", BlameRunner, yes, no, "its report is missing"},
		{KindEmpty, Unknown, "unknown", BlameRunner, yes, no, "its report is empty"},
		{KindStale, Unknown, "unknown", BlameRunner, yes, yes, "its report is that of an earlier turn"},
		{KindMalformed, Usage, "unknown", BlameRunner, yes, yes, "what it wrote cannot be read"},
		{KindSame, Permanent, "unknown", BlameRunner, yes, yes, "its report is the same as the last time"},
		{KindNoChange, Permanent, "unknown", BlameRunner, yes, yes, "it changed nothing in the repository"},
		{KindImpossible, Impossible, "unknown", BlameTask, no, no, "the work cannot be done"},
		{KindLimit, Transient, "rate_limited", BlameProvider, no, no, "a limit of the provider was met"},
		{KindOverloaded, Transient, "network_error", BlameProvider, no, no, "the provider is overloaded or broken"},
		{KindNetwork, Transient, "network_error", BlameProvider, no, no, "the provider was not reached"},
		{KindAuth, Permanent, "auth", BlameAccount, no, no, "the provider does not take its login"},
		{KindBilling, Permanent, "auth", BlameAccount, no, no, "its account has no credit"},
		{KindModel, Usage, "config", BlameSettings, no, no, "its model does not exist, or may not be used"},
		{KindContext, Usage, "resources", BlameNobody, no, no, "the conversation is longer than its model takes"},
		{KindConfig, Usage, "config", BlameSettings, no, no, "it does not take its command line or its settings"},
		{KindTurns, Usage, "unknown", BlameRunner, yes, no, "its own bound of turns was reached"},
		{KindBudget, Permanent, "unknown", BlameTask, no, no, "its own bound of money was reached"},
		{KindRefused, Permanent, "unknown", BlameTask, yes, no, "the model refused the work"},
		{KindRequest, Permanent, "invalid_arguments", BlameRunner, yes, no, "the provider calls its request invalid"},
		{KindSession, Usage, "config", BlameNobody, no, no, "the conversation to go on with does not exist"},
		{KindNoResult, Unknown, "unknown", BlameRunner, yes, no, "its output ended before its end"},
		{KindUnknown, Unknown, "unknown", BlameRunner, yes, no, "it failed without saying of what"},
	}
}

func ruleOf(k Kind) kindRule {
	all := kindRules()
	if i := slices.IndexFunc(all, func(r kindRule) bool { return r.kind == k }); i >= 0 {
		return all[i]
	}
	return all[len(all)-1]
}

// Kinds lists every kind.
func Kinds() []Kind {
	var out []Kind
	for _, r := range kindRules() {
		out = append(out, r.kind)
	}
	return out
}
