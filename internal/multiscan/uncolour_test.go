package multiscan

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestUncolouredLikeClean: lines are cleaned eight bytes at a time as they are one sequence
// at a time, and what stops that is never a line that holds colours only.
func TestUncolouredLikeClean(t *testing.T) {
	t.Parallel()
	part := rapid.OneOf(
		rapid.SampledFrom([]string{"a", "7", "[", "m", "\x7f", "\x80", "\b", "\x1b", "\x9b", "\x1a", "\x1c", "\t", "\x88", "\x00", "\r", "\n", "\b[1m", "\x1b[\x7f", "\x1b[", "\x1b]t\x07"}),
		rapid.SampledFrom([]string{"a line", "\n", "\x1b[31m", "\x1b[1;38;5;200m", "\x1b[m", "\x1b[~", "\x1b[@", "eight...", "\x1b[K\r"}),
		rapid.SampledFrom([]string{"a line that is longer", "\n", "\x1b[31m", "\x1b[0m"}),
	)
	rapid.Check(t, func(rt *rapid.T) {
		text := strings.Join(rapid.SliceOfN(part, 0, 60).Draw(rt, "parts"), "") + "\n"
		got, n := appendUncoloured([]byte("before"), []byte(text))
		want := []byte("before")
		for line := range strings.Lines(text[:n]) {
			want = append(appendClean(want, []byte(strings.TrimSuffix(line, "\n"))), '\n')
		}
		if !bytes.Equal(got, want) {
			rt.Fatalf("%q gave %q, not %q", text[:n], got, want)
		}
		next, _, _ := strings.Cut(text[n:], "\n")
		for n < len(text) && !strings.Contains(next, "\b") {
			_, after, more := strings.Cut(next, "\x1b")
			if !more {
				rt.Fatalf("%q stopped it", text[n:])
			}
			rest := strings.TrimLeft(strings.TrimPrefix(after, "["), "0123456789;")
			if !strings.HasPrefix(after, "[") || rest == "" || rest[0] < '@' || rest[0] == 0x7f || rest[0] >= 0x80 {
				break // something else than a colour
			}
			next = rest[1:]
		}
	})
}
