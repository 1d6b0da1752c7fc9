// Package watch shows what the agents of loops do while they do it: full-screen on a terminal, with keys to answer and to
// steer, or as lines. What is shown is a Model, whose Update and View are pure; Feed reads the loops and sends it what has
// changed. The package decides nothing and writes nothing: Actions do what a key asks for.
package watch

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/cmd/superloop/internal/screen"
	"github.com/superloop/superloop/cmd/superloop/internal/watch/early"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/roles/agent/item"
)

var _ = early.Restore()

// Loop is what is shown of one loop.
type Loop struct {
	ID    string
	Alive bool // a supervisor runs it, so durations grow
	// Show returns what status says at a time. It reads nothing.
	Show func(now time.Time) render.Standing
}

// Actions do what a key asks for. Each runs beside the view, may take a while, and returns a line to show.
type Actions interface {
	// Question returns what an operator has to read before the loop's question is answered, and a function that gives
	// the answer to exactly this question.
	Question(loop string, approve bool, width int) (text string, answer func() (string, error), err error)
	Kick(loop string) (string, error)
	Cancel(loop string) (string, error)
	Diff(loop string) (string, error) // of the work tree; foreign text
}

// Changed says that the state of a loop has changed.
type Changed struct {
	Loop Loop
	At   time.Time
}

// Added says that a log of a loop has grown. Fresh says that the items before belong to another log.
type Added struct {
	Loop, Log string
	Fresh     bool
	Items     []item.Item
}

// Failed says that a loop could not be read.
type Failed struct {
	Loop string
	Err  error
}

// fps bounds how often the screen is drawn in a second. The library wakes up as often, also when nothing happens.
const fps = 10

// Full shows the loops full-screen until a key ends it or ctx does. in and out are the terminal.
func Full(ctx context.Context, in, out *os.File, m Model, feed func(ctx context.Context, send func(any))) error {
	ctx, stop := context.WithCancel(ctx)
	p := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithAltScreen(), tea.WithFPS(fps), tea.WithoutSignalHandler())
	done := make(chan struct{})
	go func() {
		defer close(done)
		feed(ctx, func(msg any) { p.Send(msg) })
	}()
	_, err := p.Run()
	ended := ctx.Err() != nil
	stop()
	<-done
	if ended {
		return nil // the signal has its own exit code
	}
	return err
}

// Lines prints the loops as lines: the headline of a loop when its state has changed, and each item. It ends with ctx,
// or when no supervisor runs any of the loops. ids are the loops; with more than one, each line begins with the loop's
// id.
func Lines(ctx context.Context, w io.Writer, form screen.Form, ids []string, feed func(ctx context.Context, send func(any))) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	alive, last := map[string]bool{}, map[string]string{}
	for _, id := range ids {
		alive[id] = true // until it is known
	}
	var failed error
	feed(ctx, func(msg any) {
		switch msg := msg.(type) {
		case Changed:
			s := msg.Loop.Show(msg.At)
			if said := headline(s); said != last[s.Loop] {
				last[s.Loop] = said
				failed = firstOf(failed, form.Print(w, render.StatusTone(s.Status), msg.At.Local().Format(time.TimeOnly)+" "+said, 9))
			}
			if delete(alive, msg.Loop.ID); msg.Loop.Alive {
				alive[msg.Loop.ID] = true
			}
		case Added:
			if msg.Fresh {
				failed = firstOf(failed, form.Print(w, screen.Faint, "==> "+msg.Loop+": "+msg.Log, 4))
			}
			for _, it := range msg.Items {
				failed = firstOf(failed, render.PrintItem(w, form, it))
			}
		case Failed:
			failed = firstOf(failed, form.Print(w, screen.Bad, msg.Loop+": "+text.Line(msg.Err.Error(), item.MaxText), 4))
		}
		if len(alive) == 0 || failed != nil {
			stop()
		}
	})
	return failed
}

func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// headline is what Lines says when a loop's state has changed: the facts without durations, and what comes next.
func headline(s render.Standing) string {
	said := fmt.Sprintf("%s: %s", s.Loop, s.Status)
	for _, f := range s.Facts {
		if f.Name == "because" || f.Name == "permission" || f.Name == "gates" || f.Name == "spent" || f.Name == "recovery" || f.Name == "next" {
			said += "; " + f.Name + ": " + render.Clean(f.Value)
		}
	}
	return said
}
