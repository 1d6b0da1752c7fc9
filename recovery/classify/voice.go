package classify

import (
	"strings"
)

// voice says who wrote a line of the output of a test run. A tool's own words
// are facts about the environment; what a test printed, expected or is called
// is not.
type voice uint8

const (
	voiceTool   voice = iota // the tool itself, or nothing says otherwise
	voiceSuite               // the runner, about a file of tests that it could not load
	voiceBlock               // inside the report of one failed test: message, difference, source
	voiceLog                 // what a test or the code under test printed
	voiceName                // the status line of a failed test
	voicePassed              // the status line of a test that passed
)

// own reports whether the tool itself speaks.
func (v voice) own() bool { return v <= voiceSuite }

// innocent reports whether a line cannot be a sign of a failure.
func (v voice) innocent() bool { return v == voiceLog || v == voicePassed }

var (
	passedLine = lazily(`^\s*(?:(?:✓|✔|√|↓|○) |ok \d+|--- PASS: |=== (?:RUN|CONT|PAUSE|NAME) |test \S.* \.\.\. (?:ok|ignored)|PASS\s+\S|PASSED\s|\[ +(?:OK|RUN) +\]|# Subtest: )|^\S+::\S+.* (?:PASSED|SKIPPED|XFAIL)\b|^\w+ \(\S+\)(?: \.\.\.|.*) \.\.\. (?:ok|skipped)`)
	failedLine = lazily(`^\s*(?:(?:✕|✖|×|✗|✘)\s.*\(?\d+(?:\.\d+)? ?m?s\)?$|not ok \d+|--- FAIL: |test \S.* \.\.\. FAILED|\[ +FAILED +\]|FAILED \S+::)|^\S+::\S+.* FAILED\b|^\w+ \(\S+\) \.\.\. (?:FAIL|ERROR)`)
	// ownPrefix is what only a tool that drives the tests writes in front.
	ownPrefix = lazily(`^(?:npm (?:ERR!|error)|make(?:\[\d+\])?: |ninja: |go: |fatal: |E: |(?:/bin/|/usr/bin/)?(?:sh|bash|dash|ash): |docker: |Error response from daemon: |collect2: |\s?ERR_PNPM_|\s?ELIFECYCLE)`)

	suiteOpener = lazily(`^\s*● Test suite failed to run|^\s*FAIL\s+\S.* \[ .* \]$|^_{3,} ERROR collecting |^ERROR collecting |Failed Suites \d+|An error occurred while loading |\(unittest\.loader\._FailedTest|^ImportError while |^\S.*"before (?:all|each)" hook|"(?:before|after) (?:all|each)" hook|^_{3,} ERROR at (?:setup|teardown) of |^\s*● Validation |\[(?:build|setup) failed\]`)
	blockOpener = lazily(`^\s*● \S|^\s*FAIL\s+\S+.* > |^_{3,} \S.* _{3,}$|^---- \S.* stdout ----$|^\s+\d+\) \S|^\d+\) \S+(?:::|#|\.)\S|^(?:FAIL|ERROR): \w+ \(|<<< (?:FAILURE|ERROR)!|^\[ RUN +\]|Failed Tests \d+|^\s*failures?:\s*$|^\s+Failed \S+ \[|Failure/Error:|^=+ FAILURES =+$`)
	logOpener   = lazily(`^\s+console\.(?:log|error|warn|info|debug|trace|dir)\b|^(?:stdout|stderr) \| \S|^-+ ?Captured (?:stdout|stderr|log)(?: call| setup| teardown)? ?-+$|^\[captured |^  (?:stdout|stderr):$`)
	closer      = lazily(`^(?:=+ .*(?:short test summary|warnings summary|\d+ (?:passed|failed|errors?)).*=+|Test Suites: |Tests: |Ran \d+ tests? |test result: |# (?:tests|pass|fail) \d|Snapshots: |FAIL\t|ok  \t)|^\s+(?:Test Files |Tests ) |^\s+\d+ (?:passing|failing)\b|^⎯{10,}|^\s*⎯{10,}\[\d+/\d+\]`)

	sourceLine = lazily(`^\s*(?:>\s*)?\d+ ?[|│]|^\s+[|│] |^> {3,}\S`)
	goVerdict  = lazily(`^\s*--- (?:PASS|FAIL|SKIP): `)
	goMessage  = lazily(`^\s+\S+_test\.go:\d+: `) // what a test said with Error, Fatal or Log
	goPackage  = lazily(`^(?:ok  |FAIL|---)\t|^FAIL$|^PASS$`)
)

