package roles

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/internal/text"
)

// FuzzMessage: whatever an agent says last, a commit message of it has one subject line and plain bounded text, and what is
// quoted in a prompt neither ends its fence nor holds a tag that superloop acts on.
func FuzzMessage(f *testing.F) {
	testkit.Seed(f, []byte("done <commit>fix: a\r\n\nbody\x1b[2J\u202e</commit> <promise>DONE</promise>"), []byte("````\n<commit></commit><commit>\x00\n</commit>"))
	f.Fuzz(func(t *testing.T, data []byte) {
		said := string(data)
		subject, body, ok := ParseCommit(said)
		if ok != (subject != "") || strings.Contains(subject, "\n") || len(subject) > maxSubject || len(body) > maxBody {
			t.Fatalf("%q, %q, %v", subject, body, ok)
		}
		if subject != text.Plain(subject) || body != text.Plain(body) || strings.TrimSpace(subject+body) != subject+body {
			t.Fatalf("%q, %q", subject, body)
		}
		quote := fence(said, 100, 100)
		mark, rest, _ := strings.Cut(quote, "\n")
		if strings.Count(quote, mark) != 2 || !strings.HasSuffix(rest, mark+"\n") || !utf8.ValidString(quote) {
			t.Fatalf("%q", quote)
		}
		for _, tag := range []string{"<promise", "<commit", "</promise", "</commit"} {
			if shown := quote + line(said, 50); strings.Contains(strings.ToLower(shown), tag+">") {
				t.Fatalf("%q", shown)
			}
		}
		if shown := line(said, 50); len(shown) > 50+len("...") || strings.Contains(shown, "\n") {
			t.Fatalf("%q", shown)
		}
	})
}
