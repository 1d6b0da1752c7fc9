package escalation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery"
)

// Bounds of the text that Describe shows besides the command. Describe always shows the whole command.
const (
	maxParts = 40 // entries of a list
	maxLines = 12 // lines of one error
	minWidth = 40 // the narrowest page; a narrower terminal wraps the lines itself
)

// titles holds, for each type, the question to the operator.
var titles = map[Type]string{
	RecoveryApproval:     "May this command run?",
	RecoveryFailed:       "A recovery has failed. How shall the loop go on?",
	RoleFailure:          "A role fails again and again. How shall the loop go on?",
	PolicyChange:         "The configuration would allow more than was trusted. Shall it take effect?",
	RunnerUnavailable:    "An agent cannot run. Is it mended?",
	RemediationExhausted: "Every known way on was tried. How shall the loop go on?",
	ToolPermission:       "An agent asks before it uses a tool. May it, this once?",
	CompletionApproval:   "The reviewer has promised completion and all gates pass. Is the loop done?",
}

// Describe returns the text that an operator reads before answering, for a terminal with the given number of columns (0
// means 80). It writes commands as text.Display does, in printable ASCII, and every other text as text.Shown does. It
// never shortens the command.
func Describe(r Record, width int) string {
	p, q := &page{width: 80}, r.Question
	if width > 0 {
		p.width = max(width, minWidth)
	}
	p.head("%s", Title(q))
	p.field("loop", fmt.Sprintf("%s, iteration %d, run %s", q.Loop, q.Iteration, text.Display(q.Run)))
	why := text.Shown(q.Reason)
	if q.Rule != "" {
		why += " (rule " + text.Display(q.Rule) + ")"
	}
	p.field("why", why)
	p.field("asked", q.Created.Format(time.RFC3339)+", expires "+q.Expires.Format(time.RFC3339))
	p.field("state", string(r.State))
	if q.Command != nil {
		p.command(q, q.Command)
	}
	if q.Details != "" {
		p.section("What it is about:")
		p.lines(q.Details)
	}
	list(p, "What went wrong:", q.Errors, func(_ int, e string) { p.failure(e) })
	list(p, "Ways on:", q.Options, func(_ int, o Option) {
		line := text.Display(o.ID)
		if o.Label != "" {
			line += ": " + text.Shown(o.Label)
		}
		p.item(line)
		if o.Command != "" {
			p.quoted(text.Display(o.Command))
		}
	})
	p.answer(r)
	p.b.WriteByte('\n')
	p.field("id", q.ID)
	p.field("digest", r.Digest)
	if r.State == Pending {
		p.answers(r)
	}
	return p.b.String()
}

// Title returns the question to the operator, in a sentence.
func Title(q Question) string {
	if !q.Blocking() {
		return titles[q.Type] + " (the loop goes on meanwhile)"
	}
	return titles[q.Type]
}

// Kinds says in words what a command is about, how bad it is and how sure its proposer is, as far as these are known.
func Kinds(category, severity, confidence string) string {
	if confidence != "" {
		confidence += " confidence"
	}
	return strings.Join(slices.DeleteFunc([]string{category, severity, confidence}, func(s string) bool { return s == "" }), ", ")
}

func (p *page) command(q Question, c *Command) {
	s := string(c.Text)
	by := text.Display(c.Source)
	if c.Role != "" && c.Role != c.Source {
		by += " (" + text.Display(c.Role) + ")"
	}
	p.section("The command, %d bytes, proposed by %s:", len(c.Text), by)
	p.shown(s)
	p.field("directory", fmt.Sprintf("%s (device %d, inode %d)", text.Display(absolute(q.Repo, c.WorkingDir)), c.Dev, c.Ino))
	if q.Tool == nil {
		p.field("timeout", c.Timeout().String())
	}
	p.foreign("network", c.Network)
	p.foreign("category", Kinds(c.Category, c.Severity, c.Confidence))
	p.foreign("cause", c.RootCause)
	p.foreign("expected", c.ExpectedOutcome)
	p.foreign("failure", c.ErrorPattern)
	for _, e := range c.Evidence {
		p.foreign("evidence", e)
	}
	p.analysis(s)
	list(p, "Patterns of require_human that fit it:", c.Hits, func(_ int, h Hit) {
		part := "all of it"
		if h.Part != "" {
			part = text.Display(h.Part)
		}
		p.item(`"` + text.Display(h.Pattern) + `" fits ` + part)
	})
	if c.Near != nil {
		p.near(c.Near, s)
	}
	if c.GuardDiff != "" {
		p.section("What it reads is not what was trusted:")
		p.lines(c.GuardDiff)
	}
}

