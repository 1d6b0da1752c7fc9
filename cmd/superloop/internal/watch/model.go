package watch

import (
	"fmt"
	"slices"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/cmd/superloop/internal/screen"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/roles/agent/item"
)

// maxItems is the number of items of a loop that a Model keeps.
const maxItems = 1000

// Model is what the full-screen view shows. It is a value: Update returns another one, and View reads nothing else.
type Model struct {
	form    screen.Form
	actions Actions
	w, h    int
	now     time.Time
	loops   []shown
	at      int  // the chosen loop
	detail  bool // it is shown alone, where the terminal is too narrow for both
	back    int  // lines between the end of the items and the last line shown
	over    *page
	note    string // what the last key has led to
	bad     bool   // the note is of a failure
	ticking bool
}

// shown is a loop with what its agent has done.
type shown struct {
	Loop
	log    string
	items  []item.Item
	failed string // why it cannot be read now
}

// page is a text that covers the view until a key closes it.
type page struct {
	title string
	lines []string
	tones []screen.Tone
	top   int
	// yes is what y does; nil: the page asks nothing. Its end must have been on the screen before y counts.
	yes  tea.Cmd
	asks string
	seen bool
}

// NewModel returns the view of the loops with these ids.
func NewModel(ids []string, colour bool, actions Actions, now time.Time) Model {
	m := Model{form: screen.Form{Colour: colour}, actions: actions, w: 80, h: 24, now: now, detail: len(ids) == 1}
	for _, id := range ids {
		m.loops = append(m.loops, shown{Loop: Loop{ID: id}})
	}
	return m
}

// Init implements tea.Model.
func (m Model) Init() tea.Cmd { return nil }

type (
	tick   time.Time
	done   struct{ said string } // an action has ended well
	wrong  struct{ err error }   // an action has failed
	opened struct{ page page }   // an action wants a page
)

// Update implements tea.Model.
func (m Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.w, m.h = max(1, msg.Width), max(1, msg.Height)
		m.back = 0
		if m.over != nil {
			m = m.scrolled(0)
		}
	case Changed:
		m = m.with(msg.Loop.ID, func(s *shown) { s.Loop, s.failed = msg.Loop, "" })
		m.now = later(m.now, msg.At)
	case Failed:
		m = m.with(msg.Loop, func(s *shown) { s.failed = text.Line(msg.Err.Error(), item.MaxText) })
	case Added:
		m = m.with(msg.Loop, func(s *shown) {
			all := s.items
			if msg.Fresh && len(all) > 0 { // what came before stays above, with a line between
				all = append(slices.Clip(all), item.Item{Kind: item.Plain, Text: "-- " + text.Line(msg.Log, item.MaxTool)})
			}
			all = append(slices.Clip(all), msg.Items...)
			s.log, s.items = msg.Log, all[max(0, len(all)-maxItems):]
		})
	case tick:
		m.now, m.ticking = later(m.now, time.Time(msg)), false
	case done:
		m.note, m.bad = text.Line(msg.said, item.MaxText), false
	case wrong:
		m.note, m.bad = text.Line(msg.err.Error(), item.MaxText), true
	case opened:
		m.over, m.note = &msg.page, ""
		m = m.scrolled(0)
	case tea.KeyMsg:
		return m.keys(msg)
	}
	return m.wake()
}

