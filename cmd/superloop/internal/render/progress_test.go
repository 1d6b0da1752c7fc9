package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superloop/superloop/cmd/superloop/internal/screen"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/journal"
)

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// aRun is a short run as a real journal holds it, and the journal's path.
func aRun(t *testing.T) ([]journal.Event, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "events.jsonl")
	j, err := journal.Open(durable.OS(), path, journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	var evs []journal.Event
	for i, e := range [][2]string{
		{"loop_start", `{"spec_file":"a.md","version":"1"}`},
		{"iteration_start", `{"started_at":"2026-01-02T03:04:05Z"}`},
		{"role_start", `{"role":"planner","runner":"codex","attempt":1}`},
		{"role_end", `{"role":"planner","outcome":"ok","attempt":1,"duration_ms":12000,"output_file":"plan.md","output_status":"fresh"}`},
		{"evidence_start", `{"enabled":true}`},
		{"evidence_end", `{"status":"failed","details":"no \u001b[31mproof\n","duration_ms":1}`},
		{"gates_evaluated", `{"complete":false,"missing":["evidence=failed"]}`},
		{"iteration_reported", `{"summary":"evidence=failed"}`},
		{"iteration_end", `{"duration_ms":14000}`},
		{"loop_stop", `{"status":"failed","reason":"max_iterations"}`},
	} {
		evs = append(evs, journal.Event{Timestamp: began.Add(time.Duration(i) * time.Second), Event: e[0], LoopID: "one",
			RunID: "r", Iteration: min(i, 1), Fields: json.RawMessage(e[1])})
	}
	evs, err = j.Append(true, evs...)
	if err != nil {
		t.Fatal(err)
	}
	return evs, path
}

func show(p Progress, evs []journal.Event, s loop.State) {
	for _, ev := range evs {
		p.Event(ev, s)
		p.Said("planner", "I think\x1b[2J")
	}
	p.Close()
}

func TestLinesPrintsARun(t *testing.T) {
	t.Parallel()
	evs, _ := aRun(t)
	for _, tt := range []struct {
		name, iteration string
		most            int
	}{{"bounded", "iteration 1 of 4", 4}, {"unbounded", "iteration 1", 0}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			show(NewLines(&out, screen.Form{}, asIs), evs, loop.State{Plan: loop.Plan{MaxIterations: tt.most}})
			var want strings.Builder
			for _, l := range []struct {
				at   int
				text string
			}{
				{0, "loop started, spec a.md"}, {1, tt.iteration}, {2, "  planner starts (codex)"}, {3, "  planner done in 12s"},
				{5, "  evidence failed: no [31mproof "}, {6, "  not complete yet: evidence=failed"}, {9, "loop failed (max_iterations)"},
			} {
				want.WriteString(evs[l.at].Timestamp.Local().Format(time.TimeOnly) + " " + l.text + "\n")
			}
			if out.String() != want.String() {
				t.Errorf("got\n%s\nwant\n%s", out.String(), want.String())
			}
		})
	}
}

// What JSONL prints is the journal, byte for byte, and can be read as one.
func TestJSONLRoundTrip(t *testing.T) {
	t.Parallel()
	evs, path := aRun(t)
	var out bytes.Buffer
	show(NewJSONL(&out), evs, loop.State{})
	kept, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Bytes(), kept) {
		t.Fatalf("printed\n%s\nthe journal is\n%s", out.Bytes(), kept)
	}
	copied := filepath.Join(t.TempDir(), "copy.jsonl")
	if err := os.WriteFile(copied, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := journal.Verify(copied); err != nil {
		t.Errorf("what was printed does not verify: %v", err)
	}
	read := func(path string) (got []journal.Event) {
		if err := journal.Read(path, 0, func(ev journal.Event) error {
			ev.Fields = bytes.Clone(ev.Fields)
			got = append(got, ev)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got, want := read(copied), read(path); len(got) != len(evs) || !reflect.DeepEqual(got, want) {
		t.Errorf("read back %v, want %v", got, want)
	}
}

// A reader that left, as of a closed pipe, does not stop the loop.
type gone struct{}

func (gone) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestProgressOutlivesItsReader(t *testing.T) {
	t.Parallel()
	evs, _ := aRun(t)
	for _, p := range []Progress{NewLines(gone{}, screen.Form{}, asIs), NewJSONL(gone{}), NewLive(gone{}, screen.Wide(80), asIs)} {
		show(p, evs, loop.State{})
	}
}

// The live line is taken away before each line and at the end, fits the
// terminal, and nothing that an agent said moves the cursor.
func TestLiveLine(t *testing.T) {
	t.Parallel()
	evs, _ := aRun(t)
	var out bytes.Buffer
	l := NewLive(&out, screen.Wide(60), asIs)
	s := loop.State{Status: loop.Running, Begun: true, Pending: &loop.Effect{Kind: loop.RunRole, Role: "planner"}}
	var all sync.WaitGroup
	l.Event(evs[2], s)
	for range 4 {
		all.Go(func() { l.Said("planner", "thinking \x1b[2J"+strings.Repeat("long ", 40)) })
	}
	all.Wait()
	l.Event(evs[3], loop.State{Status: loop.Running})
	l.Close()
	const wipe = "\r\x1b[K"
	if got := out.String(); !strings.HasSuffix(got, "planner done in 12s\n"+wipe) || !strings.Contains(got, "thinking [2J") ||
		strings.Contains(strings.ReplaceAll(got, wipe, ""), "\x1b") {
		t.Errorf("printed %q", got)
	}
	for _, piece := range strings.Split(out.String(), wipe) {
		if !strings.HasSuffix(piece, "\n") && len([]rune(piece)) > 59 {
			t.Errorf("the live line %q has %d columns of 59", piece, len([]rune(piece)))
		}
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := JSON(&out, map[string]string{"a": "<b> & c"}); err != nil {
		t.Fatal(err)
	}
	if want := "{\n  \"a\": \"<b> & c\"\n}\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func asIs(hint string) string { return hint }

// Only the command at the end of superloop's own sentences is changed, never the text
// of an agent.
func TestDescribeFor(t *testing.T) {
	t.Parallel()
	there := func(hint string) string { return strings.ReplaceAll(hint, "superloop ", "superloop@there ") }
	for _, tt := range []struct{ event, fields, want string }{
		{"approval_requested", `{"loop_id":"x"}`, "waiting for approval: superloop@there approve --loop x"},
		{"recovery_escalated", `{"loop_id":"x","type":"approval_required","command":"superloop run","reason":"superloop does"}`,
			"waiting for an operator (approval required): superloop run; superloop does; superloop@there approve-recovery --loop x"},
		{"recovery_proposed", `{"command":"superloop run"}`, ""},
	} {
		ev := journal.Event{Event: tt.event, LoopID: "x", Fields: json.RawMessage(tt.fields)}
		if tt.want == "" {
			tt.want = Describe(ev)
		}
		if got := DescribeFor(ev, there); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.event, got, tt.want)
		}
	}
}
