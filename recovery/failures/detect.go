package failures

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Task is a unit of work that can fail several times: the work of a role on an item of the plan, or on the loop's
// promise.
type Task struct {
	Loop string `json:"loop_id"`
	Role string `json:"role"`
	Item string `json:"item,omitempty"`
}

// Key returns the task as one word, the form in events and root-cause.json.
func (t Task) Key() string {
	if t.Item == "" {
		return t.Loop + "/" + t.Role
	}
	return t.Loop + "/" + t.Role + "/" + t.Item
}

// Agent is the runner that does a task, with the provider and the model that the configuration asks for. The model that
// answered may have another name each time, so it is not part of an Agent.
type Agent struct {
	Runner   string `json:"runner"`
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model,omitempty"`
}

// String returns the agent in the form for display: "claude (anthropic, opus)".
func (a Agent) String() string {
	more := a.Provider
	if a.Model != "" {
		more = strings.TrimPrefix(more+", "+a.Model, ", ")
	}
	if more == "" || more == a.Runner {
		return a.Runner
	}
	return a.Runner + " (" + more + ")"
}

// Classified is the classification that recovery/classify made of the output of a role's process, if superloop asked
// for one.
type Classified struct {
	Category    string `json:"category"`
	Handler     string `json:"handler,omitempty"`
	Persistence string `json:"persistence,omitempty"`
	Infra       bool   `json:"infra,omitempty"`
	Code        bool   `json:"code,omitempty"`
	Signature   string `json:"signature,omitempty"`
	// Weak says that the code may be to blame as well. Confidence says from 0 to 1 how sure the classification is.
	Weak       bool    `json:"weak,omitempty"`
	Confidence float64 `json:"confidence,omitempty"`
	// Repaired says that the environment was repaired since. Then the failure does not count.
	Repaired bool `json:"repaired,omitempty"`
}

// Sure is the confidence from which superloop acts on a classification or on a cause. What is less sure is a guess: an
// operator reads it as "possibly", and no prompt, no check and no decision takes it for a fact.
const Sure = 0.7

// Firm reports whether a classification is a fact for superloop, and not a guess.
func Firm(weak bool, confidence float64) bool { return !weak && confidence >= Sure }

// RoleOutcome holds the facts about one attempt of a role, in the words of role_end, role_failed and role_timeout.
type RoleOutcome struct {
	Task      Task
	Agent     Agent
	RunID     string
	Iteration int
	Attempt   int

	Outcome  string // ok, exit, signal, timeout, inactive, not_started, lost, interrupted or error
	ExitCode int
	Signal   string
	OOM      bool // the kernel killed the process because memory was short
	// Class is a class of package roles/agent/class, "" if the stream reported no failure. Until is the end of a limit,
	// zero if unknown.
	Class      string
	Until      time.Time
	Error      string // Error is the runner's own message. It is shown and is part of the signature; no decision uses it.
	DurationMS int64
	// Output is the state of the role's report: fresh, stale, missing, empty; "" for a role without a report. Malformed
	// says what is wrong with the report. MustReport, MustDiffer and MustChange say what this role must deliver: a
	// fresh report, a report that differs from the last one, a changed repository.
	Output     string
	Malformed  string
	Digest     string
	LastDigest string
	Tree       string
	TreeBefore string
	MustReport bool
	MustDiffer bool
	MustChange bool
	// Impossible says why nobody can do the work, according to a gate or a check. The claim of an agent is no proof.
	Impossible string
	Classified *Classified

	At time.Time
}

