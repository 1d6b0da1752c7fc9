package metrics

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/recovery/failures"
)

// tally adds one journal up, event by event. Its memory has bounds that do not depend on the journal.
type tally struct {
	families []family
	last     time.Time // of the last event

	words    map[string][]string  // by label, the values that it has had
	since    map[string]time.Time // role -> its task's first failure that is not made up for
	executed map[string]string    // recoveries that run, by id -> who let them
}

func newTally() *tally {
	t := &tally{words: map[string][]string{}, since: map[string]time.Time{}, executed: map[string]string{}}
	for _, m := range metrics() {
		t.families = append(t.families, family{m, map[string]*series{}})
	}
	return t
}

func (t *tally) of(name string) *family {
	return &t.families[slices.IndexFunc(t.families, func(f family) bool { return f.name == "superloop_"+name })]
}

// fields are an event's. Each is read by itself, so that one of another type than ours leaves the others told.
type fields map[string]json.RawMessage

// text is "" if it is not told.
func (f fields) text(name string) (s string) {
	_ = json.Unmarshal(f[name], &s)
	return s
}

func (f fields) flag(name string) (set bool) {
	_ = json.Unmarshal(f[name], &set)
	return set
}

// number is a number from 0; NaN, which counts as nothing, if none is told.
func (f fields) number(name string) float64 {
	var n *float64
	if json.Unmarshal(f[name], &n) != nil || n == nil || *n < 0 {
		return math.NaN()
	}
	return *n
}

func (t *tally) add(ev journal.Event) {
	t.last = ev.Timestamp
	var f fields
	_ = json.Unmarshal(ev.Fields, &f) // no object has no fields
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
		clear(t.since) // a new run owes nothing
		clear(t.executed)
	case "role_end", "role_failed", "role_timeout":
		t.ended(ev, f)
	case failures.EventDetected:
		t.detected(ev, f)
	case failures.EventAnalysed:
		if f.text("runner") != "" { // an agent has looked for the cause, not rules
			t.spent(f, "diagnostician")
		}
	case "recovery_executing":
		if len(t.executed) < maxOpen {
			t.executed[f.text("id")] = f.text("source")
		}
	case "recovery_executed", "recovery_failed":
		delete(t.executed, f.text("id"))
	}
}

// value is a label's, as an event tells it.
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

// word bounds the values of a label: the first that come in the journal count, so a restart keeps the same ones.
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

func (t *tally) ended(ev journal.Event, f fields) {
	role := f.text("role")
	t.of("role_duration_seconds").observe(f.number("duration_ms")*time.Millisecond.Seconds(), t.word("role", role), t.word("runner", f.text("runner")))
	if f.text("outcome") != "not_started" || !math.IsNaN(f.number("cost_usd")) {
		t.spent(f, role)
	}
	if since, failing := t.since[role]; failing && ev.Event == "role_end" && f.text("outcome") != "interrupted" {
		t.of("recovery_seconds").observe(ev.Timestamp.Sub(since).Seconds())
		delete(t.since, role)
	}
}

// spent adds up what an agent's run has taken.
func (t *tally) spent(f fields, role string) {
	labels := []string{t.word("role", role), t.word("runner", f.text("runner"))}
	if usd := f.number("cost_usd"); math.IsNaN(usd) {
		t.of("cost_unknown_runs_total").add(1, labels...)
	} else {
		t.of("cost_usd_total").add(usd, labels...)
	}
	var usage fields
	_ = json.Unmarshal(f["usage"], &usage) // what is no object tells nothing
	for kind, name := range map[string]string{"input": "input_tokens", "output": "output_tokens",
		"cache_read": "cache_read_input_tokens", "cache_write": "cache_creation_input_tokens"} {
		t.of("tokens_total").add(usage.number(name), append(labels[:2:2], kind)...)
	}
}

func (t *tally) detected(ev journal.Event, f fields) {
	t.of("detection_seconds").observe(f.number("detect_ms") * time.Millisecond.Seconds())
	t.of("response_seconds").observe(f.number("respond_us") * time.Microsecond.Seconds())
	role := f.text("role")
	switch _, failing := t.since[role]; {
	case f.text("rung") == string(failures.StepEscalate):
		delete(t.since, role) // an operator's time is not superloop's
	case !failing && len(t.since) < maxRoles:
		t.since[role] = ev.Timestamp
	}
}
