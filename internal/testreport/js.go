package testreport

import (
	"strings"

	"github.com/superloop/superloop/internal/pattern"
)

var (
	mochaOpens  = pattern.Lazy(`^  \d+\) \S`)
	vitestOpens = pattern.Lazy(`^ ?FAIL  \S`)
	nodeOpens   = pattern.Lazy(`^\s*✖ \S.*\(\d+(?:\.\d+)?ms\)$`)
	jsError     = pattern.Lazy(`^(?:Uncaught |Caused by: |\[cause\]: |Unhandled \w+: )*\[?(?:[A-Z]\w*(?:\.\w+)*(?:Error|Exception)|Error|ENOENT|E[A-Z]{3,})\b(?: \[\w+\])?:? ?`)
	// asserted matches the words with which JavaScript's assertions fail.
	asserted = pattern.Lazy(`^(?:expect\(|Expected|Received|AssertionError|\[?AssertionError|JestAssertionError|Snapshot |Exceeded timeout|Your test suite must contain|thrown: "Exceeded|Timeout of |Test timed out|expected )|ERR_ASSERTION|^\+ expected - actual|toMatchSnapshot|Number of calls:`)
	// systemError matches the errors that Node.js makes of what the kernel or the network says.
	systemError = pattern.Lazy(`\b(?:connect|getaddrinfo|spawn|listen|read|write|bind) E[A-Z_]{4,}|\bE[A-Z]{4,}: |\bfetch failed`)
	codeFrame   = pattern.Lazy(`^\s*>?\s*\d+ ?[|│]`)
	thrownBy    = pattern.Lazy(`^\s*> ?\s*\d+ ?[|│].*(?:\bthrow\b|\bnew \w*Error\(|mockRejected|mockImplementation|Promise\.reject\()`)
	summaryJS   = pattern.Lazy(`^(?:Test Suites: |Tests: |Snapshots: |Ran all test suites|PASS |FAIL )|^ (?:Test Files|     Tests) `)
)

var jest = format{
	runner: "jest",
	opens: func(l []string, i int) bool {
		t := strings.TrimLeft(l[i], " ")
		return strings.HasPrefix(t, "● ") && !prefixAny(t, "● Console", "● Validation", "● Unrecognized CLI", "● Deprecation", "● Multiple configurations") && indent(l[i]) <= 4
	},
	closes: func(l []string, _, i int) bool {
		return summaryJS().MatchString(l[i]) || strings.HasPrefix(strings.TrimSpace(l[i]), "● Console")
	},
	read: func(f *Failure, lines []string) { readJS(f, lines[1:], 1) },
}

var vitest = format{
	runner: "vitest",
	opens: func(l []string, i int) bool {
		return (l[i][0] == ' ' || l[i][0] == 'F') && vitestOpens().MatchString(l[i])
	},
	closes: func(l []string, first, i int) bool {
		return strings.HasPrefix(l[i], "⎯⎯⎯") || summaryJS().MatchString(l[i])
	},
	read: func(f *Failure, lines []string) { readJS(f, lines[1:], 1) },
}

var unhandledOpens = pattern.Lazy(`^⎯+ Unhandled (?:Rejection|Exception|Error) ⎯+$`)

// unhandled is an exception that vitest caught outside of every test.
var unhandled = format{
	runner: "vitest",
	opens: func(l []string, i int) bool {
		return strings.Contains(l[i], " Unhandled ") && unhandledOpens().MatchString(l[i])
	},
	closes: func(l []string, _, i int) bool {
		return strings.HasPrefix(l[i], "⎯⎯⎯") || strings.HasPrefix(l[i], "This error originated in ")
	},
	read: func(f *Failure, lines []string) { readJS(f, lines[1:], 1) },
}

var mocha = format{
	runner: "mocha",
	opens: func(l []string, i int) bool {
		if !mochaOpens().MatchString(l[i]) || strings.Contains(l[i], ") Failure:") || strings.Contains(l[i], ") Error:") {
			return false
		}
		for k := i + 1; k < min(len(l), i+6); k++ { // the names of the test, the last with a colon
			if t := strings.TrimSpace(l[k]); t == "" || strings.HasPrefix(t, "Failure/Error:") {
				return false
			}
			if strings.HasSuffix(l[k], ":") || strings.HasSuffix(l[i], ":") {
				return true
			}
		}
		return false
	},
	closes: func(_ []string, _, _ int) bool { return false },
	read: func(f *Failure, lines []string) {
		at := 0
		for at < len(lines)-1 && at < 6 && !strings.HasSuffix(lines[at], ":") {
			at++
		}
		readJS(f, lines[at+1:], at+1)
	},
}

