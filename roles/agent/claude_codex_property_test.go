package agent

import (
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/roles"
	"github.com/superloop/superloop/roles/agent/class"
)

// What an agent says, and what its tools do, is never a limit, however much it
// looks like one.
func TestClaudeAndCodexQuotedLimits(t *testing.T) {
	t.Parallel()
	words := []string{
		claudeQuote, codexQuote, "429", "rate limit exceeded", "You've hit your usage limit", "Claude AI usage limit reached|1795256627", "Not logged in", "invalid_request_error",
		"Prompt is too long", "API Error: Unable to connect to API (ConnectionRefused)", "unexpected status 401 Unauthorized", "Quota exceeded. Check your plan and billing details.",
		`{"type":"error","message":"exceeded retry limit, last status: 429"}`, "error: unknown option '--x'", "resets 3pm (UTC)", "Reconnecting... 5/5 (unexpected status 401 Unauthorized)",
	}
	rapid.Check(t, func(rt *rapid.T) {
		word := func(what string) string {
			return marshalled(strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 1, 3).Draw(rt, what), rapid.SampledFrom([]string{"", "\n", " "}).Draw(rt, "between")))
		}
		said := word("text")
		for cli, lines := range map[string][]string{
			"claude": {
				`{"type":"system","subtype":"init","session_id":"s","model":"m"}`,
				`{"type":"assistant","message":{"id":"1","model":"m","content":[{"type":"text","text":` + word("before") + `},{"type":"thinking","thinking":` + word("thought") + `}]},"session_id":"s"}`,
				`{"type":"assistant","message":{"id":"2","model":"m","content":[{"type":"tool_use","id":"t","name":"Bash","input":{"command":` + word("command") + `,"is_error":true}}]},"session_id":"s"}`,
				`{"type":"user","message":{"role":"user","content":[{"tool_use_id":"t","type":"tool_result","content":` + word("output") + `,"is_error":true}]},"tool_use_result":{"stdout":` + word("stdout") + `},"session_id":"s"}`,
				`{"type":"assistant","parent_tool_use_id":"t","error":"rate_limit","message":{"id":"3","model":"<synthetic>","content":[{"type":"text","text":` + word("sub-agent") + `}]},"session_id":"s"}`,
				`{"type":"assistant","message":{"id":"4","model":"m","content":[{"type":"text","text":` + said + `}]},"session_id":"s"}`,
				`{"type":"result","subtype":"success","is_error":false,"api_error_status":null,"result":` + said + `,"session_id":"s"}`,
			},
			"codex": {
				`{"type":"thread.started","thread_id":"t"}`, `{"type":"turn.started"}`,
				`{"type":"item.completed","item":{"type":"reasoning","text":` + word("thought") + `}}`,
				`{"type":"item.completed","item":{"type":"error","message":` + word("warning") + `}}`,
				`{"type":"item.started","item":{"type":"command_execution","command":` + word("command") + `,"status":"in_progress"}}`,
				`{"type":"item.completed","item":{"type":"command_execution","command":` + word("command") + `,"aggregated_output":` + word("output") + `,"exit_code":1,"status":"failed"}}`,
				`{"type":"item.completed","item":{"type":"agent_message","text":` + said + `}}`,
				`{"type":"turn.completed","usage":{"input_tokens":1}}`,
			},
		} {
			for n := 1; n <= len(lines); n++ {
				s := streamOf(cli, nil)
				s.Stdout([]byte(strings.Join(lines[:n], "\n") + "\n"))
				s.Stderr([]byte(word("stderr") + "\n"))
				settled := s.Settled()
				got := s.Finish(proc.Result{Ended: proc.Killed, Signal: "SIGKILL", Code: -1})
				whole := n == len(lines)
				if got.Done != whole || got.Limit != nil || settled == Hopeless || (settled == Finished) != whole ||
					!whole && got.Class != class.NoResult || whole && (got.Class != class.None || marshalled(got.FinalMessage) != said) {
					rt.Fatalf("%s after %d lines: %+v, settled %d", cli, n, got, settled)
				}
			}
		}
	})
}

