// Package testreport finds the failures in what test runners print: pytest, unittest, node:test and other TAP, jest,
// vitest, mocha, go test, cargo test, JUnit, surefire and Gradle, rspec, minitest, phpunit, dotnet test, GoogleTest, ctest,
// jasmine, AVA, uvu, Playwright, deno test, bun test, ExUnit, EUnit, busted, tcltest, meson test, the unittest of Nim.
//
// A report quotes much that is no event: source lines, expected values, the logs of tests. What ended a test is one
// statement: an assertion, or the exception that nobody caught, with its causes. Parse tells the two apart.
package testreport

import (
	"slices"
	"strings"
)

// Failure is one test that failed, or one file of tests that could not be loaded.
type Failure struct {
	Runner      string // the format of the report, such as "pytest"
	First, Last int    // the lines of the report that are about the failure, as indices
	// Asserted says that a check of the test failed, or that the test itself threw the exception. Only a change of the
	// code helps.
	Asserted bool
	// Says holds the exception and its causes, the outermost first, without what the runner writes around them. It is
	// empty if Asserted.
	Says []Statement
}

// Statement is one line of what ended a test.
type Statement struct {
	Line int // index of the line
	Text string
}

// maxFailures bounds how many failures Parse returns. maxBlock bounds the lines of one failure.
const (
	maxFailures = 200
	maxBlock    = 2000
	maxSays     = 12
)

// format finds failures of one kind of report.
type format struct {
	runner string
	// opens reports whether a line begins the report of a failure.
	opens func(lines []string, i int) bool
	// closes reports whether line i ends the report that began at line first. A line that opens a report ends the one
	// before, too.
	closes func(lines []string, first, i int) bool
	// read fills in what the lines say.
	read func(f *Failure, lines []string)
}

// Parse returns the failures that the lines of an output report, in their order. The lines have no line ends and no
// control sequences.
func Parse(lines []string) []Failure {
	var out []Failure
	for i := 0; i < len(lines) && len(out) < maxFailures; i++ {
		if !mayOpen(lines[i]) {
			continue
		}
		for _, f := range formats() {
			if !f.opens(lines, i) {
				continue
			}
			end := i + 1
			for end < len(lines) && end-i < maxBlock && !f.closes(lines, i, end) && (!mayOpen(lines[end]) || !f.opens(lines, end)) {
				end++
			}
			found := Failure{Runner: f.runner, First: i, Last: end - 1}
			f.read(&found, lines[i:end])
			if found.Asserted {
				found.Says = nil
			}
			if found.Asserted || len(found.Says) > 0 {
				out = append(out, found)
				i = end - 1
			}
			break
		}
	}
	return out
}

// mayOpen reports, cheaply, whether a line may begin the report of a failure: most lines of a long output do not.
func mayOpen(l string) bool {
	t := strings.TrimLeft(l, " \t")
	if t == "" {
		return false
	}
	switch c := t[0]; {
	case strings.Contains(t, ".py:"), strings.HasSuffix(t, " FAILED"): // pytest --tb=line, Gradle
		return true
	case c >= '0' && c <= '9': // a number and a bracket, or a test of ctest
		return strings.Contains(t[:min(len(t), 8)], ") ") || strings.Contains(t, " Test ") || strings.Contains(t, " FAIL ")
	case c == '[':
		return strings.HasPrefix(t, "[ RUN ") || strings.Contains(t, "<<< ")
	case c == '-':
		return strings.HasPrefix(t, "--- FAIL") || strings.HasPrefix(t, "---- ")
	case c == '#':
		return nodePlace().MatchString(t)
	case c == 'U':
		return strings.HasPrefix(t, "Unhandled exception: ")
	case c == 'A' || c == 'E' || c == 'F' || c == 'J' || c == 'X':
		return prefixAny(t, "An error occurred", "ERROR: ", "Error ", "FAIL", "Failed ", "Failure ", "JUnit ", "X ") || strings.Contains(t, "<<< ")
	case c == 'p' && strings.HasPrefix(t, "panic: "):
		return true
	case c == 'n':
		return strings.HasPrefix(t, "not ok ") || strings.Contains(t, "<<< ") || strings.HasSuffix(t, "*failed*")
	case c == '=':
		return strings.HasPrefix(t, "=== RUN ") || strings.HasPrefix(t, "==== ")
	case c == '_':
		return strings.HasPrefix(t, "___")
	case c >= 0x80 && prefixAny(t, "● ", "✖ ", "✘ ", "⎯", "─"):
		return true
	}
	return strings.Contains(t, "rror: ") || strings.Contains(t, " => ") || strings.Contains(t, "<<< ") || strings.HasSuffix(t, "*failed*") || strings.Contains(t, ": Check failed: ")
}

// say adds a statement, without white space around it.
func (f *Failure) say(i int, text string) {
	if text = strings.TrimSpace(text); text == "" || len(f.Says) >= maxSays {
		return
	}
	f.Says = append(f.Says, Statement{Line: f.First + i, Text: text})
}

func hasAny(l string, texts ...string) bool {
	return slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(l, t) })
}

func prefixAny(l string, texts ...string) bool {
	return slices.ContainsFunc(texts, func(t string) bool { return strings.HasPrefix(l, t) })
}

func indent(s string) int { return len(s) - len(strings.TrimLeft(s, " \t")) }