var playwrightOpens = pattern.Lazy(`^  \d+\) (?:\[[^\]]+\] › )?\S+\.\w+:\d+:\d+ › \S`)

// playwright is the list of failures of Playwright's test runner. It writes "Error: " before the message of a check, too.
var playwright = format{
	runner: "playwright",
	opens:  func(l []string, i int) bool { return playwrightOpens().MatchString(l[i]) },
	closes: func(l []string, _, i int) bool { return playwrightCounts().MatchString(l[i]) },
	read: func(f *Failure, lines []string) {
		for i, l := range lines[1:] {
			t := strings.TrimSpace(l)
			if strings.HasPrefix(t, "Test timeout of ") || strings.Contains(t, "expect(") && jsError().MatchString(t) {
				f.Asserted = true
			}
			if t != "" && !prefixAny(t, "attachment #", "Retry #", "Error Context: ") && len(f.Says) == 0 {
				f.say(i+1, t)
			}
		}
	},
}

var playwrightCounts = pattern.Lazy(`^  \d+ (?:failed|flaky|passed|skipped|did not run|interrupted)\b`)

var nodeSpec = format{
	runner: "node:test",
	opens: func(l []string, i int) bool {
		return nodeOpens().MatchString(l[i]) && i+1 < len(l) && indent(l[i+1]) > indent(l[i]) && !nodeOpens().MatchString(l[i+1])
	},
	closes: func(l []string, first, i int) bool {
		return strings.TrimSpace(l[i]) != "" && indent(l[i]) <= indent(l[first]) && !strings.HasPrefix(l[i], "}")
	},
	read: func(f *Failure, lines []string) { readJS(f, lines[1:], 1) },
}

// readJS reads the message of an exception of JavaScript: the lines before the code frame and the stack. Runners that
// print no name of the exception print its message first.
func readJS(f *Failure, lines []string, offset int) {
	said, first := false, ""
	for i, l := range lines {
		t := strings.TrimSpace(l)
		switch {
		case t == "":
		case thrownBy().MatchString(l) && !hasAny(l, "process.env", "existsSync"):
			f.Asserted = f.Asserted || !envSaid(f.Says) && thrownInTest(lines[i:])
		case codeFrame().MatchString(l), strings.HasPrefix(t, "|"), prefixAny(t, "❯ ", "at "):
		case hasAny(t, "Rejected to value:", "Received promise rejected"):
			if _, value, ok := strings.Cut(t, "Rejected to value: "); ok {
				if value = strings.Trim(value, "[]"); !systemError().MatchString(value) {
					f.Asserted = true // a check that got another failure than it expected
					break
				}
				f.Asserted, f.Says = false, nil
				f.say(i+offset, value)
			}
		case asserted().MatchString(t):
			if f.Asserted = f.Asserted || !said || !strings.HasPrefix(t, "Received"); envSaid(f.Says) && !strings.HasPrefix(t, "AssertionError") {
				f.Asserted = false
			}
			said = true
		case jsError().MatchString(t), !said, prefixAny(t, "code: '", "cause: ", "[cause]: ", "syscall: '"):
			if !f.Asserted {
				f.say(i+offset, strings.TrimPrefix(strings.TrimPrefix(t, "Caused by: "), "[cause]: "))
			}
			said = true
		case len(f.Says) > 0 && strings.HasPrefix(f.Says[0].Text, "Error: Command failed: ") || strings.HasPrefix(first, "Command failed: "):
			f.say(i+offset, t) // what the command itself printed
		}
		if first == "" {
			first = t
		}
	}
}

var placeJS = pattern.Lazy(`(?:^\s*at |❯ ).*?([\w@./-]+):\d+:\d+\)?$`)

// thrownInTest reports whether the frame after an excerpt of the code is in a file of tests, or unknown.
func thrownInTest(lines []string) bool {
	for _, l := range lines {
		if m := placeJS().FindStringSubmatch(l); m != nil {
			return testFile().MatchString(m[1])
		}
	}
	return true
}

// envSaid reports whether a statement is about a variable of the environment or a missing program.
func envSaid(says []Statement) bool {
	for _, s := range says {
		if envStatement(s.Text) {
			return true
		}
	}
	return false
}

