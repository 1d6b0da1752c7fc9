package failures

import "time"

// The names of the events that this package's values are written as. Their fields are the structs below; what a fold
// reads of other events, Figures says.
const (
	EventDetected   = "failure_detected"    // DetectedFields
	EventReassigned = "runner_reassigned"   // ReassignedFields
	EventTripped    = "runner_tripped"      // TrippedFields
	EventAnalysed   = "root_cause_analysed" // AnalysedFields
	EventPrevention = "prevention_added"    // PreventionFields
	EventPreflight  = "preflight_failed"    // PreflightFields
	EventSystemic   = "systemic_alert"      // Alert
)

// DetectedFields tell of a failure, and of the decision that followed at once.
type DetectedFields struct {
	TaskKey string `json:"task_key"`
	Role    string `json:"role"`
	Agent
	Attempt   int    `json:"attempt"`
	Kind      Kind   `json:"kind"`
	Class     string `json:"class"`
	Category  string `json:"category"`
	Handler   string `json:"handler,omitempty"`
	Blame     Blame  `json:"blame"`
	Counted   bool   `json:"counted"`
	Severity  string `json:"severity"`
	Signature string `json:"signature"`
	Error     string `json:"error,omitempty"`
	Step      Step   `json:"rung"`
	Reason    string `json:"reason"`
	Failures  int    `json:"failures"` // counted so far, this one included
	// DetectMS is from the process's end to the event; ClassifyUS and RespondUS are for classifying and deciding.
	DetectMS   int64 `json:"detect_ms"`
	ClassifyUS int64 `json:"classify_us"`
	RespondUS  int64 `json:"respond_us"`
}

// Fields are those of a failure and the decision about it. Its times are the caller's to fill in.
func Fields(e Event, s State, d Decision) DetectedFields {
	return DetectedFields{TaskKey: e.Task.Key(), Role: e.Task.Role, Agent: e.Agent, Attempt: e.Attempt, Kind: e.Kind, Class: e.Class, Category: e.Category, Handler: e.Handler, Blame: e.Blame, Counted: e.Counted,
		Severity: e.Severity, Signature: e.Signature, Error: e.Why, Step: d.Step, Reason: d.Reason, Failures: s.Counted}
}

// ReassignedFields tell who has a task now. Step is reassign, or resume after a wait or an analysis.
type ReassignedFields struct {
	TaskKey string `json:"task_key"`
	Role    string `json:"role"`
	From    string `json:"from"`
	To      string `json:"to"`
	Step    Step   `json:"rung"`
	Reason  string `json:"reason"`
	Error   string `json:"error,omitempty"`
}

// TrippedFields tell that an agent became unfit.
type TrippedFields struct {
	Runner   string    `json:"runner"`
	Provider string    `json:"provider,omitempty"`
	Model    string    `json:"model,omitempty"`
	Kind     Kind      `json:"kind"`
	Reason   string    `json:"reason"`
	Trips    int       `json:"trips"`
	Until    time.Time `json:"until,omitzero"` // absent: until an operator has mended it
}

// Tripped are the fields of a breaker that has just opened.
func (b Breaker) Tripped() TrippedFields {
	return TrippedFields{b.Agent.Runner, b.Agent.Provider, b.Agent.Model, b.Kind, b.Why, b.Trips, b.Until}
}

// AnalysedFields tell of an analysis.
type AnalysedFields struct {
	TaskKey    string    `json:"task_key"`
	Role       string    `json:"role"`
	ID         string    `json:"id"`
	Type       CauseType `json:"type"`
	Category   string    `json:"category"`
	RootCause  string    `json:"root_cause"`
	Location   string    `json:"location,omitempty"`
	Fix        string    `json:"fix"` // its kind
	Check      string    `json:"check,omitempty"`
	Confidence float64   `json:"confidence"`
	By         string    `json:"by"`
	DurationMS int64     `json:"duration_ms"`
}

// Fields are those of an analysis of a role's task.
func (rc RootCause) Fields(role string, took time.Duration) AnalysedFields {
	f := AnalysedFields{TaskKey: rc.TaskKey, Role: role, ID: rc.ID, Type: rc.Type, Category: rc.Category, RootCause: rc.Description,
		Location: rc.Location, Fix: rc.Fix.Kind, Confidence: rc.Confidence, By: rc.By, DurationMS: took.Milliseconds()}
	if rc.Prevention != nil {
		f.Check = string(rc.Prevention.Kind)
	}
	return f
}

// PreventionFields tell of a check that was added.
type PreventionFields struct {
	ID       string    `json:"id"`
	Check    CheckKind `json:"check"`
	Category string    `json:"category"`
	Reason   string    `json:"reason"`
	By       string    `json:"by"`
	Cause    string    `json:"root_cause_id,omitempty"`
}

// PreflightFields tell that the environment was found broken before a role ran.
type PreflightFields struct {
	Findings []Finding `json:"findings"`
	Action   string    `json:"action"` // recover, pause, operator
	TookUS   int64     `json:"took_us"`
}
