package item

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/internal/testkit"
)

var update = flag.Bool("update", false, "write the golden files")

// read returns the items of a stream that arrives in pieces of n bytes.
func read(stream []byte, n int, reader func(func(Item)) *Reader) (items []Item, skipped int64) {
	r := reader(func(it Item) { items = append(items, it) })
	testkit.Pieces(stream, n, r.Write)
	r.Close()
	return items, r.Skipped()
}

// show writes an item on one line, with every field that says something.
func show(it Item) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-7s", it.Kind)
	say := func(ok bool, format string, args ...any) {
		if ok {
			fmt.Fprintf(&b, " "+format, args...)
		}
	}
	say(!it.At.IsZero(), "at=%s", it.At.UTC().Format(time.TimeOnly))
	say(it.Sub, "sub")
	say(it.Tool != "", "tool=%s", it.Tool)
	say(it.Failed, "failed")
	say(it.Took > 0, "took=%s", it.Took)
	say(it.Bytes > 0, "bytes=%d", it.Bytes)
	say(it.Lines > 0, "lines=%d", it.Lines)
	say(it.CostUSD != nil, "cost=%v", deref(it.CostUSD))
	say(it.Tokens != nil, "tokens=%d", deref(it.Tokens))
	say(it.Text != "", "%q", it.Text)
	return b.String()
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func streams(t testing.TB) []string {
	files, err := filepath.Glob("../testdata/streams/*/*.out")
	if err != nil || len(files) < 50 {
		t.Fatal(len(files), err)
	}
	return files
}

// TestRecordedStreams: each recorded stream of the CLIs gives the items that the golden file of its CLI lists.
func TestRecordedStreams(t *testing.T) {
	t.Parallel()
	golden := map[string]*strings.Builder{}
	for _, file := range streams(t) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		cli := filepath.Base(filepath.Dir(file))
		if golden[cli] == nil {
			golden[cli] = &strings.Builder{}
		}
		items, skipped := read(data, 0, NewReader)
		fmt.Fprintf(golden[cli], "== %s, %d skipped\n", strings.TrimSuffix(filepath.Base(file), ".out"), skipped)
		for _, it := range items {
			fmt.Fprintln(golden[cli], show(it))
		}
		for n := 1; n < 200; n *= 7 {
			if again, _ := read(data, n, NewReader); fmt.Sprint(shown(again)) != fmt.Sprint(shown(items)) {
				t.Errorf("%s: pieces of %d bytes give other items", file, n)
			}
		}
	}
	for cli, got := range golden {
		file := filepath.Join("testdata", cli+".items")
		if *update {
			if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil || got.String() != string(want) {
			t.Errorf("%s: the items differ (%v); look at them, then: go test ./roles/agent/item -update", file, err)
		}
	}
}

// TestConversations: each recorded conversation with a CLI that is asked gives the items of its golden file. What superloop
// answered is not in a log.
func TestConversations(t *testing.T) {
	t.Parallel()
	for recording, golden := range map[string]string{"codex": "codex-served", "acp/opencode": "opencode-acp", "acp/gemini": "gemini-acp", "acp/qwen": "qwen-acp", "acp/copilot": "copilot-acp"} {
		file, err := os.ReadFile("../testdata/" + recording + ".rpc.txt")
		if err != nil {
			t.Fatal(err)
		}
		var stream bytes.Buffer
		for line := range bytes.Lines(file) {
			if line, ok := bytes.CutPrefix(line, []byte("< ")); ok {
				stream.Write(line)
			}
		}
		items, skipped := read(stream.Bytes(), 0, NewReader)
		got, golden := fmt.Sprintf("%s\n%d skipped\n", strings.Join(shown(items), "\n"), skipped), filepath.Join("testdata", golden+".items")
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(golden); err != nil || got != string(want) {
			t.Errorf("the items of %s differ (%v); look at them, then: go test ./roles/agent/item -update\n%s", recording, err, got)
		}
	}
}

func shown(items []Item) (out []string) {
	for _, it := range items {
		out = append(out, show(it))
	}
	return out
}