// Whatever comes, nothing breaks, and nothing is done that did not say so.
func TestClaudeAndCodexGarbage(t *testing.T) {
	t.Parallel()
	pieces := []string{
		"\n", "\n", "{", "}", "[", `"`, `\`, "\x00", "\xff", strings.Repeat("[", 9000), strings.Repeat("x", 9000), `{"type":"result"`, `{"type":"result","subtype":"success"}`,
		`{"type":"result","is_error":"false","subtype":"success"}`, `{"type":"result","is_error":false,"subtype":["success"]`, `{"type":["result"],"is_error":false}`,
		`{"type":"result","is_error":true,"errors":[1,{},"x"],"usage":[],"modelUsage":{"m":7,"n":{"inputTokens":-5,"outputTokens":1e99,"costUSD":"x"}},"model_usage_since_last_result":{"m":{"costUSD":-1}}}`,
		`{"type":"assistant","message":{"content":{"text":"x"},"usage":"none","id":5}}`, `{"type":"assistant","message":{"id":"a","content":[{"name":5,"input":[1]},[],null,{"text":7}]}}`,
		`{"type":"system","subtype":"api_retry","retry_delay_ms":1e300,"attempt":"x","error_status":-1}`, `{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":"x","rateLimitType":{}}}`,
		`{"type":"system","subtype":"task_started"}`, `{"type":"turn.completed",`, `{"type":"turn.failed","error":"x"}`, `{"type":"turn.failed","error":{"message":{}}}`, `{"type":"error"}`, `{"type":"error","message":7}`,
		`{"type":"item.completed","item":[]}`, `{"type":"item.completed","item":{"type":"agent_message","text":{}}}`, `{"type":"thread.started","thread_id":5}`,
	}
	rapid.Check(t, func(rt *rapid.T) {
		piece := rapid.OneOf(rapid.SampledFrom(pieces), rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 20), func(b []byte) string { return string(b) }))
		out := strings.Join(rapid.SliceOfN(piece, 0, 20).Draw(rt, "stdout"), "")
		text := strings.Join(rapid.SliceOfN(piece, 0, 5).Draw(rt, "stderr"), "")
		end := proc.Result{
			Ended: rapid.SampledFrom([]proc.Reason{proc.Exited, proc.Killed, proc.NotStarted}).Draw(rt, "ended"),
			Code:  rapid.SampledFrom([]int{0, 1, 2, 143, -1}).Draw(rt, "code"),
		}
		for _, cli := range []string{"claude", "codex"} {
			s := streamOf(cli, rapid.SampledFrom([]*Session{nil, {ID: "s"}, {ID: "s", Totals: &Totals{}}}).Draw(rt, "session"))
			play{}.feed(s, []byte(out), []byte(text), rapid.IntRange(0, 9).Draw(rt, "piece"))
			_ = s.LastLine()
			got := s.Finish(end)
			if got.Done || got.CostUSD != nil && *got.CostUSD < 0 || len(got.ErrorText) > maxErrorText {
				rt.Fatalf("%s: %+v", cli, got)
			}
			for _, p := range []*int64{got.Usage.Input, got.Usage.Output, got.Usage.CacheRead, got.Usage.CacheWrite} {
				if p != nil && *p < 0 {
					rt.Fatalf("%s: %+v", cli, got.Usage)
				}
			}
		}
	})
}

// A message of any length is kept by its beginning and its end.
func TestClaudeAndCodexHugeMessages(t *testing.T) {
	t.Parallel()
	long := marshalled("begin " + strings.Repeat("0123456789abcd\u00e9\n", 700<<10) + " <promise>DONE</promise>")
	for cli, lines := range map[string][]string{
		"claude": {
			`{"type":"system","subtype":"init","session_id":"s"}`,
			`{"type":"assistant","message":{"id":"1","content":[{"type":"text","text":` + long + `}]}}`,
			`{"type":"user","message":{"content":[{"type":"tool_result","content":` + long + `}]},"session_id":"s"}`,
			`{"type":"result","subtype":"success","is_error":false,"result":` + long + `}`,
		},
		"codex": {
			`{"type":"thread.started","thread_id":"t"}`, `{"type":"item.completed","item":{"type":"command_execution","aggregated_output":` + long + `}}`,
			`{"type":"item.completed","item":{"type":"agent_message","text":` + long + `}}`, `{"type":"turn.completed"}`,
		},
	} {
		for _, whole := range []bool{true, false} {
			s := streamOf(cli, nil)
			n := len(lines)
			if !whole {
				n--
			}
			s.Stdout([]byte(strings.Join(lines[:n], "\n") + "\n"))
			last := s.LastLine()
			got := s.Finish(proc.Result{Ended: proc.Exited})
			final := roles.Cut(got.FinalMessage, messageHalf, messageHalf)
			if got.Done != whole || len(final) > MaxMessage || final != got.FinalMessage || last != "<promise>DONE</promise>" ||
				!strings.HasPrefix(final, "begin 0123") || !strings.HasSuffix(final, " <promise>DONE</promise>") || strings.Count(final, "bytes left out") != 1 {
				t.Errorf("%s: done %t, %d bytes, last line %q: %.40q ... %q", cli, got.Done, len(final), last, final, final[max(0, len(final)-40):])
			}
		}
	}
}

// benchmark reads the text again and again, in pieces as a pipe gives them, and
// says what the reader holds at the end.
func benchmark(b *testing.B, cli, text string) {
	b.Helper()
	all := []byte(text)
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	b.SetBytes(int64(len(all)))
	b.ReportAllocs()
	s := streamOf(cli, nil)
	for b.Loop() {
		for rest := all; len(rest) > 0; {
			n := min(len(rest), 64<<10)
			s.Stdout(rest[:n])
			_ = s.LastLine()
			rest = rest[n:]
		}
	}
	b.ReportMetric(float64(heap()-before)/(1<<20), "MB-kept")
	if l := s.Finish(proc.Result{Ended: proc.Exited}); l.Unread != 0 || l.Lines == 0 || !l.Structured {
		b.Fatal(l)
	}
	runtime.KeepAlive(text)
	runtime.KeepAlive(all)
}

func BenchmarkClaudeStream(b *testing.B) {
	output := marshalled(strings.Repeat("  12:\tif err != nil { return fmt.Errorf(\"reading %s: %w\", path, err) }\n", 60))
	usage := `"usage":{"input_tokens":12,"cache_creation_input_tokens":3051,"cache_read_input_tokens":90203,"output_tokens":1,"service_tier":"standard"}`
	run := `{"type":"assistant","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-opus-5-5","content":[{"type":"text","text":"I look at the file that holds it, and then I write the test."}],"stop_reason":null,` + usage + `},"parent_tool_use_id":null,"session_id":"5e1fa2b8-bc71-4e53-bfd7-5033f104c4df","uuid":"9fa8b8b1-0d6a-4c7e-9b2a-2f3d5a0c9d11"}
{"type":"assistant","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-opus-5-5","content":[{"type":"tool_use","id":"toolu_1","name":"Edit","input":{"file_path":"/work/repo/a.go","old_string":` + output + `,"new_string":` + output + `}}],"stop_reason":null,` + usage + `},"parent_tool_use_id":null,"session_id":"5e1fa2b8-bc71-4e53-bfd7-5033f104c4df"}
{"type":"user","message":{"role":"user","content":[{"tool_use_id":"toolu_1","type":"tool_result","content":` + output + `}]},"parent_tool_use_id":null,"session_id":"5e1fa2b8-bc71-4e53-bfd7-5033f104c4df","tool_use_result":{"type":"update","filePath":"/work/repo/a.go","content":` + output + `,"originalFile":` + output + `}}
`
	b.Run("run", func(b *testing.B) { benchmark(b, "claude", strings.Repeat(run, (8<<20)/len(run))) })
	huge := marshalled(strings.Repeat("a line of the output of some tool, \"quoted\"\n", 10<<20/44))
	b.Run("huge", func(b *testing.B) {
		benchmark(b, "claude", `{"type":"user","message":{"role":"user","content":[{"type":"tool_result","content":`+huge+`}]},"session_id":"s"}`+"\n")
	})
	b.Run("huge-text", func(b *testing.B) {
		benchmark(b, "claude", `{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":`+huge+`}]},"session_id":"s"}`+"\n")
	})
}

func BenchmarkCodexStream(b *testing.B) {
	output := marshalled(strings.Repeat("  12:\tif err != nil { return fmt.Errorf(\"reading %s: %w\", path, err) }\n", 60))
	run := `{"type":"item.completed","item":{"id":"item_1","type":"agent_message","text":"I look at the file that holds it, and then I write the test."}}
{"type":"item.started","item":{"id":"item_2","type":"command_execution","command":"/bin/bash -lc 'sed -n 1,200p a.go'","aggregated_output":"","exit_code":null,"status":"in_progress"}}
{"type":"item.completed","item":{"id":"item_2","type":"command_execution","command":"/bin/bash -lc 'sed -n 1,200p a.go'","aggregated_output":` + output + `,"exit_code":0,"status":"completed"}}
`
	b.Run("run", func(b *testing.B) { benchmark(b, "codex", strings.Repeat(run, (8<<20)/len(run))) })
	huge := marshalled(strings.Repeat("a line of the output of some tool, \"quoted\"\n", 10<<20/44))
	b.Run("huge", func(b *testing.B) {
		benchmark(b, "codex", `{"type":"item.completed","item":{"type":"command_execution","aggregated_output":`+huge+`,"status":"completed"}}`+"\n")
	})
	b.Run("huge-text", func(b *testing.B) {
		benchmark(b, "codex", `{"type":"item.completed","item":{"type":"agent_message","text":`+huge+`}}`+"\n")
	})
}
