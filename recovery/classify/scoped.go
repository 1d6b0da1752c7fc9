package classify

import (
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/pattern"
)

// testHead matches the line that begins a test, with its name.
var testHead = pattern.Lazy(`^\s*(?:(?:async )?def (test\w*)|func (Test\w+)\(|(?:it|test|specify|Deno\.test)\s*\(?\s*"([^"]*)"|(?:it|test|specify)\s*\(?\s*'([^']*)'|@test ["']([^"']*)|(?:public )?function (test\w+)|(?:#\[cfg\(test\)\] mod \w+ \{ )?#\[(?:\w+::)?test\] fn (\w+))|^\s*fn (\w+)\(\)`)

// withoutOthers blanks the lines of tests that a report is not about, if it names a test of the file: each test has
// doubles of its own.
func withoutOthers(lines, report []string) []string {
	out, named := slices.Clone(lines), false
	for i := 0; i < len(out); i++ {
		m := testHead().FindStringSubmatch(out[i])
		if m == nil || m[8] != "" && (i == 0 || !strings.Contains(lines[i-1], "test]")) {
			continue
		}
		name := strings.Join(m[1:], "")
		if name == "" || hole().MatchString(name) {
			continue
		}
		if slices.ContainsFunc(report, func(l string) bool { return strings.Contains(l, name) }) {
			named = true
			continue
		}
		base := indent(out[i])
		out[i] = ""
		for i+1 < len(out) && (out[i+1] == "" || indent(out[i+1]) > base) {
			i++
			out[i] = ""
		}
	}
	if !named {
		return lines
	}
	return withoutUnused(out, lines)
}

// definition matches the line that begins a type, a module, or a function or a value of a whole file, with its name.
var definition = pattern.Lazy(`^\s*(?:pub |export |public |private |static |final |abstract )*(?:struct|class|enum|trait|interface|module|defmodule|impl(?:<[^>]*>)?(?: [\w:<>]+ for)?)\s+([A-Z]\w*)|^(?:type (\w+)|func \((?:\w+ )?\*?(\w+)\)|(?:(?:async )?def|fn|func|function|const|let|var|sub) (\w+))`)

// hooks matches the names of functions that runners call.
var hooks = pattern.Lazy(`(?i)^(?:test|bench|example|fuzz|set_?up|tear_?down|before|after|init|main)`)

// withoutUnused blanks the definitions of a file of tests that no line outside of them names. lines are those of the whole
// file: what has a test in it is no double.
func withoutUnused(out, lines []string) []string {
	type part struct{ from, to int }
	parts := map[string][]part{}
	for i := 0; i < len(out); i++ {
		m := definition().FindStringSubmatch(out[i])
		if m == nil || hooks().MatchString(strings.Join(m[1:], "")) {
			continue
		}
		end, base := i+1, indent(out[i])
		for end < len(out) && (lines[end] == "" || indent(lines[end]) > base) {
			end++
		}
		if slices.ContainsFunc(lines[i:end], testHead().MatchString) {
			continue // its members may be doubles of their own
		}
		name := strings.Join(m[1:], "")
		parts[name] = append(parts[name], part{i, end})
		i = end - 1
	}
	for name, all := range parts {
		rest := slices.Clone(out)
		for _, p := range all {
			clear(rest[p.from:p.to])
		}
		if !slices.ContainsFunc(rest, func(l string) bool { return hasName(l, name) }) {
			out = rest
		}
	}
	return out
}

// hasName reports whether a line of code has a name.
func hasName(line, name string) bool {
	for rest := line; ; {
		i := strings.Index(rest, name)
		if i < 0 {
			return false
		}
		if end := rest[i+len(name):]; strings.TrimLeft(end, wordBytes) == end && strings.TrimRight(rest[:i], wordBytes) == rest[:i] {
			return true
		}
		rest = rest[i+len(name):]
	}
}
