package text

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// control is what Uncoloured removes, as an expression.
var control = regexp.MustCompile("\x1b(?:\\[[0-?]*[ -/]*[@-~]?|[\\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[ -/]*[0-~]?)")

// pieces are what terminals and shells take for something else.
func pieces() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOf(rapid.OneOf(rapid.SampledFrom([]string{"\x1b", "\x1b[", "\x1b[31;1m", "\x1b]0;title\a", "\x1b]8;;x\x1b\\", "\x1bP", "\x1b(B", "\a", "\\",
			"\u202e", "\u200b", "\r", "\n", "\t", "  ", "\x00", "\xff", "\u2028", "\ue000", "'", "$(x)", "%", "-", "=", "^", "~", "a", "0", "?", "@"}), rapid.String())).Draw(t, "pieces"), "")
	})
}

func TestUncoloured(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := pieces().Draw(t, "text")
		if got, want := Uncoloured(s), control.ReplaceAllString(s, ""); got != want {
			t.Fatalf("%q: %q, want %q", s, got, want)
		}
	})
}

func TestLine(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                             "",
		" a \t b\r\n c ":               "a b c",
		"\x1b[31mred\x1b[0m":           "red",
		"a\xffb":                       "a?b",
		"hid\u200bden \u202etxt":       "hidden txt",
		"bell\a, private \ue000, \x00": "bell, private ,",
		"one\u2028two":                 "one two",
		strings.Repeat("x", 21):        strings.Repeat("x", 17) + "...",
		strings.Repeat("\u00fc", 20):   strings.Repeat("\u00fc", 20),
	} {
		if got := Line(in, 20); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(0, 30).Draw(t, "most")
		got := Line(pieces().Draw(t, "text"), most)
		bad := func(r rune) bool { return !unicode.IsPrint(r) }
		if !utf8.ValidString(got) || utf8.RuneCountInString(got) > most || strings.Contains(got, "  ") || strings.ContainsFunc(got, unicode.IsControl) ||
			strings.ContainsFunc(got, func(r rune) bool { return bad(r) && unicode.In(r, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp) }) {
			t.Fatalf("%q", got)
		}
	})
}

func TestCutAndHead(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, most := rapid.String().Draw(t, "text"), rapid.IntRange(0, 20).Draw(t, "most")
		got := Cut(s, most)
		n := utf8.RuneCountInString(s)
		switch {
		case n <= most && got != s:
			t.Fatalf("%q is cut to %q", s, got)
		case n > most && most > len(Dots) && (!strings.HasSuffix(got, Dots) || !strings.HasPrefix(s, strings.TrimSuffix(got, Dots)) || utf8.RuneCountInString(got) != most):
			t.Fatalf("%q is cut to %q", s, got)
		case n > most && utf8.RuneCountInString(got) != most:
			t.Fatalf("%q is cut to %q", s, got)
		}
		head := Head(s, most)
		if !strings.HasPrefix(s, head) || len(head) > most || !utf8.ValidString(head) || len(s) > most && most-len(head) >= utf8.UTFMax || len(s) <= most && head != s {
			t.Fatalf("the head of %q is %q", s, head)
		}
	})
}

// A shell reads each word back; a word that is pasted is printable ASCII.
func TestWordsAreReadBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		argv := rapid.SliceOfN(rapid.Map(pieces(), func(s string) string { return strings.ReplaceAll(s, "\x00", "") }), 1, 4).Draw(t, "argv")
		pasted := make([]string, len(argv))
		for i, a := range argv {
			argv[i] = strings.TrimRight(a, "\n") + "."
			pasted[i] = Paste(argv[i])
			if strings.ContainsFunc(pasted[i], func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Fatalf("%q is pasted as %q", a, pasted[i])
			}
		}
		want := strings.Join(argv, "\x00") + "\x00"
		for _, line := range []string{Words(argv), strings.Join(pasted, " ")} {
			out, err := exec.Command("sh", "-c", "printf '%s\\0' "+line).Output()
			if err != nil || string(out) != want {
				t.Fatalf("%s is read as %q (%v), want %q", line, out, err, want)
			}
		}
	})
}
