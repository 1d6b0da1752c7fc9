package failures

import "time"

// These are the names of the events that this package's values are written as. The structs below are the fields of the
// events. The doc comment of Fold lists the other events whose fields this package reads.
const (
	EventDetected   = "failure_detected"    // DetectedFields
	EventReassigned = "runner_reassigned"   // ReassignedFields
	EventTripped    = "runner_tripped"      // TrippedFields
	EventAnalysed   = "root_cause_analysed" // AnalysedFields
	EventPrevention = "prevention_added"    // PreventionFields
	EventRetired    = "prevention_retired"  // RetiredFields
	EventPreflight  = "preflight_failed"    // PreflightFields
	EventSystemic   = "systemic_alert"      // Alert
)

// DetectedFields describe a failure and the decision that followed immediately.
type DetectedFields struct {
	TaskKey string `json:"task_key"`
	Role    string `json:"role"`
	Agent
	Attempt   int    `json:"attempt"`
	Kind      Kind   `json:"kind"`
	Class     string `json:"class"`
	Category  string `json:"category"`
	Handler   string `json:"handler,omitempty"`
	Weak      bool   `json:"weak,omitempty"` // category and handler are a guess
	Blame     Blame  `json:"blame"`
	Counted   bool   `json:"counted"`
	Severity  string `json:"severity"`
	Signature string `json:"signature"`
	Error     string `json:"error,omitempty"`
	Step      Step   `json:"rung"`
	Reason    string `json:"reason"`
	Failures  int    `json:"failures"` // counted so far, including this failure
	// DetectMS is the time from the end of the process to the event. ClassifyUS and RespondUS are the times that
	// superloop needed to classify the failure and to decide.
	DetectMS   int64 `json:"detect_ms"`
	ClassifyUS int64 `json:"classify_us"`
	RespondUS  int64 `json:"respond_us"`
}

// Fields returns the fields of a failure and the decision about it. The caller fills in the times.
func Fields(e Event, s State, d Decision) DetectedFields {
	return DetectedFields{TaskKey: e.Task.Key(), Role: e.Task.Role, Agent: e.Agent, Attempt: e.Attempt, Kind: e.Kind, Class: e.Class, Category: e.Category, Handler: e.Handler, Weak: e.Weak, Blame: e.Blame, Counted: e.Counted,
		Severity: e.Severity, Signature: e.Signature, Error: e.Why, Step: d.Step, Reason: d.Reason, Failures: s.Counted}
}

// ReassignedFields say which agent has a task now. Step is reassign, or resume after a wait or an analysis.
type ReassignedFields struct {
	TaskKey string `json:"task_key"`
	Role    string `json:"role"`
	From    string `json:"from"`
	To      string `json:"to"`
	Step    Step   `json:"rung"`
	Reason  string `json:"reason"`
	Error   string `json:"error,omitempty"`
}

// TrippedFields say that an agent became unfit.
type TrippedFields struct {
	Runner   string    `json:"runner"`
	Provider string    `json:"provider,omitempty"`
	Model    string    `json:"model,omitempty"`
	Kind     Kind      `json:"kind"`
	Reason   string    `json:"reason"`
	Trips    int       `json:"trips"`
	Until    time.Time `json:"until,omitzero"` // zero: until an operator resets the agent
}

// Tripped returns the fields of a breaker that has just opened.
func (b Breaker) Tripped() TrippedFields {
	return TrippedFields{b.Agent.Runner, b.Agent.Provider, b.Agent.Model, b.Kind, b.Why, b.Trips, b.Until}
}

// AnalysedFields describe the result of an analysis.
type AnalysedFields struct {
	TaskKey    string    `json:"task_key"`
	Role       string    `json:"role"`
	ID         string    `json:"id"`
	Type       CauseType `json:"type"`
	Category   string    `json:"category"`
	RootCause  string    `json:"root_cause"`
	Location   string    `json:"location,omitempty"`
	Fix        string    `json:"fix"` // the kind of the fix
	Check      string    `json:"check,omitempty"`
	Confidence float64   `json:"confidence"`
	// Sure says that superloop acts on the cause. Otherwise the cause is a guess, for operators. Verified says what has
	// confirmed the cause: see RootCause.
	Sure       bool   `json:"sure"`
	Verified   string `json:"verified,omitempty"`
	By         string `json:"by"`
	DurationMS int64  `json:"duration_ms"`
}

// Fields returns the fields of an analysis of a role's task.
func (rc RootCause) Fields(role string, took time.Duration) AnalysedFields {
	f := AnalysedFields{TaskKey: rc.TaskKey, Role: role, ID: rc.ID, Type: rc.Type, Category: rc.Category, RootCause: rc.Description,
		Location: rc.Location, Fix: rc.Fix.Kind, Confidence: rc.Confidence, Sure: rc.Sure(), Verified: rc.Verified, By: rc.By, DurationMS: took.Milliseconds()}
	if rc.Prevention != nil {
		f.Check = string(rc.Prevention.Kind)
	}
	return f
}

// PreventionFields describe a check that was added.
type PreventionFields struct {
	ID       string    `json:"id"`
	Check    CheckKind `json:"check"`
	Category string    `json:"category"`
	Reason   string    `json:"reason"`
	By       string    `json:"by"`
	Cause    string    `json:"root_cause_id,omitempty"`
	Scope
}

// RetiredFields say that a learned check turned out to be wrong and is no longer made.
type RetiredFields struct {
	ID     string `json:"id"`
	Reason string `json:"reason"`
	Role   string `json:"role"`
	Runner string `json:"runner"`
}

// PreflightFields say that the environment checks found the environment broken before a role ran.
type PreflightFields struct {
	Findings []Finding `json:"findings"`
	Action   string    `json:"action"` // recover, pause, operator
	TookUS   int64     `json:"took_us"`
}
