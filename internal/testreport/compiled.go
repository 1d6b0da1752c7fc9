package testreport

import (
	"regexp"
	"strings"
	"sync"

	"github.com/superloop/superloop/internal/pattern"
)

var (
	goFails   = pattern.Lazy(`^\s*--- FAIL: `)
	goAny     = pattern.Lazy(`^\s+[\w/-]+\.go:\d+: ?(.*)$`)
	goCompare = pattern.Lazy(`(?i)\bwant(?:ed|s)?\b|\bexpect(?:ed|s|ing)?\b|\bgot\b|\bmismatch|\bshould (?:be|have|return)|\bdiff\b|unexpected value|Not equal|!=|\) (?:does not|did not|is not|should) `)
	// goSystem matches the errors that Go's own packages make of what the kernel says: an operation, its object, the error.
	goSystem = pattern.Lazy(`\b(?:open|write|read|mkdir|stat|lstat|unlink|unlinkat|rename|remove|chmod|chdir|close|sync|truncate|fork/exec|symlink|link|readlink|fsync|fdatasync|mkdirtemp|createtemp|flock|mmap) (?:[^\s:]*[/|][^\s:]*|"[^"]+"): |\b(?:dial|listen|read|write|accept) (?:tcp|udp|unix)[46]? |\blookup \S+(?: on \S+)?: |\b(?:Get|Post|Head|Put) "[^"]+": |exec: "|executable file not found|\bunknown time zone |\bpq: |\bx509: |\bsql: unknown driver`)
	// goClient matches the errors that well-known clients make of what a server answers or does not answer.
	goClient = pattern.Lazy(`\bError \d{4} \(\w{5}\): |\bError \d{4}: |\bSQLSTATE \w{5}\b|\b(?:NOAUTH|WRONGPASS|LOADING|READONLY|MISCONF) \w|\brpc error: code = (?:Unavailable|DeadlineExceeded|Unauthenticated|ResourceExhausted) |\boperation error \w+: |\bunexpected status (?:code )?(?:40[13]|407|429|50[0234])\b|\bcontext deadline exceeded\b|\bserver selection error: |\btls: [a-z]|\bhttp: server gave HTTP response\b|\bCannot connect to the Docker daemon\b|\bDocker not found\b|\bdatabase is locked \(|\b(?:redis|kafka|mongo|amqp|nats|minio): [a-z]`)
	// goNoError matches the words with which a test says that it wants no error: what follows them is the error.
	goNoError = pattern.Lazy(`(?i),? *\b(?:want(?:ed)? (?:nil|no error|<nil>)|unexpected err(?:or)?|expected (?:nil|no error)|got (?:unexpected )?err(?:or)?|should not fail)\b:?`)
	// goWrapped matches a message that says what the test did, and after a colon the error that it got.
	goWrapped = pattern.Lazy(`^(?:failed to|could not|couldn't|cannot|can't|unable to|[a-z]+ing) [^:"'%=]*: \S`)
	goPrints  = pattern.Lazy(`(?i)\b(?:environment variable|env(?:ironment)? var)\b|\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b.*\b(?:not set|unset|must be set|required|missing|empty)|\b(?:is not|not) installed\b`)
)

// goVerbose is a test of go test -v, whose messages stand before its verdict.
var goVerbose = format{
	runner: "go test",
	opens: func(l []string, i int) bool {
		if !strings.HasPrefix(l[i], "=== RUN ") {
			return false
		}
		for k := i + 1; k < min(len(l), i+200); k++ {
			if strings.HasPrefix(l[k], "=== ") || strings.HasPrefix(l[k], "--- ") {
				return strings.HasPrefix(l[k], "--- FAIL: ") && k > i+1
			}
		}
		return false
	},
	closes: func(l []string, _, i int) bool {
		return strings.HasPrefix(l[i], "=== ") || strings.HasPrefix(l[i], "--- ")
	},
	read: func(f *Failure, lines []string) { goTest.read(f, lines) },
}

