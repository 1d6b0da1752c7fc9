package effects

import (
	"testing"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/gate"
)

func TestSignature(t *testing.T) {
	t.Parallel()
	base := "run 1\n\x1b[31mError\x1b[0m: Host version \"0.21.5\" does not match binary version \"0.27.2\"\n  at /tmp/x1/y.js:10:3\nfailed after 1.23s\n"
	same := "run 2\nError: Host version \"0.21.6\" does not match binary version \"0.28.0\"\n\n  at /tmp/zz/y.js:99:1\nfailed after 88s\n"
	other := "run 2\nError: Cannot find module 'vite'\nfailed after 88s\n"
	if signature([]byte(base)) != signature([]byte(same)) {
		t.Error("the same failure has two signatures")
	}
	if signature([]byte(base)) == signature([]byte(other)) {
		t.Error("two failures have one signature")
	}
}

func TestVerifyRecovery(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	fail := func(m *bool, f ...loop.TestFailure) testsThen { return testsThen{gate.StatusFailed, f, m} }
	failure := func(command, sig string) loop.TestFailure {
		return loop.TestFailure{Command: command, ExitCode: 1, Signature: sig}
	}
	ok := testsThen{gate.StatusOK, nil, nil}
	a, a2, b := failure("a", "s"), failure("a", "t"), failure("b", "u")
	for name, c := range map[string]struct {
		then, now testsThen
		want      string
	}{
		"passes now":                       {fail(nil, a), ok, loop.Verified},
		"passed before":                    {ok, ok, loop.Unverified},
		"passed before, fails now":         {ok, fail(nil, a), loop.Harmful},
		"another command fails now":        {fail(nil, a), fail(nil, a, b), loop.Harmful},
		"one is cured, another broken":     {fail(nil, a), fail(nil, b), loop.Harmful},
		"the same failure":                 {fail(&yes, a), fail(&yes, a), loop.Ineffective},
		"other words, the pattern stays":   {fail(&yes, a), fail(&yes, a2), loop.Ineffective},
		"the pattern is gone":              {fail(&yes, a), fail(&no, a2), loop.Verified},
		"the pattern never matched":        {fail(&no, a), fail(&no, a2), loop.Unverified},
		"one of two is cured":              {fail(nil, a, b), fail(nil, b), loop.Verified},
		"had not run, passes":              {testsThen{}, ok, loop.Verified},
		"had not run, fails in this way":   {testsThen{}, fail(&yes, a), loop.Ineffective},
		"had not run, fails in some way":   {testsThen{}, fail(nil, a), loop.Unverified},
		"skipped":                          {fail(nil, a), testsThen{gate.StatusSkipped, nil, nil}, loop.Unverified},
		"no pattern, the failure changed":  {fail(nil, a), fail(nil, a2), loop.Unverified},
		"the pattern is gone but b is red": {fail(&yes, a), fail(&no, a2, b), loop.Harmful},
	} {
		if got := verifyRecovery(c.then, c.now); got.Result != c.want || got.Why == "" {
			t.Errorf("%s: %+v, want %s", name, got, c.want)
		}
	}
}

func TestPatternIn(t *testing.T) {
	t.Parallel()
	if m := patternIn("Host version .* does", "Host version 1 does not"); m == nil || !*m {
		t.Error("not found")
	}
	for _, bad := range []string{"", "(", "*"} {
		if patternIn(bad, "text") != nil {
			t.Errorf("%q matched something", bad)
		}
	}
}
