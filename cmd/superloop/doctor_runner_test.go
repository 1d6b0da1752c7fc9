package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/roles/agent"
	"github.com/superloop/superloop/roles/agent/class"
	"github.com/superloop/superloop/roles/agent/preflight"
)

func TestJudgeLive(t *testing.T) {
	t.Parallel()
	n, cost := int64(7), 0.0125
	done := proc.Result{Ended: proc.Exited, Duration: 1500 * time.Millisecond}
	for name, c := range map[string]struct {
		res  agent.Result
		err  error
		ok   bool
		want string
	}{
		"all is told": {agent.Result{Proc: done, Learned: agent.Learned{Structured: true, Done: true, FinalMessage: " Ready.\n", Model: "m-1",
			Usage: agent.Usage{Input: &n, Output: &n}, CostUSD: &cost}}, nil, true, `answered "Ready." in 1.5s, m-1, 14 tokens, $0.0125   (/d)`},
		"nothing is told": {agent.Result{Proc: done, Learned: agent.Learned{FinalMessage: "READY"}}, nil, true, `answered "READY" in 1.5s, cost not told   (/d)`},
		"another answer":  {agent.Result{Proc: done, Learned: agent.Learned{FinalMessage: "Hello"}}, nil, true, `answered "Hello" in 1.5s, which is not what it was asked for, cost not told   (/d)`},
		"a class, with exit code 0": {agent.Result{Proc: done, Learned: agent.Learned{Structured: true, Class: class.Auth, ErrorText: "401 bad key"}}, nil, false,
			"failed in 1.5s: auth: 401 bad key   (/d)"},
		"no end":       {agent.Result{Proc: proc.Result{Ended: proc.TimedOut}, LastLine: "thinking"}, nil, false, "failed in 0.0s: no end within 2m0s   (/d)"},
		"not started":  {agent.Result{Proc: proc.Result{Ended: proc.NotStarted, Err: errors.New("no such file")}}, nil, false, "failed in 0.0s: no such file   (/d)"},
		"no command":   {agent.Result{}, errors.New("unknown thinking"), false, "failed in 0.0s: unknown thinking   (/d)"},
		"last line":    {agent.Result{Proc: proc.Result{Ended: proc.Exited, Code: 3}, LastLine: "no luck"}, nil, false, "failed in 0.0s: no luck   (/d)"},
		"nothing said": {agent.Result{Proc: proc.Result{Ended: proc.Exited, Code: 3}}, nil, false, "failed in 0.0s: ended with exit code 3 and said nothing   (/d)"},
	} {
		l := judgeLive(c.res, c.err, "/d")
		if got := l.text(); l.OK != c.ok || got != c.want || l.Ready != strings.Contains(strings.ToLower(c.res.FinalMessage), "ready") {
			t.Errorf("%s: %v %s\nwant %v %s", name, l.OK, got, c.ok, c.want)
		}
	}
}

func TestCheckLine(t *testing.T) {
	t.Parallel()
	if got := checkLine(nil); got != "" {
		t.Error(got)
	}
	for want, c := range map[string]preflight.Check{
		"t --version": {Works: true, Original: "t --version"},
		"t --version, exit code 2 (output_detection): usage: t":       {Works: true, Original: "t --version", Repaired: "t --version", Method: "output_detection", ExitCode: 2, Why: "usage: t"},
		"t -h, exit code 1 (fallback_h; t --version fails): usage: t": {Works: true, Original: "t --version", Repaired: "t -h", Method: "fallback_h", ExitCode: 1, Why: "usage: t"},
		"t --version fails with exit code 127":                        {Broken: true, Original: "t --version", ExitCode: 127, Why: "no library"},
		"t --version fails":                                           {Broken: true, Original: "t --version", ExitCode: -1, Why: "SIGSEGV"},
	} {
		if got := checkLine(&c); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestFlagsLine(t *testing.T) {
	t.Parallel()
	k, u, n := preflight.Flag{Flag: "--k", State: preflight.FlagKnown}, preflight.Flag{Flag: "--u", State: preflight.FlagUnknown}, preflight.Flag{Flag: "--n", State: preflight.FlagNotChecked}
	for want, r := range map[string]preflight.Report{
		"none":                               {},
		"2 known":                            {Flags: []preflight.Flag{k, k}},
		"1 known, 2 unknown: --u --u":        {Flags: []preflight.Flag{u, k, u}},
		"1 not checked: why":                 {Flags: []preflight.Flag{n}, Unchecked: "why"},
		"1 known, 1 not checked: why":        {Flags: []preflight.Flag{n, k}, Unchecked: "why"},
		"not checked: it cannot be started":  {Unchecked: "it cannot be started"},
		"1 known, 1 unknown: --u: no answer": {Flags: []preflight.Flag{k, u}, Unchecked: "no answer"},
	} {
		if got := flagsLine(r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
