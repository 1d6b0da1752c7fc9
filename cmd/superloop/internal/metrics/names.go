package metrics

import (
	"strings"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/recovery/failures"
)

// metric is how a family is told, and what adds one to it.
type metric struct {
	name, help string
	kind       string    // of the text format: counter, gauge, histogram
	events     []string  // each adds one, with the labels that its fields tell
	labels     []label   // the first is the loop
	buckets    []float64 // of a histogram, in seconds
}

// label is told by the field of its name. values are those that are known beforehand; nil: any word is one.
type label struct {
	name   string
	values []string
}

// known is a label with the values of a closed list.
func known[T ~string](name string, values ...T) label {
	l := label{name: name}
	for _, v := range values {
		l.values = append(l.values, string(v))
	}
	return l
}

func newMetric(kind, name, help, events string, labels ...label) metric {
	return metric{"superloop_" + name, help, kind, strings.Fields(events), append([]label{{name: "loop"}}, labels...), nil}
}

func counter(name, help, events string, labels ...label) metric {
	return newMetric("counter", name, help, events, labels...)
}

func gauge(name, help string, labels ...label) metric {
	return newMetric("gauge", name, help, "", labels...)
}

func histogram(name, help string, buckets []float64, labels ...label) metric {
	m := newMetric("histogram", name, help, "", labels...)
	m.buckets = buckets
	return m
}

const hour = 3600

// Buckets, in seconds: of role runs, of what superloop does at once, of what takes as long as work does.
var (
	roleBuckets  = []float64{1, 5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200}
	quickBuckets = []float64{0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30}
	slowBuckets  = []float64{1, 10, 60, 300, 900, hour, 3 * hour, 12 * hour, 24 * hour, 7 * 24 * hour}
)

// metrics are all that there are. What an event without a number adds to is said here, all else in tally.go.
func metrics() []metric {
	role, runner := label{name: "role"}, label{name: "runner"}
	return []metric{
		counter("role_runs_total", "Role runs that ended, by how.", "role_end role_failed role_timeout", role, runner,
			known("outcome", "ok", "timeout", "inactive", "exit", "signal", "error", "not_started", "lost", "interrupted")),
		histogram("role_duration_seconds", "Wall time of role runs.", roleBuckets, role, runner),
		counter("role_failures_total", "Failures of roles that were detected. counted tells whether it was one of those that count towards an escalation.",
			failures.EventDetected, role, runner, known("kind", failures.Kinds()...),
			known("class", failures.Transient, failures.Environment, failures.Permanent, failures.Code, failures.Usage, failures.Impossible, failures.Unknown),
			label{name: "category"}, label{name: "counted"}),
		counter("failure_responses_total", "What followed at once on a failure: retry, wait, reassign, root_cause, resume or escalate.", failures.EventDetected,
			known("rung", failures.StepRetry, failures.StepWait, failures.StepReassign, failures.StepRootCause, failures.StepResume, failures.StepEscalate)),
		histogram("detection_seconds", "From the end of a failed role's process to the event that says so.", quickBuckets),
		histogram("response_seconds", "What deciding about a failure took.", quickBuckets),
		histogram("recovery_seconds", "From the first failure of a role's task to its success.", slowBuckets),
		counter("cost_usd_total", "US dollars that role runs and analyses have cost, as far as it is known.", "", role, runner),
		counter("cost_unknown_runs_total", "Role runs and analyses whose cost is unknown; they add nothing to superloop_cost_usd_total.", "", role, runner),
		counter("tokens_total", "Tokens that role runs and analyses told, by kind; the kinds do not overlap.", "", role, runner, label{name: "kind"}),
		counter("iterations_total", "Iterations that began.", "iteration_start"),
		counter("recoveries_total", "Recovery commands that ended, by who let them run (auto, human) and how they ended.", "recovery_executed recovery_failed",
			known("source", "auto", "human"), label{name: "result"}),
		counter("recovery_verifications_total", "What the tests said after a recovery.", "recovery_verified",
			known("result", "verified", "ineffective", "harmful", "unknown")),
		counter("first_aid_classified_total", "Failures that the rules of automatic remediation have looked at: infra, code, or unknown.", "failure_classified",
			label{name: "verdict"}),
		counter("first_aid_total", "Failures for which automatic remediation tried something, by how that ended.", "chain_closed",
			known("status", "done", "exhausted", "cancelled")),
		counter("escalations_total", "Questions to people, by type.", "recovery_escalated", label{name: "type"}),
		counter("escalations_resolved_total", "Answers of people, by method.", "recovery_resolved", known("method", "approve", "reject", "manual")),
		counter("preflight_stops_total", "Times that a broken environment was found before a role ran.", failures.EventPreflight),
		counter("preventions_added_total", "Checks that were added so that a failure does not happen again.", failures.EventPrevention),
		counter("root_cause_analyses_total", "Analyses of failures, by type of cause.", failures.EventAnalysed,
			known("type", failures.CauseCode, failures.CauseConfig, failures.CauseDependency, failures.CauseInfrastructure, failures.CauseUnknown)),
		counter("runner_trips_total", "Times that a runner became unfit.", failures.EventTripped, runner),
		counter("systemic_alerts_total", "Alerts that failures are more than one task's.", failures.EventSystemic,
			known("severity", failures.Warning, failures.Critical, failures.Investigate, failures.Emergency)),
		gauge("journal_readable", "1 if the whole journal could be read, 0 if the other metrics of the loop stop where it could not."),
		gauge("journal_last_event_timestamp_seconds", "When the last event was written, in seconds since 1970."),
		gauge("loop_status", "1 for the status in which the loop is, as its journal tells; a supervisor that was killed leaves the last one.",
			known("status", loop.Pending, loop.Running, loop.Recovering, loop.AwaitingHuman, loop.AwaitingApproval, loop.RateLimited, loop.Paused,
				loop.Completed, loop.StuckEnd, loop.LimitReached, loop.Failed, loop.Cancelled)),
	}
}
