package roles

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Where a role's last message came from.
const (
	FromFile   = "file"   // the last-message file, which the agent wrote
	FromStream = "stream" // the final message in the CLI's event stream
	FromStdout = "stdout" // standard output, for a CLI without either
)

// ChooseLastMessage applies the contract: a role's last message is the
// last-message file if the agent wrote one, else what its adapter read from
// the stream, else its standard output. A text of white space alone was not
// written. from is one of the From constants, also when all three are blank.
func ChooseLastMessage(file, stream, stdout string) (text, from string) {
	switch {
	case strings.TrimSpace(file) != "":
		return file, FromFile
	case strings.TrimSpace(stream) != "":
		return stream, FromStream
	}
	return stdout, FromStdout
}

// Bounds of a commit message, in bytes. The subject is usually cut further by
// the loop's own limit in characters.
const (
	maxSubject = 1 << 10
	maxBody    = 16 << 10
)

// ParseCommit finds the commit message that a role suggests in its last
// message: the element <commit>subject, empty line, body</commit>. The last
// complete one counts, because a role that first discusses a wording settles
// on it at the end. ok is false if there is none or it has no subject.
//
// The text is an agent's. It comes back as one subject line and a body with
// Unix line ends, both trimmed, free of control and invisible characters and
// bounded; it is meant for a file given to `git commit -F`, never for a shell.
func ParseCommit(lastMessage string) (subject, body string, ok bool) {
	const open, end = "<commit>", "</commit>"
	stop := strings.LastIndex(lastMessage, end)
	if stop < 0 {
		return "", "", false
	}
	start := strings.LastIndex(lastMessage[:stop], open)
	if start < 0 {
		return "", "", false
	}
	text := strings.TrimSpace(gitText(lastMessage[start+len(open) : stop]))
	subject, body, _ = strings.Cut(text, "\n")
	subject = bound(strings.Join(strings.Fields(subject), " "), maxSubject)
	body = bound(strings.TrimSpace(body), maxBody)
	return subject, body, subject != ""
}

// gitText drops what has no place in a commit message: git itself refuses NUL,
// and escape sequences would act on the terminal of whoever reads the log.
func gitText(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			return -1
		}
		return r
	}, text)
}

func bound(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return strings.TrimSpace(text[:limit])
}
