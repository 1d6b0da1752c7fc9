package testreport

import (
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/pattern"
)

var (
	exOpens    = pattern.Lazy(`^\s+\d+\) (?:test|doctest) .*\([\w.]+\)$`)
	exGotError = pattern.Lazy(`^\s+(left|right):\s+(\{:error, .*\})$`)
	exWantsOK  = pattern.Lazy(`^\s+(?:left|right):\s+(?::ok$|\{:ok, )`)
	exAsserts  = pattern.Lazy(`^\s+(?:Assertion |Expected |Wrong message|match \(=\) failed|\*\* \(ExUnit\.)`)
	bustedOpen = pattern.Lazy(`^(?:Error|Failure) (?:->|→) \S+ @ \d+$`)
	tclOpens   = pattern.Lazy(`^==== \S.* FAILED$`)
	eunitValue = pattern.Lazy(`\{value,\{error,(\w+)\}\}|^\*\*(?:error|throw|exit):(.*)`)
	nimChecks  = pattern.Lazy(`^\s+\S+\.nim\(\d+, \d+\): Check failed: `)
)

// exunit is the test runner of Elixir. As with EUnit, a check that got an error where it expected success tells that error.
var exunit = format{
	runner: "ExUnit",
	opens:  func(l []string, i int) bool { return exOpens().MatchString(l[i]) },
	closes: func(l []string, _, i int) bool { return prefixAny(l[i], "Finished in ", "Randomized with ") },
	read: func(f *Failure, lines []string) {
		expectsOK := slices.ContainsFunc(lines, exWantsOK().MatchString)
		for i, l := range lines[1:] {
			f.Asserted = f.Asserted || exAsserts().MatchString(l)
			if m := exGotError().FindStringSubmatch(l); m != nil && expectsOK {
				f.say(i+1, m[2])
				f.Asserted = false
			}
			if t := strings.TrimSpace(l); strings.HasPrefix(t, "** (") {
				f.say(i+1, t)
			}
		}
	},
}

// busted is a test runner of Lua.
var busted = format{
	runner: "busted",
	opens:  func(l []string, i int) bool { return bustedOpen().MatchString(l[i]) },
	closes: func([]string, int, int) bool { return false },
	read: func(f *Failure, lines []string) {
		f.Asserted = strings.HasPrefix(lines[0], "Failure ")
		if len(lines) > 2 {
			f.say(2, lines[2])
		}
	},
}

// tcltest is the test package of Tcl.
var tcltest = format{
	runner: "tcltest",
	opens: func(l []string, i int) bool {
		return tclOpens().MatchString(l[i]) && has(l[i+1:], 1, "==== Contents of test case")
	},
	closes: func(l []string, first, i int) bool { return i > first && tclOpens().MatchString(l[i]) },
	read: func(f *Failure, lines []string) {
		for i, l := range lines[1:] {
			f.Asserted = f.Asserted || strings.HasPrefix(l, "---- Result was:")
			if text, ok := strings.CutPrefix(l, "---- errorInfo: "); ok {
				f.say(i+1, text)
			}
		}
		f.Asserted = f.Asserted || len(f.Says) == 0
	},
}

// eunit is the test library of Erlang. An assertion that got an error of the system where it expected success tells that
// error.
var eunit = format{
	runner: "EUnit",
	opens:  func(l []string, i int) bool { return strings.HasSuffix(l[i], "*failed*") },
	closes: func(l []string, _, i int) bool { return strings.HasPrefix(strings.TrimSpace(l[i]), "output:<<") },
	read: func(f *Failure, lines []string) {
		expectsOK := has(lines, len(lines), "{expected,ok}") || has(lines, len(lines), "{expected,{ok")
		for i, l := range lines[1:] {
			m := eunitValue().FindStringSubmatch(l)
			switch {
			case m == nil:
			case m[1] != "" && expectsOK:
				f.say(i+1, "{error,"+m[1]+"}")
			case m[2] != "" && !strings.HasPrefix(m[2], "{assert"):
				f.say(i+1, m[2])
			}
		}
		f.Asserted = len(f.Says) == 0
	},
}

// nim is the module unittest of Nim.
var nim = format{
	runner: "unittest of Nim",
	opens: func(l []string, i int) bool {
		return strings.Contains(l[i], "Unhandled exception: ") && has(l[i+1:], 3, "  [FAILED] ") || nimChecks().MatchString(l[i])
	},
	closes: func(l []string, _, i int) bool { return strings.HasPrefix(l[i], "  [FAILED] ") },
	read: func(f *Failure, lines []string) {
		_, text, thrown := strings.Cut(lines[0], "Unhandled exception: ")
		f.Asserted = !thrown
		f.say(0, text)
	},
}

// mesonTest is meson test --print-errorlogs, which shows what the program of a test printed.
var mesonTest = format{
	runner: "meson test",
	opens: func(l []string, i int) bool {
		return strings.Contains(l[i], " FAIL ") && has(l[i+1:], 4, "――――")
	},
	closes: func(l []string, first, i int) bool {
		return strings.HasPrefix(l[i], "――――") && !strings.Contains(l[i], " ✀ ")
	},
	read: func(f *Failure, lines []string) {
		for i, l := range lines[1:] {
			if strings.HasPrefix(l, ">>> ") || strings.HasPrefix(l, "――――") || l == "stderr:" || l == "stdout:" {
				continue
			}
			f.Asserted = f.Asserted || cAsserts().MatchString(l)
			f.say(i+1, l)
		}
		f.Asserted = f.Asserted || len(f.Says) == 0
	},
}
