package failures

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Task is what can fail more than once: the work of a role on an item of the plan, or on the loop's promise.
type Task struct {
	Loop string `json:"loop_id"`
	Role string `json:"role"`
	Item string `json:"item,omitempty"`
}

// Key is the task in one word, as events and root-cause.json have it.
func (t Task) Key() string {
	if t.Item == "" {
		return t.Loop + "/" + t.Role
	}
	return t.Loop + "/" + t.Role + "/" + t.Item
}

// Agent is who does a task: a runner of the configuration with the model that was asked for (not the one that answered,
// which may be another word each time).
type Agent struct {
	Runner   string `json:"runner"`
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model,omitempty"`
}

// String is the agent for people: "claude (anthropic, opus)".
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

// Classified is what the rules of recovery/classify say of what a role's process printed, where they were asked.
type Classified struct {
	Category    string `json:"category"`
	Handler     string `json:"handler,omitempty"`
	Persistence string `json:"persistence,omitempty"`
	Infra       bool   `json:"infra,omitempty"`
	Code        bool   `json:"code,omitempty"`
	Signature   string `json:"signature,omitempty"`
	// Repaired: the environment was mended since. The failure does not count.
	Repaired bool `json:"repaired,omitempty"`
}

// RoleOutcome are the facts of one attempt of a role, in the words of role_end, role_failed and role_timeout.
type RoleOutcome struct {
	Task      Task
	Agent     Agent
	RunID     string
	Iteration int
	Attempt   int

	Outcome  string // ok, exit, signal, timeout, inactive, not_started, lost, interrupted or error
	ExitCode int
	Signal   string
	OOM      bool // the kernel ended it for memory
	// Class is that of roles/agent, "" without a failure in the stream. Until is when a limit ends, zero if unknown.
	Class      string
	Until      time.Time
	Error      string // Error is the runner's own word. It is shown and makes a signature; nothing is decided by it.
	DurationMS int64
	// Output is the state of the role's report: fresh, stale, missing, empty; "" is a role without one. Malformed says
	// what is wrong with what it wrote. MustReport, MustDiffer, MustChange are what is asked of this role: a fresh
	// report, one that is not the last one over again, a changed repository.
	Output     string
	Malformed  string
	Digest     string
	LastDigest string
	Tree       string
	TreeBefore string
	MustReport bool
	MustDiffer bool
	MustChange bool
	// Impossible says why nobody can do the work, as a gate or a check found out; what an agent claims is no proof.
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
	Category string `json:"category"` // of the catalog's closed list
	Handler  string `json:"handler,omitempty"`
	Blame    Blame  `json:"blame"`
	// Counted: it is one step of the failure policy. Repaired: what it died of is mended.
	Counted  bool   `json:"counted"`
	Repaired bool   `json:"repaired,omitempty"`
	Severity string `json:"severity"`
	// Signature is the same for the same failure of the same kind, whoever had it.
	Signature string    `json:"signature"`
	Why       string    `json:"why"` // one clause for an operator
	Until     time.Time `json:"until,omitzero"`
	At        time.Time `json:"at"`
}

// Waits reports whether time alone fixes it, and who has the task plays no part.
func (e Event) Waits() bool { return e.Blame == BlameProvider }

// Signer names a failure so that the same one in another run has the same name, as Signature of recovery/classify does.
// It is handed in because it needs the rules by which output is normalised, and this package imports none of ours.
type Signer func(category, handler string, parts ...string) string

// Detect reports whether an attempt has failed, and how. An attempt that was broken off by superloop itself has not. It
// decides by the outcome, the class and the other facts; the text in Error changes only Signature and Why.
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
		switch {
		case g.Code:
			e.Class = Code
		case g.Persistence != "":
			e.Class = g.Persistence
		}
		if g.Infra {
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

// byOutput are the kinds of which what the process printed says more than how it ended; byClass are those that a class
// says by itself: that a stream has no end, or that nobody knows, is no more than how the process ended.
var (
	byOutput = []Kind{KindExit, KindSignal, KindUnknown, KindNoResult, KindTimeout, KindInactive, KindMissing, KindEmpty}
	byClass  = []Kind{KindLimit, KindOverloaded, KindNetwork, KindAuth, KindBilling, KindModel, KindContext, KindConfig,
		KindTurns, KindBudget, KindRefused, KindRequest, KindSession}
)

// kindOf gives the kind of a failure and what is to be added for an operator; "" is no failure.
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

// reportKind is what may be wrong with a turn that ended well.
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

// Kind is one way in which a role fails. Those that a class of roles/agent says have its word.
type Kind string

// Blame is what caused a failure: the runner, its provider, the account, the task or the environment.
type Blame string

// What there is to say of a failure.
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
	// What becomes of a failure if nothing is done. All but the last two are the catalog's words for persistence.
	Transient   = "transient"   // time may fix it
	Environment = "environment" // the machine has to be mended
	Permanent   = "permanent"   // it will be the same next time
	Code        = "code"        // only a change of the code fixes it
	Usage       = "usage"       // it was asked in a wrong way
	Impossible  = "impossible"  // nobody can do it
	Unknown     = "unknown"

	BlameRunner      Blame = "runner"   // whoever did it; another one may do better
	BlameProvider    Blame = "provider" // the service behind it; time fixes that
	BlameAccount     Blame = "account"  // a login or credit; an operator fixes that
	BlameSettings    Blame = "settings" // superloop's configuration of the runner
	BlameEnvironment Blame = "ground"   // the machine or the repository's environment
	BlameTask        Blame = "task"     // what was asked for
	BlameNobody      Blame = "nobody"   // chance, or superloop itself

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