// TestLines: single lines that no recorded stream holds.
func TestLines(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ line, want string }{
		"plain text keeps its indentation": {"\tif x {", `plain   bytes=7 "    if x {"`},
		"colours are removed":              {"\x1b[31mred\x1b[0m \x1b]0;title\a!", `plain   bytes=24 "red !"`},
		"the last state of a progress bar": {" 10 %\r 99 %\r", `plain   bytes=12 " 99 %"`},
		"bidirectional text is disarmed":   {"a\u202eb\u2066c", `plain   bytes=9 "abc"`},
		"an unknown event is shown":        {`{"type":"surprise","a":1}`, `plain   bytes=25 "{\"type\":\"surprise\",\"a\":1}"`},
		"JSON that is no event":            {`[1,2]`, `plain   bytes=5 "[1,2]"`},
		"an event that is cut off":         {`{"type":"item.completed","item":{"type":"agent_mess`, `plain   bytes=51 "{\"type\":\"item.completed\",\"item\":{\"type\":\"agent_mess"`},
		"a failed command says its code": {`{"type":"item.completed","item":{"id":"1","type":"command_execution","command":"/bin/bash -lc 'make x'","aggregated_output":"\nno rule\n","exit_code":2,"status":"failed"}}`,
			"call    tool=shell \"make x\"\nresult  tool=shell failed bytes=9 lines=2 \"exit code 2: no rule\""},
		"an argument with a bad name":  {`{"type":"assistant","session_id":"s","message":{"content":[{"type":"tool_use","name":"mcp__x\u001b[2J","input":{"zzz":"\u202efile"}}]}}`, `call    tool=mcp__x "file"`},
		"a question about a tool":      {`{"type":"control_request","request_id":"r","request":{"subtype":"hook_callback","input":{"tool_name":"Bash","tool_input":{"command":"ls"}}}}`, ""},
		"the message of a sub-agent":   {`{"type":"assistant","session_id":"s","parent_tool_use_id":"t","message":{"content":[{"type":"text","text":"hi"}]}}`, `said    sub "hi"`},
		"a refusal to begin":           {`{"error":{"code":-32600,"message":"no rollout found"},"id":2}`, `note    failed "no rollout found"`},
		"a turn that failed":           {`{"method":"turn/completed","params":{"threadId":"t","turn":{"status":"failed","error":{"message":"no"}}}}`, `end     failed "no"`},
		"a command that failed":        {`{"method":"item/completed","params":{"threadId":"t","item":{"type":"commandExecution","id":"1","command":"/bin/bash -lc 'make x'","aggregatedOutput":"\nno rule\n","exitCode":2,"durationMs":5,"status":"failed"}}}`, "call    tool=shell \"make x\"\nresult  tool=shell failed took=5ms bytes=9 lines=2 \"exit code 2: no rule\""},
		"a retry":                      {`{"method":"error","params":{"error":{"message":"Reconnecting... 1/5","additionalDetails":"429"},"willRetry":true,"threadId":"t"}}`, `note    failed "Reconnecting... 1/5 (429)"`},
		"a time that cannot be":        {`{"type":"text","timestamp":9e15,"sessionID":"s","part":{"text":"hi"}}`, `said    "hi"`},
		"a cost below zero is unknown": {`{"type":"result","subtype":"success","is_error":false,"total_cost_usd":-1}`, `end    `},
	} {
		items, _ := read([]byte(c.line), 0, NewReader)
		if got := strings.Join(shown(items), "\n"); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, c.want)
		}
	}
}

// TestPlainReader: the output of a program that is no agent has no events, whatever it prints.
func TestPlainReader(t *testing.T) {
	t.Parallel()
	items, _ := read([]byte(`{"type":"result","subtype":"success","is_error":false,"total_cost_usd":9}`+"\n  ok\n"), 0, NewPlain)
	if len(items) != 2 || items[0].Kind != Plain || items[1].Text != "  ok" {
		t.Errorf("%q", shown(items))
	}
}