var goTest = format{
	runner: "go test",
	opens: func(l []string, i int) bool {
		return strings.Contains(l[i], "--- FAIL: ") && goFails().MatchString(l[i])
	},
	closes: func(l []string, first, i int) bool {
		return l[i] != "" && indent(l[i]) <= indent(l[first]) || strings.Contains(l[i], "--- ") && !goFails().MatchString(l[i])
	},
	read: func(f *Failure, lines []string) {
		for i := 1; i < len(lines); i++ {
			if t := strings.TrimSpace(lines[i]); strings.HasPrefix(t, "Error:") && strings.Contains(lines[i-1], "Error Trace:") || strings.HasPrefix(t, "Error:  ") {
				if f.Asserted = f.Asserted || !strings.Contains(t, "Received unexpected error"); !f.Asserted && i+1 < len(lines) {
					f.say(i+1, lines[i+1])
				}
				continue
			}
			m := goAny().FindStringSubmatch(lines[i])
			if m == nil {
				continue
			}
			end := i + 1
			for end < len(lines) && goAny().FindStringSubmatch(lines[end]) == nil && !strings.Contains(lines[end], "Error Trace:") {
				end++
			}
			whole := goNoError().ReplaceAllString(m[1]+"\n"+strings.Join(lines[i+1:end], "\n"), "")
			switch {
			case goCompare().MatchString(whole):
				f.Asserted = true
			case goSystem().MatchString(whole), goClient().MatchString(whole), goPrints().MatchString(whole), goWrapped().MatchString(m[1]):
				f.say(i, m[1])
				for k := i + 1; k < end; k++ {
					f.say(k, lines[k])
				}
			}
		}
		f.Asserted = f.Asserted || len(f.Says) == 0
	},
}

// goPanic is a panic that ended the tests of a package.
var goPanic = format{
	runner: "go test",
	opens: func(l []string, i int) bool {
		return strings.HasPrefix(l[i], "panic: ") && has(l[i+1:], 200, "FAIL\t")
	},
	closes: func(l []string, _, i int) bool { return strings.HasPrefix(l[i], "FAIL\t") },
	read: func(f *Failure, lines []string) {
		text := strings.TrimPrefix(lines[0], "panic: ")
		f.Asserted = !goSystem().MatchString(text) && !goPrints().MatchString(text) || goCompare().MatchString(text)
		f.say(0, text)
	},
}

var (
	rustOpens  = pattern.Lazy(`^---- \S.* stdout ----$`)
	rustValue  = pattern.Lazy(`: (?:-?\d+|\(\)|true|false|Some\(.*\)|None)$`) // expect_err got a value; an error is never one of these
	rustPanics = pattern.Lazy(`^thread '.*' (?:\(\d+\) )?panicked at (?:'(.*)', )?\S+:\d+:\d+:?$`)
)

var cargo = format{
	runner: "cargo test",
	opens:  func(l []string, i int) bool { return l[i][0] == '-' && rustOpens().MatchString(l[i]) },
	closes: func(l []string, _, i int) bool { return prefixAny(l[i], "failures:", "test result:") },
	read: func(f *Failure, lines []string) {
		for i, l := range lines[1:] {
			if m := rustPanics().FindStringSubmatch(l); m != nil {
				text, at := m[1], i+1
				if text == "" && i+2 < len(lines) {
					text, at = lines[i+2], i+2
				}
				f.Asserted = strings.HasPrefix(text, "assertion ") || strings.Contains(text, "not yet implemented") || rustValue().MatchString(text)
				f.say(at, text)
			} else if strings.HasPrefix(l, "Error: ") {
				f.say(i+1, l)
			}
		}
	},
}

var (
	javaError  = pattern.Lazy(`^\s*(?:=> |Caused by: |\[ERROR\] )*((?:[a-z_]\w*\.)+[A-Z][\w$]*(?:Error|Exception|Failure|Failed\w*)\b.*)$`)
	javaAssert = pattern.Lazy(`AssertionFailedError|AssertionError|ComparisonFailure|MultipleFailuresError|WantedButNotInvoked|VerificationInOrderFailure`)
	junitFour  = pattern.Lazy(`^\d+\) \w+\([\w.$]+\)$`)
	junitFive  = pattern.Lazy(`^  JUnit \w+:\S`)
)

// junit is what surefire, JUnit's console and Gradle print.
var junit = format{
	runner: "junit",
	opens: func(l []string, i int) bool {
		return hasAny(l[i], "<<< FAILURE!", "<<< ERROR!") && !strings.Contains(l[i], "Tests run:") || junitFour().MatchString(l[i]) || junitFive().MatchString(l[i])
	},
	closes: func(l []string, _, i int) bool {
		return l[i] == "" && (i+1 >= len(l) || !strings.HasPrefix(strings.TrimSpace(l[i+1]), "Caused by:")) || prefixAny(l[i], "[INFO]", "Tests run:", "[ERROR] Tests run:", "Test run finished")
	},
	read: func(f *Failure, lines []string) {
		for i, l := range lines {
			if m := javaError().FindStringSubmatch(l); m != nil {
				f.Asserted = f.Asserted || len(f.Says) == 0 && javaAssert().MatchString(m[1])
				f.say(i, m[1])
			}
		}
	},
}

