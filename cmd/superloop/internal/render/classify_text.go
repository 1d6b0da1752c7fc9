package render

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/classify"
	"github.com/superloop/superloop/recovery/remedy"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// maxText bounds a line of what tools have printed.
const maxText = 300

// inert is foreign text that a terminal does nothing with, in one line.
func inert(s string) string { return Cut(text.Display(s), maxText) }

// Text writes a classification for a person. What tools have printed is inert
// in it.
func (c Classification) Text(w io.Writer) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-11s %s\n", name, fmt.Sprintf(format, args...))
	}
	if c.Command != "" {
		line("command", "%s   (%s)", inert(c.Command), c.Exit)
	} else {
		line("ended with", "%s", c.Exit)
	}
	line("because of", "%s", c.blame())
	category := strings.ReplaceAll(c.Category, "_", " ")
	if c.Label != "" && !strings.EqualFold(c.Label, category) {
		category += ": " + c.Label
	}
	line("category", "%s   (%s)", category, c.Persistence)
	if c.Handler != "" {
		line("handler", "%s, %s", c.Handler, c.place())
		line("", "%s", strings.TrimSuffix(c.About+": "+c.Description, ": "))
	}
	line("confidence", "%.2f (%s)", c.Confidence, remedy.Word(c.Confidence))
	line("why", "%s", inert(c.Why))
	for i, e := range c.Evidence {
		at := e.Stream
		if e.Line > 0 {
			at += fmt.Sprintf(":%d", e.Line)
		}
		if e.File != "" {
			at += fmt.Sprintf("  %s:%d", text.Display(e.File), e.FileLine)
		}
		line(first(i, "evidence"), "%s  %s", at, inert(e.Text))
	}
	n := 0
	for _, f := range c.Findings {
		if f.Holds == classify.Unknown && f.Value == "" {
			continue
		}
		s := string(f.Holds)
		for _, more := range []string{f.Value, f.Detail} {
			if more != "" {
				s += ", " + inert(more)
			}
		}
		line(first(n, "looked at"), "%s: %s", f.Name, s)
		n++
	}
	for i, a := range c.Also {
		s := a.Handler + ", " + a.Layer
		if a.Vetoed {
			s += " (outweighed)"
		}
		line(first(i, "also"), "%s  %s", s, inert(a.Text))
	}
	if c.Incomplete {
		line("note", "the output was not read to its end: something may have been missed")
	}
	c.options(w)
	for i, h := range c.Hints {
		line(first(i, "agents"), "%s", inert(h))
	}
	for i, n := range c.Notes {
		line(first(i, "note"), "%s", inert(n))
	}
	line("policy", "%s", c.Policy)
	line("would do", "%s", c.gate())
}

func first(i int, name string) string {
	if i == 0 {
		return name
	}
	return ""
}

// String is how a command ended, in a few words.
func (e Exit) String() string {
	switch {
	case e.TimedOut:
		return "ended by its time limit"
	case e.OOM:
		return "ended by the kernel, for memory"
	case e.NotStarted:
		return "could not be started"
	case e.Signal != "":
		return "ended by " + e.Signal
	}
	return fmt.Sprintf("exit code %d", e.Code)
}

func (c Classification) blame() string {
	switch {
	case c.Code:
		return "the code: only a change of it helps"
	case c.Handler == "":
		return "something that no rule knows"
	case c.Weak:
		return "the environment, perhaps; the code may be to blame as well"
	case c.Infra:
		return "the environment"
	}
	return "how it was called or set up"
}

func (c Classification) place() string {
	s := "layer " + c.Layer
	if c.Family != "" {
		s += " " + c.Family
	}
	if c.Source != "" && c.Source != "embedded" {
		s += ", of the " + c.Source + "'s own files"
	}
	return s
}

// String says which policy it is.
func (p PolicyFrom) String() string {
	if p.Held > 0 {
		n := p.Held
		p.Held = 0
		return fmt.Sprintf("%s, without what nobody has trusted yet (%d; superloop config diff)", p.String(), n)
	}
	switch {
	case p.Source == "default":
		return "the default one: " + p.File + " is not there, so nothing is listed"
	case !p.Enabled:
		return p.File + ", whose recovery section is missing or not enabled: a person is asked about everything"
	case p.Loop != "":
		return p.File + ", of loop " + Clean(p.Loop)
	}
	return p.File
}

