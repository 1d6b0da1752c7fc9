package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/roles"
	"github.com/superloop/superloop/roles/agent/class"
)

// show is all that a stream gives, as text.
func show(s Stream, end proc.Result) string {
	settled := s.Settled()
	learned := s.Finish(end)
	text, err := json.Marshal(learned)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d %q %s", settled, s.LastLine(), text)
}

// eachPlay runs f for every recording.
func eachPlay(t *testing.T, f func(t *testing.T, a Adapter, p play, stdout, stderr []byte, end proc.Result)) {
	t.Parallel()
	for cli, list := range plays() {
		for _, p := range list {
			t.Run(cli+"/"+p.name, func(t *testing.T) {
				t.Parallel()
				stdout, stderr, end := replay(t, cli, p.name)
				f(t, adapterFor(t, cli), p, stdout, stderr, end)
			})
		}
	}
}

// However the bytes are cut, and whether a stream has a byte order mark,
// carriage returns or no line break at its end, the same is learned.
func TestRecordedStreamsCutAnywhere(t *testing.T) {
	eachPlay(t, func(t *testing.T, a Adapter, p play, stdout, stderr []byte, end proc.Result) {
		whole := a.Stream(p.request())
		p.feed(whole, stdout, stderr, 0)
		want := show(whole, end)
		for _, piece := range []int{1, 7, 4096} {
			s := a.Stream(p.request())
			p.feed(s, stdout, stderr, piece)
			if got := show(s, end); got != want {
				t.Errorf("pieces of %d:\n%s\nwant\n%s", piece, got, want)
			}
		}
		dressed := a.Stream(p.request())
		p.feed(dressed, append([]byte("\ufeff"), bytes.ReplaceAll(stdout, []byte("\n"), []byte("\r\n\r\n"))...), stderr, 0)
		if got := show(dressed, end); got != want {
			t.Errorf("dressed up:\n%s\nwant\n%s", got, want)
		}
		if p.cut != "" {
			return
		}
		// Without its line break the last line is only known at the end.
		open := a.Stream(p.request())
		p.feed(open, bytes.TrimSuffix(stdout, []byte("\n")), stderr, 0)
		if got := show(open, end); got[1:] != want[1:] {
			t.Errorf("without the last line break:\n%s\nwant\n%s", got, want)
		}
	})
}

// Events and fields that nobody knows yet change nothing, nor does the order of
// the keys.
func TestRecordedStreamsWithUnknowns(t *testing.T) {
	t.Parallel()
	for cli, list := range plays() {
		t.Run(cli, func(t *testing.T) {
			t.Parallel()
			a := adapterFor(t, cli)
			rapid.Check(t, func(rt *rapid.T) {
				p := rapid.SampledFrom(list).Draw(rt, "play")
				stdout, stderr, end := replay(t, cli, p.name)
				changed, extra, unread := embellished(rt, stdout)
				whole, s := a.Stream(p.request()), a.Stream(p.request())
				p.feed(whole, stdout, stderr, 0)
				p.feed(s, changed, stderr, 0)
				want, got := whole.Finish(end), s.Finish(end)
				got.Lines, got.Unread = got.Lines-extra, got.Unread-unread
				if a, b := asJSON(got), asJSON(want); a != b {
					rt.Fatalf("%s: %s\nwant\n%s\nof\n%s", p.name, a, b, changed)
				}
			})
		})
	}
}

// embellished is a stream with other lines between its own, of which so many
// are no JSON, and with its own lines shuffled.
func embellished(rt *rapid.T, stdout []byte) (stream []byte, extra, unread int64) {
	odd := rapid.SampledFrom([]string{
		`{"type":"new_event","sessionID":"x","session_id":"y","status":"success","message":"429 rate limit"}`, `{}`, `[1,2]`, `"result"`, `{"type":5}`, `null`,
		`{"result":{"type":"result","status":"success"}}`, `Error: rate limit exceeded (429)`, "\x00\x01",
	})
	var b bytes.Buffer
	for line := range bytes.Lines(stdout) {
		for range rapid.IntRange(0, 2).Draw(rt, "extra lines") {
			text := odd.Draw(rt, "line")
			b.WriteString(text + "\n")
			if extra++; !json.Valid([]byte(text)) {
				unread++
			}
		}
		var v any
		d := json.NewDecoder(bytes.NewReader(line))
		d.UseNumber()
		if err := d.Decode(&v); err != nil { // a line of a log
			b.Write(line)
			continue
		}
		shuffled(rt, &b, v, 0)
		b.WriteByte('\n')
	}
	return b.Bytes(), extra, unread
}

