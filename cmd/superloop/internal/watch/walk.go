package watch

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/superloop/superloop/cmd/superloop/internal/screen"
)

// Line is one line of a step, in its tone.
type Line struct {
	Tone screen.Tone
	Text string
}

// Steps are what Walk goes through.
type Steps interface {
	// Show returns the lines of a step. ok is false if there is no such step.
	Show(seq int64) (lines []Line, ok bool, err error)
	// End returns the number of the last step.
	End() (int64, error)
}

// Walk shows one step after the other full-screen, forward and back, until a key ends it or ctx does. in and out are the
// terminal. It returns the error of Steps.
func Walk(ctx context.Context, in, out *os.File, colour bool, title string, at int64, s Steps) error {
	p := tea.NewProgram(newWalk(title, colour, at, s), tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithAltScreen(), tea.WithFPS(fps), tea.WithoutSignalHandler())
	last, err := p.Run()
	if ctx.Err() != nil {
		return nil // the signal has its own exit code
	}
	if w, ok := last.(walk); ok && w.err != nil {
		return w.err
	}
	return err
}

// walk is the state of the screen.
type walk struct {
	steps         Steps
	form          screen.Form
	title         string
	at            int64
	lines         []Line
	top           int    // the first line that is shown
	typed         string // the digits of a number
	said          string
	width, height int
	err           error
}

func newWalk(title string, colour bool, at int64, s Steps) walk {
	w := walk{steps: s, form: screen.Form{Colour: colour}, title: title, width: 80, height: 24}
	return w.jump(at)
}

// jump goes to a step, or stays and says that there is none.
func (w walk) jump(to int64) walk {
	lines, ok, err := w.steps.Show(to)
	switch {
	case err != nil:
		w.err = err
	case !ok:
		w.said = fmt.Sprintf("there is no event %d", to)
	default:
		w.at, w.lines, w.top, w.said = to, lines, 0, ""
	}
	return w
}

func (w walk) Init() tea.Cmd { return nil }

func (w walk) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		if msg.Width > 0 && msg.Height > 0 { // otherwise the terminal does not say
			w.width, w.height = msg.Width, msg.Height
		}
	case tea.KeyMsg:
		if msg.Paste {
			break
		}
		if msg.Type != tea.KeyRunes {
			return w.key(msg.String())
		}
		for _, c := range msg.Runes {
			next, cmd := w.key(string(c))
			if w = next.(walk); cmd != nil {
				return w, cmd
			}
		}
	}
	return w, nil
}

func (w walk) key(k string) (tea.Model, tea.Cmd) {
	if len(k) == 1 && k[0] >= '0' && k[0] <= '9' && len(w.typed) < 18 {
		w.typed += k
		return w, nil
	}
	typed := w.typed
	w.typed = ""
	switch k {
	case "q", "ctrl+c", "esc":
		return w, tea.Quit
	case "j", "down", "right", "l", "n", " ":
		w = w.jump(w.at + 1)
	case "k", "up", "left", "h", "p":
		w = w.jump(w.at - 1)
	case "g", "home":
		w = w.jump(1)
	case "G", "end":
		if end, err := w.steps.End(); err != nil {
			w.err = err
		} else {
			w = w.jump(end)
		}
	case "enter":
		if to, err := strconv.ParseInt(typed, 10, 64); err == nil {
			w = w.jump(to)
		} else {
			w = w.jump(w.at + 1)
		}
	case "pgdown", "d":
		w.top = max(0, min(w.top+w.room(), len(w.wrapped())-w.room()))
	case "pgup", "u":
		w.top = max(0, w.top-w.room())
	}
	if w.err != nil {
		return w, tea.Quit
	}
	return w, nil
}

// room is how many lines of a step the screen has.
func (w walk) room() int { return max(1, w.height-3) }

// wrapped returns the lines of the step, broken to the width of the screen.
func (w walk) wrapped() (out []string) {
	for _, l := range w.lines {
		for _, part := range screen.Wrap(l.Text, w.width, 8) {
			out = append(out, w.form.Paint(l.Tone, part))
		}
	}
	return out
}

func (w walk) View() string {
	lines := w.wrapped()
	more := len(lines) - w.top - w.room()
	lines = lines[min(w.top, len(lines)):min(w.top+w.room(), len(lines))]
	foot := "j next   k back   NUMBER Enter   g first   G last   q quit"
	switch {
	case w.typed != "":
		foot = "event " + w.typed + "   Enter goes there"
	case w.said != "":
		foot = w.said
	case more > 0:
		foot = fmt.Sprintf("d: %d more lines   ", more) + foot
	}
	head := func(tone screen.Tone, s string) string { return w.form.Paint(tone, screen.Wrap(s, w.width, 0)[0]) }
	return head(screen.Faint, w.title) + "\n" + strings.Join(lines, "\n") + strings.Repeat("\n", max(1, w.room()-len(lines)+1)) + head(screen.Faint, foot)
}
