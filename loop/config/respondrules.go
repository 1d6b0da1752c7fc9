package config

import (
	"fmt"
	"slices"
	"time"

	"github.com/superloop/superloop/schemas"
)

// Defaults of respond.
const (
	defaultSame         = 3
	defaultMaxRuns      = 6
	defaultMaxTime      = 6 * time.Hour
	defaultAnalysisTime = 10 * time.Minute
	defaultMaxWait      = 8 * 24 * time.Hour
	defaultFailures     = 3
	defaultFirst        = time.Minute
	defaultMost         = 30 * time.Minute
	defaultWindow       = time.Hour
	defaultMinRuns      = 5
	defaultWarnRate     = 0.2
	defaultCriticalRate = 0.5
	defaultCategory     = 5
	defaultSilent       = 3
)

const respondKey = "/respond"

// defaultRespond checks the top-level section by itself, so that what is wrong
// in it is said once and not for every loop.
func (b *builder) defaultRespond(f file) {
	b.respondSection(respondKey, f.Respond, nil)
	b.respondTogether(respondKey, f.Respond, f.Respond.filled())
}

// respond is what holds for a loop: its own section over the top-level one. What
// is wrong with it is told at the loop only where the loop has a say in it.
func (b *builder) respond(f file, l fileLoop, at string, roles []Role) Respond {
	b.respondSection(at+respondKey, l.Respond, f.Respond.Diagnostician)
	in := l.Respond.over(f.Respond)
	r := in.filled()
	b.respondTogether(at+respondKey, l.Respond, r)
	if !in.MaxTime.set {
		return r
	}
	ptr := respondKey + "/max_time"
	if l.Respond.MaxTime.set {
		ptr = at + ptr
	}
	for _, role := range roles {
		if r.MaxTime > 0 && role.Timeout > r.MaxTime {
			b.warn(ptr, CodeSuspicious, fmt.Sprintf("max_time (%s) is shorter than one run of the %s of loop %s may take (%s), so after one that fails late a person is asked at once",
				r.MaxTime, role.Name, quoted(l.ID), role.Timeout))
			break
		}
	}
	return r
}

// filled is a section with the defaults for what it does not say.
func (in fileRespond) filled() Respond {
	r := Respond{
		Enabled: or(in.Enabled, true), FallOver: or(in.FallOver, false), Insist: slices.Clone(in.Insist),
		SameFailure: or(in.SameFailure, defaultSame), SameTests: or(in.SameTests, defaultSame), MaxRuns: or(in.MaxRuns, defaultMaxRuns),
		MaxTime: in.MaxTime.or(defaultMaxTime), AnalysisTime: in.AnalysisTime.or(defaultAnalysisTime), MaxWait: in.MaxWait.or(defaultMaxWait),
		Breaker: Breaker{Failures: or(in.Breaker.Failures, defaultFailures), First: in.Breaker.First.or(defaultFirst), Most: in.Breaker.Most.or(defaultMost)},
		Systemic: Systemic{
			Window: in.Systemic.Window.or(defaultWindow), MinRuns: or(in.Systemic.MinRuns, defaultMinRuns),
			WarnRate: or(in.Systemic.WarnRate, defaultWarnRate), CriticalRate: or(in.Systemic.CriticalRate, defaultCriticalRate),
			SameCategory: or(in.Systemic.SameCategory, defaultCategory), SilentRuns: or(in.Systemic.SilentRuns, defaultSilent),
		},
		Preflight: Environment{Enabled: or(in.Preflight.Enabled, true)},
	}
	if d := in.Diagnostician; d != nil && d.Switch == nil {
		r.Diagnostician = &Diagnostician{Runner: d.Runner, Model: or(d.Model, ""), Timeout: d.Timeout.or(r.AnalysisTime)}
	}
	for _, c := range in.Preflight.Checks {
		r.Preflight.Checks = append(r.Preflight.Checks, EnvironmentCheck(c))
	}
	return r
}

func or[T any](v *T, otherwise T) T {
	if v != nil {
		return *v
	}
	return otherwise
}

