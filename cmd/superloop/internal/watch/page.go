package watch

import (
	"strings"
	"unicode"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/superloop/superloop/cmd/superloop/internal/screen"
	"github.com/superloop/superloop/internal/text"
)

// pageKey is a key while a page covers the view.
func (m Model) pageKey(k string) (tea.Model, tea.Cmd) {
	room := m.pageRoom()
	switch k {
	case "up":
		return m.scrolled(-1), nil
	case "down", "enter":
		return m.scrolled(1), nil
	case "pgup":
		return m.scrolled(-room), nil
	case "pgdown", " ":
		return m.scrolled(room), nil
	case "home":
		return m.scrolled(-1 << 30), nil
	case "end":
		return m.scrolled(1 << 30), nil
	case "y":
		if m.over.yes == nil || !m.over.seen {
			return m, nil
		}
		yes := m.over.yes
		m.over, m.note, m.bad = nil, "...", false
		return m, yes
	case "n", "q", "esc":
		asked := m.over.yes != nil
		if m.over = nil; asked {
			m.note, m.bad = "nothing was done", false
		}
	}
	return m, nil
}

// pageRoom is the number of lines that a page has between its title and its foot.
func (m Model) pageRoom() int { return max(1, m.h-2) }

// wrapped returns the lines of a page for the present width, with their tones.
func (m Model) wrapped(p *page) (lines []string, tones []screen.Tone) {
	for i, line := range p.lines {
		tone := screen.Normal
		if i < len(p.tones) {
			tone = p.tones[i]
		}
		for _, part := range screen.Wrap(line, m.w, 2) {
			lines, tones = append(lines, part), append(tones, tone)
		}
	}
	return lines, tones
}

// scrolled returns the model with the page moved by a number of lines, within its text.
func (m Model) scrolled(by int) Model {
	p := *m.over
	lines, _ := m.wrapped(&p)
	last := max(0, len(lines)-m.pageRoom())
	p.top = min(max(0, p.top+by), last)
	p.seen = p.seen || p.top == last
	m.over = &p
	return m
}

func (m Model) pageView() []string {
	p := m.over
	lines, tones := m.wrapped(p)
	out := []string{m.form.Paint(screen.Strong, screen.Fit(p.title, m.w))}
	end := min(len(lines), p.top+m.pageRoom())
	for i := p.top; i < end; i++ {
		out = append(out, m.form.Paint(tones[i], lines[i]))
	}
	for len(out) < m.h-1 {
		out = append(out, "")
	}
	foot := "up, down, PgUp, PgDn; q: back"
	switch {
	case p.yes != nil && p.seen:
		foot = p.asks + "? y: yes, n: no"
	case p.yes != nil:
		foot = "there is more: PgDn; n: no"
	}
	tone := screen.Faint
	if p.yes != nil {
		tone = screen.Ask
	}
	return append(out, m.form.Paint(tone, screen.Fit(foot, m.w)))
}

// visible makes a line of a diff harmless and hides nothing: a character that cannot be seen is shown as its code point,
// so that nobody is misled about what a file holds.
func visible(line string) string {
	line = strings.ReplaceAll(text.Cut(strings.ToValidUTF8(line, "?"), maxDiffLine), "\t", "    ")
	var b strings.Builder
	for _, c := range line {
		if unicode.IsPrint(c) {
			b.WriteRune(c)
		} else {
			b.WriteString(text.CharName(c))
		}
	}
	return b.String()
}