var (
	tapOpens = pattern.Lazy(`^\s*not ok \d+`)
	tapCode  = pattern.Lazy(`^\s*(?:operator: '?(?:equal|notEqual|deepEqual|deepLooseEqual|notDeepEqual|ok|notOk|strictEqual|deepStrictEqual|match|throws|doesNotThrow|fail|is|same|not|has)\b|code: '?ERR_ASSERTION|name: '?AssertionError|failureType: 'subtestsFailed'|found: |wanted: )`)
)

// batsCommand matches the line of bats about a command that failed, and that is no check.
var (
	batsCommand = pattern.Lazy("^#   `[a-z][\\w./-]* .*' failed(?: with status \\d+)?$")
	batsFails   = pattern.Lazy("^#   `\\[+ \"?\\$\\{?status\\}?\"? (?:(?:-eq|==?) \"?[1-9]|(?:-ne|!=) \"?0)") // it expects that what it ran fails
	batsChecks  = pattern.Lazy("^#   `(?:assert|refute|run|test|grep|diff|cmp|false|return|fail)")
)

// tap is the Test Anything Protocol: node:test, tape, bats, ava and others.
var tap = format{
	runner: "tap",
	opens:  func(l []string, i int) bool { return strings.Contains(l[i], "not ok ") && tapOpens().MatchString(l[i]) },
	closes: func(l []string, first, i int) bool {
		t := strings.TrimSpace(l[i])
		return t == "..." && indent(l[i]) <= indent(l[first])+4 || prefixAny(t, "ok ", "1..", "# tests ", "# Subtest") ||
			i == first+1 && t != "---" && !strings.HasPrefix(t, "#")
	},
	read: func(f *Failure, lines []string) {
		var stack, failed bool
		if envStatement(lines[0]) || strings.Contains(lines[0], " or newer") || strings.Contains(lines[0], " or later") {
			f.say(0, strings.TrimLeft(strings.TrimSpace(lines[0])[7:], "0123456789 -"))
		}
		for i, l := range lines[1:] {
			t := strings.TrimSpace(l)
			if tapCode().MatchString(l) {
				f.Asserted = true
			}
			failed = failed || batsCommand().MatchString(t) && !batsChecks().MatchString(t)
			switch key, value, ok := strings.Cut(t, ": "); {
			case failed && strings.HasPrefix(t, "# "): // what the command printed
				f.say(i+1, t[2:])
			case ok && key == "stack":
				stack = true
			case ok && (key == "error" || key == "message" || key == "code" || key == "name") && !prefixAny(value, "|", ">", "'ERR_TEST_FAILURE'", "'test failed'"):
				f.say(i+1, unquoted(value))
			case !stack && !ok && i > 0 && hasAny(lines[i], "error: |", "message: |", "error: >"), jsError().MatchString(t):
				f.say(i+1, t)
			case strings.HasPrefix(t, "#   `") && (strings.Contains(t, "$output") || batsFails().MatchString(t)): // bats
				f.Asserted = true
			case strings.HasPrefix(t, "#   ") && !strings.Contains(t, "(in test file ") && !strings.HasPrefix(t, "#   `"):
				f.say(i+1, t[1:])
			}
		}
	},
}

// unquoted removes the quotation marks of a value of YAML. A value may begin or end with other marks of its own.
func unquoted(v string) string {
	if n := len(v); n > 1 && v[0] == v[n-1] && (v[0] == '\'' || v[0] == '"') {
		return strings.ReplaceAll(v[1:n-1], strings.Repeat(v[:1], 2), v[:1])
	}
	return v
}

var nodePlace = pattern.Lazy(`^# \S+:\d+$`)

// nodeLoad is a file of tests that node:test could not load: the exception stands in comments before its result.
var nodeLoad = format{
	runner: "node:test",
	opens: func(l []string, i int) bool {
		return l[i][0] == '#' && nodePlace().MatchString(l[i]) && has(l[i:], 60, "# Node.js v")
	},
	closes: func(l []string, _, i int) bool {
		return !strings.HasPrefix(l[i], "#") || strings.HasPrefix(l[i], "# Subtest")
	},
	read: func(f *Failure, lines []string) {
		for i, l := range lines {
			if t := strings.TrimPrefix(l, "# "); jsError().MatchString(t) || prefixAny(t, "  code: '", "  [cause]: ") {
				f.Asserted = f.Asserted || asserted().MatchString(t)
				f.say(i, t)
			}
		}
	},
}

var (
	jasmineOpens  = pattern.Lazy(`^\d+\) \S`)
	jasmineChecks = pattern.Lazy(`\bExpected .* to (?:be|equal|have|contain|match|throw|call)`)
	denoOpens     = pattern.Lazy(`^\S.* => \S+:\d+:\d+$`)
)

