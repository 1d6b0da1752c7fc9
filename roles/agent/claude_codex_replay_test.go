package agent

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/roles/agent/class"
)

// kept is one recording of claude or codex, with what its play wants.
type kept struct {
	play
	cli, file      string
	stdout, stderr []byte
	end            proc.Result
}

// stream is a new reader of the recorded run. The CLIs ran with their clock in
// UTC.
func (k kept) stream() Stream { return streamOf(k.cli, nil) }

func streamOf(cli string, resume *Session) Stream {
	req := Request{CLI: CLI{Command: []string{cli}, Env: map[string]string{"TZ": "UTC"}}, Resume: resume}
	return For(req.CLI).Stream(req)
}

func (k kept) all() (Stream, Learned, Settled) {
	s := k.stream()
	k.feed(s, k.stdout, k.stderr, 0)
	settled := s.Settled()
	return s, s.Finish(k.end), settled
}

// recordings gives all of claude's, of both releases, and codex's.
func recordings(t testing.TB) (list []kept) {
	t.Helper()
	for _, release := range []string{"claude:", "claude:" + nextClaude, "codex:"} {
		cli, release, _ := strings.Cut(release, ":")
		for _, p := range playsOf(cli, release) {
			k := kept{play: p, cli: cli, file: release + p.name}
			if _, err := os.Stat(streamFile(cli, k.file, "out")); release != "" && err != nil {
				continue // of the newer release those are kept that tell more
			}
			k.stdout, k.stderr, k.end = replayAt(t, cli, k.file)
			// What Recover adds is not in the stream.
			switch cli + " " + p.name {
			case "claude killed":
				k.want.usage = "1000+200r+50w>?(?)"
			case "codex killed", "codex too-long":
				k.want.usage = "?"
			case "codex agents":
				k.want.usage = "3000+600r+150w>279(60)"
			}
			list = append(list, k)
		}
	}
	return list
}

func eachRecording(t *testing.T, f func(t *testing.T, k kept)) {
	t.Parallel()
	for _, k := range recordings(t) {
		t.Run(k.cli+"/"+k.file, func(t *testing.T) {
			t.Parallel()
			f(t, k)
		})
	}
}

func TestRecordedClaudeAndCodex(t *testing.T) {
	eachRecording(t, func(t *testing.T, k kept) {
		s, got, settled := k.all()
		if wrong := k.want.wrongAt(got, settled, s.LastLine(), k.end.LastOutput); wrong != "" {
			t.Error(wrong)
		}
		if s.LastLine() == "" {
			t.Error("nothing is shown")
		}
		if strings.HasPrefix(s.LastLine(), `{"type"`) {
			t.Errorf("an event is shown as it is: %s", s.LastLine())
		}
		if strings.HasPrefix(got.ErrorText, "Reconnecting") {
			t.Errorf("the error is that of the retry: %s", got.ErrorText)
		}
		worked := k.want.class == class.None && !k.want.plain
		if model := map[string]string{"claude": sonnet}[k.cli]; worked && got.Model != model {
			t.Errorf("model %q, want %q", got.Model, model)
		}
		if worked && k.file != "json" && got.Totals == nil {
			t.Error("no totals of the session")
		}
		if got.Lines != int64(bytes.Count(k.stdout, []byte("\n"))) {
			t.Errorf("%d lines", got.Lines)
		}
	})
}

// However the bytes are cut, and whether a stream has a byte order mark,
// carriage returns or no line break at its end, the same is learned.
func TestClaudeAndCodexCutAnywhere(t *testing.T) {
	eachRecording(t, func(t *testing.T, k kept) {
		whole := k.stream()
		k.feed(whole, k.stdout, k.stderr, 0)
		want := show(whole, k.end)
		for _, piece := range []int{1, 7, 4096} {
			s := k.stream()
			k.feed(s, k.stdout, k.stderr, piece)
			if got := show(s, k.end); got != want {
				t.Errorf("pieces of %d:\n%s\nwant\n%s", piece, got, want)
			}
		}
		dressed := k.stream()
		k.feed(dressed, append([]byte("\ufeff"), bytes.ReplaceAll(k.stdout, []byte("\n"), []byte("\r\n\r\n"))...), k.stderr, 0)
		if got := show(dressed, k.end); got != want {
			t.Errorf("dressed up:\n%s\nwant\n%s", got, want)
		}
		open := k.stream()
		k.feed(open, bytes.TrimSuffix(k.stdout, []byte("\n")), k.stderr, 0)
		if got := show(open, k.end); got[1:] != want[1:] {
			t.Errorf("without the last line break:\n%s\nwant\n%s", got, want)
		}
	})
}