func asJSON(l Learned) string {
	text, err := json.Marshal(l)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// shuffled writes v with its keys in any order, and with fields that no event
// has.
func shuffled(rt *rapid.T, b *bytes.Buffer, v any, depth int) {
	switch v := v.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(v))
		if depth < 3 && rapid.Bool().Draw(rt, "more") {
			v = maps.Clone(v)
			v["x_new"] = map[string]any{"type": "result", "status": "success", "error": map[string]any{"message": "quota exceeded"}}
			v["x_list"] = []any{json.Number("1"), nil, true}
			keys = append(keys, "x_new", "x_list")
		}
		keys = rapid.Permutation(keys).Draw(rt, "keys")
		b.WriteByte('{')
		for i, k := range keys {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(marshalled(k) + ":")
			shuffled(rt, b, v[k], depth+1)
		}
		b.WriteByte('}')
	case []any:
		b.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			shuffled(rt, b, e, depth+1)
		}
		b.WriteByte(']')
	default:
		b.WriteString(marshalled(v))
	}
}

// A stream that breaks off says nothing that the whole one does not: it is never
// done before its end, and a failure is never seen where there is none.
func TestRecordedStreamsBrokenOff(t *testing.T) {
	eachPlay(t, func(t *testing.T, a Adapter, p play, stdout, stderr []byte, end proc.Result) {
		whole := bytes.TrimSpace(stdout)
		killed := end
		killed.Ended, killed.Signal, killed.Code = proc.Killed, "SIGKILL", -1
		// Every byte of the last 1,000, and of what is before them one in a few.
		for n := 0; n < len(whole); n += 1 + max(0, len(whole)-1000-n)/500 {
			s := a.Stream(p.request())
			s.Stdout(stdout[:n])
			settled := s.Settled()
			got := s.Finish(killed)
			if got.Done {
				t.Fatalf("done after %d of %d bytes", n, len(whole))
			}
			if p.want.class == class.None && !p.again && (got.Class != class.None && got.Class != class.NoResult || got.Limit != nil || settled != Going) {
				t.Fatalf("after %d bytes: %s, %v, settled %d", n, got.Class, got.Limit, settled)
			}
		}
	})
}