var jasmine = format{
	runner: "jasmine",
	opens: func(l []string, i int) bool {
		return jasmineOpens().MatchString(l[i]) && i+1 < len(l) && l[i+1] == "  Message:"
	},
	closes: func(l []string, _, i int) bool { return l[i] != "" && indent(l[i]) == 0 },
	read: func(f *Failure, lines []string) {
		checks := false
		for _, l := range lines {
			checks = checks || jasmineChecks().MatchString(l)
		}
		readJS(f, lines[2:], 2)
		f.Asserted = f.Asserted || checks
	},
}

var (
	avaPlace  = pattern.Lazy(`^  \S+\.\w+:\d+$`)
	avaChecks = pattern.Lazy(`^  (?:Value (?:is|must)|Difference|Values |Function (?:did|must)|Did not match|Expected |Promise |Test (?:was|finished|did)|Assertion )`)
	avaSays   = pattern.Lazy(`^\s+(?:message|code|shortMessage|originalMessage): '(.*)',$`)
)

// ava is the part of AVA's report that tells why a test failed, below its name and its place.
var ava = format{
	runner: "ava",
	opens: func(l []string, i int) bool {
		return l[i] == "  ─" && i+4 < len(l) && l[i+1] == "" && l[i+3] == "" && (avaPlace().MatchString(l[i+4]) || strings.HasSuffix(l[i+4], ":"))
	},
	closes: func(l []string, _, i int) bool { return l[i] == "  ─" },
	read: func(f *Failure, lines []string) {
		for i, l := range lines[4:] {
			f.Asserted = f.Asserted || avaChecks().MatchString(l)
			if m := avaSays().FindStringSubmatch(l); m != nil {
				f.say(i+4, strings.ReplaceAll(m[1], `\'`, "'"))
			}
		}
	},
}

var uvu = format{
	runner: "uvu",
	opens:  func(l []string, i int) bool { return strings.HasPrefix(l[i], `   FAIL  "`) },
	closes: func(l []string, _, i int) bool { return strings.HasPrefix(l[i], "  Total: ") },
	read:   func(f *Failure, lines []string) { readJS(f, lines[1:], 1) },
}

// deno is deno test. A plain Error whose trace stands in the file of tests alone is a check that the test made itself.
var deno = format{
	runner: "deno test",
	opens: func(l []string, i int) bool {
		return strings.Contains(l[i], " => ") && i+1 < len(l) && strings.HasPrefix(l[i+1], "error: ") && denoOpens().MatchString(l[i])
	},
	closes: func(l []string, _, i int) bool { return prefixAny(l[i], " FAILURES", "FAILED |") },
	read: func(f *Failure, lines []string) {
		text := strings.TrimPrefix(lines[1], "error: ")
		own, other := false, false
		for _, l := range lines[2:] {
			if t := strings.TrimSpace(l); strings.HasPrefix(t, "at ") {
				file, _, _ := strings.Cut(t[strings.LastIndexAny(t, " (")+1:], ":")
				if _, rest, ok := strings.Cut(t, "file://"); ok {
					file, _, _ = strings.Cut(rest, ":")
				}
				own = own || testFile().MatchString(file)
				other = other || !testFile().MatchString(file)
			}
		}
		f.Asserted = strings.HasPrefix(text, "AssertionError") || strings.HasPrefix(text, "Error: ") && own && !other && !envStatement(text)
		f.say(1, text)
	},
}

var (
	bunOpens = pattern.Lazy(`^(?:error: \S|\w*(?:Error|Exception): \S)`)
	bunCheck = pattern.Lazy(`^(?:expect\(|AssertionError|Expected )`)
)

// bun is bun test. The line "(fail) name" stands behind the error.
var bun = format{
	runner: "bun test",
	opens: func(l []string, i int) bool {
		if !bunOpens().MatchString(l[i]) {
			return false
		}
		for _, next := range l[i+1 : min(len(l), i+1+maxTraceJS)] {
			if prefixAny(next, "(fail) ", "(pass) ") {
				return strings.HasPrefix(next, "(fail) ")
			}
		}
		return false
	},
	closes: func(l []string, _, i int) bool { return strings.HasPrefix(l[i], "(fail) ") },
	read: func(f *Failure, lines []string) {
		text := strings.TrimPrefix(lines[0], "error: ")
		f.Asserted = bunCheck().MatchString(text)
		f.say(0, text)
	},
}

const maxTraceJS = 60 // lines between an error and the name of its test