func (c Classification) gate() string {
	option := ""
	for _, o := range c.Options {
		if o.ID == c.GateOption {
			option = o.Label
			if o.Command != "" {
				option = inert(o.Command)
			}
			break
		}
	}
	switch c.Gate {
	case remedy.GateAuto:
		return "auto: a loop, or superloop fix, runs " + option + ", and then the command again"
	case remedy.GateRetry:
		return "retry: the command runs again, by itself"
	case remedy.GatePropose:
		return "propose: a person is asked about " + option
	case remedy.GateHuman:
		return "human: a person is asked; no command is known that may be proposed"
	}
	if c.Code {
		return "none: no command fixes the code; a loop goes on to its agents"
	}
	return "none: a loop goes on, and tells its agents what is known"
}

// options lists what can be done, the best first.
func (c Classification) options(w io.Writer) {
	if len(c.Options) == 0 {
		return
	}
	name := c.System.Name
	if name == "" {
		name = strings.TrimSpace(c.System.Distro + " " + c.System.Version)
	}
	if name == "" {
		name = c.System.OS
	}
	fmt.Fprintf(w, "\noptions on %s, the best first (* recommended)\n", Clean(name))
	n := 0
	for _, impossible := range []bool{false, true} { // these are only told to say why
		for _, o := range c.Options {
			if (o.Availability == string(remedy.Impossible)) == impossible {
				n++
				o.text(w, n)
			}
		}
	}
	fmt.Fprintln(w)
}

func (o OptionView) text(w io.Writer, n int) {
	mark := " "
	if o.Recommended {
		mark = "*"
	}
	fmt.Fprintf(w, "%2d. %s %-10s %s   [%s]\n", n, mark, o.Availability, Clean(o.Label), o.ID)
	line := func(name, text string) { fmt.Fprintf(w, "        %-8s %s\n", name, text) }
	switch {
	case len(o.WaitsMS) > 0 && o.Executor == string(catalog.ByWrapper):
		var waits []string
		for _, ms := range o.WaitsMS {
			wait := "at once"
			if ms > 0 {
				wait = "after " + Duration(time.Duration(ms)*time.Millisecond)
			}
			waits = append(waits, wait)
		}
		line("runs", "the command again, "+strings.Join(waits, ", "))
	case o.Command != "":
		line("runs", inert(o.Command))
	}
	if o.Reason != "" {
		line(o.Availability, inert(o.Reason))
	}
	for i, p := range o.Unlock {
		text := p.Dep
		if p.Command != "" {
			text += ": " + inert(p.Command)
		}
		if p.Reason != "" {
			text += "   (" + string(p.Availability) + ": " + inert(p.Reason) + ")"
		}
		line(first(i, "first"), text)
	}
	if o.Instructions != "" {
		line("do", inert(o.Instructions))
	}
	if o.Availability == string(remedy.Impossible) {
		return
	}
	if o.Expected != "" {
		line("then", inert(o.Expected))
	}
	who := o.Executor
	switch {
	case o.Verdict != "":
		who = "policy: " + o.Verdict + ", " + inert(o.Because)
		if o.Verdict == string(action.Auto) && !o.ByItself {
			who += "; but never by itself: " + inert(o.Withheld)
		}
	case o.Executor == string(catalog.ByRole):
		who = "an agent, at its next turn"
	case o.Executor == string(catalog.ByRunner):
		who = "another runner, in a loop that has one"
	case o.Executor == string(catalog.ByHuman):
		who = "a person"
	case o.ByItself:
		who = "superloop; running the command again needs no listing"
	case o.Withheld != "":
		who = "never by itself: " + inert(o.Withheld)
	}
	line("who", who)
	line("risk", fmt.Sprintf("%s, confidence %s", o.Risk, remedy.Word(o.Confidence)))
}
