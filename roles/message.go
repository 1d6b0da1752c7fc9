package roles

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/text"
)

// Where a role's last message came from.
const (
	FromFile   = "file"   // the last-message file, which the agent wrote
	FromStream = "stream" // the final message in the CLI's event stream
	FromStdout = "stdout" // standard output, for a CLI without either
)

// ChooseLastMessage applies the contract: a role's last message is the last-message file if the agent wrote one, else
// what its adapter read from the stream, else its standard output. A text of white space alone was not written. from is
// one of the From constants, also when all three are blank.
func ChooseLastMessage(file, stream, stdout string) (message, from string) {
	switch {
	case strings.TrimSpace(file) != "":
		return file, FromFile
	case strings.TrimSpace(stream) != "":
		return stream, FromStream
	}
	return stdout, FromStdout
}

// Bounds of a commit message, in bytes. The subject is usually cut further by the loop's own limit in characters.
const maxSubject, maxBody = 1 << 10, 16 << 10

// ParseCommit finds the commit message that a role suggests in its last message: the element <commit>subject, empty
// line, body</commit>. The last complete one counts, because a role that first discusses a wording settles on it at the
// end. ok is false if there is none or it has no subject.
//
// The text is an agent's. It comes back as one subject line and a body with Unix line ends, both trimmed, free of
// control and invisible characters and bounded; it is meant for a file given to `git commit -F`, never for a shell.
func ParseCommit(lastMessage string) (subject, body string, ok bool) {
	const open, end = "<commit>", "</commit>"
	stop := strings.LastIndex(lastMessage, end)
	start := strings.LastIndex(lastMessage[:max(stop, 0)], open)
	if start < 0 {
		return "", "", false
	}
	message := text.Plain(strings.ToValidUTF8(lastMessage[start+len(open):stop], ""))
	subject, body, _ = strings.Cut(strings.TrimSpace(message), "\n")
	subject = text.Head(strings.Join(strings.Fields(subject), " "), maxSubject)
	body = text.Head(strings.TrimSpace(body), maxBody)
	return strings.TrimSpace(subject), strings.TrimSpace(body), subject != ""
}

// maxRun is the longest run of backticks that is kept in quoted text. Longer ones are shortened, so that a fence has a
// bounded length.
const maxRun = 16

// fence quotes text that superloop did not write: at most head bytes of its beginning and tail bytes of its end,
// cleaned, between lines of backticks that are longer than any run of backticks inside.
//
// Files, test output and changed file names are under the control of agents and of whatever the agents read. Inside the
// fence they cannot end the fence, begin a section of their own, or hide characters; Render says once, in superloop's
// own words, that fenced text is data.
func fence(s string, head, tail int) string {
	body := strings.Trim(clean(Cut(s, head, tail)), "\n")
	mark := "```"
	for strings.Contains(body, mark) {
		mark += "`"
	}
	return mark + "\n" + body + "\n" + mark + "\n"
}

// Cut keeps the first head and the last tail bytes of s, moved to rune boundaries, and says how much it left out.
func Cut(s string, head, tail int) string {
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

// clean makes foreign text harmless to read: no control or invisible format characters, no invalid UTF-8, and no tag
// that superloop acts on. The tags go because an agent may repeat its prompt in its last message, and a promise that
// only stood in some test's output must not come back as the agent's own. The result is never longer than the text.
func clean(s string) string {
	s = longRun().ReplaceAllString(text.Plain(s), strings.Repeat("`", maxRun))
	return ownTag().ReplaceAllString(s, "[$1")
}

// line makes one short line of foreign text: white space collapsed, cleaned, at most limit bytes with a trailing mark
// when it was cut, and no run of marks that could open a fence. Only for values that are a word or a short phrase by
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

// shortPath is pathName with the bound of maxPath and a mark. A longer path keeps its end, which tells most about a
// file.
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

// pathName shows a path so that it stays one line and cannot be mistaken for prose: quoted as soon as it holds anything
// but plain printable characters.
func pathName(path string) string {
	odd := func(r rune) bool { return !unicode.IsPrint(r) || r == '`' || r == '"' }
	if utf8.ValidString(path) && clean(path) == path && !strings.ContainsFunc(path, odd) {
		return path
	}
	return ownTag().ReplaceAllString(strconv.Quote(path), "[$1")
}
