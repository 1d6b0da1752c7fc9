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

// voice says who wrote a line in the output of a test run. The words of a tool are facts about the environment. The
// name of a test, its expected values and the text that it printed are not.
type voice uint8

const (
	voiceTool   voice = iota // the tool itself; the default
	voiceSuite               // the test runner, about a file of tests that it could not load
	voiceBlock               // a line inside the report of one failed test: message, difference, source
	voiceLog                 // a line that a test or the code under test printed
	voiceName                // the status line of a failed test, or its expected and actual values
	voicePassed              // the status line of a test that passed
)

// own reports whether the tool or the test runner itself wrote the line.
func (v voice) own() bool { return v <= voiceSuite }

var (
	passedLine = pattern.Lazy(`^\s*(?:(?:✓|✔|√|↓|○) |ok \d+|(?:ok|OK|pass|PASS|\[ok\]|\[OK\]|\[PASS\]|\[pass\]) ?[-:] |(?:\[ok\]|\[OK\]|\[PASS\]|\[pass\]|PASS(?:ED)?:?) +\S|--- PASS: |=== (?:RUN|CONT|PAUSE|NAME) |test \S.* \.\.\. (?:ok|ignored)|PASS\s+\S|PASSED\s|\[ +(?:OK|RUN) +\]|# Subtest: )|^\S+::\S+.* (?:PASSED|SKIPPED|XFAIL)\b|^\w+ \(\S+\)(?: \.\.\.|.*) \.\.\. (?:ok|skipped)`)
	failedLine = pattern.Lazy(`^\s*(?:(?:✕|✖|×|✗|✘)\s.*\(?\d+(?:\.\d+)? ?m?s\)?$|not ok \d+|(?:not ok|NOT OK|\[FAIL(?:ED)?\]|KO) ?[-:]? +\S|✘ \[fail\]: |FAIL(?:ED)?:? +[a-z]\S* \S|--- FAIL: |test \S.* \.\.\. FAILED|\[ +FAILED +\]|FAILED \S+::)|^\S.* \.\.\. FAILED(?: \(|$)|^\S.* => \S+:\d+:\d+$|^\S+::\S+.* FAILED\b|^\w+ \(\S+\) \.\.\. (?:FAIL|ERROR)`)
	// ownPrefix matches the prefix of a line that only a tool that drives the tests writes.
	ownPrefix = pattern.Lazy(`^(?:npm (?:ERR!|error)|make(?:\[\d+\])?: |ninja: |go: |fatal: |E: |(?:/bin/|/usr/bin/)?(?:sh|bash|dash|ash): |docker: |Error response from daemon: |collect2: |\s?ERR_PNPM_|\s?ELIFECYCLE|(?:Unable to|Could not) find executable)`)

	sourceLine = pattern.Lazy(`^\s*(?:>\s*)?\d+ ?[|│]|^\s+[|│] |^> {3,}\S`)
	// numberedLine matches a line of code with its number and a bar. marks matches the line below it that marks a column.
	numberedLine = pattern.Lazy(`^\s*>?\s*\d{1,6} [|│] `)
	marks        = pattern.Lazy(`^\s+\^[\^~]*\s*$|^\s+~+\^[\^~]*\s*$`)
	goMessage    = pattern.Lazy(`^\s+\S+_test\.go:\d+: `) // a message of a Go test from Error, Fatal or Log
	// compared matches the lines in which a check shows its expected and its actual value.
	compared = pattern.Lazy(`^\s*#?\s*[-+]?\s*(?:got|wanted|want|expected|actual|received)\s*[:=]\s|^#\s+(?:Failed test |Looks like you failed )|^ expected substring: `)
)

// lookBack bounds how many lines before a hit are searched for the line that opens its part of the report. The first
// search looks at lookFirst lines only, because the opening line is mostly near.
const (
	lookBack  = 250
	lookFirst = 40
)

// speaker finds out who wrote a line, from the line and the lines before and after it. decided is false if more lines
// before it could change the result.
func speaker(before []string, line string, after []string) (v voice, decided bool) {
	v, decided, final := spoken(before, line)
	if final {
		if v == voiceBlock && wants(after) {
			return voiceName, true
		}
		return v, true
	}
	switch {
	case v == voiceTool && goTest(after, line):
		v = voiceLog
	case v == voiceTool && strings.HasPrefix(line, "# ") && tap(before, after):
		if v = voiceLog; notLoaded(line, after) {
			v = voiceSuite
		}
	case v == voiceTool && (inDiff(before, line) || inValueDiff(before, line)), !v.own() && sourceLine().MatchString(line), !strings.Contains(line, "#include") && (numberedLine().MatchString(line) || len(after) > 0 && marks().MatchString(after[0])):
		v = voiceName // the line quotes a file or the code; it reports no event
	}
	return v, decided
}

