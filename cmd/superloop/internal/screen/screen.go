// Package screen gives text for an operator its form: with colour or without, and wrapped to the width of a terminal.
// It is the only place that knows escape sequences for colour. It never makes foreign text harmless: what it gets has
// passed through internal/text.
package screen

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/charmbracelet/lipgloss"
	"github.com/muesli/termenv"
)

// Tone says what a text means to its reader. Each tone has one look.
type Tone int

const (
	Normal Tone = iota
	Good        // it is done, or it works
	Bad         // it failed
	Ask         // a human has to decide or to act
	Strong      // a headline, or the command to type next
	Faint       // less important than the text around it
	Chosen      // the cursor is here
)

// The values of --color.
const (
	Auto   = "auto" // colour on a terminal, unless NO_COLOR is set or TERM is dumb
	Always = "always"
	Never  = "never"
)

// Modes are the values of --color.
func Modes() []string { return []string{Auto, Always, Never} }

// Colour decides whether a stream gets colour. when is a value of --color, "" for Auto. tty says that the stream is a
// terminal, and env returns the value of an environment variable.
func Colour(when string, tty bool, env func(string) string) (bool, error) {
	switch when {
	case Auto, "":
		return tty && env("NO_COLOR") == "" && env("TERM") != "dumb", nil
	case Always, Never:
		return when == Always, nil
	}
	return false, fmt.Errorf("--color %q is none of %s", when, strings.Join(Modes(), ", "))
}

// Form is how text is written to one stream. The zero value has neither colour nor a width.
type Form struct {
	Colour bool
	// Columns returns the width of the terminal now. nil, and a width below 1, mean that lines are not wrapped.
	Columns func() int
}

// Wide returns a form without colour and with a fixed width.
func Wide(columns int) Form { return Form{Columns: func() int { return columns }} }

// Width returns the number of columns, 0 if lines are not to be wrapped.
func (f Form) Width() int {
	if f.Columns == nil {
		return 0
	}
	return max(0, f.Columns())
}

// styles are the looks of the tones. The 16 colours of a terminal follow its owner's theme.
var styles = sync.OnceValue(func() map[Tone]lipgloss.Style {
	r := lipgloss.NewRenderer(io.Discard)
	r.SetColorProfile(termenv.ANSI)
	r.SetHasDarkBackground(true) // no look depends on it, and the terminal is not asked
	of := func(color string) lipgloss.Style { return r.NewStyle().Foreground(lipgloss.Color(color)) }
	return map[Tone]lipgloss.Style{Good: of("2"), Bad: of("1"), Ask: of("3").Bold(true), Strong: r.NewStyle().Bold(true),
		Faint: r.NewStyle().Faint(true), Chosen: r.NewStyle().Reverse(true)}
})

// Paint returns a line in its tone, and unchanged without colour. Blanks at its ends get no colour.
func (f Form) Paint(t Tone, line string) string {
	body := strings.TrimSpace(line)
	if !f.Colour || t == Normal || body == "" {
		return line
	}
	if t == Chosen {
		return styles()[t].Render(line)
	}
	at := strings.Index(line, body)
	return line[:at] + styles()[t].Render(body) + line[at+len(body):]
}

// Print writes a text as lines of the form, each with a line break. The lines after the first are indented by hang
// columns.
func (f Form) Print(w io.Writer, t Tone, text string, hang int) error {
	var b strings.Builder
	for _, line := range Wrap(text, f.Width(), hang) {
		b.WriteString(f.Paint(t, line) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Cells returns the number of columns that a text without line breaks takes. Escape sequences for colour take none.
func Cells(s string) int { return lipgloss.Width(s) }

// Wrap breaks a line at blanks so that each part takes at most width columns. The parts after the first are indented by
// hang columns, or by less if that leaves too little room. A word is broken only if it is longer than a line. Blanks are
// lost where the line is broken, and at its beginning if they fill half of the width. A width below 1 breaks nothing.
func Wrap(line string, width, hang int) []string {
	if width < 1 || Cells(line) <= width {
		return []string{line}
	}
	if hang > width/2 {
		hang = min(4, width/4)
	}
	if rest := strings.TrimLeft(line, " "); len(line)-len(rest) > width/2 {
		line = strings.Repeat(" ", width/2) + rest
	}
	indent := strings.Repeat(" ", hang)
	var out []string
	for {
		part, rest := split(line, width)
		out = append(out, part)
		if rest == "" {
			return out
		}
		if hang+Cells(rest) <= width {
			return append(out, indent+rest)
		}
		line = indent + rest
	}
}

// split returns the beginning of a line that takes at most width columns, and the rest. It splits at the last blank that
// makes that possible, but not among the blanks at the beginning.
func split(line string, width int) (part, rest string) {
	begin := len(line) - len(strings.TrimLeft(line, " "))
	end := fitting(line, width)
	if end == len(line) {
		return line, ""
	}
	at := end
	if line[end] != ' ' {
		at = strings.LastIndexByte(line[:end], ' ')
	}
	if at <= begin { // one word that is too long
		_, first := utf8.DecodeRuneInString(line[begin:])
		at = max(end, begin+first)
	}
	return strings.TrimRight(line[:at], " "), strings.TrimLeft(line[at:], " ")
}

// fitting returns the length in bytes of the longest beginning of s that takes at most width columns. It is at least one
// character, so that whoever splits a line comes to an end.
func fitting(s string, width int) int {
	cuts := make([]int, 0, len(s)+1)
	for i := range s {
		cuts = append(cuts, i)
	}
	cuts = append(cuts, len(s))
	if len(cuts) > 4*width+64 { // nothing beyond takes part, unless it is invisible
		cuts = cuts[:4*width+64]
	}
	n, _ := slices.BinarySearchFunc(cuts, width, func(end, width int) int {
		if Cells(s[:end]) <= width {
			return -1
		}
		return 1
	})
	return cuts[max(1, n-1)]
}

// Fit returns a line that takes exactly width columns: cut, with dots where it was cut, or filled with blanks.
func Fit(line string, width int) string {
	if width < 1 {
		return ""
	}
	n := Cells(line)
	if n > width {
		dots := "..."[:min(3, width-min(width, 1))]
		line = line[:fitting(line, width-len(dots))]
		if Cells(line) > width-len(dots) {
			line = ""
		}
		line += dots
		n = Cells(line)
	}
	return line + strings.Repeat(" ", max(0, width-n))
}
