package failures

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Step is what a Decision does; each changes something before the task is tried again. They are in order, from the
// cheapest up. Only the last one is an end.
type Step string

// Phase is where a failure policy stands. An agent holds the task in Working alone; the last two are ends.
type Phase string

// The steps, the phases, the reasons of a Decision (as events have them), and the types of escalation.json.
const (
	StepNone      Step = ""           // the input does not fit the state: nothing follows
	StepRetry     Step = "retry"      // the same agent: what it died of is gone (repaired, a new session)
	StepWait      Step = "wait"       // until an agent is fit again
	StepReassign  Step = "reassign"   // another agent
	StepRootCause Step = "root_cause" // look for the cause, then Analysed
	StepResume    Step = "resume"     // after a wait, an analysis or an operator: the agent named goes on
	StepEscalate  Step = "escalate"   // an operator; the failure policy has ended

	Working   Phase = "working"
	Waiting   Phase = "waiting"
	Analysing Phase = "analysing"
	WithHuman Phase = "person"
	Done      Phase = "done"

	ReasonFailed        = "failed"         // counted
	ReasonRepaired      = "repaired"       // not counted, the environment was mended
	ReasonChance        = "chance"         // not counted, nobody's fault
	ReasonProvider      = "provider"       // the agent's provider is down or limited
	ReasonAccount       = "account"        // a login or credit is missing
	ReasonMisconfigured = "misconfigured"  // the runner's settings are wrong
	ReasonNotTheRunner  = "not_the_runner" // another one would meet the same: the next step
	ReasonNobodyLeft    = "nobody_left"    // to reassign to: the next step
	ReasonImpossible    = "impossible"
	ReasonSame          = "same_failure" // too often
	ReasonTooOften      = "too_often"    // all steps were tried
	ReasonTooMany       = "too_many_runs"
	ReasonTooLong       = "too_long"
	ReasonBackAgain     = "back_again" // after a wait
	ReasonAnalysed      = "analysed"
	ReasonAnswered      = "answered"

	TypeRole   = "role_failure"
	TypeRunner = "runner_unavailable"
	// StateVersion is the shape of State as it is written.
	StateVersion = 1
	maxTell      = 8 // of State.Tell
	chances      = 3 // failures in a row that are nobody's fault and not counted
)

// Ended reports whether nothing happens any more by itself.
func (p Phase) Ended() bool { return p == WithHuman || p == Done }

// Limits bound a failure policy. A zero field is its default.
type Limits struct {
	// Failures is how many counted ones make an operator's question of it: 3, since the first is answered by another
	// agent and the second by an analysis. With more the analysis is made again.
	Failures int `json:"failures,omitempty"`
	// Same is how often one signature may come back, counted or not: the third (3) time is an operator's.
	Same int `json:"same_failure,omitempty"`
	// Runs bounds all failed runs of a task but those of a provider that is down: 6.
	Runs int `json:"runs,omitempty"`
	// WallMS bounds the time since the first failure, waits and people excluded: 6 hours. AnalysisMS bounds one
	// analysis: 10 minutes. WaitMS bounds the waits for agents to be fit again, together: 24 hours.
	WallMS     int64 `json:"wall_ms,omitempty"`
	AnalysisMS int64 `json:"analysis_ms,omitempty"`
	WaitMS     int64 `json:"wait_ms,omitempty"`
	// FallOver: another agent takes over from one whose settings are wrong; an operator is told, and not waited for.
	FallOver bool `json:"fall_over,omitempty"`
}

// WithDefaults is l with its zero fields set.
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

