package classify

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/internal/text"
)

// openingByExpressions is openingOf without its short cuts: every expression on
// every line that may be structural.
func openingByExpressions(l, t string) opening {
	if !structural(l, t) {
		return opensNothing
	}
	switch {
	case strings.HasPrefix(t, "not ok "):
		return opensNotOK
	case logOpener().MatchString(l):
		return opensLog
	case suiteOpener(l):
		return opensSuite
	case goVerdict().MatchString(l):
		return opensVerdict
	case strings.HasPrefix(l, "=== RUN ") || strings.HasPrefix(l, "=== NAME ") || strings.HasPrefix(l, "=== CONT "):
		return opensRun
	case closer().MatchString(l):
		return closesPart
	case blockStart().MatchString(l), hasAny(l, "<<< FAILURE!", "<<< ERROR!", "Failure/Error:", "Failed Tests "):
		return opensBlock
	}
	return opensNothing
}

// structural reports whether a line begins like one that opens or closes a part.
func structural(l, t string) bool {
	switch {
	case t[0] >= utf8.RuneSelf:
		return true
	case t[0] >= '0' && t[0] <= '9':
		return hasAny(t, ") ", "passing", "failing")
	}
	for _, p := range []string{"___", "---", "===", "- Captured", "[ ", "[captured", "FAIL", "ERROR", "Fail", "fail", "console.", "stdout", "stderr", "Test", "test result", "# ", "Snapshots", "ok  ", "not ok", "An error", "ImportError", "Ran ", "\""} {
		if strings.HasPrefix(t, p) {
			return true
		}
	}
	return hasAny(l, "<<< ", "\" hook", "_FailedTest", " failed]")
}

// The short cuts change nothing, on the lines of recorded logs and on lines made of
// pieces of what runners print.
func TestOpeningShortCuts(t *testing.T) {
	t.Parallel()
	seen := map[opening]int{}
	check := func(t interface{ Errorf(string, ...any) }, l string) {
		s := strings.TrimSpace(l)
		if s == "" {
			return
		}
		got, want := openingOf(l, s), openingByExpressions(l, s)
		if got != want {
			t.Errorf("%q opens %d, by the expressions %d", l, got, want)
		}
		seen[got]++
	}
	for _, h := range embedded(t).Handlers {
		for _, e := range append(h.Examples, h.CounterExamples...) {
			for l := range strings.Lines(e.Stdout + "\n" + e.Stderr) {
				check(t, strings.TrimSuffix(l, "\n"))
			}
		}
	}
	for kind := range logKinds {
		for l := range strings.Lines(string(logOf(kind, 8<<10, 3))) {
			check(t, text.Uncoloured(strings.TrimSuffix(l, "\n")))
		}
	}
	pieces := []string{
		" ", "  ", "\t", "● ", "● Test suite failed to run", "● Validation ", "FAIL", "FAIL ", "FAIL\t", " [ a ]", "___", " ERROR collecting ", "ERROR collecting ", "ERROR: a (", "ImportError while ",
		"Failed Suites 1", "Failed Suites ", "\"before each\" hook", "\" hook", "✘ [fail]: ", "✓ ", "✕ ", " > ", "---- ", " stdout ----", "1) ", "2) a.b", "[ RUN      ]", "[ OK ]", "failures:", "failure:", "Failed a [",
		"== ", "=== ", " FAILURES ==", "console.log", "console.", "stdout | a", "stderr | ", "- Captured stdout call -", "--- Captured log ---", "[captured ", "stdout:", "=== RUN ", "=== CONT ", "=== PAUSE ",
		"--- PASS: ", "--- FAIL: ", "--- ", "-- ", "not ok ", "ok  \t", "ok ", "short test summary", " 2 failed", " ==", "Test Suites: ", "Tests: ", "Test Files ", "Tests ", "Ran 3 tests ", "test result: ", "# tests 1", "# pass ", "# Subtest",
		"Snapshots: ", "3 passing", "1 failing", "⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯", "[1/2]", "An error occurred while loading ", "(unittest.loader._FailedTest", "[build failed]", "[setup failed]", "<<< FAILURE!", "<<< ERROR!",
		"Failure/Error:", "Failed Tests ", "a", "::b", "é",
	}
	if t.Failed() {
		return
	}
	rapid.Check(t, func(r *rapid.T) {
		check(r, strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 6).Draw(r, "pieces"), ""))
	})
	for o := opensNothing; o <= opensBlock; o++ {
		if seen[o] == 0 {
			t.Errorf("no line opens %d: this shows little", o)
		}
	}
}

// The cheap check before an expression leaves out no line that the expression matches.
func TestUncaughtParts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/real/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	n := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for d := json.NewDecoder(bytes.NewReader(data)); d.More(); {
			var r struct{ Stdout, Stderr string }
			if err := d.Decode(&r); err != nil {
				t.Fatal(err)
			}
			for _, l := range cleanLines([]byte(r.Stdout+"\n"+r.Stderr), maxReport, true) {
				if !uncaught().MatchString(l) {
					continue
				}
				if n++; !hasAny(l, uncaughtParts...) {
					t.Errorf("the check leaves out %q", l)
				}
			}
		}
	}
	if n < 100 {
		t.Errorf("only %d lines match", n)
	}
}
