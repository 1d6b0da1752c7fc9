package watch

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"pgregory.net/rapid"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/cmd/superloop/internal/screen"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/roles/agent/item"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// desk plays the verbs and writes down what was asked of it.
type desk struct{ did []string }

func (d *desk) Question(id string, approve bool, width int) (string, func() (string, error), error) {
	if id == "two" {
		return "", nil, errors.New("loop two waits for no decision")
	}
	return strings.Repeat("why\n", 40) + "rm -rf deps", func() (string, error) {
		d.did = append(d.did, fmt.Sprintf("answer %s %v", id, approve))
		return "approved", nil
	}, nil
}
func (d *desk) Kick(id string) (string, error) {
	d.did = append(d.did, "kick "+id)
	return "kicked", nil
}
func (d *desk) Cancel(id string) (string, error) {
	d.did = append(d.did, "cancel "+id)
	return "cancelled", nil
}
func (d *desk) Diff(id string) (string, error) {
	return "diff --git a/x b/x\n-old\n+new \x1b[2J\u202etxt\n", nil
}

var names = []string{"one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"}

func aLoop(id string, status loop.Status) Loop {
	return Loop{ID: id, Alive: status == loop.Running, Show: func(now time.Time) render.Standing {
		return render.Standing{Loop: id, Status: status, Where: fmt.Sprintf(", iteration 3 of 20, implementer for %s", now.Sub(noon)), Question: status == loop.AwaitingHuman,
			Facts: []render.Fact{{Name: "gates", Value: "promise=false tests=failed"}, {Name: "spent", Value: "$0.4200, 12345 tokens in 4 role runs; the budget is $5.00"},
				{Name: "next", Value: "superloop kick --loop " + id, Tone: screen.Strong}}}
	}}
}

// model returns a view of n loops on a terminal of w x h. The first one waits for a human.
func model(n, w, h int, d Actions) Model {
	m := NewModel(names[:n], false, d, noon)
	m = send(m, tea.WindowSizeMsg{Width: w, Height: h})
	for i, id := range names[:n] {
		status := loop.Running
		if i == 0 {
			status = loop.AwaitingHuman
		}
		m = send(m, Changed{aLoop(id, status), noon})
		m = send(m, Added{Loop: id, Log: "logs/iter-3/implementer.log", Fresh: true, Items: []item.Item{
			{Kind: item.Said, At: noon, Text: "I write the file of " + id + "."}, {Kind: item.Call, At: noon, Tool: "Bash", Text: "go test ./..."},
			{Kind: item.Result, At: noon, Failed: true, Text: "FAIL " + id}}})
	}
	return m
}

// send gives the model a message and everything that comes of it, but for the clock.
func send(m Model, msg tea.Msg) Model {
	next, cmd := m.Update(msg)
	m = next.(Model)
	if _, isKey := msg.(tea.KeyMsg); isKey && cmd != nil {
		if got := cmd(); got != nil {
			m = send(m, got)
		}
	}
	return m
}

var keyTypes = map[string]tea.KeyType{"up": tea.KeyUp, "down": tea.KeyDown, "enter": tea.KeyEnter, "esc": tea.KeyEsc, "pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown,
	"home": tea.KeyHome, "end": tea.KeyEnd}

func press(m Model, keys ...string) Model {
	for _, k := range keys {
		msg := tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(k)}
		if t, ok := keyTypes[k]; ok {
			msg = tea.KeyMsg{Type: t}
		}
		next, cmd := m.Update(msg)
		m = next.(Model)
		for _, got := range results(cmd) {
			m = send(m, got)
		}
	}
	return m
}

// results carries out a command, which is that of one key.
func results(cmd tea.Cmd) (all []tea.Msg) {
	if cmd == nil {
		return nil
	}
	if got := cmd(); got != nil {
		all = append(all, got)
	}
	return all
}

// fits fails unless the view fills a terminal of w x h exactly and acts on nothing.
func fits(t interface {
	Helper()
	Fatalf(string, ...any)
}, m Model, w, h int) string {
	t.Helper()
	view := m.View()
	lines := strings.Split(view, "\n")
	if len(lines) != h {
		t.Fatalf("%d lines for %d:\n%s", len(lines), h, view)
	}
	for _, line := range lines {
		if screen.Cells(line) > w || strings.ContainsAny(line, "\x1b\r\t\u202e\u0007") {
			t.Fatalf("%q takes %d of %d columns", line, screen.Cells(line), w)
		}
	}
	return view
}

