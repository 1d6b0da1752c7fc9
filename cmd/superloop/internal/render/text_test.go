package render

import (
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestClean(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, in, want string }{
		{"plain", "plain text", "plain text"},
		{"empty", "", ""},
		{"lines", "a\nb\r\nc\td", "a b  c d"},
		{"colour", "\x1b[31mred\x1b[0m", "[31mred[0m"},
		{"title", "\x1b]0;owned\x07x", "]0;ownedx"},
		{"c1 csi", "a\u009b2Jb", "a2Jb"},
		{"backspace", "ok\b\bno", "okno"},
		{"nul and del", "a\x00b\x7fc", "abc"},
		{"bidi override", "a\u202eb\u202cc", "abc"},
		{"bidi isolate", "a\u2066b\u2069c", "abc"},
		{"marks", "a\u200eb\u200fc\u061cd", "abcd"},
		{"zero width", "a\u200bb\u200dc\ufeffd", "abcd"},
		{"separators", "a\u2028b\u2029c", "abc"},
		{"tags", "a\U000e0041b", "ab"},
		{"not utf-8", "a\xff\xc3b", "ab"},
		{"words", "na\u00efve \u65e5\u672c e\u0301", "na\u00efve \u65e5\u672c e\u0301"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := Clean(tt.in); got != tt.want {
				t.Errorf("Clean(%q) is %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}

func TestCleanProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) + rapid.String().Draw(t, "text")
		got := Clean(in)
		if !utf8.ValidString(got) || Clean(got) != got {
			t.Fatalf("Clean(%q) is %q", in, got)
		}
		for _, r := range got {
			if unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) {
				t.Fatalf("Clean(%q) keeps %U", in, r)
			}
		}
	})
}

func TestCut(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in   string
		n    int
		want string
	}{
		{"abcdef", 7, "abcdef"}, {"abcdef", 6, "abcdef"}, {"abcdef", 5, "ab..."}, {"abcdef", 4, "a..."},
		{"abcdef", 3, "abc"}, {"abcdef", 1, "a"}, {"abcdef", 0, ""}, {"abcdef", -1, ""}, {"", 0, ""},
		{"\u65e5\u672c\u8a9e\u65e5\u672c", 4, "\u65e5..."}, {"\u65e5\u672c\u8a9e", 3, "\u65e5\u672c\u8a9e"},
	} {
		if got := Cut(tt.in, tt.n); got != tt.want {
			t.Errorf("Cut(%q, %d) is %q, want %q", tt.in, tt.n, got, tt.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		in, n := rapid.String().Draw(t, "in"), rapid.IntRange(-2, 40).Draw(t, "n")
		got := Cut(in, n)
		long := utf8.RuneCountInString(in) > n
		switch {
		case utf8.RuneCountInString(got) > max(n, 0), !long && got != in:
			t.Fatalf("Cut(%q, %d) is %q", in, n, got)
		case long && n >= 4 && !strings.HasPrefix(in, strings.TrimSuffix(got, "...")):
			t.Fatalf("Cut(%q, %d) is %q, no beginning of it", in, n, got)
		}
	})
}

func TestDuration(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0.0s", 400 * time.Millisecond: "0.4s", 9900 * time.Millisecond: "9.9s",
		10 * time.Second: "10s", 59*time.Second + 999*time.Millisecond: "59s", time.Minute: "1m00s",
		185 * time.Second: "3m05s", time.Hour - time.Second: "59m59s", time.Hour: "1h00m",
		130 * time.Minute: "2h10m", 49*time.Hour + 59*time.Second: "49h00m",
	} {
		if got := Duration(d); got != want {
			t.Errorf("Duration(%d ms) is %s, want %s", d.Milliseconds(), got, want)
		}
	}
}

func TestBytes(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0 bytes", 1023: "1023 bytes", 1024: "1.0 KiB", 1536: "1.5 KiB", 1 << 20: "1.0 MiB",
		5 << 19: "2.5 MiB", 1 << 30: "1.0 GiB", 3 << 40: "3072.0 GiB",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("Bytes(%d) is %s, want %s", n, got, want)
		}
	}
}
