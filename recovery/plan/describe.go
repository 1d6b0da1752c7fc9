package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/text"
)

const (
	minWidth   = 40 // columns of a description
	errorLines = 4  // lines of an error's text that Describe shows, the last ones
)

// Describe describes the chain for an operator, in plain ASCII: the goal, the path to the present level, the options of
// each level with marks, all errors of all levels, and the commands that the operator can type next. Describe folds
// lines at width columns (0 stands for 80). It cuts no word, and so no path. Text of tools and commands cannot contain
// control sequences for a terminal.
func Describe(c Chain, width int) string {
	if width <= 0 {
		width = 80
	}
	p := page{width: max(width, minWidth)}
	if len(c.Levels) == 0 {
		return "There is no chain.\n"
	}
	p.line("", "Goal: "+text.Display(c.Goal.Command)+dirOf(c.Goal.Dir))
	p.line("", "      "+c.standing())
	p.line("", strings.Join(c.way(), " > "))
	for _, l := range c.Levels {
		c.describeLevel(&p, l, "")
	}
	for _, l := range c.Left {
		c.describeLevel(&p, l, " (left)")
	}
	if len(c.Errors) > 0 {
		p.line("", "")
		p.line("", "Errors:")
	}
	for _, e := range c.Errors {
		p.line("    ", fmt.Sprintf("  level %d, %s: %s", e.Depth, text.Display(e.Option), text.Display(cmp.Or(e.Command, e.Option))))
		for _, s := range lastLines(e.Text) {
			p.line("      ", "    | "+s)
		}
	}
	if next := c.next(); len(next) > 0 {
		p.line("", "")
		p.line("", "Next:")
		for _, n := range next {
			p.line("      ", "  "+n)
		}
	}
	return p.b.String()
}

// standing returns the state of the chain, in a sentence.
func (c *Chain) standing() string {
	switch {
	case c.Status == Done && c.Why != "":
		return "its goal is reached " + text.Display(c.Why)
	case c.Status == Done:
		return "it passes now"
	case c.Status == Cancelled:
		return text.Display(c.Why)
	case c.Status == Exhausted:
		return "it still fails: " + text.Display(c.Why)
	case c.Running != nil:
		return "this was begun, and how it ended is not known: " + text.Display(c.Running.Command)
	case c.Verifying:
		return "a remedy has succeeded; whether it helped is not known yet"
	}
	return fmt.Sprintf("it is being fixed: level %d of at most %d, %d of %d commands", len(c.Levels), MaxDepth, c.Attempts, c.Limit)
}

// way returns the path from the goal to the option that the chain is trying.
func (c *Chain) way() []string {
	var out []string
	for _, l := range c.Levels {
		out = append(out, text.Display(l.Label))
	}
	l := c.level()
	if o, ok := l.Option(l.Chosen); ok && l.Chosen != "" {
		out = append(out, text.Display(cmp.Or(o.Command, o.Label)))
	}
	return out
}

func (c *Chain) describeLevel(p *page, l Level, note string) {
	p.line("", "")
	why := text.Display(cmp.Or(l.Failure.Why, l.Failure.Category))
	p.line("  ", fmt.Sprintf("Level %d%s, %s: %s", l.Depth, note, text.Display(l.Label), why))
	if len(l.Options) == 0 {
		p.line("    ", "  nothing is known that may fix it")
	}
	for _, o := range l.Options {
		mark := " "
		if o.Key == l.Chosen {
			mark = ">"
		}
		p.line("      ", fmt.Sprintf("%s [%s] %s: %s", mark, c.mark(o), text.Display(c.name(l, o)), text.Display(o.Label)))
		if what := command(o); what != "" {
			p.line("        ", "      "+what)
		}
		if reason := c.reason(l, o); reason != "" {
			p.line("        ", "      ("+text.Display(reason)+")")
		}
		if o.Experience != "" {
			p.line("        ", "      "+text.Display(o.Experience))
		}
		for _, n := range o.Needs {
			p.line("        ", "      first: "+text.Display(n.Label)+needCommands(n))
		}
	}
}

func needCommands(n Need) string {
	var all []string
	for _, o := range n.Options {
		if o.Command != "" {
			all = append(all, text.Display(o.Command))
		}
	}
	if len(all) == 0 {
		return ""
	}
	return ", by " + strings.Join(all, ", or ")
}

