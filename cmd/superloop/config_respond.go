package main

import (
	"github.com/superloop/superloop/loop/config"
)

// choices are the runners of a role as people write them: a name, or a name with its model.
func choices(all []config.Choice) []string {
	out := make([]string, len(all))
	for i, c := range all {
		out[i] = c.Runner
		if c.Model != "" {
			out[i] += ":" + c.Model
		}
	}
	return out
}

// respond shows what follows a failure in a loop; the top level has what the loop does not say.
func (s *settings) respond(path, at string, r config.Respond) {
	diagnostician := any(nil)
	if d := r.Diagnostician; d != nil {
		diagnostician = choices([]config.Choice{{Runner: d.Runner, Model: d.Model}})[0]
	}
	for _, k := range []struct {
		name  string
		value any
	}{
		{"enabled", r.Enabled}, {"fall_over", r.FallOver}, {"insist", r.Insist}, {"same_failure", r.SameFailure}, {"same_tests", r.SameTests},
		{"max_runs", r.MaxRuns}, {"max_time", long(r.MaxTime)}, {"analysis_time", long(r.AnalysisTime)}, {"max_wait", long(r.MaxWait)},
		{"breaker/failures", r.Breaker.Failures}, {"breaker/first", long(r.Breaker.First)}, {"breaker/most", long(r.Breaker.Most)},
		{"systemic/window", long(r.Systemic.Window)}, {"systemic/min_runs", r.Systemic.MinRuns}, {"systemic/warn_rate", r.Systemic.WarnRate},
		{"systemic/critical_rate", r.Systemic.CriticalRate}, {"systemic/same_category", r.Systemic.SameCategory},
		{"systemic/silent_runs", r.Systemic.SilentRuns}, {"diagnostician", diagnostician}, {"preflight/enabled", r.Preflight.Enabled},
	} {
		s.add(setting{path: path + "/" + k.name, value: k.value, origins: []string{at + "/" + k.name, "/respond/" + k.name}})
	}
	for _, origin := range []string{at, "/respond"} {
		if s.doc.Raw(origin+"/preflight/checks", nil) != nil {
			s.raw(path+"/preflight/checks", origin+"/preflight/checks")
			return
		}
	}
}
