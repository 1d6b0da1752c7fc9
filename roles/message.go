package roles

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/text"
)

// The sources of a role's last message.
const (
	FromFile   = "file"   // the last-message file, which the agent wrote
	FromStream = "stream" // the final message in the CLI's event stream
	FromStdout = "stdout" // standard output, if the CLI gave neither of the other two
)

// ChooseLastMessage selects the last message of a role: the last-message file if the agent wrote one, else the final
// message that the adapter read from the stream, else the standard output. A text of only white space counts as not
// written. from is one of the From constants, even if all three texts are blank.
func ChooseLastMessage(file, stream, stdout string) (message, from string) {
	switch {
	case strings.TrimSpace(file) != "":
		return file, FromFile
	case strings.TrimSpace(stream) != "":
		return stream, FromStream
	}
	return stdout, FromStdout
}

// Bounds of a commit message, in bytes. The loop usually cuts the subject further, to its own limit in characters.
const maxSubject, maxBody = 1 << 10, 16 << 10

// ParseCommit finds the commit message that a role suggests in its last message, in the element <commit>subject, empty
// line, body</commit>. The last complete element counts, because a role may discuss other wordings before it. ok is
// false if there is no complete element or its subject is empty.
//
// The text comes from an agent. ParseCommit returns one subject line and a body with Unix line ends. Both are trimmed,
// free of control and invisible characters, and bounded. They are meant for a file for `git commit -F`, never for a
// shell.
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

// maxRun is the length of the longest run of backticks in quoted text. clean shortens longer runs, so a fence has a
// bounded length.
const maxRun = 16

// fence quotes text that superloop did not write. It keeps at most head bytes of the beginning and tail bytes of the
// end, cleans them, and puts them between lines of backticks that are longer than any run of backticks inside.
//
// Agents, and whatever the agents read, control the contents of files, test output and file names. Inside the fence
// such text cannot end the fence, begin a section of the prompt, or hide characters. The prompt says once that fenced
// text is data.
func fence(s string, head, tail int) string {
	body := strings.Trim(clean(Cut(s, head, tail)), "\n")
	mark := "```"
	for strings.Contains(body, mark) {
		mark += "`"
	}
	return mark + "\n" + body + "\n" + mark + "\n"
}

// Cut keeps the first head and the last tail bytes of s, at rune boundaries, and puts between them how many bytes it
// left out. A text of at most head+tail bytes stays as it is.
func Cut(s string, head, tail int) string {
	if len(s) <= head+tail {
		return s
	}
	first, last := text.Head(s, head), text.Tail(s, tail)
	return door.JoinCut(first, last, int64(len(s)-len(first)-len(last)))
}

var (
	longRun   = pattern.Lazy("`{" + strconv.Itoa(maxRun+1) + ",}")
	inlineRun = pattern.Lazy("([`~])[`~]+")
	ownTag    = pattern.Lazy(`(?i)<(\s*/?\s*(?:promise|commit)\b)`)
)

// clean makes foreign text safe for a prompt. It removes control characters, invisible format characters, invalid
// UTF-8, and the tags that superloop acts on. An agent may repeat its prompt in its last message, and then a promise
// from the output of some test must not count as the agent's own. The result is never longer than the text.
func clean(s string) string {
	s = longRun().ReplaceAllString(text.Plain(s), strings.Repeat("`", maxRun))
	return ownTag().ReplaceAllString(s, "[$1")
}

// line makes foreign text one short line: it cleans the text, collapses white space, and removes runs of marks that
// could open a fence. A longer text is cut to limit bytes with a mark at its end. line is only for values that are a
// word or a short phrase and that do not stand at the beginning of a line. Longer texts are fenced.
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

// shortPath is pathName cut to the last maxPath bytes, with a mark in front. The end of a path tells most about the
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

// pathName formats a path so that it stays on one line and cannot be mistaken for prose. It quotes a path that holds
// anything but plain printable characters.
func pathName(path string) string {
	odd := func(r rune) bool { return !unicode.IsPrint(r) || r == '`' || r == '"' }
	if utf8.ValidString(path) && clean(path) == path && !strings.ContainsFunc(path, odd) {
		return path
	}
	return ownTag().ReplaceAllString(strconv.Quote(path), "[$1")
}
