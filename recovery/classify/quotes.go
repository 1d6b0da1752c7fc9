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

// predicate matches what follows a quotation of which the line says something: "the text" does not name the file.
var predicate = pattern.Lazy(`^,? +(?:does|do|did|is|are|was|were|should|must|has|have|had|contains?|lacks?|to (?:be|contain|equal|match|include)|not|instead|but|!==?|===?)\b`)

// demands matches what comes before a text that a check asks for: "errors.md must read: ".
var demands = pattern.Lazy(`(?i)\b(?:must|should|has to|ought to) (?:read|say|match|equal|contain|mention|name|list|begin|start|end|look)\b`)

// comparison matches a line that tells two values from each other.
var comparison = pattern.Lazy(`(?i)\b(?:expected|want(?:ed)?|should (?:be|have been))\b.*\b(?:got|actual|received|found|was)\b|\b(?:got|actual|received)\b.*\b(?:expected|want(?:ed)?|should (?:be|have been))\b`)

// inQuotes reports whether a match stands between quotation marks, and whether the line says something of the
// quotation, or asks for the text.
func inQuotes(text []byte, loc []int) (quoted, topic bool) {
	if len(loc) < 2 {
		return false, false
	}
	before, after := string(text[:loc[0]]), string(text[loc[1]:])
	if demands().MatchString(before) {
		return false, true
	}
	for _, marks := range [][2]string{{`"`, `"`}, {"'", "'"}, {"`", "`"}, {"‘", "’"}, {"“", "”"}} {
		open := strings.Count(before, marks[0])
		if marks[0] == marks[1] {
			open %= 2
		} else {
			open -= strings.Count(before, marks[1])
		}
		if open <= 0 {
			continue
		}
		for rest := after; ; {
			inside, next, ok := strings.Cut(rest, marks[1])
			if !ok {
				break
			}
			if quoted = true; !strings.HasSuffix(inside, `\`) {
				return true, predicate().MatchString(next) || comparison().Match(text)
			}
			rest = next
		}
	}
	return quoted, false
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

// valueDiff matches the line before the difference of two values.
var valueDiff = pattern.Lazy(`^[-+] (?:actual|expected|received) [-+] (?:actual|expected|received)$|^[-+] (?:Expected|Received|Actual)(?: +[-+] \d+)?$`)

// inValueDiff reports whether a line stands in the difference of the two values that a check compared.
func inValueDiff(before []string, line string) bool {
	signed := func(l string) bool { return l != "" && (l[0] == '+' || l[0] == '-') }
	if !signed(strings.TrimLeft(line, " ")) {
		return false
	}
	for i := len(before) - 1; i >= 0 && i > len(before)-lookFirst; i-- {
		l := strings.TrimSpace(before[i])
		if valueDiff().MatchString(l) {
			return true
		}
		if l != "" && !signed(l) && indent(before[i]) < indent(line) {
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

// topic matches a quotation of which the line says something.
var topic = pattern.Lazy("(?:\"(?:[^\"\\\\]|\\\\.)* (?:[^\"\\\\]|\\\\.)*\"|'[^']* [^']*'|`[^`]* [^`]*`|‘[^’]* [^’]*’|“[^”]* [^”]*”)(,? +(?:does|do|did|is|are|was|were|should|must|has|have|had|contains?|lacks?|to (?:be|contain|equal|match|include)|not|instead|but|!==?|===?)\\b)")

// withoutTopic leaves out of a line the texts of which it says something: they are not what it says.
func withoutTopic(l string) string {
	if !strings.ContainsAny(l, "\"'`‘“") {
		return l
	}
	return topic().ReplaceAllString(l, "$1")
}
