package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/superloop/superloop/schemas"
)

const respondKey = "/respond"

func usually() Respond {
	return Respond{
		Enabled: true, SameFailure: 3, SameTests: 3, MaxRuns: 6, MaxTime: 6 * time.Hour, AnalysisTime: 10 * time.Minute, MaxWait: 8 * 24 * time.Hour,
		Breaker:   Breaker{Failures: 3, First: time.Minute, Most: 30 * time.Minute},
		Systemic:  Systemic{Window: time.Hour, MinRuns: 5, WarnRate: 0.2, CriticalRate: 0.5, SameCategory: 5, SilentRuns: 3},
		Preflight: Environment{Enabled: true},
	}
}

// defaultRespond checks the top-level section by itself, so that what is wrong
// in it is said once and not for every loop.
func (b *builder) defaultRespond() {
	b.respondSection(respondKey, b.file.Respond, nil)
	b.respondTogether(respondKey, b.file.Respond, b.filled(b.file.Respond))
}

// respond is what holds for a loop: its own section over the top-level one. What
// is wrong with it is told at the loop only where the loop has a say in it.
func (b *builder) respond(l *fileLoop, at string) Respond {
	b.respondSection(at+respondKey, l.Respond, b.file.Respond)
	r := b.filled(merge(b.file.Respond, ownModel(l.Respond, b.file.Respond)))
	b.respondTogether(at+respondKey, l.Respond, r)
	ptr := at + respondKey + "/max_time"
	if !b.present(ptr) {
		ptr = respondKey + "/max_time"
	}
	for _, role := range l.Loop.Roles {
		if b.present(ptr) && r.MaxTime > 0 && role.Timeout > r.MaxTime {
			b.warn(ptr, CodeSuspicious, fmt.Sprintf("max_time (%s) is shorter than one run of the %s of loop %s may take (%s), so after one that fails late a person is asked at once",
				r.MaxTime, role.Name, quoted(l.ID), role.Timeout))
			break
		}
	}
	return r
}

// diagnosticianOf is the diagnostician of a section; "" where no runner is named.
func diagnosticianOf(section any) (d map[string]any, runner string) {
	m, _ := section.(map[string]any)
	d, _ = m["diagnostician"].(map[string]any)
	runner, _ = d["runner"].(string)
	return d, runner
}

// ownModel is a loop's section as it is to be laid over the top-level one: a model
// goes with its runner, so that of another runner is not taken over.
func ownModel(own, top any) any {
	d, runner := diagnosticianOf(own)
	if _, other := diagnosticianOf(top); runner == "" || runner == other || d["model"] != nil {
		return own
	}
	with := maps.Clone(d)
	with["model"] = ""
	return merge(own, map[string]any{"diagnostician": with})
}

// filled is a section with the defaults for what it does not say.
func (b *builder) filled(section any) Respond {
	r := usually()
	m, _ := section.(map[string]any)
	if _, isSwitch := m["diagnostician"].(bool); isSwitch {
		m = maps.Clone(m)
		delete(m, "diagnostician")
	}
	b.into(m, &r)
	if d := r.Diagnostician; d != nil && d.Timeout == 0 {
		d.Timeout = r.AnalysisTime
	}
	if len(r.Preflight.Checks) == 0 {
		r.Preflight.Checks = nil
	}
	return r
}

// respondSection checks what one section says; top is what it is laid over, nil
// when there is nothing.
func (b *builder) respondSection(at string, section, top any) {
	m, _ := section.(map[string]any)
	if said := m["diagnostician"]; said != nil {
		b.diagnostician(at+"/diagnostician", said, top)
	}
	r := b.filled(section)
	times := map[string]time.Duration{"max_time": r.MaxTime, "analysis_time": r.AnalysisTime, "max_wait": r.MaxWait,
		"breaker/first": r.Breaker.First, "breaker/most": r.Breaker.Most, "systemic/window": r.Systemic.Window}
	if d, _ := diagnosticianOf(section); d["timeout"] == json.Number("0") {
		times["diagnostician/timeout"] = 0
	}
	like := map[string]string{"max_time": "6h", "max_wait": "192h", "breaker/first": "1m", "breaker/most": "30m", "systemic/window": "1h"}
	for key, d := range times {
		if b.present(at+"/"+key) && d <= 0 {
			b.wrong(at+"/"+key, Problem{Code: schemas.CodeOutOfRange, Found: "0", Allowed: "more than 0",
				Message: fmt.Sprintf("found 0; allowed: more than 0 (what follows a failure is bounded; give it a time, such as %q)", cmp.Or(like[key], "10m"))})
		}
	}
	if r.SameTests == 1 {
		b.wrong(at+"/same_tests", Problem{Code: schemas.CodeOutOfRange, Found: "1", Allowed: "0, or 2 or more",
			Message: "found 1; allowed: 0, which never asks, or 2 or more: one failure is not the same again"})
	}
	b.environmentChecks(at+"/preflight", r.Preflight.Checks)
}

func (b *builder) diagnostician(at string, said, top any) {
	d, isObject := said.(map[string]any)
	runner, _ := d["runner"].(string)
	_, other := diagnosticianOf(top)
	switch {
	case said == true:
		b.wrong(at, Problem{Code: schemas.CodeNotAllowed, Found: "true", Allowed: "the name of a runner, an object, or false",
			Message: `true does not say who; write the name of a runner, such as "diagnostician": "claude"`})
	case runner != "":
		b.reference(b.nameAt(at), runner)
	case isObject && other == "" && !b.named(at):
		b.wrong(at+"/runner", missingKey("runner", "somebody must look for the cause"))
	}
}

// respondTogether warns of what a section at a pointer brings about together with
// the one that it is laid over: r is both.
func (b *builder) respondTogether(at string, own any, r Respond) {
	warn := func(first, second, message string) {
		for _, key := range []string{first, second} {
			if b.present(at + key) {
				b.warn(at+key, CodeSuspicious, message)
				return
			}
		}
	}
	if r.Breaker.First > r.Breaker.Most {
		warn("/breaker/first", "/breaker/most", fmt.Sprintf("first (%s) is longer than most (%s): a runner that is unfit is so for %s each time, and never longer",
			r.Breaker.First, r.Breaker.Most, r.Breaker.Most))
	}
	if s := r.Systemic; s.WarnRate >= s.CriticalRate && s.CriticalRate > 0 {
		warn("/systemic/warn_rate", "/systemic/critical_rate", fmt.Sprintf("warn_rate (%v) is not below critical_rate (%v), so nobody is warned before it is critical", s.WarnRate, s.CriticalRate))
	}
	if _, runner := diagnosticianOf(own); r.Diagnostician != nil && runner != "" && b.runners[runner].Permissions == "full" {
		b.warn(at+"/diagnostician", CodeSuspicious, fmt.Sprintf("the runner %s may do everything: a diagnostician is told to read only, but what keeps it from writing are the permissions of its runner; name one that is read-only", quoted(runner)))
	}
}
