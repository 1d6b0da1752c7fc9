package worktree

import (
	"fmt"
	"strings"
	"unicode"
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
func (q CommitRequest) message() (text, subject string) {
	limit := q.MaxSubject
	if limit <= 0 {
		limit = defaultSubject
	}
	subject = cutRunes(strings.Join(strings.Fields(printable(q.Subject, false)), " "), limit)
	if subject == "" {
		subject = cutRunes(fmt.Sprintf("superloop: %s, iteration %d", field(q.LoopID), q.Iteration), limit)
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
	strategy := q.Strategy
	if strategy == "" {
		strategy = "per_iteration"
	}
	return [][2]string{
		{trailerLoop, field(q.LoopID)},
		{trailerRun, field(q.RunID)},
		{trailerIteration, fmt.Sprint(q.Iteration)},
		{trailerStrategy, field(strategy)},
	}
}

func (q CommitRequest) body() string {
	text := q.Body
	if len(text) > maxBody {
		text = strings.ToValidUTF8(text[:maxBody], "") + "\n[cut]"
	}
	text = strings.ReplaceAll(text, "\r\n", "\n")
	var lines []string
	blank := true
	for line := range strings.Lines(printable(text, true)) {
		line = strings.TrimRightFunc(line, unicode.IsSpace)
		if line == "" && blank {
			continue
		}
		blank = line == ""
		if strings.HasSuffix(line, scissors) {
			line = " " + line
		}
		lines = append(lines, line)
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// field is a value that stands in one line.
func field(s string) string {
	return strings.Join(strings.Fields(printable(s, false)), " ")
}

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

// cutRunes cuts s to at most limit characters, three dots included.
func cutRunes(s string, limit int) string {
	runes := []rune(s)
	if len(runes) <= limit {
		return s
	}
	if limit <= 3 {
		return string(runes[:limit])
	}
	return strings.TrimRight(string(runes[:limit-3]), " ") + "..."
}
