package roles

import (
	"strings"

	"github.com/superloop/superloop/internal/text"
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
func ChooseLastMessage(file, stream, stdout string) (message, from string) {
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
