package roles

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestChooseLastMessage(t *testing.T) {
	t.Parallel()
	for _, c := range [][5]string{
		{"f", "s", "o", "f", FromFile},
		{" \n", "s", "o", "s", FromStream},
		{"", "", "o", "o", FromStdout},
		{"", "\t", "", "", FromStdout},
		{" f ", "s", "o", " f ", FromFile},
	} {
		if text, from := ChooseLastMessage(c[0], c[1], c[2]); text != c[3] || from != c[4] {
			t.Errorf("%q: %q from %s", c, text, from)
		}
	}
}

func TestParseCommit(t *testing.T) {
	t.Parallel()
	cases := []struct {
		in, subject, body string
		ok                bool
	}{
		{"done <commit>Add login\n\nWith tests.\nAnd docs.</commit>", "Add login", "With tests.\nAnd docs.", true},
		{"<commit>\n  Add   login \r\n\r\nBody\r\n</commit>", "Add login", "Body", true},
		{"<commit>Subject only</commit>", "Subject only", "", true},
		{"<commit>first</commit> no: <commit>second</commit>", "second", "", true},
		{"<commit>never closed <commit>closed</commit>", "closed", "", true},
		{"<commit>Esc \x1b[31mred\x00\u202e</commit>", "Esc [31mred", "", true},
		{"<commit> \n </commit>", "", "", false},
		{"no tag", "", "", false},
		{"</commit><commit>", "", "", false},
		{"<commit>open", "", "", false},
		{"", "", "", false},
	}
	for _, c := range cases {
		subject, body, ok := ParseCommit(c.in)
		if subject != c.subject || body != c.body || ok != c.ok {
			t.Errorf("%q: %q, %q, %v", c.in, subject, body, ok)
		}
	}
}

func TestParseCommitIsAlwaysClean(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.String().Draw(rt, "text") + string(rapid.SliceOf(rapid.Byte()).Draw(rt, "bytes"))
		text = strings.Repeat(text, rapid.IntRange(1, 2000).Draw(rt, "times"))
		subject, body, ok := ParseCommit("<commit>" + text + "</commit>")
		if ok != (subject != "") || strings.ContainsAny(subject, "\n\r\x00\x1b") || strings.ContainsAny(body, "\r\x00\x1b") {
			rt.Fatalf("%q %q %v", subject, body, ok)
		}
		if len(subject) > maxSubject || len(body) > maxBody || !utf8.ValidString(subject+body) {
			rt.Fatalf("subject %d, body %d bytes", len(subject), len(body))
		}
	})
}
