package metrics

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/recovery/failures"
)

// tally adds one journal up, event by event. Its memory has bounds that do not depend on the journal.
type tally struct {
	families [families]family
	metrics  [families]metric
	known    closed
	last     time.Time // of the last event

	roles, runners, categories, types words

	since    map[string]time.Time // role -> its task's first failure that is not made up for
	executed map[string]string    // recoveries that run, by id -> who let them
}

func newTally(m [families]metric) *tally {
	return &tally{metrics: m, known: closedLists(), roles: words{max: maxRoles}, runners: words{max: maxOpen},
		categories: words{max: maxOpen}, types: words{max: maxRoles}, since: map[string]time.Time{}, executed: map[string]string{}}
}

// fields are all that is read of any event. Each is read by itself, so that one of another type than ours leaves the
// others told.
type fields struct {
	role, runner, outcome, kind, class, category, step, typ, severity string
	source, result, status, method, id                                string
	counted, infra, code                                              bool
	durationMS, detectMS, respondUS, costUSD                          *float64
	usage                                                             map[string]json.RawMessage
}

func read(raw json.RawMessage) fields {
	var all map[string]json.RawMessage
	_ = json.Unmarshal(raw, &all) // no object has no fields
	var f fields
	for name, to := range map[string]any{"role": &f.role, "runner": &f.runner, "outcome": &f.outcome, "kind": &f.kind, "class": &f.class,
		"category": &f.category, "rung": &f.step, "type": &f.typ, "severity": &f.severity, "source": &f.source, "result": &f.result,
		"status": &f.status, "method": &f.method, "id": &f.id, "counted": &f.counted, "infra": &f.infra, "code": &f.code, "usage": &f.usage} {
		if v, ok := all[name]; ok {
			_ = json.Unmarshal(v, to) // not told then
		}
	}
	f.durationMS, f.detectMS, f.respondUS, f.costUSD = number(all["duration_ms"]), number(all["detect_ms"]), number(all["respond_us"]), number(all["cost_usd"])
	return f
}

// number is a number from 0; nil: none is told.
func number(raw json.RawMessage) *float64 {
	var n *float64
	if len(raw) == 0 || json.Unmarshal(raw, &n) != nil || n == nil || *n < 0 {
		return nil
	}
	return n
}

func (t *tally) count(which int, labels ...string) { t.families[which].add(1, labels...) }

// seconds observes what is told in a unit; what is not told is not observed.
func (t *tally) seconds(which int, n *float64, unit time.Duration, labels ...string) {
	if n != nil {
		t.families[which].observe(*n*unit.Seconds(), t.metrics[which].buckets, labels...)
	}
}

// add takes the next event.
func (t *tally) add(ev journal.Event) {
	t.last = ev.Timestamp
	switch ev.Event {
	case "loop_start":
		clear(t.since) // a new run owes nothing
		clear(t.executed)
	case "iteration_start":
		t.count(iterations)
	case "role_end", "role_failed", "role_timeout":
		t.ended(ev, read(ev.Fields))
	case failures.EventPreflight:
		t.count(preflightStops)
	case failures.EventPrevention:
		t.count(preventions)
	case failures.EventDetected:
		t.detected(ev, read(ev.Fields))
	case failures.EventTripped:
		t.count(trips, t.runners.of(read(ev.Fields).runner))
	case failures.EventAnalysed:
		f := read(ev.Fields)
		t.count(analyses, among(f.typ, t.known.causes))
		if f.runner != "" { // an agent has looked for the cause, not rules
			t.spent(f, t.roles.of("diagnostician"), t.runners.of(f.runner))
		}
	case failures.EventSystemic:
		t.count(alerts, among(read(ev.Fields).severity, t.known.severities))
	case "failure_classified", "chain_closed", "recovery_executing", "recovery_executed", "recovery_failed", "recovery_verified",
		"recovery_escalated", "recovery_resolved":
		t.recovered(ev.Event, read(ev.Fields))
	}
}

func (t *tally) ended(ev journal.Event, f fields) {
	role, runner := t.roles.of(f.role), t.runners.of(f.runner)
	t.count(roleRuns, role, runner, among(f.outcome, t.known.outcomes))
	t.seconds(roleDuration, f.durationMS, time.Millisecond, role, runner)
	if f.outcome != "not_started" || f.costUSD != nil {
		t.spent(f, role, runner)
	}
	if since, failing := t.since[f.role]; failing && ev.Event == "role_end" && f.outcome != "interrupted" {
		t.families[recoveryTime].observe(ev.Timestamp.Sub(since).Seconds(), t.metrics[recoveryTime].buckets)
		delete(t.since, f.role)
	}
}

// spent adds up what an agent's run has taken.
func (t *tally) spent(f fields, role, runner string) {
	if f.costUSD != nil {
		t.families[cost].add(*f.costUSD, role, runner)
	} else {
		t.count(unpriced, role, runner)
	}
	for kind, name := range map[string]string{"input": "input_tokens", "output": "output_tokens",
		"cache_read": "cache_read_input_tokens", "cache_write": "cache_creation_input_tokens"} {
		if n := number(f.usage[name]); n != nil {
			t.families[tokens].add(*n, role, runner, kind)
		}
	}
}

func (t *tally) detected(ev journal.Event, f fields) {
	t.count(roleFailures, t.roles.of(f.role), t.runners.of(f.runner), among(f.kind, t.known.kinds), among(f.class, t.known.classes),
		t.categories.of(f.category), strconv.FormatBool(f.counted))
	t.count(responses, among(f.step, t.known.steps))
	t.seconds(detection, f.detectMS, time.Millisecond)
	t.seconds(response, f.respondUS, time.Microsecond)
	switch _, failing := t.since[f.role]; {
	case f.step == string(failures.StepEscalate):
		delete(t.since, f.role) // an operator's time is not superloop's
	case !failing && len(t.since) < maxRoles:
		t.since[f.role] = ev.Timestamp
	}
}

func (t *tally) recovered(event string, f fields) {
	switch event {
	case "failure_classified":
		verdict := notTold
		switch {
		case f.code:
			verdict = "code"
		case f.infra:
			verdict = "infra"
		}
		t.count(classified, verdict)
	case "chain_closed":
		t.count(chains, among(f.status, t.known.ends))
	case "recovery_executing":
		if len(t.executed) < maxOpen {
			t.executed[f.id] = f.source
		}
	case "recovery_executed", "recovery_failed":
		t.count(recoveries, among(t.executed[f.id], t.known.sources), strings.TrimPrefix(event, "recovery_"))
		delete(t.executed, f.id)
	case "recovery_verified":
		t.count(verifications, among(f.result, t.known.results))
	case "recovery_escalated":
		t.count(escalations, t.types.of(f.typ))
	case "recovery_resolved":
		t.count(answers, among(f.method, t.known.methods))
	}
}