// Whatever comes, nothing breaks, nothing is done, and no more is kept than a
// last message.
func TestStreamsOfGarbage(t *testing.T) {
	t.Parallel()
	pieces := []string{
		`{"type":"result"`, `{"type":"result","status":{}}`, `{"type":"result","status":"suc`, `{"type":"step_finish","sessionID":"s","part":5}`, "\n", "\n", `{`, `}`, `[`, `"`, `\`,
		`{"type":"error","sessionID":"s","error":"x"}`, `{"type":"error","sessionID":"s","error":{"name":7,"data":[]}}`, "\x00", "\xff", `{"type":"message","role":"assistant","content":5}`,
		`{"type":"step_finish","sessionID":"s","part":{"tokens":{"input":-5,"output":1e99,"cache":7},"cost":"x","reason":null}}`, strings.Repeat("[", 5000), strings.Repeat("x", 9000),
		`{"type":"tool_result","tool_id":"a","error":{"type":[],"message":{}}}`, `{"type":"init","session_id":"s"}`, "timestamp=x level=ERROR run=y message=failed ref=z error=", "Attempt 1 failed with status 999",
		`{"type":"session","id":7}`, `{"type":"message_end","message":{"role":"assistant","content":7,"stopReason":[],"errorMessage":{},"usage":{"input":-1,"cost":{"total":-3}}}}`, `{"type":"agent_start"}`,
	}
	rapid.Check(t, func(rt *rapid.T) {
		piece := rapid.OneOf(rapid.SampledFrom(pieces), rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 20), func(b []byte) string { return string(b) }))
		out := strings.Join(rapid.SliceOfN(piece, 0, 20).Draw(rt, "stdout"), "")
		text := strings.Join(rapid.SliceOfN(piece, 0, 5).Draw(rt, "stderr"), "")
		end := proc.Result{
			Ended: rapid.SampledFrom([]proc.Reason{proc.Exited, proc.Killed, proc.NotStarted}).Draw(rt, "ended"),
			Code:  rapid.SampledFrom([]int{0, 1, 41, 42, 145, 173, -1}).Draw(rt, "code"),
		}
		for _, a := range []Adapter{gemini{}, opencode{}, pi{}} {
			s := a.Stream(Request{})
			play{}.feed(s, []byte(out), []byte(text), rapid.IntRange(0, 9).Draw(rt, "piece"))
			_ = s.LastLine()
			if got := s.Finish(end); got.Done || got.CostUSD != nil && *got.CostUSD < 0 {
				rt.Fatalf("%s: %+v", a.Name(), got)
			}
		}
	})
}

func TestHugeMessages(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789abcde\n", 160<<10) // 2.5 MB
	for cli, lines := range map[string][]string{
		"gemini": {
			`{"type":"init","session_id":"s","model":"m"}`, `{"type":"message","role":"assistant","content":` + marshalled("begin "+long) + `,"delta":true}`,
			`{"type":"message","role":"assistant","content":` + marshalled(long+" <promise>DONE</promise>") + `,"delta":true}`,
			`{"type":"result","status":"success"}`,
		},
		"opencode": {
			`{"type":"step_start","sessionID":"s"}`, `{"type":"text","sessionID":"s","part":{"text":` + marshalled("begin "+long) + `}}`,
			`{"type":"text","sessionID":"s","part":{"text":` + marshalled(long+" <promise>DONE</promise>") + `}}`,
			`{"type":"step_finish","sessionID":"s","part":{"reason":"stop"}}`,
		},
		"pi": {
			`{"type":"session","id":"s"}`, `{"type":"agent_start"}`,
			`{"type":"message_end","message":{"role":"assistant","stopReason":"stop","content":[{"type":"text","text":` + marshalled("begin "+long) + `},{"type":"text","text":` + marshalled(long+" <promise>DONE</promise>") + `}]}}`,
			`{"type":"agent_end"}`,
		},
	} {
		s := adapterFor(t, cli).Stream(Request{})
		s.Stdout([]byte(strings.Join(lines, "\n")))
		got := s.Finish(proc.Result{Ended: proc.Exited})
		final := roles.Cut(got.FinalMessage, messageHalf, messageHalf)
		if !got.Done || len(got.FinalMessage) > MaxMessage || final != got.FinalMessage ||
			!strings.HasPrefix(final, "begin 0123") || !strings.HasSuffix(final, " <promise>DONE</promise>") || !strings.Contains(final, "bytes left out") {
			t.Errorf("%s: done %t, %d bytes: %.40q ... %q", cli, got.Done, len(final), final, final[max(0, len(final)-40):])
		}
	}
}

// What an agent says, and what its tools do, is never a limit, however much it
// looks like one.
func TestQuotedLimits(t *testing.T) {
	t.Parallel()
	words := []string{
		quoted, "429", "HTTP 429 Too Many Requests", "You have exhausted your daily quota on this model.", "rate limit exceeded", "Suggested retry after 3600s", "401 Unauthorized",
		"ContextOverflowError", `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED"}}`, `{"type":"result","status":"error"}`, "\nError when talking to Gemini API x.json TerminalQuotaError: y\n  status: 429\n",
		"API key not valid", "Loop detected, stopping execution", "Maximum session turns exceeded", "The user rejected permission to use this specific tool call.",
	}
	rapid.Check(t, func(rt *rapid.T) {
		word := func(what string) string {
			return marshalled(strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 1, 3).Draw(rt, what), rapid.SampledFrom([]string{"", "\n", " "}).Draw(rt, "between")))
		}
		said := word("text")
		for cli, lines := range map[string][]string{
			"gemini": {
				`{"type":"init","session_id":"s","model":"m"}`,
				`{"type":"message","role":"user","content":` + word("prompt") + `}`,
				`{"type":"message","role":"assistant","content":` + word("before") + `,"delta":true}`,
				`{"type":"tool_use","tool_name":"run_shell_command","tool_id":"1","parameters":{"command":` + word("command") + `}}`,
				`{"type":"tool_result","tool_id":"1","status":"error","output":` + word("output") + `,"error":{"type":"shell_execute_error","message":` + word("tool's error") + `}}`,
				`{"type":"error","severity":"warning","message":` + marshalled("Agent execution blocked: ") + `}`,
				`{"type":"message","role":"assistant","content":` + said + `,"delta":true}`,
				`{"type":"result","status":"success"}`,
			},
			"opencode": {
				`{"type":"step_start","sessionID":"s"}`,
				`{"type":"tool_use","sessionID":"s","part":{"tool":"bash","state":{"status":"completed","title":` + word("title") + `,"input":{"command":` + word("command") + `},"output":` + word("output") + `}}}`,
				`{"type":"step_finish","sessionID":"s","part":{"id":"1","reason":"tool-calls"}}`,
				`{"type":"step_start","sessionID":"s"}`, `{"type":"text","sessionID":"s","part":{"text":` + said + `}}`,
				`{"type":"step_finish","sessionID":"s","part":{"id":"2","reason":"stop"}}`,
			},
			"pi": {
				`{"type":"session","id":"s"}`, `{"type":"agent_start"}`,
				`{"type":"message_end","message":{"role":"user","content":[{"type":"text","text":` + word("prompt") + `}]}}`,
				`{"type":"message_end","message":{"role":"assistant","stopReason":"toolUse","content":[{"type":"text","text":` + word("before") + `}]}}`,
				`{"type":"tool_execution_start","toolName":"bash","args":{"command":` + word("command") + `}}`,
				`{"type":"tool_execution_end","toolName":"bash","isError":true,"result":{"content":[{"type":"text","text":` + word("output") + `}]}}`,
				`{"type":"message_end","message":{"role":"toolResult","isError":true,"content":[{"type":"text","text":` + word("output") + `}],"errorMessage":` + word("tool's error") + `}}`,
				`{"type":"message_end","message":{"role":"assistant","stopReason":"stop","content":[{"type":"text","text":` + said + `}]}}`,
				`{"type":"agent_end"}`,
			},
		} {
			s := adapterFor(t, cli).Stream(Request{})
			s.Stdout([]byte(strings.Join(lines, "\n") + "\n"))
			s.Stderr([]byte("Error executing tool run_shell_command: rate limit exceeded, Suggested retry after 3600s\n"))
			settled := s.Settled()
			got := s.Finish(proc.Result{Ended: proc.Exited})
			if !got.Done || got.Class != class.None || got.Limit != nil || got.Denied != 0 || settled == Hopeless || marshalled(got.FinalMessage) != said {
				rt.Fatalf("%s: %+v, settled %d", cli, got, settled)
			}
		}
	})
}