// Events and fields that nobody knows yet change nothing, nor does the order of
// the keys.
func TestClaudeAndCodexWithUnknowns(t *testing.T) {
	odd := []string{
		`{"type":"new_event","session_id":"y","thread_id":"z","is_error":true,"message":"429","error":{"message":"You've hit your usage limit"}}`, `{}`, `[1,2]`,
		`"result"`, `{"type":5}`, `null`, `{"result":{"type":"result","subtype":"success","is_error":false}}`, `Error: rate limit exceeded (429)`, "\x00\x01",
		`[{"type":"result","is_error":true}]`, `{"type":"system","subtype":"new_thing","error":"rate_limit","status":"rejected"}`,
		`{"type":"item.completed","item":{"id":"x","type":"error","message":"You've hit your usage limit"}}`, `{"type":"rate_limit_event","rate_limit_info":{"status":"allowed"}}`,
	}
	t.Parallel()
	list := slices.DeleteFunc(recordings(t), func(k kept) bool { return k.want.plain })
	rapid.Check(t, func(rt *rapid.T) {
		k := rapid.SampledFrom(list).Draw(rt, "recording")
		_, want, _ := k.all()
		var changed bytes.Buffer
		var extra, unread int64
		for line := range bytes.Lines(k.stdout) {
			for range rapid.IntRange(0, 2).Draw(rt, "extra lines") {
				line := rapid.SampledFrom(odd).Draw(rt, "line")
				changed.WriteString(line + "\n")
				if extra++; !json.Valid([]byte(line)) {
					unread++
				}
			}
			var v any
			d := json.NewDecoder(bytes.NewReader(line))
			d.UseNumber()
			if err := d.Decode(&v); err != nil {
				t.Fatal(err)
			}
			shuffled(rt, &changed, v, 0)
			changed.WriteByte('\n')
		}
		s := k.stream()
		k.feed(s, changed.Bytes(), k.stderr, 0)
		got := s.Finish(k.end)
		got.Lines, got.Unread = got.Lines-extra, got.Unread-unread
		if a, b := asJSON(got), asJSON(want); a != b {
			rt.Fatalf("%s: %s\nwant\n%s\nof\n%s", k.file, a, b, changed.String())
		}
	})
}

// A stream that breaks off is never done before its end, and tells no failure
// that the CLI has not met; what it met and went on trying may be why it ended.
func TestClaudeAndCodexBrokenOff(t *testing.T) {
	met := map[string]class.Class{"limit-once": class.Limit, "error-in-stream": class.Overloaded, "cut-once": class.Network}
	eachRecording(t, func(t *testing.T, k kept) {
		whole := bytes.TrimSpace(k.stdout)
		killed := k.end
		killed.Ended, killed.Signal, killed.Code = proc.Killed, "SIGKILL", -1
		turns := bytes.Count(whole, []byte(`"type":"result"`))
		for n := 0; n < len(whole); n++ {
			near := bytes.IndexByte(whole[max(0, n-3):min(len(whole), n+3)], '\n') >= 0
			if (!near && n > 200 && n < len(whole)-800 && n%97 != 0) || n%testkit.Sample(3, 1, 1) != 0 {
				continue
			}
			s := k.stream()
			s.Stdout(k.stdout[:n])
			settled := s.Settled()
			got := s.Finish(killed)
			switch {
			case got.Done && turns < 2:
				t.Fatalf("done after %d of %d bytes", n, len(whole))
			case k.want.class != class.None:
			case got.Limit != nil && met[k.name] != class.Limit, settled == Hopeless:
				t.Fatalf("after %d bytes: a limit %v, settled %d", n, got.Limit, settled)
			case got.Class != class.None && got.Class != class.NoResult && got.Class != met[k.name]:
				t.Fatalf("after %d bytes: %s", n, got.Class)
			case settled == Finished && turns < 2:
				t.Fatalf("settled after %d bytes", n)
			}
		}
	})
}

// While a background task runs, the result of a turn is not the end; a turn
// that has begun after it has to end too.
func TestClaudeBackgroundTask(t *testing.T) {
	t.Parallel()
	for _, k := range recordings(t) {
		if k.name != "background" {
			continue
		}
		s := k.stream()
		results := 0
		for line := range bytes.Lines(k.stdout) {
			s.Stdout(line)
			if bytes.Contains(line, []byte(`"type":"result"`)) {
				results++
			}
			if got, want := s.Settled() == Finished, results == 2; got != want {
				t.Errorf("%s: settled %t after %d results, at %.100s", k.file, got, results, line)
			}
		}
		if results != 2 {
			t.Errorf("%s: %d results", k.file, results)
		}
	}
}