// TestSizes: at both sizes and with 1, 3 and 10 loops, the view shows what an operator needs.
func TestSizes(t *testing.T) {
	t.Parallel()
	for _, size := range [][2]int{{80, 24}, {200, 50}} {
		for _, n := range []int{1, 3, 10} {
			w, h := size[0], size[1]
			m := model(n, w, h, &desk{})
			view := fits(t, m, w, h)
			want := []string{"one: awaiting_human", "approve", "quit"}
			if n > 1 {
				want = append(want, fmt.Sprintf("%d loops", n), names[n-1]+": running")
			}
			if n == 1 || w >= wideFrom {
				want = append(want, "gates       promise=false tests=failed", "the budget is $5.00", "12:00:00 I write the file of one.", "> Bash: go test ./...", "failed: FAIL one",
					"next: superloop kick --loop one", "-- logs/iter-3/implementer.log")
			}
			view = strings.ReplaceAll(view, noon.Local().Format(time.TimeOnly), "12:00:00")
			for _, part := range want {
				if !strings.Contains(view, part) {
					t.Errorf("%dx%d, %d loops: no %q in\n%s", w, h, n, part, view)
				}
			}
		}
	}
}

// TestChoosing: up, down and enter choose a loop, esc goes back.
func TestChoosing(t *testing.T) {
	t.Parallel()
	m := press(model(10, 80, 24, &desk{}), "down", "down", "up", "down")
	if view := fits(t, m, 80, 24); !strings.Contains(view, "> three: running") {
		t.Errorf("%s", view)
	}
	m = press(m, "enter")
	if view := fits(t, m, 80, 24); !strings.Contains(view, "I write the file of three.") || strings.Contains(view, "10 loops") {
		t.Errorf("%s", view)
	}
	if view := fits(t, press(m, "esc"), 80, 24); !strings.Contains(view, "10 loops") {
		t.Errorf("%s", view)
	}
	wide := press(model(10, 200, 50, &desk{}), "down")
	if view := fits(t, wide, 200, 50); !strings.Contains(view, "10 loops") || !strings.Contains(view, "I write the file of two.") {
		t.Errorf("%s", view)
	}
}

// TestAnswering: the question is shown, and y answers it only after its end was on the screen.
func TestAnswering(t *testing.T) {
	t.Parallel()
	d := &desk{}
	m := press(model(3, 80, 24, d), "a")
	if view := fits(t, m, 80, 24); !strings.Contains(view, "approve the question of one") || strings.Contains(view, "rm -rf deps") || !strings.Contains(view, "there is more") {
		t.Fatalf("%s", view)
	}
	if m = press(m, "y"); len(d.did) != 0 || m.over == nil {
		t.Fatalf("answered before the command was on the screen: %q", d.did)
	}
	m = press(m, "pgdown", "pgdown")
	if view := fits(t, m, 80, 24); !strings.Contains(view, "rm -rf deps") || !strings.Contains(view, "Let this run? y: yes, n: no") {
		t.Fatalf("%s", view)
	}
	if no := press(m, "n"); len(d.did) != 0 || no.over != nil || !strings.Contains(no.View(), "nothing was done") {
		t.Fatalf("%q", d.did)
	}
	m = press(m, "y")
	if strings.Join(d.did, "|") != "answer one true" || !strings.Contains(m.View(), "approved") {
		t.Fatalf("%q\n%s", d.did, m.View())
	}
	m = press(m, "r", "end", "y")
	if strings.Join(d.did, "|") != "answer one true|answer one false" {
		t.Fatalf("%q", d.did)
	}
	if m = press(m, "down", "a"); m.over != nil || !strings.Contains(m.View(), "loop two waits for no decision") {
		t.Errorf("%s", m.View())
	}
}

// TestSteering: k kicks at once, c asks first, d shows a diff in which nothing is hidden, and what was pasted is no key.
func TestSteering(t *testing.T) {
	t.Parallel()
	d := &desk{}
	m := press(model(1, 80, 24, d), "k", "c", "n", "c", "y")
	if strings.Join(d.did, "|") != "kick one|cancel one" {
		t.Fatalf("%q", d.did)
	}
	m = press(m, "d")
	if view := fits(t, m, 80, 24); !strings.Contains(view, "+new <U+001B>[2J<U+202E>txt") {
		t.Errorf("%s", view)
	}
	if view := fits(t, press(m, "q", "?"), 80, 24); !strings.Contains(view, "Ctrl-C   leave; the loops go on") {
		t.Errorf("%s", view)
	}
	next, cmd := m.Update(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("kkcy"), Paste: true})
	if len(d.did) != 2 || cmd != nil || next.(Model).note != m.note {
		t.Errorf("pasted text has done something: %q", d.did)
	}
}

// TestQuit: q and Ctrl-C end the view.
func TestQuit(t *testing.T) {
	t.Parallel()
	for _, msg := range []tea.KeyMsg{{Type: tea.KeyRunes, Runes: []rune("q")}, {Type: tea.KeyCtrlC}} {
		_, cmd := model(1, 80, 24, &desk{}).Update(msg)
		if cmd == nil {
			t.Fatalf("%s does nothing", msg)
		}
		if _, quit := cmd().(tea.QuitMsg); !quit {
			t.Errorf("%s does not quit", msg)
		}
	}
}