// spoken finds out who wrote a line, either from the line itself (final is true) or from the line that opens its part
// of the report.
func spoken(before []string, line string) (v voice, decided, final bool) {
	switch {
	case strings.HasPrefix(line, `{"Time":`) && hasAny(line, `"Test":"`) && hasAny(line, `"Action":"output"`):
		return voiceName, true, true // go test -json: a quoted line that a test printed
	case passedLine().MatchString(line):
		return voicePassed, true, true
	case failedLine().MatchString(line):
		return voiceName, true, true
	case ownPrefix().MatchString(line):
		return voiceTool, true, true
	case suiteOpener(line):
		return voiceSuite, true, true
	case goMessage().MatchString(line):
		return voiceBlock, true, true
	case compared().MatchString(line), perlValue().MatchString(line) && perlCheck(before):
		return voiceName, true, true
	case strings.HasPrefix(line, " ") && strings.HasPrefix(strings.TrimLeft(line, " "), "ℹ "):
		return voiceLog, true, true // what a test of AVA logged
	}
	v, decided = opened(before, line)
	return v, decided, false
}

// perlValue matches the line in which Test::More of Perl shows a value that does not fit. perlCheck reports whether the
// comment before it is about a failed check.
var perlValue = pattern.Lazy(`^\s*#\s+(?:'.*'|".*"|undef)$`)

func perlCheck(before []string) bool {
	for i := len(before) - 1; i >= 0 && strings.HasPrefix(strings.TrimSpace(before[i]), "#"); i-- {
		if compared().MatchString(before[i]) {
			return true
		}
	}
	return false
}

func prefixAny(l string, texts ...string) bool {
	return slices.ContainsFunc(texts, func(t string) bool { return strings.HasPrefix(l, t) })
}

func hasAny(l string, texts ...string) bool {
	return slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(l, t) })
}

// opened walks back to the nearest line that opens or closes a part of a report, and returns the voice that follows
// from it. decided is false if there is no such line and before has fewer than lookBack lines.
func opened(before []string, line string) (v voice, decided bool) {
	blank := 0
	lowest := indent(line)
	for i := len(before) - 1; i >= 0 && len(before)-i <= lookBack; i-- {
		l := before[i]
		t := strings.TrimSpace(l)
		if t == "" {
			blank++
			continue
		}
		o := openingOf(l, t)
		switch o {
		case opensNothing:
		case opensLog:
			console := strings.HasPrefix(t, "console.")
			if console && lowest > indent(l) || strings.Contains(l, " | ") && blank == 0 || !console && !strings.Contains(l, " | ") {
				return voiceLog, true
			}
		case opensSuite:
			return voiceSuite, true
		case opensVerdict:
			if indent(line) > indent(l) || strings.HasPrefix(line, "panic: ") {
				return voiceBlock, true
			}
			return voiceTool, true
		case opensRun:
			return voiceLog, true
		case opensNotOK:
			if lowest > indent(l) {
				return voiceBlock, true
			}
		case closesPart:
			return voiceTool, true
		case opensBlock:
			if strings.HasPrefix(t, "● ") && lowest <= indent(l) {
				return voiceTool, true // the line stands after the report of the test
			}
			return voiceBlock, true
		}
		lowest = min(lowest, indent(l))
	}
	return voiceTool, len(before) >= lookBack
}

// goTest reports whether the lines after a line show that a Go test printed it.
func goTest(after []string, line string) bool {
	if strings.HasPrefix(line, "# ") || strings.HasPrefix(line, "FAIL\t") {
		return false
	}
	for _, l := range after {
		switch {
		case isVerdict(l):
			return true
		case prefixAny(l, "FAIL\t", "ok  \t", "---\t", "# "), l == "FAIL", l == "PASS":
			return false
		}
	}
	return false
}

// isVerdict reports whether a line is the verdict of go test on a test, such as "--- FAIL: TestX".
func isVerdict(l string) bool { return strings.Contains(l, "--- ") && goVerdict().MatchString(l) }