// Event is one detected failure.
type Event struct {
	Task      Task   `json:"task"`
	Agent     Agent  `json:"agent"`
	RunID     string `json:"run_id,omitempty"`
	Iteration int    `json:"iteration,omitempty"`
	Attempt   int    `json:"attempt,omitempty"`

	Kind     Kind   `json:"kind"`
	Class    string `json:"class"`    // transient, environment, permanent, code, usage, impossible, unknown
	Category string `json:"category"` // a category of the catalog
	Handler  string `json:"handler,omitempty"`
	Weak     bool   `json:"weak,omitempty"` // Category and Handler are a guess: see Firm
	Blame    Blame  `json:"blame"`
	// Counted says that the failure is one step of the failure policy. Repaired says that the cause in the environment
	// is repaired.
	Counted  bool   `json:"counted"`
	Repaired bool   `json:"repaired,omitempty"`
	Severity string `json:"severity"`
	// Signature is equal for equal failures of the same kind, whichever agent had them.
	Signature string    `json:"signature"`
	Why       string    `json:"why"` // one clause for an operator
	Until     time.Time `json:"until,omitzero"`
	At        time.Time `json:"at"`
}

// Waits reports whether time alone fixes the failure, so that it does not matter which agent has the task.
func (e Event) Waits() bool { return e.Blame == BlameProvider }

// Signer computes the signature of a failure. The same failure in another run gets the same signature, as by Signature
// of recovery/classify. The caller supplies the function, because it needs the rules that normalise output, and this
// package does not import them.
type Signer func(category, handler string, parts ...string) string

// Detect reports whether an attempt has failed, and returns the failure. An attempt that superloop itself interrupted
// has not failed. Detect decides by the outcome, the class and the other facts. The text in Error affects only
// Signature and Why.
func Detect(o RoleOutcome, sign Signer) (Event, bool) {
	kind, detail := kindOf(o)
	if kind == "" {
		return Event{}, false
	}
	r := ruleOf(kind)
	e := Event{Task: o.Task, Agent: o.Agent, RunID: o.RunID, Iteration: o.Iteration, Attempt: o.Attempt, Kind: kind,
		Class: r.class, Category: r.category, Blame: r.blame, Counted: r.counted, Severity: Blocking, Until: o.Until, At: o.At}
	if r.degraded {
		e.Severity = Degraded
	}
	if e.Blame != BlameProvider {
		e.Until = time.Time{}
	}
	part := ""
	if g := o.Classified; g != nil && g.Category != "" && slices.Contains(byOutput, kind) {
		e.Category, e.Handler, part = g.Category, g.Handler, g.Signature
		e.Weak = !g.Repaired && !Firm(g.Weak, g.Confidence)
		switch {
		case e.Weak: // the end of the process decides
		case g.Code:
			e.Class = Code
		case g.Persistence != "":
			e.Class = g.Persistence
		}
		if g.Infra && !e.Weak {
			e.Blame = BlameEnvironment
		}
		e.Repaired = g.Repaired
		e.Counted = e.Counted && !g.Repaired
	}
	e.Why = r.says
	if detail != "" {
		e.Why += ": " + detail
	}
	e.Why = clip(e.Why)
	e.Signature = sign(e.Category, e.Handler, string(kind), o.Signal, cmp.Or(part, o.Error))
	return e, true
}

// byOutput are the kinds of failure for which the output of the process tells more than its exit. byClass are the kinds
// that are decided by the class alone. A class that only says that the stream has no end, or that the cause is unknown,
// tells no more than the exit.
var (
	byOutput = []Kind{KindExit, KindSignal, KindUnknown, KindNoResult, KindTimeout, KindInactive, KindMissing, KindEmpty}
	byClass  = []Kind{KindLimit, KindOverloaded, KindNetwork, KindAuth, KindBilling, KindModel, KindContext, KindConfig,
		KindTurns, KindBudget, KindRefused, KindRequest, KindSession, KindPermission}
)