// BenchmarkStreams reads a long run: messages in pieces, tools with output.
func BenchmarkStreams(b *testing.B) {
	output := marshalled(strings.Repeat("  12:\tif err != nil { return fmt.Errorf(\"reading %s: %w\", path, err) }\n", 30))
	runs := map[string]string{
		"gemini": strings.Repeat(`{"type":"message","timestamp":"2026-11-21T08:16:07.807Z","role":"assistant","content":"I look at the file that holds it, and then I write the test.","delta":true}
`, 8) + `{"type":"tool_use","timestamp":"2026-11-21T08:16:07.849Z","tool_name":"write_file","tool_id":"w1","parameters":{"file_path":"/work/repo/a.go","content":` + output + `}}
{"type":"tool_result","timestamp":"2026-11-21T08:16:07.903Z","tool_id":"w1","status":"success","output":` + output + `}
`,
		"opencode": `{"type":"step_start","timestamp":1795249220927,"sessionID":"ses_1","part":{"id":"prt_1","messageID":"msg_1","sessionID":"ses_1","snapshot":"4b825dc642cb6eb9a060e54bf8d69288fbee4904","type":"step-start"}}
{"type":"text","timestamp":1795249220927,"sessionID":"ses_1","part":{"id":"prt_2","messageID":"msg_1","sessionID":"ses_1","type":"text","text":"I look at the file that holds it, and then I write the test.","time":{"start":1795249220892,"end":1795249220915}}}
{"type":"tool_use","timestamp":1795249220953,"sessionID":"ses_1","part":{"type":"tool","tool":"write","callID":"c1","state":{"status":"completed","input":{"filePath":"/work/repo/a.go","content":` + output + `},"output":` + output + `,"metadata":{"truncated":false},"title":"a.go","time":{"start":1,"end":2}},"id":"prt_3","sessionID":"ses_1","messageID":"msg_1"}}
{"type":"step_finish","timestamp":1795249221122,"sessionID":"ses_1","part":{"id":"prt_4","reason":"tool-calls","messageID":"msg_1","sessionID":"ses_1","type":"step-finish","tokens":{"total":1040,"input":800,"output":40,"reasoning":0,"cache":{"write":0,"read":200}},"cost":0.01}}
`,
	}
	for _, cli := range slices.Sorted(maps.Keys(runs)) {
		b.Run(cli, func(b *testing.B) {
			text := []byte(strings.Repeat(runs[cli], (4<<20)/len(runs[cli])))
			a := adapterFor(b, cli)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				s := a.Stream(Request{})
				for rest := text; len(rest) > 0; {
					n := min(len(rest), 64<<10)
					s.Stdout(rest[:n])
					_ = s.LastLine()
					rest = rest[n:]
				}
				if l := s.Finish(proc.Result{Ended: proc.Exited}); l.Unread != 0 || l.Lines == 0 {
					b.Fatal(l)
				}
			}
		})
	}
}
