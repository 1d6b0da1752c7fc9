package failures

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Step is the action of a Decision. Each step changes something before the task is tried again. Only StepEscalate ends
// the failure policy.
type Step string

// Phase is the state of a failure policy. An agent holds the task only in phase Working. WithHuman and Done are ends.
type Phase string

// These are the steps, the phases, the reasons of a Decision (in the words of events), and the values of type in
// escalation.json.
const (
	StepNone      Step = ""           // the input does not fit the state: nothing follows
	StepRetry     Step = "retry"      // the same agent tries again: the cause is gone (repaired, a new session)
	StepWait      Step = "wait"       // the task waits until an agent is fit again
	StepReassign  Step = "reassign"   // another agent gets the task
	StepRootCause Step = "root_cause" // the caller looks for the cause, then calls Analysed
	StepResume    Step = "resume"     // after a wait, an analysis or an answer, the named agent goes on
	StepEscalate  Step = "escalate"   // an operator decides; the failure policy has ended

	Working   Phase = "working"
	Waiting   Phase = "waiting"
	Analysing Phase = "analysing"
	WithHuman Phase = "person"
	Done      Phase = "done"

	ReasonFailed        = "failed"        // the failure counts
	ReasonRepaired      = "repaired"      // not counted: the environment was repaired
	ReasonChance        = "chance"        // not counted: nobody is to blame
	ReasonProvider      = "provider"      // the agent's provider is down or limited
	ReasonAccount       = "account"       // a login or credit is missing
	ReasonMisconfigured = "misconfigured" // the runner's settings are wrong
	ReasonNobodyLeft    = "nobody_left"   // no agent is left for the task, so the next step follows
	ReasonImpossible    = "impossible"
	ReasonSame          = "same_failure" // the same failure came too often
	ReasonTooOften      = "too_often"    // all steps were tried
	ReasonTooMany       = "too_many_runs"
	ReasonTooLong       = "too_long"
	ReasonBackAgain     = "back_again" // an agent is usable again after a wait
	ReasonAnalysed      = "analysed"
	ReasonAnswered      = "answered"

	TypeRole   = "role_failure"
	TypeRunner = "runner_unavailable"
	// StateVersion is the version of State's JSON.
	StateVersion = 1
	maxTell      = 8 // lines in State.Tell
	chances      = 3 // consecutive failures without blame that are not counted
)

// Ended reports whether the phase is an end, so that nothing more happens by itself.
func (p Phase) Ended() bool { return p == WithHuman || p == Done }

// Limits bound a failure policy. A zero field stands for its default.
type Limits struct {
	// Failures is the number of counted failures after which an operator decides. The default is 3: the first failure
	// leads to another agent, the second to an analysis. With a higher limit the analysis is repeated.
	Failures int `json:"failures,omitempty"`
	// Same is the number of failures with one signature, counted or not, after which an operator decides. The default
	// is 3.
	Same int `json:"same_failure,omitempty"`
	// Runs bounds all failed runs of a task, except those in which a provider was down. The default is 6.
	Runs int `json:"runs,omitempty"`
	// WallMS bounds the time since the first failure, without waits for agents and operators; the default is 6 hours.
	// AnalysisMS bounds one analysis; the default is 10 minutes. WaitMS bounds the total wait for fit agents; the
	// default is 24 hours.
	WallMS     int64 `json:"wall_ms,omitempty"`
	AnalysisMS int64 `json:"analysis_ms,omitempty"`
	WaitMS     int64 `json:"wait_ms,omitempty"`
	// FallOver lets another agent take over from an agent whose settings are wrong. superloop tells an operator and
	// does not wait for an answer.
	FallOver bool `json:"fall_over,omitempty"`
}

// WithDefaults returns l with the default in each zero field.
func (l Limits) WithDefaults() Limits {
	set(&l.Failures, 3)
	set(&l.Same, 3)
	set(&l.Runs, 6)
	set(&l.WallMS, (6 * time.Hour).Milliseconds())
	set(&l.AnalysisMS, (10 * time.Minute).Milliseconds())
	set(&l.WaitMS, (24 * time.Hour).Milliseconds())
	return l
}

// set gives a value that is not above 0 its default.
func set[N int | int64](v *N, d N) {
	if *v <= 0 {
		*v = d
	}
}

