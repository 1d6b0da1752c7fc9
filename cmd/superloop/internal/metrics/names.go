package metrics

import (
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/recovery/failures"
)

// The metrics. Each is a family of every loop's tally.
const (
	roleRuns = iota
	roleDuration
	roleFailures
	responses
	detection
	response
	recoveryTime
	cost
	unpriced
	tokens
	iterations
	recoveries
	verifications
	classified
	chains
	escalations
	answers
	preflightStops
	preventions
	analyses
	trips
	alerts
	families
)

// metric is how a family is told. Every metric has the label loop first.
type metric struct {
	name, help string
	kind       string // of the text format: counter, gauge, histogram
	labels     []string
	buckets    []float64 // of a histogram, in seconds
}

func counter(name, help string, labels ...string) metric {
	return metric{"superloop_" + name, help, "counter", append([]string{"loop"}, labels...), nil}
}

func gauge(name, help string, labels ...string) metric {
	return metric{"superloop_" + name, help, "gauge", append([]string{"loop"}, labels...), nil}
}

func histogram(name, help string, buckets []float64, labels ...string) metric {
	return metric{"superloop_" + name, help, "histogram", append([]string{"loop"}, labels...), buckets}
}

// Buckets, in seconds: of role runs, of what superloop does at once, of what takes as long as work does.
var (
	roleBuckets  = []float64{1, 5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200}
	quickBuckets = []float64{0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30}
	slowBuckets  = []float64{1, 10, 60, 300, 900, hour, 3 * hour, 12 * hour, 24 * hour, 7 * 24 * hour}
)

const hour = 3600

// metrics are all families.
func metrics() [families]metric {
	return [families]metric{
		roleRuns:     counter("role_runs_total", "Role runs that ended, by how.", "role", "runner", "outcome"),
		roleDuration: histogram("role_duration_seconds", "Wall time of role runs.", roleBuckets, "role", "runner"),
		roleFailures: counter("role_failures_total", "Failures of roles that were detected. counted tells whether it was one of those that count towards an escalation.",
			"role", "runner", "kind", "class", "category", "counted"),
		responses:      counter("failure_responses_total", "What followed at once on a failure: retry, wait, reassign, root_cause, resume or escalate.", "rung"),
		detection:      histogram("detection_seconds", "From the end of a failed role's process to the event that says so.", quickBuckets),
		response:       histogram("response_seconds", "What deciding about a failure took.", quickBuckets),
		recoveryTime:   histogram("recovery_seconds", "From the first failure of a role's task to its success.", slowBuckets),
		cost:           counter("cost_usd_total", "US dollars that role runs and analyses have cost, as far as it is known.", "role", "runner"),
		unpriced:       counter("cost_unknown_runs_total", "Role runs and analyses whose cost is unknown; they add nothing to superloop_cost_usd_total.", "role", "runner"),
		tokens:         counter("tokens_total", "Tokens that role runs and analyses told, by kind; the kinds do not overlap.", "role", "runner", "kind"),
		iterations:     counter("iterations_total", "Iterations that began."),
		recoveries:     counter("recoveries_total", "Recovery commands that ended, by who let them run (auto, human) and how they ended.", "source", "result"),
		verifications:  counter("recovery_verifications_total", "What the tests said after a recovery.", "result"),
		classified:     counter("first_aid_classified_total", "Failures that the rules of automatic remediation have looked at: infra, code, or unknown.", "verdict"),
		chains:         counter("first_aid_total", "Failures for which automatic remediation tried something, by how that ended.", "status"),
		escalations:    counter("escalations_total", "Questions to people, by type.", "type"),
		answers:        counter("escalations_resolved_total", "Answers of people, by method.", "method"),
		preflightStops: counter("preflight_stops_total", "Times that a broken environment was found before a role ran."),
		preventions:    counter("preventions_added_total", "Checks that were added so that a failure does not happen again."),
		analyses:       counter("root_cause_analyses_total", "Analyses of failures, by type of cause.", "type"),
		trips:          counter("runner_trips_total", "Times that a runner became unfit.", "runner"),
		alerts:         counter("systemic_alerts_total", "Alerts that failures are more than one task's.", "severity"),
	}
}

// closed are the values of the labels whose values are known beforehand.
type closed struct {
	outcomes, kinds, classes, steps, causes, severities, sources, results, ends, methods, statuses []string
}

func closedLists() closed {
	return closed{
		outcomes:   []string{"ok", "timeout", "inactive", "exit", "signal", "error", "not_started", "lost", "interrupted"},
		kinds:      strs(failures.Kinds()...),
		classes:    []string{failures.Transient, failures.Environment, failures.Permanent, failures.Code, failures.Usage, failures.Impossible, failures.Unknown},
		steps:      strs(failures.StepRetry, failures.StepWait, failures.StepReassign, failures.StepRootCause, failures.StepResume, failures.StepEscalate),
		causes:     strs(failures.CauseCode, failures.CauseConfig, failures.CauseDependency, failures.CauseInfrastructure, failures.CauseUnknown),
		severities: []string{failures.Warning, failures.Critical, failures.Investigate, failures.Emergency},
		sources:    []string{"auto", "human"},
		results:    []string{"verified", "ineffective", "harmful", "unknown"},
		ends:       []string{"done", "exhausted", "cancelled"},
		methods:    []string{"approve", "reject", "manual"},
		statuses: strs(loop.Pending, loop.Running, loop.Recovering, loop.AwaitingHuman, loop.AwaitingApproval, loop.RateLimited, loop.Paused,
			loop.Completed, loop.StuckEnd, loop.LimitReached, loop.Failed, loop.Cancelled),
	}
}
