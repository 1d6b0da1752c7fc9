package failures

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// Sample says how one role run of any loop ended.
type Sample struct {
	At       time.Time `json:"at"`
	Task     string    `json:"task"` // the result of Task.Key
	Loop     string    `json:"loop_id"`
	Agent    Agent     `json:"agent"`
	Failed   bool      `json:"failed,omitempty"`
	Category string    `json:"category,omitempty"`
}

// Role returns the role of the sample's task, which is the kind of the task; "" if the task names none.
func (s Sample) Role() string {
	parts := strings.Split(s.Task, "/")
	if len(parts) < 2 {
		return ""
	}
	return parts[1]
}

// Thresholds say when failures are more than the failure policy of a task can deal with. Zero stands for the default; a negative value disables a
// trigger.
type Thresholds struct {
	// WindowMS is the period that Watch examines; the default is 1 hour. MinRuns is the least number of runs for a
	// failure rate to count; the default is 5.
	WindowMS int64 `json:"window_ms,omitempty"`
	MinRuns  int   `json:"min_runs,omitempty"`
	// WarnRate and CriticalRate are failure rates; a higher rate fires. The defaults are 0.2 and 0.5.
	WarnRate     float64 `json:"warn_rate,omitempty"`
	CriticalRate float64 `json:"critical_rate,omitempty"`
	// SameCategory is the allowed number of failures of one category, of one task or of several. The default is 5.
	SameCategory int `json:"same_category,omitempty"`
	// SilentRuns is the number of failed runs that make an emergency if no run succeeded in the whole window. The
	// default is 3.
	SilentRuns int `json:"silent_runs,omitempty"`
}

// WithDefaults returns t with the default in each zero field.
func (t Thresholds) WithDefaults() Thresholds {
	t.WindowMS, t.MinRuns = cmp.Or(t.WindowMS, time.Hour.Milliseconds()), cmp.Or(t.MinRuns, 5)
	t.WarnRate, t.CriticalRate = cmp.Or(t.WarnRate, 0.2), cmp.Or(t.CriticalRate, 0.5)
	t.SameCategory, t.SilentRuns = cmp.Or(t.SameCategory, 5), cmp.Or(t.SilentRuns, 3)
	return t
}

// These are the triggers, and the severities of an Alert. The severities are those of the published design.
const (
	TriggerRate     = "failure_rate"
	TriggerCategory = "same_category"
	TriggerSilence  = "no_success"

	Warning     = "warning"
	Critical    = "critical"
	Investigate = "investigate"
	Emergency   = "emergency"

	maxSamples = 1000
	maxNamed   = 8
)

// Alert is one trigger that has fired.
type Alert struct {
	Trigger  string    `json:"trigger"`
	Severity string    `json:"severity"`
	Category string    `json:"category,omitempty"`
	Runs     int       `json:"runs"`
	Failures int       `json:"failures"`
	Rate     float64   `json:"rate"`
	Tasks    []string  `json:"tasks,omitempty"` // at most maxNamed
	Loops    []string  `json:"loops,omitempty"`
	Since    time.Time `json:"since"`
	At       time.Time `json:"at"`
	// Analyse asks for an analysis of the cause across tasks, besides the message.
	Analyse bool   `json:"analyse,omitempty"`
	Cause   string `json:"cause,omitempty"` // the cause that the analysis found; "" for none
}

// Watch examines how the role runs of all loops end. Each trigger fires once per window.
type Watch struct {
	Thresholds  Thresholds           `json:"thresholds,omitzero"`
	Samples     []Sample             `json:"samples,omitempty"`
	Fired       map[string]time.Time `json:"fired,omitempty"`
	LastSuccess time.Time            `json:"last_success,omitzero"` // LastSuccess and FirstSeen are not limited to the window
	FirstSeen   time.Time            `json:"first_seen,omitzero"`
}

// Note adds a sample. Samples may come slightly out of order. Look ignores samples that are older than the window.
func (w *Watch) Note(s Sample) {
	if w.FirstSeen.IsZero() {
		w.FirstSeen = s.At
	}
	if !s.Failed && s.At.After(w.LastSuccess) {
		w.LastSuccess = s.At
	}
	w.Samples = append(w.Samples, s)
	w.Samples = slices.Delete(w.Samples, 0, max(0, len(w.Samples)-maxSamples))
}

// Look returns the alerts that are due now. Silence can fire a trigger, so Look may return alerts without a new sample.
func (w *Watch) Look(now time.Time) []Alert {
	t := w.Thresholds.WithDefaults()
	from := now.Add(-ms(t.WindowMS))
	w.Samples = slices.DeleteFunc(w.Samples, func(s Sample) bool { return !s.At.After(from) })
	maps.DeleteFunc(w.Fired, func(_ string, at time.Time) bool { return !at.After(from) })
	var out []Alert
	for _, a := range w.alerts(t, from, now) {
		key := a.Trigger + "/" + a.Severity + "/" + a.Category
		if _, fired := w.Fired[key]; fired {
			continue
		}
		if a.Severity == Warning {
			if _, worse := w.Fired[TriggerRate+"/"+Critical+"/"]; worse {
				continue
			}
		}
		if w.Fired == nil {
			w.Fired = map[string]time.Time{}
		}
		w.Fired[key] = now
		out = append(out, a)
	}
	return out
}

func (w *Watch) alerts(t Thresholds, from, now time.Time) []Alert {
	var out []Alert
	all := group{}
	byCategory := map[string]*group{}
	for _, s := range w.Samples {
		all.add(s)
		if s.Failed && s.Category != "" {
			if byCategory[s.Category] == nil {
				byCategory[s.Category] = &group{}
			}
			byCategory[s.Category].add(s)
		}
	}
	if rate := ratio(all.failures, all.runs); all.runs >= max(1, t.MinRuns) {
		switch {
		case t.CriticalRate > 0 && rate > t.CriticalRate:
			out = append(out, all.alert(TriggerRate, Critical, from, now))
		case t.WarnRate > 0 && rate > t.WarnRate:
			out = append(out, all.alert(TriggerRate, Warning, from, now))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byCategory)) {
		if g := byCategory[name]; t.SameCategory > 0 && g.failures > t.SameCategory {
			a := g.alert(TriggerCategory, Investigate, from, now)
			a.Category = name
			out = append(out, a)
		}
	}
	if t.SilentRuns > 0 && all.failures >= t.SilentRuns && all.failures == all.runs && !w.LastSuccess.After(from) && !w.FirstSeen.After(from) {
		out = append(out, all.alert(TriggerSilence, Emergency, from, now))
	}
	return out
}

// group counts samples.
type group struct {
	runs, failures int
	tasks, loops   []string
}

func (g *group) add(s Sample) {
	g.runs++
	if !s.Failed {
		return
	}
	g.failures++
	if !slices.Contains(g.tasks, s.Task) && len(g.tasks) < maxNamed {
		g.tasks = append(g.tasks, s.Task)
	}
	if !slices.Contains(g.loops, s.Loop) && len(g.loops) < maxNamed {
		g.loops = append(g.loops, s.Loop)
	}
}

func (g *group) alert(trigger, severity string, from, now time.Time) Alert {
	return Alert{Trigger: trigger, Severity: severity, Runs: g.runs, Failures: g.failures, Rate: ratio(g.failures, g.runs), Tasks: g.tasks, Loops: g.loops,
		Since: from, At: now, Analyse: severity != Warning}
}