// shown writes the whole command. A note tells of blanks at its ends, which are easy to miss.
func (p *page) shown(s string) {
	p.quoted(text.Display(s))
	p.field("note", map[[2]bool]string{
		{true, true}: "it begins and ends with a blank", {true, false}: "it begins with a blank", {false, true}: "it ends with a blank",
	}[[2]bool{strings.HasPrefix(s, " "), strings.HasSuffix(s, " ")}])
}

// analysis shows how superloop reads the command: hidden characters, the commands that it runs, the parts that cannot
// be analysed, and special rights.
func (p *page) analysis(s string) {
	a := recovery.Analyse(s)
	list(p, "Characters in it that people do not see, or take for others:", a.Hidden, func(_ int, h recovery.Hidden) {
		p.item(fmt.Sprintf("%s at byte %d", h.Name, h.Offset))
	})
	list(p, "What it runs:", a.Parts, func(i int, part recovery.Part) {
		p.put(fmt.Sprintf("  %2d. ", i+1), text.Display(part.Text))
	})
	list(p, "What nobody can see from its text:", a.Opaque, func(_ int, o recovery.Remark) {
		line := text.Shown(o.Why)
		if o.Part != "" {
			line += ": " + text.Display(o.Part)
		}
		p.item(line)
	})
	if a.Privileged != "" {
		p.foreign("rights", "it runs with other rights: "+a.Privileged)
	}
	if a.State != "" {
		p.foreign("files", "it touches superloop's own files: "+a.State)
	}
}

// near shows the nearest listed entry above the proposed command, with a caret where they first differ. It shortens
// both lines to the part around the caret.
func (p *page) near(n *Near, command string) {
	if n.Text == command {
		p.section("It is entry %d of auto_approve.", n.Entry+1)
		return
	}
	p.section("The nearest entry of auto_approve is entry %d, and not it:", n.Entry+1)
	listed, proposed := text.Display(n.Text), text.Display(command)
	at := 0
	for at < len(listed) && at < len(proposed) && listed[at] == proposed[at] {
		at++
	}
	const label = len("  proposed   ")
	room := p.width - label
	from := 0
	if at >= room-8 { // keep at least eight columns after the caret
		from = min(at-room/2, len(listed), len(proposed))
	}
	window := func(s string) string {
		s = s[from:]
		if from > 0 {
			s = text.Dots + s[min(3, len(s)):]
		}
		return text.Cut(s, room)
	}
	p.field("listed", window(listed))
	p.field("proposed", window(proposed))
	p.put("", strings.Repeat(" ", label+at-from)+"^")
}

// failure shows one error, at most maxLines lines of it.
func (p *page) failure(e string) {
	lines := strings.Split(strings.TrimRight(e, "\n"), "\n")
	for _, line := range lines[:min(len(lines), maxLines)] {
		p.quoted(text.Shown(line))
	}
	if more := len(lines) - maxLines; more > 0 {
		p.item(fmt.Sprintf("... and %d more lines", more))
	}
}

// answer shows the answer and the outcome, if there are any.
func (p *page) answer(r Record) {
	if a := r.Answer; a != nil {
		p.section("The answer: %s, by %s, at %s", a.Method, a.By, a.At.Format(time.RFC3339))
		p.foreign("note", a.Note)
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
		p.foreign("note", o.Note)
	}
	p.foreign("because", r.Why)
}

