package watch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/cmd/superloop/internal/screen"
	"github.com/superloop/superloop/loop"
)

const (
	wideFrom = 120 // columns from which on the list stands beside the chosen loop
	listWide = 44  // columns of the list then
)

func (m Model) wide() bool { return m.w >= wideFrom && len(m.loops) > 1 }

// View implements tea.Model. It returns exactly as many lines as the terminal has, none wider than the terminal.
func (m Model) View() string {
	var lines []string
	switch {
	case m.over != nil:
		lines = m.pageView()
	case m.wide():
		right := m.loopView(m.w-listWide-3, m.h-1)
		for i, left := range m.listView(listWide, m.h-1) {
			lines = append(lines, filled(left, listWide)+m.form.Paint(screen.Faint, " | ")+right[i])
		}
		lines = append(lines, m.foot())
	case m.detail:
		lines = append(m.loopView(m.w, m.h-1), m.foot())
	default:
		lines = append(m.listView(m.w, m.h-1), m.foot())
	}
	return strings.Join(exactly(lines, m.h), "\n")
}

// exactly returns n lines: the first of these, or empty ones behind them.
func exactly(lines []string, n int) []string {
	n = max(0, n)
	if len(lines) > n {
		return lines[:n]
	}
	return append(slices.Clip(lines), make([]string, n-len(lines))...)
}

// filled fills a line, which may be coloured, with blanks.
func filled(line string, width int) string {
	return line + strings.Repeat(" ", max(0, width-screen.Cells(line)))
}

// foot is the last line: what the last key has led to, or the keys.
func (m Model) foot() string {
	if m.note != "" {
		tone := screen.Strong
		if m.bad {
			tone = screen.Bad
		}
		return m.form.Paint(tone, strings.TrimRight(screen.Fit(m.note, m.w), " "))
	}
	keys := "k kick  c cancel  d diff  ? help  q quit"
	s := m.loops[m.at].summary(m.now)
	switch {
	case s.Question:
		keys = "a approve  r reject  " + keys
	case len(m.loops) > 1 && m.detail && !m.wide():
		keys = "esc list  " + keys
	case len(m.loops) > 1:
		keys = "up/down/enter choose  " + keys
	}
	return m.form.Paint(screen.Faint, strings.TrimRight(screen.Fit(keys, m.w), " "))
}

// listView lists the loops: each with its state, and if there is room with what its agent did last.
func (m Model) listView(w, h int) []string {
	lines := []string{m.form.Paint(screen.Strong, screen.Fit(render.Number(len(m.loops), "loop"), w))}
	each := 1
	if 2*len(m.loops) < h {
		each = 2
	}
	room := max(1, (h-1)/each)
	from := min(max(0, m.at-room/2), max(0, len(m.loops)-room))
	for i := from; i < min(len(m.loops), from+room); i++ {
		s := m.loops[i].summary(m.now)
		mark := "  "
		if s.Question {
			mark = "? "
		}
		row := screen.Fit(fmt.Sprintf("%s%s: %s%s", mark, s.Loop, s.Status, s.Where), w)
		switch before, after, ok := strings.Cut(row, ": "+string(s.Status)); {
		case i == m.at:
			row = m.form.Paint(screen.Chosen, cursor(row))
		case ok && s.Status != loop.Running:
			row = before + ": " + m.form.Paint(render.StatusTone(s.Status), string(s.Status)) + after
		}
		lines = append(lines, row)
		if each == 2 {
			lines = append(lines, m.form.Paint(screen.Faint, strings.TrimRight(screen.Fit("    "+m.lastOf(m.loops[i]), w), " ")))
		}
	}
	return exactly(lines, h)
}

// cursor marks the chosen row, also where there is no colour.
func cursor(row string) string { return ">" + row[1:] }

// lastOf is what the agent of a loop did last, or why the loop cannot be read.
func (m Model) lastOf(s shown) string {
	if s.failed != "" {
		return s.failed
	}
	if len(s.items) == 0 {
		return ""
	}
	lines, _ := render.ItemLines(s.items[len(s.items)-1], 0)
	return strings.TrimSpace(lines[0])
}

// loopView shows the chosen loop: its state, what its agent does, and what comes next.
func (m Model) loopView(w, h int) []string {
	s := m.loops[m.at]
	standing := s.summary(m.now)
	form := screen.Form{Colour: m.form.Colour, Columns: func() int { return w }}
	next := slices.IndexFunc(standing.Facts, func(f render.Fact) bool { return f.Name == "next" })
	var bottom []string
	if next >= 0 {
		last := standing.Facts[next]
		standing.Facts = slices.Delete(slices.Clone(standing.Facts), next, next+1)
		for _, line := range screen.Wrap("next: "+render.Clean(last.Value), w, 6) {
			bottom = append(bottom, m.form.Paint(last.Tone, line))
		}
	}
	if s.failed != "" {
		bottom = append(bottom, m.form.Paint(screen.Bad, strings.TrimRight(screen.Fit(s.failed, w), " ")))
	}
	bottom = most(bottom, h/4, w)
	top := most(standing.Lines(form), h/2, w)
	name := s.log
	if name == "" {
		name = "no agent has run yet"
	}
	rule := "-- " + name + " "
	if m.back > 0 {
		rule += fmt.Sprintf("(%s back; End: the newest) ", render.Number(m.back, "line"))
	}
	rule = screen.Fit(rule+strings.Repeat("-", max(0, w-screen.Cells(rule))), w)
	room := max(0, h-len(top)-1-len(bottom))
	middle := m.itemLines(s, w, room)
	lines := append(top, m.form.Paint(screen.Faint, rule))
	lines = append(lines, exactly(middle, room)...)
	return exactly(append(lines, bottom...), h)
}

// most returns the first n lines, and says in the last one when there are more.
func most(lines []string, n, w int) []string {
	n = max(1, n)
	if len(lines) <= n {
		return lines
	}
	more := screen.Fit(fmt.Sprintf("  (%s more)", render.Number(len(lines)-n+1, "line")), w)
	return append(slices.Clip(lines[:n-1]), strings.TrimRight(more, " "))
}

// itemLines returns the last lines of what the agent did, room at most, m.back lines before the end.
func (m Model) itemLines(s shown, w, room int) []string {
	out := m.newest(s, w, room+m.back, max(3, room/2))
	from := min(m.back, max(0, len(out)-room))
	out = out[from:min(len(out), from+max(0, room))]
	slices.Reverse(out)
	return out
}

// newest returns the last lines of what the agent did, the very last one first: most lines, and no part of an item less.
// One item takes at most each lines, so that the one before it can be seen.
func (m Model) newest(s shown, w, most, each int) (out []string) {
	for _, it := range slices.Backward(s.items) {
		if len(out) >= most {
			break
		}
		lines, tone := render.ItemLines(it, w)
		if len(lines) > each {
			lines = append(slices.Clip(lines[:each-1]), strings.TrimRight(screen.Fit("         ...", w), " "))
		}
		for _, line := range slices.Backward(lines) {
			out = append(out, m.form.Paint(tone, line))
		}
	}
	return out
}

// lookBack moves what is shown of the agent's work back by a number of lines, within what is kept of it.
func (m Model) lookBack(by int) Model {
	w := m.w
	if m.wide() {
		w -= listWide + 3
	}
	all := len(m.newest(m.loops[m.at], w, 1<<30, max(3, m.h/4)))
	m.back = min(max(0, m.back+by), max(0, all-1))
	return m
}
