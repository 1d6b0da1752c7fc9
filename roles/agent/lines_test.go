package agent

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestSanitise(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain": "plain", "  a \t b  ": "a b", "": "", "\x1b[0m": "", " \x00\x07 ": "",
		"\x1b[1;31mred\x1b[0m text":                   "red text",
		"\x1b]0;title\x07shown":                       "shown",
		"\x1b]8;;https://x.y\x1b\\link\x1b]8;;\x1b\\": "link",
		"\x1bPq#0;2\x1b\\after":                       "after",
		"\x1b(Btext\x1b7":                             "text",
		"cut \x1b[31":                                 "cut",
		"cut \x1b":                                    "cut",
		"a\u202eb\u200bc":                             "abc",
		"caf\xe9":                                     "caf?",
		"\u4f60\u597d":                                "\u4f60\u597d",
		strings.Repeat("\u754c", 201):                 strings.Repeat("\u754c", 197) + "...",
		strings.Repeat("\u754c", 200):                 strings.Repeat("\u754c", 200),
	} {
		if got := sanitise([]byte(in)); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestSanitiseIsAlwaysFit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		raw := rapid.SliceOf(rapid.OneOf(rapid.Byte(), rapid.SampledFrom([]byte("\x1b[]0;m\x07\\ P")))).Draw(rt, "raw")
		got := sanitise(raw)
		bad := func(r rune) bool { return unicode.IsControl(r) || unicode.In(r, unicode.Cf) }
		if !utf8.ValidString(got) || strings.ContainsFunc(got, bad) || utf8.RuneCountInString(got) > maxShown || got != strings.TrimSpace(got) {
			rt.Fatalf("%q became %q", raw, got)
		}
	})
}

// The last line that says something is the same however the bytes are cut.
func TestLineTailDoesNotDependOnCuts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		lines := rapid.SliceOfN(rapid.SampledFrom([]string{"one", "two", "", " ", "\x1b[0m", "three\rfour", strings.Repeat("long", 1500)}), 1, 8).Draw(rt, "lines")
		text := strings.Join(lines, "\n")
		var tail lineTail
		got := ""
		for rest := []byte(text); len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(rt, "cut")
			if l := tail.feed(rest[:n]); l != "" {
				got = l
			}
			rest = rest[n:]
			if len(tail.part) > maxLine {
				rt.Fatalf("holds %d bytes", len(tail.part))
			}
		}
		if l := tail.rest(); l != "" {
			got = l
		}
		want := ""
		for _, l := range strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
			if s := sanitise([]byte(l)); s != "" {
				want = s
			}
		}
		if got != want {
			rt.Fatalf("%q: %q, want %q", text, got, want)
		}
	})
}

func TestProgressIsBoundedAndShowsTheLast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var shown []string
		p := startProgress(func(line string) { shown = append(shown, line) })
		for i := range 1000 { // one second of a line every millisecond
			p.say(strconv.Itoa(i))
			<-time.After(time.Millisecond)
		}
		p.say("last")
		p.end()
		if len(shown) < 9 || len(shown) > 12 {
			t.Errorf("%d calls in a second", len(shown))
		}
		if shown[len(shown)-1] != "last" {
			t.Errorf("the last shown is %q", shown[len(shown)-1])
		}
	})
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		p := startProgress(func(string) { calls++ })
		p.say("same")
		synctest.Wait()
		p.say("same")
		p.say("")
		<-time.After(time.Second)
		p.end()
		if calls != 1 {
			t.Errorf("%d calls for one line", calls)
		}
	})
	var none *progress
	none.say("x")
	none.end()
}