func command(o Choice) string {
	switch {
	case o.Command != "":
		return text.Display(o.Command) + dirOf(o.WorkingDir)
	case len(o.WaitsMS) > 0:
		var waits []string
		for _, ms := range o.WaitsMS {
			waits = append(waits, (time.Duration(ms) * time.Millisecond).String())
		}
		return "wait " + strings.Join(waits, ", then ") + ", and run it again"
	}
	return text.Display(o.Instructions)
}

func dirOf(dir string) string {
	if dir == "" || dir == "." {
		return ""
	}
	return " (in " + text.Display(dir) + ")"
}

// mark returns one word for the state of an option.
func (c *Chain) mark(o Choice) string {
	switch {
	case c.Running != nil && c.Running.Option == o.Key:
		return "begun"
	case c.result(o) == "skipped":
		return "skipped"
	case c.result(o) != "":
		return "tried"
	}
	return text.Display(o.Availability)
}

// reason says why an option has not run, or how it ended.
func (c *Chain) reason(l Level, o Choice) string {
	switch {
	case c.result(o) == "succeeded" && l.Chosen != o.Key:
		return "it ran, and did not help"
	case c.result(o) == "succeeded":
		return "it has succeeded"
	case c.result(o) == "skipped":
		return "an operator left it out"
	case c.result(o) == "failed":
		for _, e := range slices.Backward(c.Errors) {
			if e.Key == o.Key {
				return lastLine(e.Text)
			}
		}
	case o.Availability != "ready":
		return o.Reason
	}
	return o.Withheld
}

// name returns the name by which an operator chooses an option: its id or, if the id belongs to another option, too,
// its key.
func (c *Chain) name(l Level, o Choice) string {
	if found, ok := l.Option(o.ID); ok && found.Key == o.Key {
		return o.ID
	}
	return o.Key
}

// next returns the commands that an operator can type.
func (c *Chain) next() []string {
	var out []string
	add := func(words ...string) {
		for i := range words {
			words[i] = text.Word(words[i])
		}
		out = append(out, "superloop chain "+strings.Join(words, " "))
	}
	if c.Status == Done || c.Status == Cancelled {
		return nil
	}
	if c.Running != nil {
		add("retry", c.ID) // superloop chain retry calls Again then
	} else {
		for _, l := range slices.Backward(slices.Concat(c.Left, c.Levels)) {
			for _, o := range l.Options {
				path, _, err := c.find(0, c.name(l, o)) // the level on which Pick finds the option without a depth
				if l.runnable(o) && o.Availability != impossible && l.Chosen != o.Key && err == nil && len(path) == l.Depth {
					add("choose", c.ID, c.name(l, o))
				}
			}
		}
		if again := c.Clone(); again.Skip(0, "", c.UpdatedAt) == nil {
			add("skip", c.ID)
		}
		if again := c.Clone(); again.Retry(0, c.UpdatedAt) == nil {
			add("retry", c.ID)
		}
	}
	add("cancel", c.ID)
	return out
}

// lastLines returns the last lines of a text that are not blank, made safe to display.
func lastLines(s string) []string {
	var out []string
	for _, l := range slices.Backward(strings.Split(strings.ReplaceAll(s, "\r", "\n"), "\n")) {
		if l = strings.TrimSpace(l); l != "" && len(out) < errorLines {
			out = append(out, text.Display(l))
		}
	}
	slices.Reverse(out)
	return out
}

func lastLine(text string) string {
	text = strings.TrimRight(text, "\r\n\t ")
	return text[strings.LastIndexAny(text, "\r\n")+1:]
}

// page folds lines at a width.
type page struct {
	b     strings.Builder
	width int
}

// line adds one line, folded between words. Continuation lines are indented.
func (p *page) line(indent, text string) {
	text = strings.TrimRight(text, " ")
	for len(text) > p.width {
		lead := len(text) - len(strings.TrimLeft(text, " "))
		at := strings.LastIndexByte(text[:p.width+1], ' ')
		if at <= lead {
			if at = strings.IndexByte(text[lead:], ' '); at < 0 {
				break
			}
			at += lead
		}
		p.b.WriteString(strings.TrimRight(text[:at], " ") + "\n")
		text = indent + strings.TrimLeft(text[at:], " ")
	}
	p.b.WriteString(text + "\n")
}