var netOpens = pattern.Lazy(`^\s+(?:Failed|X) \S.*\[(?:< )?[\d., ]+ m?s\]$`)

var dotnet = format{
	runner: "dotnet test",
	opens:  func(l []string, i int) bool { return l[i][0] == ' ' && netOpens().MatchString(l[i]) },
	closes: func(l []string, _, i int) bool { return prefixAny(l[i], "Failed!", "Test Run Failed", "Total tests:") },
	read: func(f *Failure, lines []string) {
		message := false
		for i, l := range lines[1:] {
			t := strings.TrimSpace(l)
			switch {
			case t == "Error Message:":
				message = true
			case t == "Stack Trace:", strings.HasPrefix(t, "Standard Output"):
				message = false
			case message:
				f.Asserted = f.Asserted || prefixAny(t, "Assert.", "Expected", "Shouldly")
				f.say(i+1, strings.TrimLeft(t, "- "))
			}
		}
	},
}

// strerror matches a line that ends with what the C library says of an error.
var strerror = pattern.Lazy(`(?:^|: )(?:Connection (?:refused|timed out|reset by peer)|No such file or directory|Permission denied|No space left on device|Address already in use|Network is unreachable|No route to host|Read-only file system|Cannot allocate memory|Too many open files|Operation not permitted|Name or service not known)\.?$`)

var gtest = format{
	runner: "googletest",
	opens:  func(l []string, i int) bool { return strings.HasPrefix(l[i], "[ RUN      ] ") },
	closes: func(l []string, _, i int) bool {
		return prefixAny(l[i], "[  FAILED  ]", "[       OK ]", "[  SKIPPED ]", "[----------]")
	},
	read: func(f *Failure, lines []string) {
		failed, errs := false, []int(nil)
		for i, l := range lines[1:] {
			t := strings.TrimSpace(l)
			if strings.HasPrefix(t, "C++ exception with description ") {
				f.say(i+1, strings.TrimPrefix(t, "C++ exception with description "))
			}
			f.Asserted = f.Asserted || strings.HasSuffix(t, ": Failure")
			failed = failed || t == "Which is: -1" || t == "Which is: NULL" || t == "Actual: false"
			if strerror().MatchString(t) {
				errs = append(errs, i+1)
			}
		}
		for _, i := range errs {
			if failed { // a call of the system failed, and the test says why
				f.say(i, lines[i])
			}
		}
		if len(f.Says) > 0 {
			f.Asserted = false
		}
	},
}

var gradleOpens = pattern.Lazy(`^\S.* > \S.* FAILED$`)

// gradle is what Gradle prints about a test while it runs.
var gradle = format{
	runner: "gradle",
	opens: func(l []string, i int) bool {
		return strings.HasSuffix(l[i], " FAILED") && gradleOpens().MatchString(l[i])
	},
	closes: func(l []string, _, i int) bool { return strings.TrimSpace(l[i]) == "" || l[i][0] != ' ' },
	read:   junit.read,
}

// formats holds the formats in the order in which they are tried.
var formats = sync.OnceValue(func() []format {
	return []format{exunit, busted, tcltest, eunit, nim, mesonTest, pytest, pytestLine, unittest, jest, vitest, unhandled, nodeSpec, tap, goVerbose, goTest, goPanic, jasmine, ava, uvu, deno, bun, cargo, junit, gradle, minitest, rspec, phpunit, mocha, playwright, dotnet, gtest, testdox, ctest, nodeLoad}
})

var (
	rspecOpens = pattern.Lazy(`^  \d+\) \S`)
	miniOpens  = pattern.Lazy(`^\s*\d+\) (?:Error|Failure):$`)
	phpPlace   = pattern.Lazy(`^/\S+\.php:\d+$`)
	unitPHP    = pattern.Lazy(`^\d+\) [\w\\]+::\w+`)
	rubyPlace  = pattern.Lazy(`^\s*# `)
	rubyError  = pattern.Lazy(`^\s*((?:[A-Z]\w*::)*[A-Z]\w*):(?: (.*))?$`)
)