// State is the failure policy of one task. It is a value: no function of this package changes the one that it is given.
type State struct {
	Version  int    `json:"version"`
	Task     Task   `json:"task"`
	Limits   Limits `json:"limits"`
	Phase    Phase  `json:"phase"`
	Agent    Agent  `json:"agent,omitzero"` // Agent holds the task; zero in every phase but Working
	Last     Agent  `json:"last,omitzero"`  // who failed last, LastTier its tier
	LastTier int    `json:"last_tier,omitempty"`

	Counted    int            `json:"counted,omitempty"`  // failures that count
	Runs       int            `json:"runs,omitempty"`     // failed runs, but those of a provider that was down
	Chance     int            `json:"chance,omitempty"`   // failures in a row that are nobody's fault
	Outages    int            `json:"outages,omitempty"`  // failures of providers that work for others
	Downs      int            `json:"downs,omitempty"`    // failures of providers since the last wait
	Analyses   int            `json:"analyses,omitempty"` // that were asked for
	Failed     []Agent        `json:"failed,omitempty"`   // agents that have failed this task
	Refused    []string       `json:"refused,omitempty"`  // Refused are providers whose model refused the work.
	Signatures map[string]int `json:"signatures,omitempty"`
	// Tell is what the next prompt is told, oldest first, at most maxTell lines.
	Tell []string `json:"tell,omitempty"`

	FirstAt time.Time `json:"first_at,omitzero"` // the first failure
	// IdleMS is the time since FirstAt in which nobody could have worked; WaitedMS the part of it that was waits for
	// agents. Since is when the present phase began.
	IdleMS   int64     `json:"idle_ms,omitempty"`
	WaitedMS int64     `json:"waited_ms,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	Until    time.Time `json:"until,omitzero"` // when a wait or an analysis is over
	// Alerted: an operator knows that nobody is fit; told once in a failure policy.
	Alerted bool   `json:"alerted,omitempty"`
	Reason  string `json:"reason,omitempty"` // of the last decision
	Why     string `json:"why,omitempty"`
}

// New is the failure policy of a task that an agent has begun.
func New(t Task, a Agent, l Limits, now time.Time) State {
	return State{Version: StateVersion, Task: t, Limits: l.WithDefaults(), Phase: Working, Agent: a, Since: now}
}

// Decision is what follows from an input.
type Decision struct {
	Step  Step  `json:"rung"`
	Agent Agent `json:"agent,omitzero"` // Agent has the task from now on; zero: nobody has
	// From is who had it. Release is true when From held it: that runner is free before anything else happens.
	From    Agent  `json:"from,omitzero"`
	Release bool   `json:"release"`
	Reason  string `json:"reason"`
	Why     string `json:"why"` // one sentence for an operator
	// Tell is what the next prompt of this task has to say of what happened.
	Tell []string `json:"tell,omitempty"`
	// Until: of a wait, when to call WaitOver; of an analysis, when to give it up and call Analysed without one.
	Until time.Time `json:"until,omitzero"`
	// Alert: an operator is told, and nothing waits for an answer. Type is the escalation's, with an Alert or an end.
	Alert bool   `json:"alert,omitempty"`
	Type  string `json:"type,omitempty"`
	// NewSession: the conversation so far must not be gone on with.
	NewSession bool `json:"new_session,omitempty"`
}

func (s State) clone() State {
	s.Failed, s.Refused, s.Tell = slices.Clone(s.Failed), slices.Clone(s.Refused), slices.Clone(s.Tell)
	s.Signatures = maps.Clone(s.Signatures)
	return s
}

// enter begins a phase, and closes the clock of the one before.
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

// worked is the time since the first failure in which something could be done.
func (s State) worked(now time.Time) int64 {
	if s.FirstAt.IsZero() {
		return 0
	}
	return now.Sub(s.FirstAt).Milliseconds() - s.IdleMS
}

func (s *State) tell(line string) {
	s.Tell = append(s.Tell, clip(line))
	if over := len(s.Tell) - maxTell; over > 0 {
		s.Tell = slices.Delete(s.Tell, 1, 1+over) // the first one is where it began
	}
}

// told is what an agent reads of a failure.
func told(s State, e Event) string {
	if n := max(e.Attempt, s.Runs); n > 0 {
		return fmt.Sprintf("attempt %d, by %s: %s", n, e.Agent, e.Why)
	}
	return fmt.Sprintf("%s: %s", e.Agent, e.Why)
}