// TestLongLines: a message and a result of 4 MiB each give short items that tell the size, in constant memory.
func TestLongLines(t *testing.T) {
	big := strings.Repeat("many words ", 4<<20/11)
	stream := []byte(`{"type":"assistant","session_id":"s","message":{"content":[{"type":"text","text":"` + big + `"},{"type":"tool_use","id":"1","name":"Read","input":{"file_path":"x"}}]}}` + "\n" +
		`{"type":"user","session_id":"s","message":{"content":[{"tool_use_id":"1","type":"tool_result","content":"first\n` + big + `"}]}}` + "\n" + big + "\n")
	var items []Item
	testkit.Memory(t, 1<<20, func() {
		r := NewReader(func(it Item) { items = append(items, it) })
		for piece := range slicesOf(stream, 64<<10) {
			r.Write(piece)
		}
		r.Close()
	})
	if len(items) != 4 || items[0].Kind != Said || items[2].Text != "first" || items[2].Bytes != int64(len(big))+6 || items[3].Bytes != int64(len(big)) {
		t.Fatalf("%d items", len(items))
	}
	for _, it := range items {
		if utf8.RuneCountInString(it.Text) > MaxText {
			t.Errorf("%s has %d characters", it.Kind, utf8.RuneCountInString(it.Text))
		}
	}
}

func slicesOf(p []byte, n int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(p) > 0 && yield(p[:min(n, len(p))]) {
			p = p[min(n, len(p)):]
		}
	}
}

// TestAnyText: whatever an agent says, the item is one harmless line within its bounds, and nothing is made up.
func TestAnyText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		said := rapid.String().Draw(t, "said")
		quoted := jsonText(said)
		line := fmt.Sprintf(`{"type":"text","timestamp":1795251965904,"sessionID":"s","part":{"text":%s}}`, quoted)
		items, _ := read([]byte(line), rapid.IntRange(1, 99).Draw(t, "piece"), NewReader)
		if len(items) > 1 {
			t.Fatalf("%q", shown(items))
		}
		for _, it := range items {
			harmless(t, it)
		}
	})
}

func jsonText(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range s {
		if c < 0x20 || c == '"' || c == '\\' {
			fmt.Fprintf(&b, `\u%04x`, c)
		} else {
			b.WriteRune(c)
		}
	}
	return b.String() + `"`
}

// harmless fails unless the texts of the item are short, valid and without characters that act on a terminal.
func harmless(t interface {
	Fatalf(string, ...any)
	Helper()
}, it Item) {
	t.Helper()
	for text, most := range map[string]int{it.Text: MaxText, it.Tool: MaxTool} {
		bad := strings.ContainsFunc(text, func(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) })
		if bad || !utf8.ValidString(text) || utf8.RuneCountInString(text) > most {
			t.Fatalf("%q", text)
		}
	}
	if it.Bytes < 0 || it.Lines < 0 || it.Took < 0 || it.Tokens != nil && *it.Tokens < 0 || it.CostUSD != nil && !(*it.CostUSD >= 0) {
		t.Fatalf("%+v", it)
	}
}

// FuzzItems: however a stream is cut into pieces, it gives the same items, harmless ones, in bounded memory, and no
// more than its lines can hold.
func FuzzItems(f *testing.F) {
	for _, file := range streams(f) {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, byte(7))
	}
	f.Add([]byte("{\"type\":\"result\"\n\xff\x00[[[[\r\n\x1b[2J"), byte(0))
	f.Add([]byte(`{"type":"assistant","session_id":"s","message":{"content":[{"name":"a"},{"name":7},{"text":["x"]}]}}`), byte(1))
	f.Fuzz(func(t *testing.T, data []byte, piece byte) {
		want, skipped := read(data, 0, NewReader)
		got, again := read(data, 1+int(piece), NewReader)
		if strings.Join(shown(got), "\n") != strings.Join(shown(want), "\n") || again != skipped {
			t.Fatalf("in pieces of %d:\n%q\nat once:\n%q", 1+int(piece), shown(got), shown(want))
		}
		testkit.Memory(t, 10*len(data), func() { read(data, 0, NewReader) })
		for _, it := range want {
			harmless(t, it)
		}
		if lines := int64(bytes.Count(data, []byte("\n")) + 1); skipped > lines {
			t.Fatalf("%d events of %d lines are skipped", skipped, lines)
		}
	})
}
