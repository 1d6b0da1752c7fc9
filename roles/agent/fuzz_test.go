package agent

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/roles/agent/class"
)

// fuzzStream: however the output of a CLI is cut into pieces, the same is learned, within its bounds, and nothing is done
// that did not say so.
func fuzzStream(f *testing.F, cli string) {
	names, err := filepath.Glob(filepath.Join("testdata", "streams", cli, "*.out"))
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		name = filepath.Base(name)
		stdout, stderr, end := replay(f, cli, name[:len(name)-len(".out")])
		f.Add(stdout, stderr, byte(5), int8(end.Code))
	}
	f.Add([]byte(`{"type":"result"`+"\n\xff\x00[[[[\r\n"), []byte("Error: x\n\x1b[2J"), byte(1), int8(1))
	f.Fuzz(func(t *testing.T, stdout, stderr []byte, piece byte, code int8) {
		end := proc.Result{Ended: proc.Exited, Code: int(code), LastOutput: time.Unix(1_800_000_000, 0).UTC()}
		if code < 0 {
			end = proc.Result{Ended: proc.Killed, Signal: "SIGKILL", Code: -1, LastOutput: end.LastOutput}
		}
		feed := func(n int) Stream {
			s := streamOf(cli, &Session{ID: oneSession, Totals: &Totals{}})
			testkit.Pieces(stderr, n, s.Stderr)
			testkit.Pieces(stdout, n, s.Stdout)
			return s
		}
		want := show(feed(0), end)
		if got := show(feed(1+int(piece)), end); got != want {
			t.Fatalf("in pieces of %d:\n%s\nat once:\n%s", 1+int(piece), got, want)
		}
		var s Stream
		var got Learned
		testkit.Memory(t, len(stdout)+len(stderr), func() {
			s = feed(0)
			got = s.Finish(end)
		})
		if r := []rune(s.LastLine()); len(r) > maxShown {
			t.Errorf("the last line has %d characters", len(r))
		}
		if len(got.ErrorText) > maxErrorText || got.Done && (!got.Structured || got.Class != class.None) {
			t.Errorf("%+v", got)
		}
		if got.Lines < 0 || got.Unread < 0 || got.Unread > got.Lines || got.Lines > int64(bytes.Count(stdout, []byte("\n"))+1) || got.Denied < 0 {
			t.Errorf("%d lines, %d not read, %d denied", got.Lines, got.Unread, got.Denied)
		}
		counts(t, got)
		for _, text := range []string{got.ErrorText, s.LastLine()} {
			testkit.Plain(t, text)
		}
	})
}

// counts: what is counted is not negative, and adds up.
func counts(t *testing.T, got Learned) {
	t.Helper()
	used := []Usage{got.Usage}
	if got.Totals != nil {
		used = append(used, got.Totals.Usage)
	}
	for _, u := range used {
		for _, n := range u.kinds() {
			if *n != nil && **n < 0 {
				t.Errorf("%s", usageWord(u))
			}
		}
		if n, _ := u.Total(); n < 0 {
			t.Errorf("a sum of %d: %s", n, usageWord(u))
		}
	}
	if got.CostUSD != nil && !(*got.CostUSD >= 0) {
		t.Errorf("a cost of %v", *got.CostUSD)
	}
}

func FuzzStreamClaude(f *testing.F)   { fuzzStream(f, "claude") }
func FuzzStreamCodex(f *testing.F)    { fuzzStream(f, "codex") }
func FuzzStreamGemini(f *testing.F)   { fuzzStream(f, "gemini") }
func FuzzStreamOpencode(f *testing.F) { fuzzStream(f, "opencode") }
func FuzzStreamPi(f *testing.F)       { fuzzStream(f, "pi") }
func FuzzStreamGeneric(f *testing.F)  { fuzzStream(f, "anything") }

// fuzzTranscript: whatever stands in the file that a CLI keeps of a session, usage is only added, and is not negative.
func fuzzTranscript(f *testing.F, cli, file, stream string) {
	home := f.TempDir()
	path := filepath.Join(home, file)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		read := func() Learned {
			s := streamOf(cli, nil)
			s.Stdout([]byte(stream))
			got := s.Finish(proc.Result{Ended: proc.Killed})
			before := got
			s.(Recoverer).Recover([]string{"HOME=" + home}, "/work", &got)
			if got.Done != before.Done || got.Class != before.Class || got.FinalMessage != before.FinalMessage {
				t.Fatalf("%+v became %+v", before, got)
			}
			return got
		}
		var got Learned
		testkit.Memory(t, len(data), func() { got = read() })
		counts(t, got)
		if again := read(); marshalled(again) != marshalled(got) {
			t.Fatalf("%+v, then %+v", got, again)
		}
	})
}

func FuzzTranscriptClaude(f *testing.F) {
	testkit.Seed(f, []byte(answer(1, "m1", "big", 1000, 1000)+"\n"+answer(3, "m3", "big", 3, 33)+"\nnot JSON\n"+answer(5, "m4", "small", 4, 44)+"\n"))
	fuzzTranscript(f, "claude", ".claude/projects/-work/"+oneSession+".jsonl", `{"type":"system","subtype":"init","session_id":"`+oneSession+`"}
{"type":"assistant","message":{"id":"m3","model":"big","content":[],"usage":{"input_tokens":3,"output_tokens":1}},"session_id":"`+oneSession+`"}
`)
}

func FuzzTranscriptCodex(f *testing.F) {
	testkit.Seed(f, []byte(`{"type":"session_meta","payload":{"session_id":"`+oneSession+`"}}
{"type":"event_msg","payload":{"type":"task_started"}}
{"type":"turn_context","payload":{"model":"big"}}
{"type":"token_usage_record","payload":{"root_turn_id":"t","usage":{"input_tokens":5,"cached_input_tokens":2,"output_tokens":7},"thread_token_usage":{"input_tokens":9,"cached_input_tokens":2,"output_tokens":8}}}
{"type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":9,"cached_input_tokens":2,"output_tokens":8}},"rate_limits":{"primary":{"used_percent":100,"resets_at":1800000000}}}}
`))
	fuzzTranscript(f, "codex", ".codex/sessions/2026/11/21/rollout-"+oneSession+".jsonl", `{"type":"thread.started","thread_id":"`+oneSession+`"}
{"type":"turn.started"}
`)
}