// kindOf returns the kind of a failure and a detail for the operator. The kind "" means no failure.
func kindOf(o RoleOutcome) (Kind, string) {
	switch k := Kind(o.Class); {
	case o.Outcome == "interrupted":
		return "", ""
	case o.Impossible != "":
		return KindImpossible, o.Impossible
	case o.Outcome == "ok":
		return reportKind(o)
	case o.Outcome == "not_started":
		return KindNotStarted, o.Error
	case slices.Contains(byClass, k):
		return k, o.Error
	case o.Outcome == "timeout":
		return KindTimeout, lasted(o)
	case o.Outcome == "inactive":
		return KindInactive, lasted(o)
	case o.Outcome == "lost":
		return KindLost, o.Error
	case o.OOM:
		return KindOOM, o.Error
	case o.Outcome == "signal":
		return KindSignal, strings.TrimSpace(o.Signal + " " + o.Error)
	case k == KindNoResult:
		return KindNoResult, o.Error
	case o.Outcome == "exit":
		return KindExit, strings.TrimSpace(fmt.Sprintf("exit code %d %s", o.ExitCode, o.Error))
	}
	return KindUnknown, o.Error
}

// reportKind returns the kind of fault in the report of a run that ended well, or "".
func reportKind(o RoleOutcome) (Kind, string) {
	if k := map[string]Kind{"missing": KindMissing, "empty": KindEmpty, "stale": KindStale}[o.Output]; o.MustReport && k != "" {
		return k, ""
	}
	switch {
	case o.Malformed != "":
		return KindMalformed, o.Malformed
	case o.MustChange && o.Tree != "" && o.Tree == o.TreeBefore:
		return KindNoChange, ""
	case o.MustDiffer && o.Digest != "" && o.Digest == o.LastDigest:
		return KindSame, ""
	}
	return "", ""
}

func lasted(o RoleOutcome) string {
	return (time.Duration(o.DurationMS) * time.Millisecond).Round(time.Second).String()
}

// Kind is one way in which a role fails. A kind that a class of roles/agent/class decides has the name of the class.
type Kind string

// Blame names the cause of a failure: the runner, its provider, the account, the settings, the environment or the task.
type Blame string

// These are the kinds, classes, causes and severities of failures.
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
	KindPermission Kind = "refused_permission"
	KindNoResult   Kind = "no_result"
	KindUnknown    Kind = "unknown"
	// The following classes say how a failure develops if nobody acts. All but Impossible and Unknown are values of the
	// catalog's persistence.
	Transient   = "transient"   // time may fix the failure
	Environment = "environment" // somebody has to repair the machine
	Permanent   = "permanent"   // the next attempt will fail in the same way
	Code        = "code"        // only a change of the code fixes the failure
	Usage       = "usage"       // the call was wrong
	Impossible  = "impossible"  // nobody can do the work
	Unknown     = "unknown"

	BlameRunner      Blame = "runner"   // the runner; another runner may succeed
	BlameProvider    Blame = "provider" // the service behind the runner; time fixes the failure
	BlameAccount     Blame = "account"  // a login or credit; an operator fixes the failure
	BlameSettings    Blame = "settings" // superloop's configuration of the runner
	BlameEnvironment Blame = "ground"   // the machine or the repository's environment
	BlameTask        Blame = "task"     // the work that was asked for
	BlameNobody      Blame = "nobody"   // chance, or superloop itself

	Blocking = "blocking"
	Degraded = "degraded" // the role did something, but not what was asked for

	CategoryUnknown = "unknown" // the category of a failure that no rule knows
)

// kindRule holds the properties of a kind of failure, without a classification of the output.
type kindRule struct {
	kind            Kind
	class, category string
	blame           Blame
	counted         bool
	degraded        bool
	says            string
}

// kindRules returns one rule for each kind. The last rule applies to every kind that has no rule of its own.
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
		{KindPermission, Permanent, "unknown", BlameTask, yes, no, "it asked again for what permissions refuses"},
		{KindNoResult, Unknown, "unknown", BlameRunner, yes, no, "its output ended before its end"},
		{KindUnknown, Unknown, "unknown", BlameRunner, yes, no, "it failed without saying of what"},
	}
}

func ruleOf(k Kind) kindRule {
	all := kindRules()
	i := slices.IndexFunc(all, func(r kindRule) bool { return r.kind == k || r.kind == KindUnknown })
	return all[i]
}

// Kinds lists every kind.
func Kinds() []Kind {
	var out []Kind
	for _, r := range kindRules() {
		out = append(out, r.kind)
	}
	return out
}