// wants reports whether the lines after a message of a Go test name the expected value. The message then quotes the
// compared values.
func wants(after []string) bool {
	for _, l := range after[:min(len(after), 6)] {
		t := strings.TrimSpace(l)
		if strings.HasPrefix(t, "want ") || strings.HasPrefix(t, "want:") || strings.HasPrefix(t, "want=") {
			return true
		}
		if goMessage().MatchString(l) || isVerdict(l) {
			return false
		}
	}
	return false
}

// notLoaded reports whether a comment of a TAP report is the message of Node.js about a file of tests that imports a
// missing module.
func notLoaded(line string, after []string) bool {
	if !hasAny(line, "Cannot find module '", "Cannot find package '") {
		return false
	}
	return slices.ContainsFunc(after[:min(len(after), 30)], func(l string) bool {
		return strings.HasPrefix(l, "# Require stack:") || strings.HasPrefix(l, "#   code: 'MODULE_NOT_FOUND'") || strings.HasPrefix(l, "#   code: 'ERR_MODULE_NOT_FOUND'")
	})
}

// tap reports whether the lines around a comment belong to a TAP report.
func tap(before, after []string) bool {
	return slices.ContainsFunc(after, func(l string) bool {
		t := strings.TrimSpace(l)
		return strings.HasPrefix(t, "ok ") || strings.HasPrefix(t, "not ok ") || strings.HasPrefix(t, "# Subtest: ") || strings.HasPrefix(t, "#   Failed test ")
	}) || len(after) > 0 && slices.ContainsFunc(before, func(l string) bool { return strings.HasPrefix(l, "TAP version ") })
}

func indent(s string) int {
	return len(s) - len(strings.TrimLeft(s, " \t"))
}

// opening is the kind of part that a line opens or closes in the report of a test run.
type opening uint8

const (
	opensNothing opening = iota
	opensLog             // the output of a test follows
	opensSuite           // the runner's message about a file of tests that it could not load follows
	opensVerdict         // the verdict of go test on a test; the indented lines below belong to it
	opensRun             // a Go test starts or goes on: the lines that follow are its output
	opensNotOK           // a failed test of TAP; the indented lines below belong to it
	closesPart           // the part before the line has ended
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

// openingOf returns the kind of part that a line opens. t is l without white space around it, and not empty. For one
// hit openingOf is called for hundreds of lines. So it tries the regular expressions only on a line that has one of
// their beginnings, or a string in its middle that opens a part. openingByExpressions, in the tests, returns the same
// slowly.
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

// beginnings holds, by first byte, the beginnings of the lines that open or close a part.
var beginnings = [256][]string{
	'_': {"___"}, '[': {"[ RUN ", "[captured"}, '#': {"# "}, 'F': {"FAIL", "Fail"}, 'E': {"ERROR"}, 'f': {"fail"}, 'c': {"console."},
	's': {"stdout", "stderr"}, 'T': {"Test"}, 't': {"test result"}, 'S': {"Snapshots"}, 'o': {"ok  "}, 'A': {"An error"},
	'I': {"ImportError"}, 'R': {"Ran "}, '"': {"\""}, 'n': {"not ok "}, '-': {"---", "- Captured"}, '=': {"==="}, 0xe2: {"●", "✘", "⎯"},
}

// suiteOpener reports whether a line begins a runner's message about a file of tests that it could not load.
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
	line   int64 // the number of the line with the count
}

// summaries returns the expressions of summaries.txt. A line of the file has the name of a test runner, a tab, and an
// expression that matches the line with the runner's count of tests. The groups of the expression are counts of failed
// tests. A match without a count means that no test failed.
var summaries = sync.OnceValue(func() (all []*regexp.Regexp) {
	for line := range strings.Lines(summariesText) {
		_, expr, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		all = append(all, regexp.MustCompile(expr))
	}
	return all
})

//go:embed summaries.txt
var summariesText string

// goFailed matches the line of go test about a package whose tests ran and failed.
var goFailed = pattern.Lazy(`^FAIL\t\S+\t\d[\d.]*s$`)

// counts reports, cheaply, whether a line may be a count of tests.
func counts(l string) bool {
	return strings.ContainsAny(l, "0123456789") && hasAny(l, "ail", "AIL", "ass", " error in ", " errors in ", "Tests")
}

// lastSummary finds the last count of tests. The line number in the result counts within lines, from 1.
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
