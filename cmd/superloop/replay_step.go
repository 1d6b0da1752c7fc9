package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/cmd/superloop/internal/screen"
	"github.com/superloop/superloop/cmd/superloop/internal/watch"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/replay"
)

// walked is a walk through a journal, as lines for an operator.
type walked struct {
	*replay.Walk
	here func(string) string
}

// step is one step of a walk as JSON.
type step struct {
	Seq       int64         `json:"seq"`
	At        time.Time     `json:"timestamp"`
	Event     string        `json:"event"`
	Iteration int           `json:"iteration"`
	Said      string        `json:"said"`
	Status    loop.Status   `json:"status"`
	Step      string        `json:"at"`
	Pending   string        `json:"pending,omitempty"`
	Changes   []loop.Change `json:"changes"`
}

// maxValue is how many characters of a value a step shows.
const maxValue = 200

// Show returns an event, the state after it, and what has changed, as lines. ok is false if there is no such event.
func (s walked) Show(seq int64) (lines []watch.Line, ok bool, err error) {
	x, err := s.At(seq)
	if errors.Is(err, replay.ErrEnd) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	ev, st := x.Event, x.State
	add := func(tone screen.Tone, format string, args ...any) {
		lines = append(lines, watch.Line{Tone: tone, Text: fmt.Sprintf(format, args...)})
	}
	add(screen.Strong, "#%d %s %s  iteration %d", ev.Seq, ev.Timestamp.Local().Format("2006-01-02 15:04:05.000"), text.Line(ev.Event, 60), ev.Iteration)
	add(render.ToneOf(ev), "    %s", render.DescribeFor(ev, s.here))
	what := ""
	if st.Pending != nil {
		what = ", then " + strings.TrimSpace(fmt.Sprintf("%s %s", st.Pending.Kind, text.Line(st.Pending.Role, 60)))
	}
	add(render.StatusTone(st.Status), "    state: %s%s%s", st.Status, atStep(st), what)
	if len(x.Changes) == 0 {
		add(screen.Faint, "    the state stays as it is: the event is a record")
	}
	for _, c := range x.Changes {
		add(screen.Normal, "    %s: %s -> %s", text.Line(c.Path, maxValue), text.Line(replay.Value(c.From), maxValue), text.Line(replay.Value(c.To), maxValue))
	}
	return lines, true, nil
}

// atStep says at which step of an iteration a state is.
func atStep(s loop.State) string {
	if s.At == "" {
		return ""
	}
	return " at " + text.Line(s.At, 60)
}

// replaySteps walks through a journal: full-screen on a terminal, else as lines.
func (a *app) replaySteps(c *cli.Context) error {
	file := c.String("journal")
	walk := replay.NewWalk(func(from int64, fn func(journal.Event) error) error { return journal.Read(file, from, fn) })
	end, err := walk.End()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return failf(exitNotFound, "superloop list", "there is no journal %s", file)
	case err != nil:
		return err
	case end == 0:
		return failf(exitNothing, "superloop list", "%s has no event yet", file)
	}
	form, err := a.form(c, a.stdout)
	if err != nil {
		return err
	}
	at := min(max(c.Int64("from"), 1), end)
	s := walked{walk, a.here}
	in, out := ttyOf(a.stdin), ttyOf(a.stdout)
	switch {
	case c.Bool("json"):
		return a.eachStep(at, func(seq int64) (bool, error) { return a.jsonStep(walk, seq) })
	case in != nil && out != nil && a.env("TERM") != "dumb":
		return watch.Walk(c.Context, in, out, form.Colour, text.Line(file, maxValue), at, s)
	case in != nil:
		return a.eachStep(at, func(seq int64) (bool, error) { return a.printStep(form, s, seq) })
	}
	return a.stepsByLines(form, s, at)
}

// eachStep shows one step after the other, until there is none.
func (a *app) eachStep(at int64, show func(seq int64) (bool, error)) error {
	for ; ; at++ {
		if ok, err := show(at); err != nil || !ok {
			return err
		}
	}
}

func (a *app) jsonStep(w *replay.Walk, seq int64) (bool, error) {
	x, err := w.At(seq)
	if errors.Is(err, replay.ErrEnd) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	out := step{Seq: seq, At: x.Event.Timestamp, Event: x.Event.Event, Iteration: x.Event.Iteration, Said: render.Describe(x.Event), Status: x.State.Status, Step: x.State.At, Changes: orEmpty(x.Changes)}
	if x.State.Pending != nil {
		out.Pending = string(x.State.Pending.Kind)
	}
	line, err := loop.Encode(out)
	if err == nil {
		_, err = a.stdout.Write(append(line, '\n'))
	}
	return true, err
}

func (a *app) printStep(form screen.Form, s walked, seq int64) (bool, error) {
	lines, ok, err := s.Show(seq)
	for _, l := range lines {
		if err == nil {
			err = form.Print(a.stdout, l.Tone, l.Text, 8)
		}
	}
	return ok, err
}

// stepsByLines takes commands from standard input, a line each. Without any it prints all steps.
func (a *app) stepsByLines(form screen.Form, s walked, at int64) error {
	commands := bufio.NewScanner(a.stdin)
	if !commands.Scan() {
		if err := commands.Err(); err != nil {
			return err
		}
		return a.eachStep(at, func(seq int64) (bool, error) { return a.printStep(form, s, seq) })
	}
	if _, err := a.printStep(form, s, at); err != nil {
		return err
	}
	for more := true; more; more = commands.Scan() {
		to := at
		switch word := strings.TrimSpace(commands.Text()); word {
		case "q":
			return nil
		case "n", "j", "":
			to++
		case "p", "k":
			to--
		default:
			n, err := strconv.ParseInt(word, 10, 64)
			if err != nil {
				fmt.Fprintf(a.stderr, "%s is none of: n (next), p (back), a number, q (quit)\n", text.Line(word, 40))
				continue
			}
			to = n
		}
		ok, err := a.printStep(form, s, to)
		if err != nil {
			return err
		}
		if !ok {
			fmt.Fprintf(a.stderr, "there is no event %d\n", to)
			continue
		}
		at = to
	}
	return commands.Err()
}
