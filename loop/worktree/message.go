package worktree

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"

	"github.com/superloop/superloop/internal/text"
)

const (
	defaultSubject = 72
	maxBody        = 64 << 10 // bytes

	// scissors, behind the comment character at the start of a line, ends the
	// message for git; the trailers behind it would not be found.
	scissors = " ------------------------ >8 ------------------------"
)

// Trailers of a commit; the last paragraph of its message holds them.
const (
	trailerLoop      = "Superloop-Loop"
	trailerRun       = "Superloop-Run"
	trailerIteration = "Superloop-Iteration"
	trailerStrategy  = "Superloop-Commit-Strategy"
)

// message is the commit's message and its subject. Subject and body may come
// from an agent: characters that do not print are taken out, the subject is one
// line of at most MaxSubject characters, and whatever the body says, the last
// paragraph is superloop's.
func (q CommitRequest) message() (message, subject string) {
	limit := cmp.Or(max(q.MaxSubject, 0), defaultSubject)
	subject = text.Cut(field(q.Subject), limit)
	if subject == "" {
		subject = text.Cut(fmt.Sprintf("superloop: %s, iteration %d", field(q.LoopID), q.Iteration), limit)
	}
	var b strings.Builder
	b.WriteString(subject + "\n\n")
	if body := q.body(); body != "" {
		b.WriteString(body + "\n\n")
	}
	for _, t := range q.trailers() {
		fmt.Fprintf(&b, "%s: %s\n", t[0], t[1])
	}
	return b.String(), subject
}

func (q CommitRequest) trailers() [][2]string {
	return [][2]string{{trailerLoop, field(q.LoopID)}, {trailerRun, field(q.RunID)}, {trailerIteration, fmt.Sprint(q.Iteration)},
		{trailerStrategy, field(cmp.Or(q.Strategy, "per_iteration"))}}
}

func (q CommitRequest) body() string {
	body := q.Body
	if len(body) > maxBody {
		body = text.Head(body, maxBody) + "\n[cut]"
	}
	var lines []string
	for line := range strings.Lines(printable(strings.ReplaceAll(body, "\r\n", "\n"), true)) {
		line = strings.TrimRightFunc(line, unicode.IsSpace)
		if strings.HasSuffix(line, scissors) {
			line = " " + line
		}
		if line != "" || len(lines) > 0 && lines[len(lines)-1] != "" {
			lines = append(lines, line)
		}
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// field is a value that stands in one line.
func field(s string) string { return strings.Join(strings.Fields(printable(s, false)), " ") }

// printable takes control characters out of s, and those that turn the
// direction of writing, which make a line look like another one. In text of
// several lines newlines and tabs stay.
func printable(s string, lines bool) string {
	return strings.Map(func(r rune) rune {
		switch {
		case lines && (r == '\n' || r == '\t'):
			return r
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case unicode.IsControl(r), r == 0xFEFF, r == 0x200E, r == 0x200F,
			0x202A <= r && r <= 0x202E, 0x2066 <= r && r <= 0x2069:
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
}
