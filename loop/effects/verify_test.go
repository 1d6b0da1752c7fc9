package effects

import (
	"strings"
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

// Conforms: 004-1-pattern
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
		why       string
	}{
		"passes now":                       {fail(nil, a), ok, loop.Verified, "the tests pass"},
		"passed before":                    {ok, ok, loop.Unverified, "the tests passed before it too"},
		"passed before, fails now":         {ok, fail(nil, a), loop.Harmful, "passed before it and fails now: a"},
		"another command fails now":        {fail(nil, a), fail(nil, a, b), loop.Harmful, "passed before it and fails now: b"},
		"one is fixed, another broken":     {fail(nil, a), fail(nil, b), loop.Harmful, "passed before it and fails now: b"},
		"the same failure":                 {fail(&yes, a), fail(&yes, a), loop.Ineffective, "the same failure"},
		"other words, the pattern stays":   {fail(&yes, a), fail(&yes, a2), loop.Ineffective, "the failure that it was for is still there"},
		"the pattern is gone":              {fail(&yes, a), fail(&no, a2), loop.Verified, "the failure that it was for is gone; the tests fail for another reason"},
		"the pattern never matched":        {fail(&no, a), fail(&no, a2), loop.Unverified, "the tests fail in another way than before"},
		"one of two is fixed":              {fail(nil, a, b), fail(nil, b), loop.Verified, "passes now: a"},
		"had not run, passes":              {testsThen{}, ok, loop.Verified, "the tests pass"},
		"had not run, fails in this way":   {testsThen{}, fail(&yes, a), loop.Ineffective, "the failure that it was for is there"},
		"had not run, fails in some way":   {testsThen{}, fail(nil, a), loop.Unverified, "the tests fail, and had not run before it"},
		"skipped":                          {fail(nil, a), testsThen{gate.StatusSkipped, nil, nil}, loop.Unverified, "the tests did not run"},
		"no pattern, the failure changed":  {fail(nil, a), fail(nil, a2), loop.Unverified, "the tests fail in another way than before"},
		"the pattern is gone but b is red": {fail(&yes, a), fail(&no, a2, b), loop.Harmful, "passed before it and fails now: b"},
	} {
		want := loop.Verification{Result: c.want, Why: c.why, Before: c.then.String(), After: c.now.String()}
		if got := verifyRecovery(c.then, c.now); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
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

func TestSignatureLooksAtTheEnd(t *testing.T) {
	t.Parallel()
	lines := func(first string, n int) []byte { return []byte(first + "\n" + strings.Repeat("same\n\n", n)) }
	if signature(lines("a", 59)) == signature(lines("b", 59)) {
		t.Error("the sixtieth line from the end counts")
	}
	if signature(lines("a", 60)) != signature(lines("b", 60)) {
		t.Error("the line before does not")
	}
	if got := signature([]byte("x")); len(got) != 16 {
		t.Errorf("%q", got)
	}
}

func TestHowTestsWent(t *testing.T) {
	t.Parallel()
	two := []loop.TestFailure{{Command: "a", ExitCode: 1}, {Command: "b", ExitCode: 2}}
	for want, then := range map[string]testsThen{"failed: a (1), b (2)": {gate.StatusFailed, two, nil}, "ok": {gate.StatusOK, two, nil}, "": {}} {
		if got := then.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestPatternsAreBounded(t *testing.T) {
	t.Parallel()
	if m := patternIn(strings.Repeat("x", 1000), strings.Repeat("x", 1000)); m == nil || !*m {
		t.Error("a pattern of 1,000 characters is looked for")
	}
	if patternIn(strings.Repeat("x", 1001), strings.Repeat("x", 1001)) != nil || patternIn("x", "") != nil {
		t.Error("a longer one, or one without an output, is not")
	}
	if m := patternIn("y", "x"); m == nil || *m {
		t.Error("found what is not there")
	}
}
