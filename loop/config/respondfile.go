package config

import "encoding/json"

// fileRespond is a respond section as it is written: what is nil, or not set, is
// not there.
type fileRespond struct {
	Enabled       *bool              `json:"enabled"`
	FallOver      *bool              `json:"fall_over"`
	Insist        []string           `json:"insist"`
	SameFailure   *int               `json:"same_failure"`
	SameTests     *int               `json:"same_tests"`
	MaxRuns       *int               `json:"max_runs"`
	MaxTime       seconds            `json:"max_time"`
	AnalysisTime  seconds            `json:"analysis_time"`
	MaxWait       seconds            `json:"max_wait"`
	Breaker       fileBreaker        `json:"breaker"`
	Systemic      fileSystemic       `json:"systemic"`
	Diagnostician *fileDiagnostician `json:"diagnostician"`
	Preflight     fileEnvironment    `json:"preflight"`
}

type fileBreaker struct {
	Failures *int    `json:"failures"`
	First    seconds `json:"first"`
	Most     seconds `json:"most"`
}

type fileSystemic struct {
	Window       seconds  `json:"window"`
	MinRuns      *int     `json:"min_runs"`
	WarnRate     *float64 `json:"warn_rate"`
	CriticalRate *float64 `json:"critical_rate"`
	SameCategory *int     `json:"same_category"`
	SilentRuns   *int     `json:"silent_runs"`
}

// fileDiagnostician is a runner's name, an object, or false for nobody.
type fileDiagnostician struct {
	Runner  string
	Model   *string
	Timeout seconds
	// Switch is the value when it is true or false.
	Switch *bool
}

func (d *fileDiagnostician) UnmarshalJSON(b []byte) error {
	var on bool
	if json.Unmarshal(b, &on) == nil {
		d.Switch = &on
		return nil
	}
	if json.Unmarshal(b, &d.Runner) == nil {
		return nil
	}
	var o struct {
		Runner  string  `json:"runner"`
		Model   *string `json:"model"`
		Timeout seconds `json:"timeout"`
	}
	_ = json.Unmarshal(b, &o) // the schema has named what does not fit
	*d = fileDiagnostician{Runner: o.Runner, Model: o.Model, Timeout: o.Timeout}
	return nil
}

// fileEnvironment is true, false, or an object.
type fileEnvironment struct {
	Enabled *bool
	Checks  []fileEnvironmentCheck
}

func (g *fileEnvironment) UnmarshalJSON(b []byte) error {
	var on bool
	if json.Unmarshal(b, &on) == nil {
		g.Enabled = &on
		return nil
	}
	var o struct {
		Enabled *bool                  `json:"enabled"`
		Checks  []fileEnvironmentCheck `json:"checks"`
	}
	_ = json.Unmarshal(b, &o) // the schema has named what does not fit
	*g = fileEnvironment(o)
	return nil
}

type fileEnvironmentCheck struct {
	Kind    string `json:"kind"`
	Path    string `json:"path"`
	Want    string `json:"want"`
	Manager string `json:"manager"`
	FreeMB  int64  `json:"free_mb"`
	Port    int    `json:"port"`
	Name    string `json:"name"`
	Address string `json:"address"`
}

// over lays a section over another one, key by key; a list counts as a whole.
func (in fileRespond) over(top fileRespond) fileRespond {
	in.Enabled, in.FallOver = given(in.Enabled, top.Enabled), given(in.FallOver, top.FallOver)
	if in.Insist == nil {
		in.Insist = top.Insist
	}
	in.SameFailure, in.SameTests, in.MaxRuns = given(in.SameFailure, top.SameFailure), given(in.SameTests, top.SameTests), given(in.MaxRuns, top.MaxRuns)
	in.MaxTime, in.AnalysisTime, in.MaxWait = in.MaxTime.over(top.MaxTime), in.AnalysisTime.over(top.AnalysisTime), in.MaxWait.over(top.MaxWait)

	b, tb := &in.Breaker, top.Breaker
	b.Failures, b.First, b.Most = given(b.Failures, tb.Failures), b.First.over(tb.First), b.Most.over(tb.Most)

	s, ts := &in.Systemic, top.Systemic
	s.Window, s.MinRuns = s.Window.over(ts.Window), given(s.MinRuns, ts.MinRuns)
	s.WarnRate, s.CriticalRate = given(s.WarnRate, ts.WarnRate), given(s.CriticalRate, ts.CriticalRate)
	s.SameCategory, s.SilentRuns = given(s.SameCategory, ts.SameCategory), given(s.SilentRuns, ts.SilentRuns)

	in.Diagnostician = in.Diagnostician.over(top.Diagnostician)
	in.Preflight.Enabled = given(in.Preflight.Enabled, top.Preflight.Enabled)
	if in.Preflight.Checks == nil {
		in.Preflight.Checks = top.Preflight.Checks
	}
	return in
}

// over: a model goes with its runner, so that of another one is not taken over.
func (d *fileDiagnostician) over(top *fileDiagnostician) *fileDiagnostician {
	if d == nil || top == nil || d.Switch != nil || top.Switch != nil {
		return given(d, top)
	}
	out := *d
	if out.Runner == "" {
		out.Runner = top.Runner
	}
	if out.Runner == top.Runner {
		out.Model = given(out.Model, top.Model)
	}
	out.Timeout = out.Timeout.over(top.Timeout)
	return &out
}

// over is the time, or another one as it is written when the key is not there.
func (s seconds) over(top seconds) seconds {
	if s.set {
		return s
	}
	return top
}

// given is the first of two that is there.
func given[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}