// lookBack bounds how many lines before a hit are searched for what opened the
// part of the report that it stands in.
const lookBack = 250

// speaker says who wrote a line, by the lines before and after it.
func speaker(before []string, line string, after []string) voice {
	switch {
	case passedLine().MatchString(line):
		return voicePassed
	case failedLine().MatchString(line):
		return voiceName
	case ownPrefix().MatchString(line):
		return voiceTool
	}
	if suiteOpener().MatchString(line) {
		return voiceSuite
	}
	if goMessage().MatchString(line) {
		return voiceBlock
	}
	v := opened(before, line)
	if v == voiceTool && goTest(after, line) {
		return voiceLog
	}
	if v == voiceTool && strings.HasPrefix(line, "# ") && tap(before, after) {
		return voiceLog
	}
	if v != voiceSuite && v != voiceTool && sourceLine().MatchString(line) {
		return voiceBlock
	}
	return v
}

// opened walks back to the nearest line that opens or closes a part of a
// report.
func opened(before []string, line string) voice {
	blank := 0
	lowest := indent(line)
	for i := len(before) - 1; i >= 0 && len(before)-i <= lookBack; i-- {
		l := before[i]
		t := strings.TrimSpace(l)
		if t == "" {
			blank++
			continue
		}
		if !structural(l, t) {
			lowest = min(lowest, indent(l))
			continue
		}
		switch {
		case logOpener().MatchString(l):
			console := strings.HasPrefix(strings.TrimSpace(l), "console.")
			if console && lowest > indent(l) || strings.Contains(l, " | ") && blank == 0 || !console && !strings.Contains(l, " | ") {
				return voiceLog
			}
		case suiteOpener().MatchString(l):
			return voiceSuite
		case goVerdict().MatchString(l):
			if indent(line) > indent(l) || strings.HasPrefix(line, "panic: ") {
				return voiceBlock
			}
			return voiceTool
		case strings.HasPrefix(l, "=== RUN ") || strings.HasPrefix(l, "=== NAME ") || strings.HasPrefix(l, "=== CONT "):
			return voiceLog
		case strings.HasPrefix(t, "not ok ") && lowest > indent(l):
			return voiceBlock
		case closer().MatchString(l):
			return voiceTool
		case blockOpener().MatchString(l):
			if strings.HasPrefix(t, "● ") && lowest <= indent(l) {
				return voiceTool // the report of that test has ended
			}
			return voiceBlock
		}
		lowest = min(lowest, indent(l))
	}
	return voiceTool
}

// structural reports, cheaply, whether a line may open or close a part of a
// report; t is l without white space around it.
func structural(l, t string) bool {
	if t[0] >= 0x80 {
		return true
	}
	if t[0] >= '0' && t[0] <= '9' {
		return strings.Contains(t, ") ") || strings.Contains(t, "passing") || strings.Contains(t, "failing")
	}
	for _, p := range [...]string{"___", "---", "===", "- Captured", "[ ", "[captured", "FAIL", "ERROR", "Fail", "fail", "console.", "stdout", "stderr", "Test", "test result", "# ", "Snapshots", "ok  ", "not ok", "An error", "ImportError", "Ran ", "\""} {
		if strings.HasPrefix(t, p) {
			return true
		}
	}
	return strings.Contains(l, "<<< ") || strings.Contains(l, "\" hook") || strings.Contains(l, "_FailedTest") || strings.Contains(l, " failed]")
}

// goTest reports whether what follows shows that a Go test printed the line.
func goTest(after []string, line string) bool {
	if strings.HasPrefix(line, "# ") || strings.HasPrefix(line, "FAIL\t") {
		return false
	}
	for _, l := range after {
		switch {
		case goVerdict().MatchString(l):
			return true
		case strings.HasPrefix(l, "FAIL\t"), strings.HasPrefix(l, "# "):
			return false
		case goPackage().MatchString(l):
			return false
		}
	}
	return false
}

// tap reports whether a comment stands in a TAP report.
func tap(before, after []string) bool {
	for _, l := range after {
		t := strings.TrimSpace(l)
		if strings.HasPrefix(t, "ok ") || strings.HasPrefix(t, "not ok ") || strings.HasPrefix(t, "# Subtest: ") {
			return true
		}
	}
	for _, l := range before {
		if strings.HasPrefix(l, "TAP version ") {
			return len(after) > 0
		}
	}
	return false
}

func indent(s string) int {
	for i := 0; i < len(s); i++ {
		if s[i] != ' ' && s[i] != '\t' {
			return i
		}
	}
	return len(s)
}