// respondSection checks what one section says; top is the diagnostician that it
// is laid over, nil when there is none.
func (b *builder) respondSection(at string, in fileRespond, top *fileDiagnostician) {
	times := []struct {
		key, like string
		in        seconds
	}{{"max_time", "6h", in.MaxTime}, {"analysis_time", "10m", in.AnalysisTime}, {"max_wait", "192h", in.MaxWait},
		{"breaker/first", "1m", in.Breaker.First}, {"breaker/most", "30m", in.Breaker.Most}, {"systemic/window", "1h", in.Systemic.Window}}
	if in.Diagnostician != nil {
		b.diagnostician(at+"/diagnostician", *in.Diagnostician, top)
		times = append(times, struct {
			key, like string
			in        seconds
		}{"diagnostician/timeout", "10m", in.Diagnostician.Timeout})
	}
	for _, t := range times {
		b.longSeconds(at+"/"+t.key, t.in)
		if t.in.set && t.in.d <= 0 {
			b.wrong(at+"/"+t.key, Problem{Code: schemas.CodeOutOfRange, Found: "0", Allowed: "more than 0",
				Message: fmt.Sprintf("found 0; allowed: more than 0 (what follows a failure is bounded; give it a time, such as %q)", t.like)})
		}
	}
	if in.SameTests != nil && *in.SameTests == 1 {
		b.wrong(at+"/same_tests", Problem{Code: schemas.CodeOutOfRange, Found: "1", Allowed: "0, or 2 or more",
			Message: "found 1; allowed: 0, which never asks, or 2 or more: one failure is not the same again"})
	}
	b.environment(at+"/preflight", in.Preflight.Checks)
}

func (b *builder) diagnostician(at string, in fileDiagnostician, top *fileDiagnostician) {
	switch {
	case in.Switch != nil && *in.Switch:
		b.wrong(at, Problem{Code: schemas.CodeNotAllowed, Found: "true", Allowed: "the name of a runner, an object, or false",
			Message: `true does not say who; write the name of a runner, such as "diagnostician": "claude"`})
	case in.Switch != nil:
	case in.Runner != "":
		ptr := at
		if b.present(at + "/runner") {
			ptr += "/runner"
		}
		b.reference(ptr, in.Runner)
	case top == nil || top.Runner == "":
		if !b.named(at) && !b.named(at+"/runner") {
			b.wrong(at+"/runner", missingKey("runner", "somebody must look for the cause"))
		}
	}
}

// respondTogether warns of what a section brings about together with the one
// that it is laid over: r is both.
func (b *builder) respondTogether(at string, own fileRespond, r Respond) {
	if (own.Breaker.First.set || own.Breaker.Most.set) && r.Breaker.First > r.Breaker.Most {
		key := "first"
		if !own.Breaker.First.set {
			key = "most"
		}
		b.warn(at+"/breaker/"+key, CodeSuspicious, fmt.Sprintf("first (%s) is longer than most (%s): a runner that is unfit is so for %s each time, and never longer",
			r.Breaker.First, r.Breaker.Most, r.Breaker.Most))
	}
	s := r.Systemic
	if (own.Systemic.WarnRate != nil || own.Systemic.CriticalRate != nil) && s.WarnRate >= s.CriticalRate && s.CriticalRate > 0 {
		key := "warn_rate"
		if own.Systemic.WarnRate == nil {
			key = "critical_rate"
		}
		b.warn(at+"/systemic/"+key, CodeSuspicious, fmt.Sprintf("warn_rate (%v) is not below critical_rate (%v), so nobody is warned before it is critical", s.WarnRate, s.CriticalRate))
	}
	if d := r.Diagnostician; d != nil && own.Diagnostician != nil && own.Diagnostician.Runner != "" && b.runners[d.Runner].Permissions == "full" {
		b.warn(at+"/diagnostician", CodeSuspicious, fmt.Sprintf("the runner %s may do everything: a diagnostician is told to read only, but what keeps it from writing are the permissions of its runner; name one that is read-only", quoted(d.Runner)))
	}
}