var rspec = format{
	runner: "rspec",
	opens: func(l []string, i int) bool {
		return strings.HasPrefix(l[i], "An error occurred ") && strings.Contains(l[i], "while loading") ||
			rspecOpens().MatchString(l[i]) && has(l[i+1:], 8, "Failure/Error:")
	},
	closes: func(l []string, _, i int) bool {
		return prefixAny(l[i], "Finished in ", "Failed examples:", "No examples found")
	},
	read: func(f *Failure, lines []string) {
		readRuby(f, lines, regexp.MustCompile(`^\s*(?:expected|Expected|got:|\(compared)`))
	},
}

var minitest = format{
	runner: "minitest",
	opens:  func(l []string, i int) bool { return strings.Contains(l[i], ") ") && miniOpens().MatchString(l[i]) },
	closes: func(l []string, _, i int) bool { return l[i] == "" },
	read: func(f *Failure, lines []string) {
		f.Asserted = strings.HasSuffix(lines[0], "Failure:")
		if len(lines) > 2 {
			f.say(2, lines[2])
		}
	},
}

// readRuby reads an exception of Ruby: its class and a colon, and the message in the next lines.
func readRuby(f *Failure, lines []string, asserts *regexp.Regexp) {
	for i, l := range lines {
		m := rubyError().FindStringSubmatch(l)
		if _, code, ok := strings.Cut(l, "Failure/Error: "); ok && strings.Contains(code, "raise") && !hasAny(code, "ENV", "stderr", "#{", "success?") {
			f.Asserted = true // the code of the test, or a double, threw it, and nothing was put into its message
		}
		switch {
		case rubyPlace().MatchString(l):
			return
		case asserts.MatchString(l):
			f.Asserted = f.Asserted || len(f.Says) == 0
		case m != nil && m[2] == "" && i+1 < len(lines):
			f.say(i+1, m[1]+": "+strings.TrimSpace(lines[i+1]))
			for k := i + 2; k < len(lines) && strings.TrimSpace(lines[k]) != "" && !rubyPlace().MatchString(lines[k]); k++ {
				f.say(k, lines[k])
			}
		case m != nil && m[1] != "Failure":
			f.say(i, l)
		}
	}
}

var phpunit = format{
	runner: "phpunit",
	opens:  func(l []string, i int) bool { return unitPHP().MatchString(l[i]) },
	closes: func(l []string, first, i int) bool {
		return l[i] == "" && i > first+1 && (i+1 >= len(l) || !phpPlace().MatchString(l[i+1]))
	},
	read: func(f *Failure, lines []string) {
		for i, l := range lines[1:] {
			if phpPlace().MatchString(l) {
				continue
			}
			f.Asserted = f.Asserted || prefixAny(l, "Failed asserting", "Expectation failed", "--- Expected")
			f.say(i+1, l)
		}
	},
}

var testdoxOpens = pattern.Lazy(`^ ✘ \S`)

// testdox is the other report of phpunit.
var testdox = format{
	runner: "phpunit",
	opens: func(l []string, i int) bool {
		return testdoxOpens().MatchString(l[i]) && i+1 < len(l) && strings.HasPrefix(l[i+1], "   │")
	},
	closes: func(l []string, _, i int) bool { return !strings.HasPrefix(l[i], "   │") },
	read: func(f *Failure, lines []string) {
		for i, l := range lines[1:] {
			t := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(l), "│"))
			f.Asserted = f.Asserted || prefixAny(t, "Failed asserting", "Expectation failed")
			f.say(i+1, t)
		}
	},
}

var (
	ctestOpens  = pattern.Lazy(`^\s*\d+/\d+ Test +#\d+: .*\*\*\*(?:Failed|Exception|Not Run)`)
	ctestCloses = pattern.Lazy(`^\s*Start +\d+: |^\s*\d+/\d+ Test +#|^\d+% tests passed`)
	cAsserts    = pattern.Lazy(`(?i)\bassert|\bexpected\b|\bFAIL|: Failure$|\bgot\b|\bwant\b|mismatch|!=`)
)

// ctest with --output-on-failure shows what the program of a test printed.
var ctest = format{
	runner: "ctest",
	opens:  func(l []string, i int) bool { return strings.Contains(l[i], "***") && ctestOpens().MatchString(l[i]) },
	closes: func(l []string, _, i int) bool { return ctestCloses().MatchString(l[i]) },
	read: func(f *Failure, lines []string) {
		for i, l := range lines[1:] {
			f.Asserted = f.Asserted || cAsserts().MatchString(l)
			f.say(i+1, l)
		}
	},
}

// has reports whether one of the next most lines contains a text.
func has(lines []string, most int, text string) bool {
	for _, l := range lines[:min(len(lines), most)] {
		if strings.Contains(l, text) {
			return true
		}
	}
	return false
}
