package classify

import (
	"strings"

	"github.com/superloop/superloop/internal/pattern"
)

// A line that quotes a file or the code reports no event: the hunk of a difference, and a string in the message of a
// compiler.

var (
	// hunk matches the line that opens a hunk of a unified difference.
	hunk = pattern.Lazy(`^@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@`)
	// plainHunk matches the line that opens a hunk of diff without an option, and plainDiff the lines in it. A runner of
	// several jobs may write a name and a tab before each.
	plainHunk = pattern.Lazy(`^(?:\S+\t)?\d+(?:,\d+)?[acd]\d+(?:,\d+)?$`)
	diffHead  = pattern.Lazy(`^(?:---|\+\+\+) \S`)
	plainDiff = pattern.Lazy(`^(?:\S+\t)?(?:[<>] |[<>]$|---$)`)
)

// inQuotes reports whether a match stands between quotation marks.
func inQuotes(text []byte, loc []int) bool {
	if len(loc) < 2 {
		return false
	}
	before, after := string(text[:loc[0]]), string(text[loc[1]:])
	for _, marks := range [][2]string{{`"`, `"`}, {"'", "'"}, {"`", "`"}, {"‘", "’"}, {"“", "”"}} {
		open := strings.Count(before, marks[0])
		if marks[0] == marks[1] {
			open %= 2
		} else {
			open -= strings.Count(before, marks[1])
		}
		if open > 0 && strings.Contains(after, marks[1]) {
			return true
		}
	}
	return false
}

// checked reports whether a line is part of the message of a compiler or a checker about a place in the code: it begins
// with the place, or it is indented below such a line.
func checked(before []string, line string) bool {
	for i := len(before); i >= 0 && i > len(before)-maxHeader*4; i-- {
		l := line
		if i < len(before) {
			l = before[i]
		}
		if m := diagnosed().FindStringSubmatch(l); m != nil {
			file := strings.Join(m[1:], "")
			return !foreign(file) && codeName().MatchString(file)
		}
		if l == "" || l[0] != ' ' && l[0] != '\t' {
			return false
		}
	}
	return false
}

// inDiff reports whether a line stands in the hunk of a difference. Such a line quotes a file.
func inDiff(before []string, line string) bool {
	if plainDiff().MatchString(line) && len(before) > 0 {
		for i := len(before) - 1; i >= 0 && i > len(before)-lookFirst; i-- {
			if plainHunk().MatchString(before[i]) {
				return true
			}
			if !plainDiff().MatchString(before[i]) {
				break
			}
		}
	}
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
