package result

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/stats"
)

// Bounds of what Markdown lists. The journal holds the rest.
const (
	maxChanges    = 200
	maxQuestions  = 50
	maxRecoveries = 50
	maxText       = 300 // characters of a foreign text in a line
)

// Markdown returns the content of result.md. A text of an agent stands in it as code, so that it neither formats anything
// nor, in a pull request, mentions a person or closes an issue.
func (r Result) Markdown() []byte {
	var b strings.Builder
	how := r.how()
	fmt.Fprintf(&b, "# %s: %s\n\n%s.\n", r.LoopID, word(string(r.Status)), strings.ToUpper(how[:1])+how[1:])
	r.writeChanges(&b)
	r.writeTests(&b)
	r.writeCosts(&b)
	r.writeRecoveries(&b)
	r.writeQuestions(&b)
	r.writeOpen(&b)
	b.WriteString("\n## Taking it\n\n")
	for _, line := range r.take() {
		fmt.Fprintf(&b, "- %s\n", line)
	}
	fmt.Fprintf(&b, "\nRun %s, from %s to %s. superloop computes this file from events.jsonl and the repository; a change of it has no effect.\n",
		code(r.RunID), stamp(r.Started), stamp(cmp.Or(r.Ended, r.Updated)))
	return []byte(b.String())
}

// Body returns the body of a pull request: the result without the commands that take it.
func (r Result) Body() string {
	var b strings.Builder
	fmt.Fprintf(&b, "superloop, loop %s: %s.\n", code(r.LoopID), r.how())
	r.writeChanges(&b)
	r.writeTests(&b)
	r.writeCosts(&b)
	r.writeRecoveries(&b)
	r.writeQuestions(&b)
	r.writeOpen(&b)
	return b.String()
}

// how says in one sentence, without its end, how the run ended.
func (r Result) how() string {
	out := fmt.Sprintf("%s after %s, %s of work", word(string(r.Status)), number(r.lastN(), "iteration"), duration(r.ActiveMS))
	switch {
	case r.Status == loop.Completed && r.Reason == loop.ReasonApproved:
		out += ": every gate passes, and the completion was approved"
	case r.Status == loop.Completed:
		out += ": the promise was given and every gate passes"
	case cmp.Or(r.Detail, r.Reason) != "":
		out += ": " + code(cmp.Or(r.Detail, strings.ReplaceAll(r.Reason, "_", " ")))
	}
	if r.By != "" {
		out += " (by " + code(r.By) + ")"
	}
	return out
}

func (r Result) lastN() int {
	if n := len(r.Iterations); n > 0 {
		return r.Iterations[n-1].N
	}
	return 0
}

func (r Result) writeChanges(b *strings.Builder) {
	b.WriteString("\n## What changed\n\n")
	w := r.Work
	switch {
	case w.Unknown != "":
		fmt.Fprintf(b, "Not known: %s\n", code(w.Unknown))
	case len(w.Changes) == 0:
		b.WriteString("Nothing differs from the files before the first role.\n")
	default:
		plus, minus := w.Lines()
		fmt.Fprintf(b, "%s, +%d -%d lines, against the files before the first role.\n\n| file | | lines |\n|---|---|---|\n", number(len(w.Changes), "file"), plus, minus)
		for _, c := range w.Changes[:min(len(w.Changes), maxChanges)] {
			fmt.Fprintf(b, "| %s | %s | %s |\n", cell(c.Path), c.Kind, lines(c))
		}
		if more := len(w.Changes) - maxChanges; more > 0 {
			fmt.Fprintf(b, "\n%d more files are not listed; `superloop diff --stat --loop %s` lists all.\n", more, r.LoopID)
		}
	}
	for n, c := range r.Commits {
		if n == 0 {
			b.WriteString("\nCommits:\n\n")
		}
		fmt.Fprintf(b, "- %s %s (iteration %d)\n", code(c.SHA[:min(len(c.SHA), 12)]), code(c.Subject), c.Iteration)
	}
}