// State is the state of the failure policy of one task. It is a value: no function of this package changes a State that
// it is given.
type State struct {
	Version  int    `json:"version"`
	Task     Task   `json:"task"`
	Limits   Limits `json:"limits"`
	Phase    Phase  `json:"phase"`
	Agent    Agent  `json:"agent,omitzero"` // Agent holds the task; zero in every phase but Working
	Last     Agent  `json:"last,omitzero"`  // the agent that failed last; LastTier is its tier
	LastTier int    `json:"last_tier,omitempty"`

	Counted    int            `json:"counted,omitempty"`  // failures that count
	Runs       int            `json:"runs,omitempty"`     // failed runs, except those in which a provider was down
	Chance     int            `json:"chance,omitempty"`   // consecutive failures that nobody is to blame for
	Outages    int            `json:"outages,omitempty"`  // failures of providers that work for other tasks
	Downs      int            `json:"downs,omitempty"`    // failures of providers since the last wait
	Analyses   int            `json:"analyses,omitempty"` // analyses that were requested
	Failed     []Agent        `json:"failed,omitempty"`   // agents that have failed this task
	Refused    []string       `json:"refused,omitempty"`  // Refused are providers whose model refused the work.
	Signatures map[string]int `json:"signatures,omitempty"`
	// Tell holds the lines that the next prompt adds about earlier attempts, oldest first, at most maxTell lines.
	Tell []string `json:"tell,omitempty"`

	FirstAt time.Time `json:"first_at,omitzero"` // the time of the first failure
	// IdleMS is the time since FirstAt in which no agent could have worked. WaitedMS is the part of it that was waits
	// for agents. Since is the start of the present phase.
	IdleMS   int64     `json:"idle_ms,omitempty"`
	WaitedMS int64     `json:"waited_ms,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	Until    time.Time `json:"until,omitzero"` // the end of a wait or an analysis
	// Alerted says that an operator was told that no agent is fit. superloop tells this once per failure policy.
	Alerted bool   `json:"alerted,omitempty"`
	Reason  string `json:"reason,omitempty"` // the reason of the last decision
	Why     string `json:"why,omitempty"`
}

// New returns the failure policy of a task that an agent has begun.
func New(t Task, a Agent, l Limits, now time.Time) State {
	return State{Version: StateVersion, Task: t, Limits: l.WithDefaults(), Phase: Working, Agent: a, Since: now}
}

// Decision is the result of an input to the failure policy.
type Decision struct {
	Step  Step  `json:"rung"`
	Agent Agent `json:"agent,omitzero"` // Agent has the task from now on; zero if no agent has
	// From is the agent that had the task. Release is true if From held the task until now: then that runner is free
	// before anything else happens.
	From    Agent  `json:"from,omitzero"`
	Release bool   `json:"release"`
	Reason  string `json:"reason"`
	Why     string `json:"why"` // one sentence for an operator
	// Tell holds what the next prompt of this task must say about earlier attempts.
	Tell []string `json:"tell,omitempty"`
	// Until is the time at which a wait ends and the caller calls WaitOver. For an analysis, Until is the time at which
	// the caller stops it and calls Analysed with an empty Analysis.
	Until time.Time `json:"until,omitzero"`
	// Alert says that superloop tells an operator and does not wait for an answer. Type is the type of the escalation,
	// for an Alert or an end.
	Alert bool   `json:"alert,omitempty"`
	Type  string `json:"type,omitempty"`
	// NewSession forbids the agent to continue the present conversation.
	NewSession bool `json:"new_session,omitempty"`
}

func (s State) clone() State {
	s.Failed, s.Refused, s.Tell = slices.Clone(s.Failed), slices.Clone(s.Refused), slices.Clone(s.Tell)
	s.Signatures = maps.Clone(s.Signatures)
	return s
}

// enter begins a phase, and adds the time of the previous phase to IdleMS and WaitedMS.
func (s *State) enter(p Phase, now time.Time) {
	if spent := now.Sub(s.Since).Milliseconds(); spent > 0 && !s.FirstAt.IsZero() {
		switch s.Phase {
		case Waiting:
			s.IdleMS, s.WaitedMS = s.IdleMS+spent, s.WaitedMS+spent
		case WithHuman:
			s.IdleMS += spent
		}
	}
	s.Phase, s.Since, s.Until = p, now, time.Time{}
	if p != Working {
		s.Agent = Agent{}
	}
}

// worked returns the time in milliseconds since the first failure, without the idle time.
func (s State) worked(now time.Time) int64 {
	if s.FirstAt.IsZero() {
		return 0
	}
	return now.Sub(s.FirstAt).Milliseconds() - s.IdleMS
}

func (s *State) tell(line string) {
	s.Tell = append(s.Tell, clip(line))
	if over := len(s.Tell) - maxTell; over > 0 {
		s.Tell = slices.Delete(s.Tell, 1, 1+over) // the first line tells how the trouble began, so it stays
	}
}

// told returns the line about a failure that later agents read.
func told(s State, e Event) string {
	if n := max(e.Attempt, s.Runs); n > 0 {
		return fmt.Sprintf("attempt %d, by %s: %s", n, e.Agent, e.Why)
	}
	return fmt.Sprintf("%s: %s", e.Agent, e.Why)
}
