package roles

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/superloop/superloop/internal/pattern"
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
func fence(text string, head, tail int) string {
	body := strings.Trim(clean(cut(text, head, tail)), "\n")
	longest, run := 0, 0
	for i := range len(body) {
		if body[i] == '`' {
			run++
			longest = max(longest, run)
		} else {
			run = 0
		}
	}
	mark := strings.Repeat("`", max(3, longest+1))
	return mark + "\n" + body + "\n" + mark + "\n"
}

// cut keeps the first head and the last tail bytes of text, moved to rune
// boundaries, and says how much it left out.
func cut(text string, head, tail int) string {
	if len(text) <= head+tail {
		return text
	}
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	start := len(text) - tail
	for start < len(text) && !utf8.RuneStart(text[start]) {
		start++
	}
	return JoinCut(text[:head], text[start:], int64(start-head))
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
func clean(text string) string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == '\r':
			return '\n'
		case r == utf8.RuneError:
			return '?'
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp):
			return -1
		}
		return r
	}, text)
	text = longRun().ReplaceAllString(text, strings.Repeat("`", maxRun))
	return ownTag().ReplaceAllString(text, "[$1")
}

// line makes one short line of foreign text: white space collapsed, cleaned,
// at most limit bytes with a trailing mark when it was cut, and no run of marks
// that could open a fence. Only for values that are a word or a short phrase by
// their nature, and never at the beginning of a line; anything longer is fenced.
func line(text string, limit int) string {
	if len(text) > 4*limit {
		text = text[:4*limit]
	}
	text = inlineRun().ReplaceAllString(strings.Join(strings.Fields(clean(text)), " "), "$1")
	if len(text) <= limit {
		return text
	}
	end := limit - len("...")
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "..."
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
	start := len(name) - maxPath
	for start < len(name) && !utf8.RuneStart(name[start]) {
		start++
	}
	return "..." + name[start:]
}

// pathName shows a path so that it stays one line and cannot be mistaken for
// prose: quoted as soon as it holds anything but plain printable characters.
func pathName(path string) string {
	plain := utf8.ValidString(path) && clean(path) == path
	for _, r := range path {
		if !unicode.IsPrint(r) || r == '`' || r == '"' {
			plain = false
		}
	}
	if plain {
		return path
	}
	return ownTag().ReplaceAllString(strconv.Quote(path), "[$1")
}