// keys takes what was typed: one key, or several letters that came at once. A text that was pasted is no key.
func (m Model) keys(msg tea.KeyMsg) (tea.Model, tea.Cmd) {
	if msg.Paste {
		return m, nil
	}
	if msg.Type != tea.KeyRunes {
		return m.key(msg.String())
	}
	var all []tea.Cmd
	for _, c := range msg.Runes {
		next, cmd := m.key(string(c))
		m, all = next.(Model), append(all, cmd)
	}
	return m, tea.Batch(all...)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// wake starts the clock that lets durations grow, while a supervisor runs a loop. Otherwise nothing happens until a
// message comes.
func (m Model) wake() (tea.Model, tea.Cmd) {
	if m.ticking || !slices.ContainsFunc(m.loops, func(s shown) bool { return s.Alive }) {
		return m, nil
	}
	m.ticking = true
	return m, tea.Tick(time.Second, func(t time.Time) tea.Msg { return tick(t) })
}

// with returns the model after do has changed one loop in it.
func (m Model) with(id string, do func(*shown)) Model {
	i := slices.IndexFunc(m.loops, func(s shown) bool { return s.ID == id })
	if i < 0 {
		return m
	}
	m.loops = slices.Clone(m.loops)
	do(&m.loops[i])
	return m
}

func (m Model) key(k string) (tea.Model, tea.Cmd) {
	if k == "ctrl+c" {
		return m, tea.Quit
	}
	if m.over != nil {
		return m.pageKey(k)
	}
	m.note = ""
	id := m.loops[m.at].ID
	switch k {
	case "q":
		return m, tea.Quit
	case "?", "h":
		m.over = &page{title: "keys", lines: help}
		return m.scrolled(0), nil
	case "up", "down":
		step := map[string]int{"up": -1, "down": 1}[k]
		if len(m.loops) == 1 || m.detail && !m.wide() {
			m = m.lookBack(-step)
		} else {
			m.at, m.back = min(max(0, m.at+step), len(m.loops)-1), 0
		}
	case "pgup", "pgdown":
		m = m.lookBack(map[string]int{"pgup": m.h / 2, "pgdown": -m.h / 2}[k])
	case "end":
		m.back = 0
	case "enter":
		m.detail, m.back = true, 0
	case "esc", "backspace", "left":
		m.detail, m.back = len(m.loops) == 1, 0
	case "a", "r":
		return m, m.ask(id, k == "a")
	case "k":
		return m, run(func() (string, error) { return m.actions.Kick(id) })
	case "c":
		cancel := run(func() (string, error) { return m.actions.Cancel(id) })
		m.over = &page{title: "cancel " + id, asks: "End it", yes: cancel,
			lines: []string{"The loop " + id + " ends: what it runs is stopped, nothing is deleted.", "superloop run goes on where it stood."}}
		return m.scrolled(0), nil
	case "d":
		return m, m.diff(id)
	}
	return m, nil
}

// run returns a command that carries out an action beside the view.
func run(do func() (string, error)) tea.Cmd {
	return func() tea.Msg {
		said, err := do()
		if err != nil {
			return wrong{err}
		}
		return done{said}
	}
}

// ask opens the question of a loop. Its answer needs one more key.
func (m Model) ask(id string, approve bool) tea.Cmd {
	return func() tea.Msg {
		said, answer, err := m.actions.Question(id, approve, m.w)
		if err != nil {
			return wrong{err}
		}
		p := page{title: "reject the question of " + id, asks: "Go on without it", yes: run(answer)}
		if approve {
			p.title, p.asks = "approve the question of "+id, "Let this run"
		}
		p.lines = strings.Split(strings.TrimRight(said, "\n"), "\n")
		return opened{p}
	}
}

// Bounds of a diff that is shown.
const (
	maxDiff     = 20_000 // lines
	maxDiffLine = 2_000  // characters
)

func (m Model) diff(id string) tea.Cmd {
	return func() tea.Msg {
		out, err := m.actions.Diff(id)
		if err != nil {
			return wrong{err}
		}
		if strings.TrimSpace(out) == "" {
			return done{"the work tree has no changes"}
		}
		p := page{title: "changes in the work tree"}
		for line := range strings.Lines(out) {
			if len(p.lines) == maxDiff {
				p.lines = append(p.lines, fmt.Sprintf("(the diff has more than %d lines; git diff shows all of them)", maxDiff))
				break
			}
			p.lines = append(p.lines, visible(strings.TrimRight(line, "\r\n")))
		}
		p.tones = make([]screen.Tone, len(p.lines))
		for i, line := range p.lines {
			switch {
			case strings.HasPrefix(line, "diff ") || strings.HasPrefix(line, "+++") || strings.HasPrefix(line, "---"):
				p.tones[i] = screen.Strong
			case strings.HasPrefix(line, "+"):
				p.tones[i] = screen.Good
			case strings.HasPrefix(line, "-"):
				p.tones[i] = screen.Bad
			case strings.HasPrefix(line, "@@"):
				p.tones[i] = screen.Faint
			}
		}
		return opened{p}
	}
}

// help is what "?" shows.
var help = []string{
	"up, down    choose a loop; with one loop: look back",
	"enter, esc  show the chosen loop alone; back to the list",
	"PgUp, PgDn  look back in what the agent did; End: the newest again",
	"a           approve what the loop asks; it is shown first, and y answers",
	"r           reject it",
	"k           kick: a loop that waits tries again now",
	"c           cancel the loop; y confirms",
	"d           show the changes in the work tree (git diff)",
	"?           this page",
	"q, Ctrl-C   leave; the loops go on",
	"",
	"> a call of a tool   ok/failed what came of it   * the CLI reports   = the turn ends",
}

// summary is what a loop's state is now.
func (s shown) summary(now time.Time) render.Standing {
	if s.Show == nil {
		return render.Standing{Loop: s.ID, Where: " (reading)"}
	}
	return s.Show(now)
}
