package escalation

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery"
)

// Bounds of what a person is shown beside the command, which is shown whole.
const (
	maxParts = 40 // simple commands, hidden characters, remarks
	maxLines = 12 // of one error
)

// Describe is what a person sees before the answer, for a terminal of that many
// columns (0: 80). It is printable ASCII and newlines, whatever the question holds:
// every other character stands by its number. The command is never shortened.
func Describe(r Record, width int) string {
	p := newPage(width)
	q := r.Question
	p.head("%s", title(q))
	p.field("loop", fmt.Sprintf("%s, iteration %d, run %s", q.Loop, q.Iteration, text.Display(q.Run)))
	why := text.Display(q.Reason)
	if q.Rule != "" {
		why += " (rule " + text.Display(q.Rule) + ")"
	}
	p.field("why", why)
	p.field("asked", q.Created.Format(time.RFC3339)+", expires "+q.Expires.Format(time.RFC3339))
	p.field("state", string(r.State))
	if q.Chain != "" {
		p.field("chain", text.Display(q.Chain))
	}
	if q.Command != nil {
		p.command(q, q.Command)
	}
	if q.Details != "" {
		p.blank()
		p.head("What it is about:")
		p.lines(q.Details)
	}
	p.errors(q.Errors)
	p.options(q.Options)
	p.answer(r)
	p.blank()
	p.field("id", q.ID)
	p.field("digest", r.Digest)
	if r.State == Pending {
		p.answers(r.Actions())
	}
	return p.b.String()
}

func title(q Question) string {
	wait := ""
	if !q.Blocking() {
		wait = " (the loop goes on meanwhile)"
	}
	switch q.Type {
	case RecoveryApproval:
		return "May this command run?" + wait
	case RecoveryFailed:
		return "A recovery has failed. How shall the loop go on?" + wait
	case RoleFailure:
		return "A role fails again and again. How shall the loop go on?" + wait
	case PolicyChange:
		return "The configuration would allow more than was trusted. Shall it take effect?" + wait
	case RunnerUnavailable:
		return "An agent cannot run. Is it mended?" + wait
	case CompletionApproval:
		return "The reviewer has promised completion and all gates pass. Is the loop done?" + wait
	}
	return "Every known way on was tried. How shall the loop go on?" + wait
}

func (p *page) command(q Question, c *Command) {
	s := string(c.Text)
	p.blank()
	by := text.Display(c.Source)
	if c.Role != "" && c.Role != c.Source {
		by += " (" + text.Display(c.Role) + ")"
	}
	p.head("The command, %d bytes, proposed by %s:", len(c.Text), by)
	p.shown(s)
	dir := c.WorkingDir
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(q.Repo, dir)
	}
	p.field("directory", text.Display(dir)+fmt.Sprintf(" (device %d, inode %d)", c.Dev, c.Ino))
	p.field("timeout", c.Timeout().String())
	p.field("network", text.Display(c.Network))
	p.field("category", words(c.Category, c.Severity, confidence(c.Confidence)))
	p.field("cause", text.Display(c.RootCause))
	p.field("expected", text.Display(c.ExpectedOutcome))
	p.field("failure", text.Display(c.ErrorPattern))
	for _, e := range c.Evidence {
		p.field("evidence", text.Display(e))
	}
	p.analysis(s)
	if len(c.Hits) > 0 {
		p.blank()
		p.head("Patterns of require_human that fit it:")
		for _, h := range c.Hits {
			part := "all of it"
			if h.Part != "" {
				part = text.Display(h.Part)
			}
			p.item(`"` + text.Display(h.Pattern) + `" fits ` + part)
		}
	}
	if c.Near != nil {
		p.near(c.Near, s)
	}
	if c.GuardDiff != "" {
		p.blank()
		p.head("What it reads is not what was trusted:")
		p.lines(c.GuardDiff)
	}
	if len(c.Touches) > 0 {
		p.blank()
		p.head("What it will change, as far as is known:")
		for _, t := range c.Touches {
			p.item(text.Display(t))
		}
	}
}

// shown writes a command whole, and says what an eye would miss at its ends.
func (p *page) shown(s string) {
	p.quoted(text.Display(s))
	first, last := strings.HasPrefix(s, " "), strings.HasSuffix(s, " ")
	switch {
	case first && last:
		p.field("note", "it begins and ends with a blank")
	case first:
		p.field("note", "it begins with a blank")
	case last:
		p.field("note", "it ends with a blank")
	}
}

