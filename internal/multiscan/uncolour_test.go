package multiscan

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestUncolourLikeByEights: with 64 bytes at a time comes out what comes out with eight at a
// time, wherever in them a sequence begins and ends; and what is no sequence is seen by both.
func TestUncolourLikeByEights(t *testing.T) {
	t.Parallel()
	if _, ok := uncolour(make([]byte, 2*uncolourRoom), []byte("a line\n")); !ok {
		t.Skip("this machine does not have the instructions")
	}
	plain := rapid.StringOfN(rapid.SampledFrom([]rune("a7[m@\x7f?;\t\u2713\n\r ")), 0, 70, -1)
	colour := rapid.StringMatching("\x1b\\[[ -?]{0,12}[@-~]")
	others := []string{"\x1b", "\b", "\x1b[", "\x1b[1;2", "\x1b]0;title\x07", "\x1b[3\x7f", "\x1b\x1b[1m", "\x1b[1\x1b[2m", "\x1b[\x80", "\x1b7"}
	for _, other := range others {
		for before := range 2*uncolourRoom + 2 {
			text := []byte(strings.Repeat("x", before) + other + "\n")
			if n, ok := uncolour(make([]byte, len(text)+uncolourRoom), text); ok {
				t.Errorf("%q after %d bytes is taken for a colour: %d bytes are left", other, before, n)
			}
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		parts := rapid.SliceOfN(rapid.OneOf(plain, colour, colour, colour), 1, 80).Draw(rt, "parts")
		if rapid.Bool().Draw(rt, "not only colours") {
			parts[rapid.IntRange(0, len(parts)-1).Draw(rt, "at")] = rapid.SampledFrom(others).Draw(rt, "other")
		}
		text := []byte(strings.Repeat("x", rapid.IntRange(0, 64).Draw(rt, "before")) + strings.Join(parts, "") + "\n")
		to := make([]byte, len(text)+uncolourRoom)
		n, ok := uncolour(to, text)
		want, done := appendByEights(make([]byte, 0, len(text)+uncolourRoom), text)
		if ok != (done == len(text)) {
			rt.Fatalf("%q: all of it is %v, %d bytes of %d by eights", text, ok, done, len(text))
		}
		if ok && !bytes.Equal(to[:n], want) {
			rt.Fatalf("%q gave %q, not %q", text, to[:n], want)
		}
	})
}

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
