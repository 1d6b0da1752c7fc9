package testreport

import (
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/pattern"
)

var (
	pytestOpens = pattern.Lazy(`^_{3,} \S.* _{3,}$`)
	unitOpens   = pattern.Lazy(`^(?:ERROR|FAIL): \w+ \(\S*\)`)
	// pythonError matches the line with which Python ends a traceback.
	pythonError = pattern.Lazy(`^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Warning|Exit|Interrupt|Timeout|Failed|NotFound|Expired|Refused|Denied|Unavailable)?(?::| *$)`)
	testFile    = pattern.Lazy(`(?:^|/)(?:test_\w+|\w+_tests?|tests?|conftest|\w+[._-](?:test|spec))\.\w+$|(?:^|/)(?:tests?|specs?|__tests__)/`)
	pytestIn    = pattern.Lazy(`^(\S+?):\d+: in \S`)
	lineFails   = pattern.Lazy(`^\S+\.py:\d+: (.+)$`)
	pytestAt    = pattern.Lazy(`^(\S+?):\d+: (?:[\w.]+)?$`)
)

var pytest = format{
	runner: "pytest",
	opens:  func(l []string, i int) bool { return l[i][0] == '_' && pytestOpens().MatchString(l[i]) },
	closes: func(l []string, _, i int) bool {
		return strings.HasPrefix(l[i], "=====") || strings.HasPrefix(l[i], "!!!!!")
	},
	read: readPytest,
}

// readPytest reads the lines that begin with "E": each group of them is one exception of a chain, the last one is what
// ended the test. The line before a group that begins with ">" is the one that raised it.
func readPytest(f *Failure, lines []string) {
	raised, last, environ, made := "", "", false, false
	for i, l := range lines {
		switch {
		case prefixAny(l, "----") && strings.Contains(l, "Captured "):
			if hasAny(last, "CalledProcessError", "non-zero exit status") && !made { // the program that failed says why
				for k, l := range lines[i+1:] {
					f.say(i+1+k, l)
				}
			}
			lines = lines[:i]
		case strings.HasPrefix(l, ">"):
			raised = strings.TrimSpace(l[1:])
		case strings.HasPrefix(l, "E  "):
			t := strings.TrimSpace(l[1:])
			first := i == 0 || !strings.HasPrefix(lines[i-1], "E  ")
			if !first && !pythonError().MatchString(t) && len(t) > 0 && indent(l[1:]) > 3 && !hasAny(t, "rror", "refused") {
				continue
			}
			if first {
				last = t
				f.Asserted = prefixAny(t, "assert ", "AssertionError", "Failed: ") && !envStatement(t)
			}
			f.say(i, t)
		default:
			if m := pytestIn().FindStringSubmatch(l); m != nil && i+1 < len(lines) { // --tb=short: the place, then its line
				raised = strings.TrimSpace(lines[i+1])
				made = made || throws(raised) && (testFile().MatchString(m[1]) || strings.HasSuffix(m[1], "unittest/mock.py"))
			}
			environ = environ || hasAny(l, "os.environ[", "os.environ)", "<frozen os>", "/os.py:")
			if m := pytestAt().FindStringSubmatch(l); m != nil && last != "" {
				// The place of the exception: the test itself raised it, or a mock did.
				made = made || throws(raised) && (testFile().MatchString(m[1]) || strings.HasSuffix(m[1], "unittest/mock.py"))
			}
		}
		if len(lines) <= i+1 {
			break
		}
	}
	f.Asserted = f.Asserted || made && !envStatement(last)
	if strings.HasPrefix(last, "KeyError: ") && environ {
		f.Says = []Statement{{Line: f.Says[len(f.Says)-1].Line, Text: "the environment variable " + strings.Trim(last[10:], "'") + " is not set (" + last + ")"}}
	}
}

// envStatement reports whether the message of a failed check says that the environment is not as the test needs it.
func envStatement(t string) bool {
	if hasAny(t, " == ", " != ") {
		return false // a comparison of two texts
	}
	return hasAny(t, "environment variable", "is not set", "not installed", "must be installed", "please install", "Please install", "is not running", "is not reachable")
}

// pytestLine is what pytest --tb=line prints of a failure: one line, with the place of the exception.
var pytestLine = format{
	runner: "pytest",
	opens: func(l []string, i int) bool {
		return (l[i][0] == '/' || strings.Contains(l[i], ".py:")) && lineFails().MatchString(l[i]) && afterHead(l[:i])
	},
	closes: func([]string, int, int) bool { return true },
	read: func(f *Failure, lines []string) {
		text := lineFails().FindStringSubmatch(lines[0])[1]
		f.Asserted = prefixAny(text, "assert ", "AssertionError", "Failed: ") && !envStatement(text)
		f.say(0, text)
	},
}

// afterHead reports whether the lines before a line are such failures below the head of the report.
func afterHead(before []string) bool {
	for _, l := range slices.Backward(before) {
		if strings.HasPrefix(l, "=====") {
			return strings.Contains(l, " FAILURES ") || strings.Contains(l, " ERRORS ")
		}
		if !lineFails().MatchString(l) {
			return false
		}
	}
	return false
}

var unittest = format{
	runner: "unittest",
	opens: func(l []string, i int) bool {
		return (l[i][0] == 'E' || l[i][0] == 'F') && unitOpens().MatchString(l[i])
	},
	closes: func(l []string, _, i int) bool { return strings.HasPrefix(l[i], "=====") || prefixAny(l[i], "Ran ") },
	read: func(f *Failure, lines []string) {
		place, raised, environ := "", "", false
		for i, l := range lines[1:] {
			t := strings.TrimSpace(l)
			switch {
			case strings.HasPrefix(t, `File "`):
				place, _, _ = strings.Cut(t[6:], `"`)
				environ = environ || strings.HasSuffix(place, "/os.py") || strings.Contains(place, "<frozen os>")
			case indent(l) >= 4:
				raised = t
				environ = environ || strings.Contains(t, "os.environ[")
			case l != "" && pythonError().MatchString(l):
				f.Asserted = prefixAny(l, "AssertionError") && !envStatement(l) ||
					throws(raised) && (testFile().MatchString(place) || strings.HasSuffix(place, "unittest/mock.py"))
				if environ && strings.HasPrefix(l, "KeyError: ") {
					l = "the environment variable " + strings.Trim(l[10:], "'") + " is not set (" + l + ")"
				}
				f.say(i+1, l)
			}
		}
		f.Asserted = f.Asserted || strings.HasPrefix(lines[0], "FAIL:") && !envSaid(f.Says)
	},
}

// throws reports whether a line of Python raises an exception of its own, not one that tells what another program said.
func throws(line string) bool {
	return (strings.HasPrefix(line, "raise ") || strings.Contains(line, ": raise ")) && !hasAny(line, ".stderr", ".stdout", ".output")
}
