package result

import (
	"fmt"
	"path"
	"strings"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
)

// MaxShort is the most lines that Short returns.
const MaxShort = 6

const shortLine = 160 // characters of a line of Short

// Short says the result in at most MaxShort lines of plain text, for a message to a person that says how the run ended:
// what changed, how it was tested, what it cost, what was repaired and asked, what is missing. No line is longer than 160
// characters, and none has a control character.
func (r Result) Short() []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	switch w := r.Work; {
	case w.Unknown != "":
		add("changed: not known")
	case len(w.Changes) == 0:
		add("changed: nothing")
	default:
		plus, minus := w.Lines()
		add("changed: %s, +%d -%d lines: %s", number(len(w.Changes), "file"), plus, minus, names(w.Changes))
	}
	if t := r.Tested(); t != nil {
		add("tests: %s", strings.ReplaceAll(strings.TrimPrefix(strings.TrimPrefix(t.Outcome(), "The tests "), "The tests: "), "`", ""))
	}
	add("cost: %s, %s in %s", Cost(r.Total.Cost), Tokens(r.Total.Tokens.Total), number(r.Total.Runs, "role run"))
	var more []string
	if n := len(r.Recoveries); n > 0 {
		more = append(more, fmt.Sprintf("recoveries: %d, %d verified", n, r.verified()))
	}
	if n := len(r.Questions); n > 0 {
		more = append(more, fmt.Sprintf("questions: %d, %d answered", n, r.answered()))
	}
	if len(more) > 0 {
		add("%s", strings.Join(more, "; "))
	}
	if i := r.last(); i != nil && len(i.Missing) > 0 {
		add("missing: %s", strings.Join(i.Missing, ", "))
	}
	for i := range out {
		out[i] = text.Line(out[i], shortLine)
	}
	return out
}

// How says in one line, without control characters, how the run ended and why.
func (r Result) How() string {
	return text.Line(r.LoopID+" "+strings.ReplaceAll(r.how(), "`", ""), shortLine)
}

// Next returns the command that a person types next to look at the result or to take it.
func (r Result) Next() string {
	if r.Work.Own && r.Status == loop.Completed {
		return "superloop merge --loop " + r.LoopID
	}
	return "superloop diff --loop " + r.LoopID
}

func (r Result) verified() (n int) {
	for _, x := range r.Recoveries {
		if x.Outcome == "verified" {
			n++
		}
	}
	return n
}

func (r Result) answered() (n int) {
	for _, q := range r.Questions {
		if q.Answer != "" {
			n++
		}
	}
	return n
}

// names lists the first changed files by their base names.
func names(all []Change) string {
	const most = 3
	var out []string
	for _, c := range all[:min(len(all), most)] {
		out = append(out, text.Line(path.Base(c.Path), 30))
	}
	if more := len(all) - most; more > 0 {
		out = append(out, fmt.Sprintf("%d more", more))
	}
	return strings.Join(out, ", ")
}

const subjectLine = 72 // characters

// Message returns a commit message for the work of the run: a subject of at most 72 characters and a body. It has no
// control characters. If superloop made one commit, its subject is that of the message.
func (r Result) Message() (subject, body string) {
	subject = fmt.Sprintf("Loop %s: %s after %s", r.LoopID, word(string(r.Status)), number(r.lastN(), "iteration"))
	if len(r.Commits) == 1 && strings.TrimSpace(r.Commits[0].Subject) != "" {
		subject = r.Commits[0].Subject
	}
	lines := append([]string{r.How()}, r.Short()...)
	for n, c := range r.Commits {
		if n == 0 {
			lines = append(lines, "")
		}
		lines = append(lines, "- "+text.Line(c.Subject, shortLine))
	}
	lines = append(lines, "", "Superloop-Loop: "+text.Line(r.LoopID, shortLine), "Superloop-Run: "+text.Line(r.RunID, shortLine))
	return text.Line(subject, subjectLine), strings.Join(lines, "\n")
}
