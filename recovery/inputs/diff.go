package inputs

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of a diff, so that an operator reads it. What is cut is counted.
const (
	maxDiffLines  = 60  // of one change
	maxDiffLine   = 300 // characters
	maxDiffBytes  = 24 << 10
	maxDiffInput  = 600 // lines of each side that are aligned; beyond, all old ones stand before all new ones
	contextLines  = 2
	maxDiffsShown = 50
)

// Diff shows changes to an operator, in the manner of a unified diff. Whatever is not plainly visible is escaped, so
// that nothing in it moves the cursor, hides or looks like another line; long lines and long diffs are cut, and say so.
func Diff(changes []Change) string {
	var b strings.Builder
	for i, c := range changes {
		if i == maxDiffsShown || b.Len() > maxDiffBytes {
			fmt.Fprintf(&b, "... and %d more changes\n", len(changes)-i)
			break
		}
		name := shorten(visible(c.Name()), 200)
		fmt.Fprintf(&b, "%s: %s (read by %s)\n", name, c.Kind, visible(c.For))
		if c.Kind == Lost {
			fmt.Fprintf(&b, "  it cannot be watched: %s\n", visible(c.Why))
			continue
		}
		fmt.Fprintf(&b, "--- %s\n+++ %s\n", side(name, "trusted", c.Kind != Appeared), side(name, "now", c.Kind != Vanished))
		if c.Kind == Changed && (c.Before == "" || c.After == "") {
			b.WriteString("  (its content is not shown: only a digest of it is known)\n")
			continue
		}
		lines := diffLines(cutLines(c.Before), cutLines(c.After))
		for n, l := range lines {
			if n == maxDiffLines {
				fmt.Fprintf(&b, "... %d more lines\n", len(lines)-n)
				break
			}
			b.WriteString(l[:1] + shorten(visible(l[1:]), maxDiffLine) + "\n")
		}
	}
	return b.String()
}

func side(name, when string, there bool) string {
	if !there {
		return "nothing (" + when + ")"
	}
	return name + " (" + when + ")"
}

func cutLines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

// diffLines gives the lines of both sides with " ", "-" or "+" before each; equal lines only where they stand near a
// change.
func diffLines(a, b []string) []string {
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	var out []string
	if skipped := head - contextLines; skipped > 0 {
		out = append(out, fmt.Sprintf("@%d equal lines@", skipped))
	}
	for _, l := range a[max(0, head-contextLines):head] {
		out = append(out, " "+l)
	}
	out = append(out, aligned(a[head:len(a)-tail], b[head:len(b)-tail])...)
	for i, l := range a[len(a)-tail:] {
		if i == contextLines {
			out = append(out, fmt.Sprintf("@%d equal lines@", tail-i))
			break
		}
		out = append(out, " "+l)
	}
	return out
}

// aligned is the diff by the longest common subsequence.
func aligned(a, b []string) []string {
	var out []string
	if len(a) > maxDiffInput || len(b) > maxDiffInput {
		for _, l := range a {
			out = append(out, "-"+l)
		}
		for _, l := range b {
			out = append(out, "+"+l)
		}
		return out
	}
	common := make([][]uint16, len(a)+1)
	for i := range common {
		common[i] = make([]uint16, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	equal := 0
	flush := func(last bool) {
		// Equal lines between two changes: only those next to a change.
		if n := equal - 2*contextLines; n > 0 && !last {
			keep := out[len(out)-contextLines:]
			out = append(out[:len(out)-equal+contextLines:len(out)-equal+contextLines], append([]string{fmt.Sprintf("@%d equal lines@", n)}, keep...)...)
		}
		equal = 0
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, " "+a[i])
			equal++
			i++
			j++
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			flush(false)
			out = append(out, "-"+a[i])
			i++
		default:
			flush(false)
			out = append(out, "+"+b[j])
			j++
		}
	}
	flush(true)
	return out
}

// visible escapes what an operator would not see, or take for something else: control and format characters, blanks
// that are none, bytes that are no text.
func visible(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		c, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case c == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, "<%02X>", s[i])
		case c == '\t':
			b.WriteString("<TAB>")
		case c == ' ' || c > ' ' && c < 0x7f:
			b.WriteRune(c)
		case !unicode.IsPrint(c) || c == 0x115f || c == 0x1160 || c == 0x3164 || c == 0xffa0 || unicode.Is(unicode.Variation_Selector, c) || unicode.Is(unicode.Mn, c):
			fmt.Fprintf(&b, "<U+%04X>", c)
		default:
			b.WriteRune(c)
		}
		i += n
	}
	return b.String()
}

// shorten cuts a text at a number of characters, and says how many are missing.
func shorten(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	r := []rune(s)
	return fmt.Sprintf("%s... (%d more characters)", string(r[:most]), len(r)-most)
}
