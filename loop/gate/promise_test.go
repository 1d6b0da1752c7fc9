package gate

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestPromise(t *testing.T) {
	t.Parallel()
	text := func(s string) *string { return &s }
	for _, tt := range []struct {
		name, message, expected string
		text                    *string
		matched                 bool
	}{
		{"exact", "all good\n<promise>DONE</promise>\n", "DONE", text("DONE"), true},
		{"white space around", "<promise>\n\t DONE \r\n</promise>", "DONE", text("DONE"), true},
		{"white space inside", "<promise>ALL\n  TESTS\tPASS</promise>", "ALL TESTS PASS", text("ALL TESTS PASS"), true},
		{"white space in the expectation", "<promise>ALL TESTS</promise>", " ALL  TESTS ", text("ALL TESTS"), true},
		{"other text", "<promise>ALMOST</promise>", "DONE", text("ALMOST"), false},
		{"other case", "<promise>done</promise>", "DONE", text("done"), false},
		{"tags have one case", "<PROMISE>DONE</PROMISE>", "DONE", nil, false},
		{"no tag", "DONE", "DONE", nil, false},
		{"unclosed", "<promise>DONE", "DONE", nil, false},
		{"closed before it is opened", "</promise>DONE<promise>", "DONE", nil, false},
		{"first of two counts, right one second", "<promise>NO</promise><promise>DONE</promise>", "DONE", text("NO"), false},
		{"first of two counts, right one first", "<promise>DONE</promise><promise>NO</promise>", "DONE", text("DONE"), true},
		{"an opening tag inside is text", "I must not write <promise> yet. <promise>DONE</promise>", "DONE",
			text("yet. <promise>DONE"), false},
		{"in a fence", "```\n<promise>DONE</promise>\n```", "DONE", text("DONE"), true},
		{"empty tag", "<promise> \n</promise>", "DONE", nil, false},
		{"empty expectation, empty tag", "<promise></promise>", "", nil, false},
		{"blank expectation", "<promise> </promise>", "  ", nil, false},
		{"empty expectation, text", "<promise>X</promise>", "", text("X"), false},
		{"prefix of the expectation", "<promise>DON</promise>", "DONE", text("DON"), false},
		{"empty message", "", "DONE", nil, false},
		{"unicode", "<promise>Fertig\u00a0\u2713</promise>", "Fertig \u2713", text("Fertig \u2713"), true},
	} {
		got := Promise(tt.message, tt.expected)
		switch {
		case got.Matched != tt.matched, got.Expected != tt.expected:
			t.Errorf("%s: got %+v", tt.name, got)
		case (got.Text == nil) != (tt.text == nil), got.Text != nil && *got.Text != *tt.text:
			t.Errorf("%s: text is %v", tt.name, got.Text)
		}
	}
}

func TestPromiseJSONIsTheOriginals(t *testing.T) {
	t.Parallel()
	equal(t, "matched", string(compact(Promise("<promise>A & B</promise>", "A & B"))), `{"expected":"A & B","text":"A & B","matched":true}`+"\n")
	equal(t, "no tag", string(compact(Promise("", "X"))), `{"expected":"X","text":null,"matched":false}`+"\n")
}

func TestPromiseIsWhatTheTagSays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringMatching(`[A-Za-z0-9_.!-]{1,8}`), 1, 5).Draw(t, "words")
		gap := rapid.StringMatching(`[ \t\r\n]{1,5}`)
		inside := ""
		for _, w := range words {
			inside += gap.Draw(t, "gap") + w
		}
		before := strings.ReplaceAll(rapid.String().Draw(t, "before"), "<promise>", "")
		after := rapid.String().Draw(t, "after")
		want := strings.Join(words, " ")
		got := Promise(before+"<promise>"+inside+"\n</promise>"+after, want)
		if !got.Matched || got.Text == nil || *got.Text != want {
			t.Fatalf("want %q, got %+v", want, got)
		}
		if Promise(before+"<promise>"+inside+"x</promise>", want).Matched {
			t.Fatal("another text matched")
		}
	})
}

// Adversarial messages of 50 MB: each is linear, as a square of that would run into
// the time limit of go test, and what is kept is small.
func TestPromiseOnHugeMessages(t *testing.T) {
	t.Parallel()
	const size = 50 << 20
	fill := func(s string) string { return strings.Repeat(s, size/len(s)) }
	for name, message := range map[string]string{
		"no tag":               fill("<promis"),
		"opening tags":         fill("<promise>"),
		"closing tags":         fill("</promise>"),
		"blanks in the tag":    "<promise>" + fill(" ") + "DONE" + fill("\n")[:1000] + "</promise>",
		"words in the tag":     "<promise>" + fill("word \n ") + "</promise>",
		"tag at the end":       fill("x") + "<promise>DONE</promise>",
		"not closed at length": "<promise>" + fill("DONE "),
	} {
		got := Promise(message, "DONE")
		want := name == "blanks in the tag" || name == "tag at the end"
		if got.Matched != want {
			t.Errorf("%s: matched is %t", name, got.Matched)
		}
		if got.Text != nil && len(*got.Text) > maxPromiseText {
			t.Errorf("%s: %d bytes of text are kept", name, len(*got.Text))
		}
	}
}
