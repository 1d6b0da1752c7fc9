package classify

import (
	_ "embed" // for the summaries
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/superloop/superloop/internal/pattern"
)

// opening is what a line opens or closes in the report of a test run.
type opening uint8

const (
	opensNothing opening = iota
	opensLog             // what a test printed follows
	opensSuite           // the runner says of a file of tests that it could not load it
	opensVerdict         // Go's verdict on a test; what is indented below belongs to it
	opensRun             // a Go test starts or goes on: it prints what follows
	opensNotOK           // a failed test of TAP; what is indented below belongs to it
	closesPart           // what stood before has ended
	opensBlock           // the report of one failed test follows
)

var (
	suiteStart = pattern.Lazy(`^\s*● Test suite failed to run|^\s*FAIL\s+\S.* \[ .* \]$|^_{3,} ERROR collecting |^ERROR collecting |^ImportError while |^_{3,} ERROR at (?:setup|teardown) of |^\s*● Validation `)
	suiteInner = pattern.Lazy(`Failed Suites \d+|"(?:before|after) (?:all|each)" hook`)
	blockStart = pattern.Lazy(`^\s*● \S|^\s*✘ \[fail\]: |^\s*FAIL\s+\S+.* > |^_{3,} \S.* _{3,}$|^---- \S.* stdout ----$|^\s+\d+\) \S|^\d+\) \S+(?:::|#|\.)\S|^(?:FAIL|ERROR): \w+ \(|^\[ RUN +\]|^\s*failures?:\s*$|^\s+Failed \S+ \[|^=+ FAILURES =+$`)
	logOpener  = pattern.Lazy(`^\s+console\.(?:log|error|warn|info|debug|trace|dir)\b|^(?:stdout|stderr) \| \S|^-+ ?Captured (?:stdout|stderr|log)(?: call| setup| teardown)? ?-+$|^\[captured |^  (?:stdout|stderr):$`)
	closer     = pattern.Lazy(`^(?:=+ .*(?:short test summary|warnings summary|\d+ (?:passed|failed|errors?)).*=+|Test Suites: |Tests: |Ran \d+ tests? |test result: |# (?:tests|pass|fail) \d|Snapshots: |FAIL\t|ok  \t)|^\s+(?:Test Files |Tests ) |^\s+\d+ (?:passing|failing)\b|^⎯{10,}|^\s*⎯{10,}\[\d+/\d+\]`)
	goVerdict  = pattern.Lazy(`^\s*--- (?:PASS|FAIL|SKIP): `)
)

// openingOf says what a line opens; t is l without white space around it, and not empty. Logs consist of such lines,
// and hundreds are asked about for one hit, so that expressions are tried only on a line that begins like one of theirs,
// or has in its middle what opens something: openingByExpressions, in the tests, says the same slowly. Runners that begin
// a line with a sign, or with a state in brackets, say more there.
func openingOf(l, t string) opening {
	switch c := t[0]; {
	case c >= '0' && c <= '9':
		if !hasAny(t, ") ", "passing", "failing") {
			return opensNothing
		}
	case slices.ContainsFunc(beginnings[c], func(p string) bool { return strings.HasPrefix(t, p) }), hasAny(l, "\" hook", "_FailedTest", " failed]", "<<< "):
	case c < utf8.RuneSelf && !strings.HasPrefix(t, "[ "), !hasAny(l, "An error occurred while loading ", "Failed Suites ", "Failure/Error:", "Failed Tests "):
		return opensNothing
	}
	switch {
	case strings.HasPrefix(t, "not ok "):
		return opensNotOK
	case logOpener().MatchString(l):
		return opensLog
	case suiteStart().MatchString(l), suiteOpenerInside(l):
		return opensSuite
	case isVerdict(l):
		return opensVerdict
	case strings.HasPrefix(l, "=== RUN "), strings.HasPrefix(l, "=== NAME "), strings.HasPrefix(l, "=== CONT "):
		return opensRun
	case closer().MatchString(l):
		return closesPart
	case blockStart().MatchString(l), hasAny(l, "<<< FAILURE!", "<<< ERROR!", "Failure/Error:", "Failed Tests "):
		return opensBlock
	}
	return opensNothing
}

// beginnings are those of lines that open or close a part, by their first byte.
var beginnings = [256][]string{
	'_': {"___"}, '[': {"[ RUN ", "[captured"}, '#': {"# "}, 'F': {"FAIL", "Fail"}, 'E': {"ERROR"}, 'f': {"fail"}, 'c': {"console."},
	's': {"stdout", "stderr"}, 'T': {"Test"}, 't': {"test result"}, 'S': {"Snapshots"}, 'o': {"ok  "}, 'A': {"An error"},
	'I': {"ImportError"}, 'R': {"Ran "}, '"': {"\""}, 'n': {"not ok "}, '-': {"---", "- Captured"}, '=': {"==="}, 0xe2: {"●", "✘", "⎯"},
}

// suiteOpener reports whether a line begins what a runner says of a file of tests that it could not load.
func suiteOpener(l string) bool {
	return suiteStart().MatchString(l) || suiteOpenerInside(l)
}

func suiteOpenerInside(l string) bool {
	return hasAny(l, "An error occurred while loading ", "(unittest.loader._FailedTest", "[build failed]", "[setup failed]") ||
		hasAny(l, "Failed Suites ", "\" hook") && suiteInner().MatchString(l)
}

// summary is the last count of tests that a runner printed.
type summary struct {
	found  bool
	failed int   // tests that ran and failed, or did not end
	line   int64 // where it stands
}

// summaries are the runners' last lines, as summaries.txt has them: behind a runner's name an expression, whose groups
// are counts of failed tests; a line without one says that none failed.
var summaries = sync.OnceValue(func() (all []*regexp.Regexp) {
	for line := range strings.Lines(summariesText) {
		_, expr, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		all = append(all, regexp.MustCompile(expr))
	}
	return all
})

//go:embed summaries.txt
var summariesText string

// goFailed is the line of a package whose tests ran and failed.
var goFailed = pattern.Lazy(`^FAIL\t\S+\t\d[\d.]*s$`)

// counts reports, cheaply, whether a line may be a count of tests.
func counts(l string) bool {
	return strings.ContainsAny(l, "0123456789") && hasAny(l, "ail", "AIL", "ass", "rror", "Tests")
}

// lastSummary finds the last count; its line is counted within lines, from 1.
func lastSummary(lines []string) summary {
	var s summary
	for i := len(lines) - 1; i >= 0; i-- {
		l := lines[i]
		if len(l) < 5 || len(l) > 200 || !counts(l) {
			continue
		}
		if goFailed().MatchString(l) {
			return summary{found: true, failed: max(1, s.failed), line: int64(i + 1)}
		}
		for _, re := range summaries() {
			m := re.FindStringSubmatch(l)
			if m == nil {
				continue
			}
			if !s.found {
				s = summary{found: true, line: int64(i + 1)}
			}
			for _, g := range m[1:] {
				if n, err := strconv.Atoi(g); err == nil {
					s.failed += n
				}
			}
			break
		}
		if s.found && s.line-int64(i) > 12 {
			break
		}
	}
	return s
}