// TestTheClock runs only while a supervisor runs a loop: otherwise the view sleeps.
func TestTheClock(t *testing.T) {
	t.Parallel()
	m := NewModel(names[:1], false, &desk{}, noon)
	next, cmd := m.Update(Changed{aLoop("one", loop.Completed), noon})
	if cmd != nil {
		t.Error("a clock runs for a loop that has ended")
	}
	next, cmd = next.Update(Changed{aLoop("one", loop.Running), noon})
	if cmd == nil {
		t.Fatal("no clock runs for a loop that runs")
	}
	if _, again := next.Update(Added{Loop: "one"}); again != nil {
		t.Error("a second clock is started")
	}
	next, cmd = next.Update(tick(noon.Add(7 * time.Second)))
	if view := next.View(); cmd == nil || !strings.Contains(view, "implementer for 7s") {
		t.Errorf("%s", view)
	}
}

// TestLongLines: a line of 1 MB, and many of them, neither break the view nor push away what comes next.
func TestLongLines(t *testing.T) {
	t.Parallel()
	var items []item.Item
	r := item.NewReader(func(it item.Item) { items = append(items, it) })
	for range 3 {
		r.Write([]byte(`{"type":"text","sessionID":"s","part":{"text":"` + strings.Repeat("many words ", 1<<20/11) + `"}}` + "\n" + strings.Repeat("x", 1<<20) + "\n"))
	}
	r.Close()
	for _, size := range [][2]int{{80, 24}, {200, 50}} {
		m := model(1, size[0], size[1], &desk{})
		m = send(m, Added{Loop: "one", Log: "logs/iter-3/tester.log", Fresh: true, Items: items})
		if view := fits(t, m, size[0], size[1]); !strings.Contains(view, "next: superloop kick") || !strings.Contains(view, "many words many words") {
			t.Errorf("%s", view)
		}
	}
}

// TestLookingBack: up shows what came before, within what is kept, and end goes to the newest.
func TestLookingBack(t *testing.T) {
	t.Parallel()
	m := model(1, 80, 24, &desk{})
	for i := range 2000 {
		m = send(m, Added{Loop: "one", Log: "l", Items: []item.Item{{Kind: item.Plain, Text: fmt.Sprintf("line %d.", i)}}})
	}
	if len(m.loops[0].items) != maxItems || !strings.Contains(m.View(), "line 1999.") {
		t.Fatalf("%d items\n%s", len(m.loops[0].items), m.View())
	}
	m = press(m, "pgup", "pgup", "up")
	if view := fits(t, m, 80, 24); strings.Contains(view, "line 1999.") || !strings.Contains(view, "25 lines back") || !strings.Contains(view, "line 1974.") {
		t.Errorf("%s", view)
	}
	for range 200 {
		m = press(m, "pgup")
	}
	if view := fits(t, m, 80, 24); !strings.Contains(view, "line 1000.") {
		t.Errorf("%s", view)
	}
	if view := fits(t, press(m, "end"), 80, 24); !strings.Contains(view, "line 1999.") {
		t.Errorf("%s", view)
	}
}

// TestAnything: whatever comes, in whatever order and at whatever size, the view fits and acts on nothing.
func TestAnything(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int{1, 3, 10}).Draw(t, "loops")
		w, h := 80, 24
		m := model(n, w, h, &desk{})
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			id := names[rapid.IntRange(0, n-1).Draw(t, "loop")]
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				w, h = rapid.IntRange(8, 250).Draw(t, "w"), rapid.IntRange(1, 80).Draw(t, "h")
				m = send(m, tea.WindowSizeMsg{Width: w, Height: h})
			case 1:
				m = send(m, Failed{id, errors.New(rapid.String().Draw(t, "error"))})
			case 2:
				r := item.NewReader(func(it item.Item) { m = send(m, Added{Loop: id, Log: "logs/x.log", Items: []item.Item{it}}) })
				r.Write([]byte(rapid.String().Draw(t, "line")))
				r.Close()
			case 3:
				m = send(m, Changed{aLoop(id, rapid.SampledFrom([]loop.Status{loop.Running, loop.Completed, loop.AwaitingHuman, loop.Failed}).Draw(t, "status")), noon})
			case 4:
				m = press(m, rapid.SampledFrom([]string{"up", "down", "enter", "esc", "pgup", "pgdown", "a", "r", "k", "c", "d", "?", "y", "n", "home", "end", "h"}).Draw(t, "key"))
			}
			fits(t, m, w, h)
		}
	})
}

// TestColours: with colour, status words and failures have it, and no line gets wider.
func TestColours(t *testing.T) {
	t.Parallel()
	plain := model(1, 80, 24, &desk{})
	coloured := plain
	coloured.form.Colour = true
	view := coloured.View()
	if !strings.Contains(view, "\x1b[31m") || strings.Contains(plain.View(), "\x1b") {
		t.Errorf("%q", view)
	}
	for _, line := range strings.Split(view, "\n") {
		if screen.Cells(line) > 80 {
			t.Errorf("%q", line)
		}
	}
}
