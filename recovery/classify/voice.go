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

// voice says who wrote a line of the output of a test run. A tool's own words are facts about the environment; what a
// test printed, expected or is called is not.
type voice uint8

const (
	voiceTool   voice = iota // the tool itself, or nothing says otherwise
	voiceSuite               // the runner, about a file of tests that it could not load
	voiceBlock               // inside the report of one failed test: message, difference, source
	voiceLog                 // what a test or the code under test printed
	voiceName                // the status line of a failed test, or what it wanted and what it got
	voicePassed              // the status line of a test that passed
)

// own reports whether the tool itself speaks.
func (v voice) own() bool { return v <= voiceSuite }

var (
	passedLine = pattern.Lazy(`^\s*(?:(?:✓|✔|√|↓|○) |ok \d+|(?:ok|OK|pass|PASS|\[ok\]|\[OK\]|\[PASS\]|\[pass\]) ?[-:] |(?:\[ok\]|\[OK\]|\[PASS\]|\[pass\]|PASS(?:ED)?:?) +\S|--- PASS: |=== (?:RUN|CONT|PAUSE|NAME) |test \S.* \.\.\. (?:ok|ignored)|PASS\s+\S|PASSED\s|\[ +(?:OK|RUN) +\]|# Subtest: )|^\S+::\S+.* (?:PASSED|SKIPPED|XFAIL)\b|^\w+ \(\S+\)(?: \.\.\.|.*) \.\.\. (?:ok|skipped)`)
	failedLine = pattern.Lazy(`^\s*(?:(?:✕|✖|×|✗|✘)\s.*\(?\d+(?:\.\d+)? ?m?s\)?$|not ok \d+|(?:not ok|NOT OK|\[FAIL(?:ED)?\]|KO) ?[-:]? +\S|FAIL(?:ED)?:? +[a-z]\S* \S|--- FAIL: |test \S.* \.\.\. FAILED|\[ +FAILED +\]|FAILED \S+::)|^\S+::\S+.* FAILED\b|^\w+ \(\S+\) \.\.\. (?:FAIL|ERROR)`)
	// ownPrefix is what only a tool that drives the tests writes in front.
	ownPrefix = pattern.Lazy(`^(?:npm (?:ERR!|error)|make(?:\[\d+\])?: |ninja: |go: |fatal: |E: |(?:/bin/|/usr/bin/)?(?:sh|bash|dash|ash): |docker: |Error response from daemon: |collect2: |\s?ERR_PNPM_|\s?ELIFECYCLE)`)

	sourceLine = pattern.Lazy(`^\s*(?:>\s*)?\d+ ?[|│]|^\s+[|│] |^> {3,}\S`)
	goMessage  = pattern.Lazy(`^\s+\S+_test\.go:\d+: `) // what a test said with Error, Fatal or Log
	// hunk is the line that opens a hunk of a unified difference.
	hunk = pattern.Lazy(`^@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@`)
	// compared are the lines in which a check says what it wanted and what it got.
	compared  = pattern.Lazy(`^\s*#?\s*[-+]?\s*(?:got|wanted|want|expected|actual|received)\s*[:=]\s|^#\s+(?:Failed test |Looks like you failed )|^ expected substring: `)
	goPackage = pattern.Lazy(`^(?:ok  |FAIL|---)\t|^FAIL$|^PASS$`)
)

// lookBack bounds how many lines before a hit are searched for what opened the part of the report that it stands in;
// mostly it stands in the last few.
const (
	lookBack  = 250
	lookFirst = 40
)

// speaker says who wrote a line, by the lines before and after it. Not decided: more lines before it could say
// otherwise.
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
	case v == voiceTool && inDiff(before, line), !v.own() && sourceLine().MatchString(line):
		v = voiceName // what a file or the code says there, not what happened
	}
	return v, decided
}

// spoken is the speaker by the line itself, which is final, or by what opened the part of the report.
func spoken(before []string, line string) (v voice, decided, final bool) {
	switch {
	case strings.HasPrefix(line, `{"Time":`) && hasAny(line, `"Test":"`) && hasAny(line, `"Action":"output"`):
		return voiceName, true, true // go test -json: what a test printed, quoted
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
	case compared().MatchString(line):
		return voiceName, true, true
	}
	v, decided = opened(before, line)
	return v, decided, false
}

func hasAny(l string, texts ...string) bool {
	return slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(l, t) })
}

// opened walks back to the nearest line that opens or closes a part of a report. Not decided: there is none.
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
				return voiceTool, true // the report of that test has ended
			}
			return voiceBlock, true
		}
		lowest = min(lowest, indent(l))
	}
	return voiceTool, len(before) >= lookBack
}

// goTest reports whether what follows shows that a Go test printed the line.
func goTest(after []string, line string) bool {
	if strings.HasPrefix(line, "# ") || strings.HasPrefix(line, "FAIL\t") {
		return false
	}
	for _, l := range after {
		switch {
		case isVerdict(l):
			return true
		case strings.HasPrefix(l, "FAIL\t"), strings.HasPrefix(l, "# "), goPackage().MatchString(l):
			return false
		}
	}
	return false
}

// isVerdict reports whether a line is Go's verdict on a test.
func isVerdict(l string) bool { return strings.Contains(l, "--- ") && goVerdict().MatchString(l) }

// wants reports whether the lines after a message of a Go test say what the test got and what it wanted, so that the
// message quotes what was compared.
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

// notLoaded reports whether a comment of a TAP report is what Node.js says of a file of tests whose modules it does not
// find.
func notLoaded(line string, after []string) bool {
	if !hasAny(line, "Cannot find module '", "Cannot find package '") {
		return false
	}
	return slices.ContainsFunc(after[:min(len(after), 30)], func(l string) bool {
		return strings.HasPrefix(l, "# Require stack:") || strings.HasPrefix(l, "#   code: 'MODULE_NOT_FOUND'") || strings.HasPrefix(l, "#   code: 'ERR_MODULE_NOT_FOUND'")
	})
}

// inDiff reports whether a line stands in the hunk of a unified difference, so that it quotes a file.
func inDiff(before []string, line string) bool {
	for i := len(before); i >= 0 && i > len(before)-lookFirst; i-- {
		l := line
		if i < len(before) {
			l = before[i]
		}
		switch {
		case i < len(before) && hunk().MatchString(l):
			return true
		case l == "" || l[0] != ' ' && l[0] != '+' && l[0] != '-' && l[0] != '\\':
			return false
		}
	}
	return false
}

// tap reports whether a comment stands in a TAP report.
func tap(before, after []string) bool {
	return slices.ContainsFunc(after, func(l string) bool {
		t := strings.TrimSpace(l)
		return strings.HasPrefix(t, "ok ") || strings.HasPrefix(t, "not ok ") || strings.HasPrefix(t, "# Subtest: ")
	}) || len(after) > 0 && slices.ContainsFunc(before, func(l string) bool { return strings.HasPrefix(l, "TAP version ") })
}

func indent(s string) int {
	return len(s) - len(strings.TrimLeft(s, " \t"))
}

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
