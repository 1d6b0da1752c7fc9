package metrics

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/stats"
	"github.com/superloop/superloop/recovery/failures"
)

// metric describes one metric family and the events that count in it.
type metric struct {
	name, help string
	kind       string    // the type in the text format: counter, gauge or histogram
	events     []string  // each event of these types adds one; its fields give the values of the labels
	labels     []label   // the first label is the loop
	buckets    []float64 // upper bounds of a histogram's buckets, in seconds
}

// label is a label of a metric. An event gives its value in the field of the same name. values lists the allowed
// values; nil allows any word.
type label struct {
	name   string
	values []string
}

// known returns a label whose values are a closed list.
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

// Buckets, in seconds: for role runs, for superloop's own reactions, for waits of agents for people, and for durations that include the work of agents.
var (
	roleBuckets  = []float64{1, 5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200}
	quickBuckets = []float64{0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30}
	waitBuckets  = []float64{0.5, 1, 5, 15, 30, 60, 120, 300, 600, 1800, hour, 4 * hour}
	slowBuckets  = []float64{1, 10, 60, 300, 900, hour, 3 * hour, 12 * hour, 24 * hour, 7 * 24 * hour}
)

// metrics returns all metrics. The entry of a counter names the events that add one to it.
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
		counter("reassignments_total", "How often another runner got a failed role: at once, after an analysis, a wait or an answer.", failures.EventReassigned, role,
			known("rung", failures.StepReassign, failures.StepResume)),
		counter("first_reassignments_total", "First reassignments of a failed role, by whether the role then succeeded.", "", known("result", helped, notHelped)),
		counter("fixes_total", "Fixes of analyses that were carried out, by whether what had failed passed afterwards.", "", known("result", helped, notHelped)),
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
		counter("verify_self_repair_total", "Checks of tools that a command has installed, by what came of them and how a wrong check was repaired.",
			"tool_verified verify_self_repaired verify_self_repair_failed", label{name: "tool"}, label{name: "method"},
			known("result", loop.ToolWorks, loop.ToolRepaired, loop.ToolDoubtful, loop.ToolSkipped)),
		counter("verify_self_repair_saved_seconds_total", "Least time that agents would have needed to repair these checks.", "", label{name: "tool"}),
		counter("escalations_total", "Questions to people, by type.", "recovery_escalated", label{name: "type"}),
		counter("escalations_resolved_total", "Answers of people, by method.", "recovery_resolved", known("method", "approve", "reject", "manual")),
		counter("permissions_total", "Uses of tools that agents have asked for, by what was decided: by a rule or a grant, by a person or for want of one, by a refusal of a rule.", "",
			label{name: "tool"}, known("verdict", "auto", "human", "deny")),
		histogram("permission_wait_seconds", "How long agents were held for a person's answer.", waitBuckets,
			known("decision", "approved", "rejected", "wait_over", "superseded", "granted")),
		counter("preflight_stops_total", "Times that a broken environment was found before a role ran.", failures.EventPreflight),
		counter("preventions_added_total", "Checks that were added so that a failure does not happen again.", failures.EventPrevention),
		counter("root_cause_analyses_total", "Analyses of failures, by type of cause.", failures.EventAnalysed,
			known("type", failures.CauseCode, failures.CauseConfig, failures.CauseDependency, failures.CauseInfrastructure, failures.CauseUnknown)),
		counter("preventions_retired_total", "Learned checks that turned out to be wrong.", failures.EventRetired),
		counter("runner_trips_total", "Times that a runner became unfit.", failures.EventTripped, runner),
		counter("systemic_alerts_total", "Alerts that failures are more than a failure policy can deal with.", failures.EventSystemic,
			known("severity", failures.Warning, failures.Critical, failures.Investigate, failures.Emergency)),
		gauge("journal_readable", "1 if the whole journal could be read, 0 if the other metrics of the loop stop where it could not."),
		gauge("journal_last_event_timestamp_seconds", "When the last event was written, in seconds since 1970."),
		gauge("loop_status", "1 for the status in which the loop is, as its journal tells; a supervisor that was killed leaves the last one.",
			known("status", loop.Pending, loop.Running, loop.Recovering, loop.AwaitingHuman, loop.AwaitingApproval, loop.RateLimited, loop.Paused,
				loop.Completed, loop.StuckEnd, loop.LimitReached, loop.Failed, loop.Cancelled)),
	}
}

// tally sums up one journal, event by event. Its memory has bounds that do not depend on the length of the journal.
type tally struct {
	families []family
	last     time.Time // time of the last event

	words    map[string][]string // label -> the values that the journal has given it so far
	executed map[string]string   // id of a running recovery -> its source: auto or human
	failures failures.Fold       // what superloop stats counts, too
}

// The values of the label result of what may have helped.
const helped, notHelped = "helped", "did_not_help"

func newTally() *tally {
	t := &tally{words: map[string][]string{}, executed: map[string]string{}}
	t.failures.Observe = func(which failures.Timing, took time.Duration) {
		name := map[failures.Timing]string{failures.Detection: "detection_seconds", failures.Response: "response_seconds", failures.Recovery: "recovery_seconds"}[which]
		t.of(name).observe(took.Seconds())
	}
	for _, m := range metrics() {
		t.families = append(t.families, family{m, map[string]*series{}})
	}
	return t
}

func (t *tally) of(name string) *family {
	return &t.families[slices.IndexFunc(t.families, func(f family) bool { return f.name == "superloop_"+name })]
}

