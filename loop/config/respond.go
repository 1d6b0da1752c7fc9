package config

import "time"

// Choice is who may do a role.
type Choice struct {
	Runner string // a key of Config.Runners
	Model  string // "" is the runner's own default
	// Tier is how strong the model is, larger is stronger; 0 where nobody said.
	Tier int
	// Permissions are what it may do in the role without asking: what the role
	// says, else its own runner's, never another runner's; "" leaves it to the
	// command.
	Permissions string
}

// What Respond.Insist may hold: a turn that ended well and lacks it has failed.
const (
	InsistReport     = "report"     // a fresh report
	InsistDifference = "difference" // a report that is not the last one over again
	InsistChange     = "change"     // of the repository, by the implementer
)

// Respond says what follows when a role fails, or the tests fail in the same way
// again and again, and what is looked at before an iteration.
type Respond struct {
	// Enabled is true unless it is switched off: then a role that fails is only
	// run again, as Retry says.
	Enabled bool
	// FallOver gives the work of a runner whose settings are wrong to another one,
	// instead of stopping for a person.
	FallOver bool
	// Insist is nil when absent: then a role that has several runners is held to
	// its report. It is empty, and not nil, when nothing is insisted on.
	Insist []string
	// SameFailure is how often a role may fail in the same way, whoever does it,
	// before a person is asked (default 3, at least 2); SameTests the same of
	// iterations in a row whose tests fail (default 3; 0 never asks).
	SameFailure int
	SameTests   int
	// MaxRuns bounds the failed runs of a role in one iteration (default 6), MaxTime
	// the time of that (default 6 hours), AnalysisTime one search for a cause
	// (default 10 minutes), MaxWait the waits for providers, together (default 8
	// days, so that a limit of a week is waited for). None of them is ever 0.
	MaxRuns      int
	MaxTime      time.Duration
	AnalysisTime time.Duration
	MaxWait      time.Duration
	Breaker      Breaker
	Systemic     Systemic
	// Diagnostician looks for a cause when no rule is sure of one; nil: nobody.
	Diagnostician *Diagnostician
	Preflight     Environment
}

// Breaker says when a runner is unfit: after Failures in a row (default 3) of at
// least two tasks, for First (default 1 minute), doubled each time it fails
// again, at most Most (default 30 minutes). None of them is ever 0.
type Breaker struct {
	Failures    int
	First, Most time.Duration
}

// Systemic says when failures are more than one task's. A rate, SameCategory or
// SilentRuns that is 0 switches its trigger off, which respond.Thresholds writes
// as -1; Window and MinRuns are never 0.
type Systemic struct {
	Window       time.Duration // default 1 hour
	MinRuns      int           // default 5
	WarnRate     float64       // default 0.2
	CriticalRate float64       // default 0.5
	SameCategory int           // default 5
	SilentRuns   int           // default 3
}

// Diagnostician is an agent that is told to read and to change nothing; what
// keeps it from writing are the permissions of its runner.
type Diagnostician struct {
	Runner  string
	Model   string
	Timeout time.Duration // default Respond.AnalysisTime; never 0
}

// Environment are the checks before each iteration, besides those that superloop has
// learned.
type Environment struct {
	Enabled bool // default true
	Checks  []EnvironmentCheck
}

// EnvironmentCheck is one; which fields count, its kind says (respond.CheckKind). What
// Load gives is what respond.Preventions.Add takes.
type EnvironmentCheck struct {
	Kind    string
	Path    string
	Want    string
	Manager string
	FreeMB  int64
	Port    int
	Name    string
	Address string
}