func lines(c Change) string {
	if c.Plus < 0 || c.Minus < 0 {
		return "not text, or not known"
	}
	return fmt.Sprintf("+%d -%d", c.Plus, c.Minus)
}

func (r Result) writeTests(b *strings.Builder) {
	b.WriteString("\n## How it was tested\n\n")
	if t := r.Tested(); t == nil {
		b.WriteString("superloop ran no tests.\n")
	} else {
		fmt.Fprintf(b, "%s. superloop ran:\n\n", t.Outcome())
		for _, c := range t.Commands {
			fmt.Fprintf(b, "- %s\n", code(c))
		}
	}
	i := r.last()
	if i == nil {
		b.WriteString("\nThe gates were not judged.\n")
		return
	}
	fmt.Fprintf(b, "\nGates of iteration %d:\n\n| gate | verdict |\n|---|---|\n", i.N)
	for _, g := range i.Gates {
		fmt.Fprintf(b, "| %s | %s |\n", g.Name, cell(g.Verdict))
	}
}

// Outcome says how a run of the tests ended. The text of a command is code.
func (t TestRun) Outcome() string {
	took := duration(t.DurationMS)
	of := map[string]string{"final": " in a fresh checkout", "baseline": " before the first role"}[t.Reason]
	switch {
	case t.Status == "ok" || t.Status == "green":
		return "The tests passed" + of + " in " + took
	case t.Failed != "":
		return fmt.Sprintf("The tests failed%s after %s: %s exited with %d", of, took, code(t.Failed), t.ExitCode)
	case t.Status == "red":
		return "The tests failed" + of + " after " + took
	}
	return fmt.Sprintf("The tests: %s%s after %s", word(cmp.Or(t.Status, "not ended")), of, took)
}

func (r Result) writeCosts(b *strings.Builder) {
	fmt.Fprintf(b, "\n## Cost\n\n%s, %s in %s; %s of work, %s from the start to the end.\n", Cost(r.Total.Cost), Tokens(r.Total.Tokens.Total),
		number(r.Total.Runs, "role run"), duration(r.ActiveMS), duration(cmp.Or(r.Ended, r.Updated).Sub(r.Started).Milliseconds()))
}

func (r Result) writeRecoveries(b *strings.Builder) {
	if len(r.Recoveries) == 0 {
		return
	}
	b.WriteString("\n## Recoveries\n\n")
	for _, x := range r.Recoveries[max(0, len(r.Recoveries)-maxRecoveries):] {
		fmt.Fprintf(b, "- %d, iteration %d: %s: **%s**", x.N, x.Iteration, code(x.Command), word(x.Outcome))
		if x.By != "" && x.By != "rule" {
			fmt.Fprintf(b, ", approved by %s", code(x.By))
		} else if x.By == "rule" {
			fmt.Fprintf(b, ", allowed by %s", code(x.Rule))
		}
		if x.RootCause != "" {
			fmt.Fprintf(b, "; because %s", code(x.RootCause))
		}
		b.WriteString("\n")
	}
}

func (r Result) writeQuestions(b *strings.Builder) {
	if len(r.Questions) == 0 {
		return
	}
	b.WriteString("\n## Questions\n\n")
	for _, q := range r.Questions[max(0, len(r.Questions)-maxQuestions):] {
		fmt.Fprintf(b, "- %s", word(q.Type))
		if q.About != "" {
			fmt.Fprintf(b, ": %s", code(q.About))
		}
		if q.Answer == "" {
			b.WriteString(": not answered\n")
			continue
		}
		fmt.Fprintf(b, ": **%s** by %s after %s", word(q.Answer), code(q.By), duration(q.Answered.Sub(q.At).Milliseconds()))
		if q.Note != "" {
			fmt.Fprintf(b, ": %s", code(q.Note))
		}
		b.WriteString("\n")
	}
}