// analysis is what superloop understands of a command.
func (p *page) analysis(s string) {
	a := recovery.Analyse(s)
	if len(a.Hidden) > 0 {
		p.blank()
		p.head("Characters in it that people do not see, or take for others:")
		for i, h := range a.Hidden {
			if p.enough(i, len(a.Hidden)) {
				break
			}
			p.item(fmt.Sprintf("%s at byte %d", h.Name, h.Offset))
		}
	}
	if len(a.Parts) > 0 {
		p.blank()
		p.head("What it runs:")
		for i, part := range a.Parts {
			if p.enough(i, len(a.Parts)) {
				break
			}
			p.put(fmt.Sprintf("  %2d. ", i+1), text.Display(part.Text))
		}
	}
	if len(a.Opaque) > 0 {
		p.blank()
		p.head("What nobody can see from its text:")
		for i, o := range a.Opaque {
			if p.enough(i, len(a.Opaque)) {
				break
			}
			line := visible(o.Why)
			if o.Part != "" {
				line += ": " + text.Display(o.Part)
			}
			p.item(line)
		}
	}
	if a.Privileged != "" {
		p.field("rights", "it runs with other rights: "+text.Display(a.Privileged))
	}
	if a.State != "" {
		p.field("files", "it touches superloop's own files: "+text.Display(a.State))
	}
}

func (p *page) enough(i, of int) bool {
	if i < maxParts {
		return false
	}
	p.item(fmt.Sprintf("... and %d more", of-i))
	return true
}

// near sets the listed entry and the command one below the other, with a caret
// where they differ first. Both are shown from a little before that place.
func (p *page) near(n *Near, command string) {
	listed, proposed := text.Display(n.Text), text.Display(command)
	p.blank()
	if n.Text == command {
		p.head("It is entry %d of auto_approve.", n.Entry+1)
		return
	}
	p.head("The nearest entry of auto_approve is entry %d, and not it:", n.Entry+1)
	at := 0
	for at < len(listed) && at < len(proposed) && listed[at] == proposed[at] {
		at++
	}
	const label = len("  proposed   ")
	room := p.width - label
	from := 0
	if at >= room-8 { // eight columns behind the caret at least
		from = min(at-room/2, len(listed), len(proposed))
	}
	window := func(s string) string {
		lead := ""
		s = s[from:]
		if from > 0 {
			lead = "..."
			s = s[min(3, len(s)):]
		}
		if len(lead)+len(s) > room {
			s = s[:room-len(lead)-3] + "..."
		}
		return lead + s
	}
	p.field("listed", window(listed))
	p.field("proposed", window(proposed))
	p.put("", strings.Repeat(" ", label+at-from)+"^")
}

// lines is foreign text of several lines.
func (p *page) lines(text string) {
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		p.quoted(visible(line))
	}
}

func (p *page) errors(list []string) {
	if len(list) == 0 {
		return
	}
	p.blank()
	p.head("What went wrong:")
	for _, e := range list {
		lines := strings.Split(strings.TrimRight(e, "\n"), "\n")
		for i, line := range lines {
			if i == maxLines {
				p.item(fmt.Sprintf("... and %d more lines", len(lines)-i))
				break
			}
			p.quoted(text.Display(line))
		}
	}
}

func (p *page) options(list []Option) {
	if len(list) == 0 {
		return
	}
	p.blank()
	p.head("Ways on:")
	for _, o := range list {
		line := text.Display(o.ID)
		if o.Label != "" {
			line += ": " + text.Display(o.Label)
		}
		p.item(line)
		if o.Command != "" {
			p.quoted(text.Display(o.Command))
		}
	}
}

// answer is what became of the question, if anything has.
func (p *page) answer(r Record) {
	if a := r.Answer; a != nil {
		p.blank()
		p.head("The answer: %s, by %s, at %s", a.Method, a.By, a.At.Format(time.RFC3339))
		p.field("note", text.Display(a.Note))
		if a.Edit != nil {
			p.head("Their own command, which runs instead:")
			p.shown(string(a.Edit.Text))
			p.analysis(string(a.Edit.Text))
		}
	}
	if o := r.Outcome; o != nil {
		how := string(r.State)
		if o.ExitCode != nil {
			how += fmt.Sprintf(", exit code %d", *o.ExitCode)
		}
		p.field("outcome", how)
		p.field("note", text.Display(o.Note))
	}
	p.field("because", text.Display(r.Why))
}

func (p *page) answers(a Actions) {
	p.blank()
	p.head("To answer, one of:")
	for _, line := range []string{a.Approve, a.Reject, a.Resolve} {
		p.line(line)
	}
	switch {
	case a.Manual == "":
	case len(a.Manual)+4 > p.width || strings.Contains(a.Manual, "    "):
		// Broken it could not be pasted, and unbroken the terminal would begin a line
		// with it.
		p.head("By hand (then resolve): the line is too long for here; it is actions.manual of escalation.json")
	default:
		p.head("By hand (then resolve):")
		p.line(a.Manual)
	}
}

func confidence(c string) string {
	if c == "" {
		return ""
	}
	return c + " confidence"
}

// words joins what is there, shown.
func words(list ...string) string {
	var out []string
	for _, s := range list {
		if s != "" {
			out = append(out, text.Display(s))
		}
	}
	return strings.Join(out, ", ")
}
