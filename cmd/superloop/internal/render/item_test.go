package render

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/cmd/superloop/internal/screen"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/roles/agent/item"
)

func TestItemLines(t *testing.T) {
	t.Parallel()
	at, cost, tokens := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local), 0.25, int64(12345)
	for name, c := range map[string]struct {
		it    item.Item
		width int
		want  []string
	}{
		"said":             {item.Item{Kind: item.Said, At: at, Text: "I write the file."}, 0, []string{"03:04:05 I write the file."}},
		"no time":          {item.Item{Kind: item.Said, Text: "hi"}, 0, []string{"         hi"}},
		"said, wrapped":    {item.Item{Kind: item.Said, At: at, Text: "one two three four"}, 22, []string{"03:04:05 one two three", "           four"}},
		"a call":           {item.Item{Kind: item.Call, At: at, Tool: "Bash", Text: "go test"}, 0, []string{"03:04:05 > Bash: go test"}},
		"a call is cut":    {item.Item{Kind: item.Call, At: at, Tool: "Bash", Text: "go test ./..."}, 24, []string{"03:04:05 > Bash: go t..."}},
		"without argument": {item.Item{Kind: item.Call, Tool: "wait"}, 0, []string{"         > wait"}},
		"a result":         {item.Item{Kind: item.Result, Text: "ok", Bytes: 900, Lines: 12, Took: 90 * time.Millisecond}, 0, []string{"           ok: ok (12 lines, 90ms)"}},
		"a failure":        {item.Item{Kind: item.Result, Failed: true, Text: "no such file", Bytes: 4000}, 0, []string{"           failed: no such file (3.9 KiB)"}},
		"an empty result":  {item.Item{Kind: item.Result}, 0, []string{"           ok"}},
		"of a sub-agent":   {item.Item{Kind: item.Said, Sub: true, Text: "part"}, 0, []string{"         | part"}},
		"a thought":        {item.Item{Kind: item.Thought, Text: "hm"}, 0, []string{"         (hm)"}},
		"a note":           {item.Item{Kind: item.Note, Text: "session begins"}, 0, []string{"         * session begins"}},
		"the end":          {item.Item{Kind: item.End, CostUSD: &cost, Tokens: &tokens, Took: 83 * time.Second}, 0, []string{"         = done, 12.3k tokens, $0.2500, 1m23s"}},
		"a failed end":     {item.Item{Kind: item.End, Failed: true, Text: "max turns"}, 0, []string{"         = failed: max turns"}},
		"plain":            {item.Item{Kind: item.Plain, Text: "    x := 1", Bytes: 10}, 0, []string{"    x := 1"}},
	} {
		if got, _ := ItemLines(c.it, c.width); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestItemLinesKeepTheWidth: no line of any item is wider than the terminal.
func TestItemLinesKeepTheWidth(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(20, 200).Draw(t, "width")
		it := item.Item{Kind: rapid.SampledFrom([]item.Kind{item.Said, item.Thought, item.Call, item.Result, item.Note, item.End, item.Plain}).Draw(t, "kind"),
			Text: rapid.StringMatching(`[ a-zä漢]{0,300}`).Draw(t, "text"), Tool: rapid.StringMatching(`[a-z]{0,60}`).Draw(t, "tool"),
			Sub: rapid.Bool().Draw(t, "sub"), Failed: rapid.Bool().Draw(t, "failed"), Bytes: rapid.Int64Range(0, 1<<40).Draw(t, "bytes")}
		lines, _ := ItemLines(it, width)
		for _, line := range lines {
			if screen.Cells(line) > width {
				t.Fatalf("%q", line)
			}
		}
	})
}

// TestTones: failures, questions and ends are seen, and hardly anything else.
func TestTones(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		event, fields string
		want          screen.Tone
	}{
		{"role_failed", `{}`, screen.Bad}, {"role_start", `{}`, screen.Normal}, {"tests_end", `{"status":"ok"}`, screen.Good},
		{"tests_end", `{"status":"failed"}`, screen.Bad}, {"evidence_end", `{"status":"skipped"}`, screen.Normal},
		{"loop_complete", `{}`, screen.Good}, {"loop_stop", `{"status":"stuck"}`, screen.Bad}, {"loop_stop", `{"status":"paused"}`, screen.Normal},
		{"recovery_escalated", `{}`, screen.Ask}, {"recovery_verified", `{"result":"verified"}`, screen.Good},
		{"recovery_verified", `{"result":"harmful"}`, screen.Bad}, {"iteration_start", `broken`, screen.Strong},
	} {
		if got := ToneOf(journal.Event{Event: c.event, Fields: json.RawMessage(c.fields)}); got != c.want {
			t.Errorf("%s %s: %v", c.event, c.fields, got)
		}
	}
}

// TestLinesOfANarrowTerminal: the lines of a run are wrapped below their text, and no word is cut.
func TestLinesOfANarrowTerminal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := NewLines(&out, screen.Form{Colour: true, Columns: func() int { return 40 }}, func(s string) string { return s })
	evs, _ := aRun(t)
	show(l, evs, loop.State{})
	for _, line := range strings.Split(out.String(), "\n") {
		if screen.Cells(line) > 40 {
			t.Errorf("%q", line)
		}
	}
	if !strings.Contains(out.String(), "\x1b[31m") || !strings.Contains(out.String(), "\n           ") {
		t.Errorf("%q", out.String())
	}
}