// writeOpen writes what is missing, what a person should look at, and what the reviewer wrote.
func (r Result) writeOpen(b *strings.Builder) {
	var notes []string
	if i := r.last(); i != nil {
		for _, m := range i.Missing {
			notes = append(notes, "missing: "+code(m))
		}
		for _, why := range i.Why {
			notes = append(notes, code(why))
		}
		if i.Note != "" {
			notes = append(notes, "look at the work yourself: "+code(i.Note))
		}
	}
	if r.StopNote != "" {
		notes = append(notes, "note of "+code(r.By)+": "+code(r.StopNote))
	}
	if len(notes) > 0 {
		b.WriteString("\n## Open notes\n\n")
	}
	for _, n := range notes {
		fmt.Fprintf(b, "- %s\n", n)
	}
	if review := strings.TrimSpace(text.Plain(text.Head(r.Work.Review, MaxReview))); review != "" {
		fence := strings.Repeat("`", max(3, ticks(review)+1))
		fmt.Fprintf(b, "\n## What the %s wrote\n\n%stext\n%s\n%s\n", cmp.Or(r.Plan.PromiseRole(), "last role"), fence, review, fence)
	}
}

// take says on which branch the work is and how to take it. Each line has one command or none.
func (r Result) take() []string {
	id := r.LoopID
	out := []string{fmt.Sprintf("`superloop diff --loop %s` shows what changed (`--stat`: the files only), `superloop report --loop %s` the whole run", id, id)}
	switch {
	case r.Work.Own:
		out = append(out, fmt.Sprintf("the work is on branch %s, in a work tree of its own", code(r.Work.Branch)),
			fmt.Sprintf("`superloop merge --loop %s` takes it into the branch that you have checked out", id),
			fmt.Sprintf("`superloop pr --loop %s` opens a draft pull request", id))
	case r.Work.Branch != "":
		out = append(out, fmt.Sprintf("the work is in the repository itself, on branch %s; there is nothing to merge", code(r.Work.Branch)),
			fmt.Sprintf("`superloop pr --loop %s` opens a draft pull request for that branch once the work is committed", id))
	default:
		out = append(out, "the work is in the repository itself; there is nothing to merge")
	}
	return out
}

// word returns a word of the journal without underscores. What is none of superloop's words is code.
func word(s string) string {
	s = strings.ReplaceAll(s, "_", " ")
	if s == "" || strings.ContainsFunc(s, func(c rune) bool { return c != ' ' && c != ',' && (c < 'a' || c > 'z') }) {
		return code(s)
	}
	return s
}

// Cost formats a sum of costs. A sum with unknown costs is a lower bound.
func Cost(s stats.Sum[float64]) string {
	switch {
	case s.Known == nil && s.Unknown == 0:
		return "no cost"
	case s.Known == nil:
		return "cost unknown"
	case s.Unknown > 0:
		return fmt.Sprintf("at least $%.4f (%s unknown)", *s.Known, number(s.Unknown, "run"))
	}
	return fmt.Sprintf("$%.4f", *s.Known)
}

// Tokens formats a sum of tokens. A sum with unknown counts is a lower bound.
func Tokens(s stats.Sum[int64]) string {
	switch {
	case s.Known == nil && s.Unknown == 0:
		return "no tokens"
	case s.Known == nil:
		return "tokens unknown"
	case s.Unknown > 0:
		return fmt.Sprintf("at least %d tokens", *s.Known)
	}
	return fmt.Sprintf("%d tokens", *s.Known)
}

func number(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// duration formats milliseconds: 0.4s, 12s, 3m5s, 2h10m0s.
func duration(ms int64) string {
	d := time.Duration(max(0, ms)) * time.Millisecond
	if d < 10*time.Second {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Truncate(time.Second).String()
}

func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// code makes a foreign text a code span of Markdown: one line of at most maxText characters.
func code(s string) string {
	s = text.Line(s, maxText)
	if s == "" {
		return "` `"
	}
	fence := strings.Repeat("`", ticks(s)+1)
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		s = " " + s + " "
	}
	return fence + s + fence
}

// cell is code in a cell of a table, where a bar ends the cell even in code.
func cell(s string) string { return strings.ReplaceAll(code(s), "|", `\|`) }

// ticks returns the length of the longest run of backticks in s.
func ticks(s string) (longest int) {
	run := 0
	for _, c := range s {
		if run++; c != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	return longest
}
