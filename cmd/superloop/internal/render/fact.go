package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/superloop/superloop/cmd/superloop/internal/screen"
	"github.com/superloop/superloop/loop"
)

// Fact is a line of what status says about a loop.
type Fact struct {
	Name, Value string
	Tone        screen.Tone
}

// Standing is what status says about a loop: its id and status, what follows them in the headline, and the facts.
type Standing struct {
	Loop     string
	Status   loop.Status
	Where    string // begins with a comma
	Facts    []Fact
	Question bool // the loop waits for a human
}

// factColumn is the width of the names of the facts with the blanks around them.
const factColumn = 14

// StatusTone returns the tone of a loop's status.
func StatusTone(s loop.Status) screen.Tone {
	switch s {
	case loop.Completed:
		return screen.Good
	case loop.Failed, loop.StuckEnd, loop.LimitReached:
		return screen.Bad
	case loop.AwaitingHuman, loop.AwaitingApproval, loop.RateLimited:
		return screen.Ask
	}
	return screen.Strong
}

func (s Standing) tone() screen.Tone {
	if s.Question {
		return screen.Ask
	}
	return StatusTone(s.Status)
}

// Lines returns the standing in a form, without line breaks.
func (s Standing) Lines(f screen.Form) (lines []string) {
	for i, line := range screen.Wrap(fmt.Sprintf("%s: %s%s", s.Loop, s.Status, s.Where), f.Width(), 2) {
		if before, after, ok := strings.Cut(line, ": "+string(s.Status)); ok && i == 0 {
			line = before + ": " + f.Paint(s.tone(), string(s.Status)) + after
		}
		lines = append(lines, line)
	}
	for _, fact := range s.Facts {
		for _, line := range screen.Wrap(fmt.Sprintf("  %-11s %s", fact.Name, Clean(fact.Value)), f.Width(), factColumn) {
			lines = append(lines, f.Paint(fact.Tone, line))
		}
	}
	return lines
}

// Print writes the standing in a form.
func (s Standing) Print(w io.Writer, f screen.Form) {
	for _, line := range s.Lines(f) {
		fmt.Fprintln(w, line)
	}
}