func (p *page) answers(r Record) {
	p.section("To answer, one of:")
	for _, way := range r.Ways() {
		p.head("  %s:", way.Does)
		p.pasted(way.Line)
	}
	switch a := r.Actions(); {
	case a.Manual == "":
	case len(a.Manual)+4 > p.width || strings.Contains(a.Manual, "    "):
		// A broken line could not be pasted. In a line that the terminal wraps, foreign text could begin a row.
		p.head("By hand (then resolve): the line is too long for here; it is actions.manual of escalation.json")
	default:
		p.head("By hand (then resolve):")
		p.pasted(a.Manual)
	}
}

// page is text for a terminal: lines of harmless text, none longer than the width. Foreign text never begins a line.
// A long text continues behind the same indentation, so that it cannot imitate a line of superloop.
type page struct {
	b     strings.Builder
	width int
}

// head writes a line of superloop's own text. section does so after an empty line.
func (p *page) head(format string, args ...any) { p.put("", fmt.Sprintf(format, args...)) }

func (p *page) section(format string, args ...any) {
	p.b.WriteByte('\n')
	p.head(format, args...)
}

// field writes a named value. It leaves out an empty value.
func (p *page) field(name, value string) {
	if value != "" {
		p.put(fmt.Sprintf("  %-10s ", name), value)
	}
}

// foreign writes a field whose value superloop did not write.
func (p *page) foreign(name, value string) { p.field(name, text.Shown(value)) }

// quoted writes foreign text with a bar before each of its lines.
func (p *page) quoted(s string) { p.put("  | ", s) }

func (p *page) item(s string) { p.put("  - ", s) }

// lines writes foreign text that has several lines.
func (p *page) lines(s string) {
	for line := range strings.SplitSeq(strings.TrimRight(s, "\n"), "\n") {
		p.quoted(text.Shown(line))
	}
}

// pasted writes a command line for the operator to paste. It never breaks the line, however long it is.
func (p *page) pasted(s string) { p.b.WriteString("    " + s + "\n") }

// list writes a section with the first maxParts entries. Without entries it writes nothing.
func list[T any](p *page, title string, entries []T, show func(i int, entry T)) {
	if len(entries) == 0 {
		return
	}
	p.section("%s", title)
	for i, entry := range entries {
		if i == maxParts {
			p.item(fmt.Sprintf("... and %d more", len(entries)-i))
			break
		}
		show(i, entry)
	}
}

// put writes s, which must be harmless, after a prefix. It indents further lines as far as the prefix, or by
// four columns if the prefix is empty. If the prefix ends with a bar, every further line has the bar, too, and put
// keeps every blank. Otherwise it breaks lines between words.
func (p *page) put(prefix, s string) {
	exact := strings.HasSuffix(prefix, "| ")
	more := strings.Repeat(" ", len(prefix))
	if exact {
		more = prefix
	} else if prefix == "" {
		more = "    "
	}
	for {
		n := breakAt(s, p.width-len(prefix), exact)
		line := prefix + s[:n]
		s = s[n:]
		if !exact {
			line, s = strings.TrimRight(line, " "), strings.TrimLeft(s, " ")
		}
		p.b.WriteString(line + "\n")
		if s == "" {
			return
		}
		prefix = more
	}
}

// breakAt returns how many bytes of s fit into a line of room columns. It never breaks a mark such as <U+202E>. Unless exact is set, it
// prefers to break between words.
func breakAt(s string, room int, exact bool) int {
	fits, used := len(s), 0
	for i, c := range s {
		if used += text.Columns(string(c)); used > room {
			fits = i
			break
		}
	}
	if fits == len(s) {
		return fits
	}
	room = fits
	const longest = 24 // bytes of a mark
	if open := strings.LastIndexByte(s[:room], '<'); open > 0 && room-open < longest && !strings.Contains(s[open:room], ">") {
		return open
	}
	if blank := strings.LastIndexByte(s[:room+1], ' '); !exact && blank > room/2 {
		return blank
	}
	return room
}
