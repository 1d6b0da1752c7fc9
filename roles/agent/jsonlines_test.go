package agent

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/internal/jsonstream"
	"github.com/superloop/superloop/internal/proc"
)

// jsonTalk is a reader of a stream whose events are {"say": TEXT}.
func jsonTalk() *jsonLines {
	j := &jsonLines{}
	j.read(paths{1 << 10: "say"}.lazy()(), func(e event) bool {
		v, ok := e.last("say")
		j.say(string(v.Raw))
		return ok
	})
	return j
}

func TestJSONLines(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stdout, stderr string
		last           string
		structured     bool
		lines, unread  int64
	}{
		"events":             {stdout: "{\"say\":\"one\"}\n{\"say\":\"two\\nthree \\n \"}\n", last: "three", structured: true, lines: 2},
		"no line break":      {stdout: `{"say":"one"}`, last: "one", structured: true, lines: 1},
		"nothing new":        {stdout: "{\"say\":\"one\"}\n{\"say\":\" \\n\"}\n", last: "one", structured: true, lines: 2},
		"half an event":      {stdout: "{\"say\":\"one\"}\n{\"say\":\"tw", last: "one", structured: true, lines: 2, unread: 1},
		"plain":              {stdout: "hello\n\nworld\n \n", last: "world", lines: 2, unread: 2},
		"plain without end":  {stdout: "hello\nwor", last: "wor", lines: 2, unread: 2},
		"redrawn":            {stdout: "10%\r20%\r30%\n", last: "30%", lines: 1, unread: 1},
		"other JSON":         {stdout: "{\"other\":1}\n[1]\n", last: "[1]", lines: 2},
		"noise after events": {stdout: "{\"say\":\"one\"}\nnoise\n{\"other\":1}\n", last: "one", structured: true, lines: 3, unread: 1},
		"noise before":       {stdout: "noise\n{\"say\":\"one\"}\n", last: "one", structured: true, lines: 2, unread: 1},
		"standard error":     {stderr: "starting\nfailed", last: "failed"},
		"error, then events": {stderr: "starting\n", stdout: "{\"say\":\"one\"}\n", last: "one", structured: true, lines: 1},
		"empty":              {},
	} {
		j := jsonTalk()
		j.Stderr([]byte(c.stderr))
		j.Stdout([]byte(c.stdout))
		l := j.close()
		if j.LastLine() != c.last || l.Structured != c.structured || l.Lines != c.lines || l.Unread != c.unread {
			t.Errorf("%s: %q %+v", name, j.LastLine(), l)
		}
		if j.stderr() != c.stderr {
			t.Errorf("%s: standard error %q", name, j.stderr())
		}
	}
	j := jsonTalk()
	j.Stdout([]byte("{\"say\":\"one\"}\n"))
	j.Stderr([]byte("a warning\n"))
	if j.LastLine() != "one" {
		t.Errorf("a warning hides what the agent says: %q", j.LastLine())
	}
}

func TestHeadTail(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		h := proc.NewHeadTail(stderrHalf)
		var all strings.Builder
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, 3*stderrHalf), 0, 6).Draw(rt, "pieces") {
			piece := strings.Repeat(rapid.SampledFrom([]string{"a", "b", "\n"}).Draw(rt, "byte"), n)
			all.WriteString(piece)
			_, _ = h.Write([]byte(piece))
			if c := h.Capture(); len(c.Head) > stderrHalf || len(c.Tail) > stderrHalf {
				rt.Fatalf("holds %d and %d bytes", len(c.Head), len(c.Tail))
			}
		}
		want := all.String()
		if len(want) > 2*stderrHalf {
			want = want[:stderrHalf] + "\n" + want[len(want)-stderrHalf:]
		}
		if got := captured(h, func(head, tail string, _ int64) string { return head + "\n" + tail }); got != want {
			rt.Fatalf("%d bytes, want %d", len(got), len(want))
		}
	})
}

func TestErrorText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "", " \n": "", "a\n\tb  c\n": "a b c", "\x1b[31mred\x1b[0m\x00": "red",
		strings.Repeat("x", 3000):      strings.Repeat("x", maxErrorText),
		strings.Repeat("\u754c", 1000): strings.Repeat("\u754c", maxErrorText/3),
	} {
		if got := errorText(in); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}

// A text that a shape has cut says so, once, and stays what it is otherwise.
func TestWhole(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		const most = 40
		text := rapid.StringN(0, 60, -1).Draw(rt, "text")
		shape := jsonstream.MustShape(jsonstream.Want{Path: "t", Max: most})
		r := shape.NewReader(func(l *jsonstream.Line) {
			v, _ := l.Last(0)
			got := string(whole(v, most))
			if v.Cut == 0 {
				if got != text {
					rt.Fatalf("%q, want %q", got, text)
				}
				return
			}
			before, after, _ := strings.Cut(got, "[... ")
			before = strings.TrimSuffix(before, "\n")
			_, after, ok := strings.Cut(after, " ...]\n")
			raw := string(v.Raw)
			if !ok || !utf8.ValidString(got) || strings.TrimSuffix(before, "\n")+after != raw && before+"\n"+after != raw || len(before) < most/2-4 || len(before) > most/2 {
				rt.Fatalf("%q of %q", got, text)
			}
		})
		r.Write([]byte(`{"t":` + marshalled(text) + "}\n"))
	})
}

func TestFlags(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line, names string
		value       string
		ok          bool
	}{
		{"--model opus", "--model -m", "opus", true},
		{"--model=opus -x", "--model -m", "opus", true},
		{"-m opus", "--model -m", "opus", true},
		{"-mopus", "--model -m", "opus", true},
		{"--model a --model=b", "--model", "b", true},
		{"--model", "--model", "", true},
		{"--models=x", "--model", "", false},
		{"--model-name x", "--model -m", "", false},
		{"-- --model x", "--model", "", false},
		{"a -- b", "-a", "", false},
		{"", "--model", "", false},
	} {
		value, ok := flagValue(strings.Fields(c.line), strings.Fields(c.names)...)
		if value != c.value || ok != c.ok {
			t.Errorf("%q has %q: %q %t", c.line, c.names, value, ok)
		}
	}
	for _, c := range []struct {
		path, dir string
		want      bool
	}{{"/a/b", "/a", true}, {"/a", "/a", true}, {"/ab", "/a", false}, {"/a/../b", "/a", false}, {"/", "/a", false}, {"/a/..b", "/a", true}} {
		if inside(c.path, c.dir) != c.want {
			t.Errorf("%s inside %s", c.path, c.dir)
		}
	}
}