// fields are the JSON fields of an event. The methods decode each field by itself, so a field of an unexpected type
// does not affect the others.
type fields map[string]json.RawMessage

// text returns a field as text, "" if the field is missing or is no text.
func (f fields) text(name string) (s string) {
	_ = json.Unmarshal(f[name], &s)
	return s
}

func (f fields) flag(name string) (set bool) {
	_ = json.Unmarshal(f[name], &set)
	return set
}

// number returns a field that is a number of at least 0. Otherwise it returns NaN, which counts as nothing.
func (f fields) number(name string) float64 {
	var n *float64
	if json.Unmarshal(f[name], &n) != nil || n == nil || *n < 0 {
		return math.NaN()
	}
	return *n
}

func (t *tally) add(ev journal.Event) {
	t.last = ev.Timestamp
	t.failures.Add(stats.RecordOf(ev))
	var f fields
	_ = json.Unmarshal(ev.Fields, &f) // an event whose fields are no object has none
	for i := range t.families {
		if fam := &t.families[i]; slices.Contains(fam.events, ev.Event) {
			var values []string
			for _, l := range fam.labels[1:] {
				values = append(values, t.value(l, ev.Event, f))
			}
			fam.add(1, values...)
		}
	}
	switch ev.Event {
	case "loop_start":
		clear(t.executed) // a new run begins without open recoveries
	case "role_end", "role_failed", "role_timeout":
		t.ended(f)
	case "permission_answered":
		w := t.of("permission_wait_seconds")
		w.observe(f.number("waited_ms")*time.Millisecond.Seconds(), t.value(w.labels[1], ev.Event, f))
	case failures.EventAnalysed:
		if f.text("runner") != "" { // an agent has analysed the cause, and not only the rules
			t.spent(f, "diagnostician")
		}
	case "verify_self_repaired":
		t.of("verify_self_repair_saved_seconds_total").add(f.number("time_saved_ms")*time.Millisecond.Seconds(), t.word("tool", f.text("tool")))
	case "recovery_executing":
		if len(t.executed) < maxOpen {
			t.executed[f.text("id")] = f.text("source")
		}
	case "recovery_executed", "recovery_failed":
		delete(t.executed, f.text("id"))
	}
}

// value returns the value of a label for an event.
func (t *tally) value(l label, event string, f fields) string {
	text := f.text(l.name)
	switch {
	case l.name == "counted":
		return strconv.FormatBool(f.flag("counted"))
	case l.name == "verdict" && f.flag("code"):
		return "code"
	case l.name == "verdict" && f.flag("infra"):
		return "infra"
	case l.name == "verdict":
		return notTold
	case l.name == "result" && l.values == nil:
		return strings.TrimPrefix(event, "recovery_")
	case l.values == nil:
		return t.word(l.name, text)
	case l.name == "source":
		text = t.executed[f.text("id")]
	}
	switch {
	case text == "":
		return notTold
	case slices.Contains(l.values, text):
		return text
	}
	return other
}

// word limits the number of values of a label. The first values in the journal keep their names and later ones become
// "other", so a restart gives the same values.
func (t *tally) word(label, s string) string {
	most, seen := maxOpen, t.words[label]
	if label == "role" || label == "type" {
		most = maxRoles
	}
	switch {
	case s == "":
		return notTold
	case slices.Contains(seen, s):
		return s
	case len(seen) >= most || !plain(s):
		return other
	}
	t.words[label] = append(seen, s)
	return s
}

func (t *tally) ended(f fields) {
	role := f.text("role")
	t.of("role_duration_seconds").observe(f.number("duration_ms")*time.Millisecond.Seconds(), t.word("role", role), t.word("runner", f.text("runner")))
	var tools map[string]fields
	_ = json.Unmarshal(f["permission_tools"], &tools) // what is no object counts as empty
	for _, tool := range slices.Sorted(maps.Keys(tools)) {
		for _, verdict := range []string{"auto", "human", "deny"} {
			if n := tools[tool].number(verdict); n > 0 {
				t.of("permissions_total").add(n, t.word("permission_tool", tool), verdict)
			}
		}
	}
	if f.text("outcome") != "not_started" || !math.IsNaN(f.number("cost_usd")) {
		t.spent(f, role)
	}
}

// spent adds the tokens and the cost of an agent's run to the counters.
func (t *tally) spent(f fields, role string) {
	labels := []string{t.word("role", role), t.word("runner", f.text("runner"))}
	if usd := f.number("cost_usd"); math.IsNaN(usd) {
		t.of("cost_unknown_runs_total").add(1, labels...)
	} else {
		t.of("cost_usd_total").add(usd, labels...)
	}
	var usage fields
	_ = json.Unmarshal(f["usage"], &usage) // a usage that is no object counts as empty
	for kind, name := range map[string]string{"input": "input_tokens", "output": "output_tokens",
		"cache_read": "cache_read_input_tokens", "cache_write": "cache_creation_input_tokens"} {
		t.of("tokens_total").add(usage.number(name), append(labels[:2:2], kind)...)
	}
}

// judged sets the counters of what may have helped, as superloop stats counts them.
func (t *tally) judged() {
	f := t.failures.Figures()
	for name, r := range map[string]failures.Rate{"first_reassignments_total": f.FirstReassigned, "fixes_total": f.Fixes} {
		if r.Runs > 0 {
			t.of(name).at([]string{helped}).sum = float64(r.Runs - r.Failures)
			t.of(name).at([]string{notHelped}).sum = float64(r.Failures)
		}
	}
}
