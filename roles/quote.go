package roles

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/text"
)

// maxRun is the longest run of backticks that is kept in quoted text. Longer
// ones are shortened, so that a fence has a bounded length.
const maxRun = 16

// fence quotes text that superloop did not write: at most head bytes of its
// beginning and tail bytes of its end, cleaned, between lines of backticks
// that are longer than any run of backticks inside.
//
// Files, test output and changed file names are under the control of agents
// and of whatever the agents read. Inside the fence they cannot end the fence,
// begin a section of their own, or hide characters; Render says once, in
// superloop's own words, that fenced text is data.
func fence(s string, head, tail int) string {
	body := strings.Trim(clean(cut(s, head, tail)), "\n")
	mark := "```"
	for strings.Contains(body, mark) {
		mark += "`"
	}
	return mark + "\n" + body + "\n" + mark + "\n"
}

// cut keeps the first head and the last tail bytes of s, moved to rune
// boundaries, and says how much it left out.
func cut(s string, head, tail int) string {
	if len(s) <= head+tail {
		return s
	}
	first, last := text.Head(s, head), text.Tail(s, tail)
	return JoinCut(first, last, int64(len(s)-len(first)-len(last)))
}

var (
	longRun   = pattern.Lazy("`{" + strconv.Itoa(maxRun+1) + ",}")
	inlineRun = pattern.Lazy("([`~])[`~]+")
	ownTag    = pattern.Lazy(`(?i)<(\s*/?\s*(?:promise|commit)\b)`)
)

// clean makes foreign text harmless to read: no control or invisible format
// characters, no invalid UTF-8, and no tag that superloop acts on. The tags go
// because an agent may repeat its prompt in its last message, and a promise
// that only stood in some test's output must not come back as the agent's own.
// The result is never longer than the text.
func clean(s string) string {
	s = longRun().ReplaceAllString(text.Plain(s), strings.Repeat("`", maxRun))
	return ownTag().ReplaceAllString(s, "[$1")
}

// line makes one short line of foreign text: white space collapsed, cleaned,
// at most limit bytes with a trailing mark when it was cut, and no run of marks
// that could open a fence. Only for values that are a word or a short phrase by
// their nature, and never at the beginning of a line; anything longer is fenced.
func line(s string, limit int) string {
	if len(s) > 4*limit {
		s = s[:4*limit]
	}
	s = inlineRun().ReplaceAllString(strings.Join(strings.Fields(clean(s)), " "), "$1")
	if len(s) <= limit {
		return s
	}
	return text.Head(s, limit-len(text.Dots)) + text.Dots
}

// shortPath is pathName with the bound of maxPath and a mark. A longer path
// keeps its end, which tells most about a file.
func shortPath(path string) string {
	if len(path) > 4*maxPath {
		path = path[len(path)-4*maxPath:]
	}
	name := pathName(path)
	if len(name) <= maxPath {
		return name
	}
	return text.Dots + text.Tail(name, maxPath)
}

// pathName shows a path so that it stays one line and cannot be mistaken for
// prose: quoted as soon as it holds anything but plain printable characters.
func pathName(path string) string {
	odd := func(r rune) bool { return !unicode.IsPrint(r) || r == '`' || r == '"' }
	if utf8.ValidString(path) && clean(path) == path && !strings.ContainsFunc(path, odd) {
		return path
	}
	return ownTag().ReplaceAllString(strconv.Quote(path), "[$1")
}
