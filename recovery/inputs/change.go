package inputs

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Change kinds.
const (
	Appeared = "appeared" // it is not in the baseline
	Vanished = "vanished" // it is no longer there
	Changed  = "changed"
	Lost     = "unwatchable" // it exceeds a bound, or cannot be read reliably
)

// Change is an input that is not what it was.
type Change struct {
	Path string `json:"path"`
	Part string `json:"part,omitempty"` // see Input
	For  string `json:"for"`            // the program that reads it
	Kind string `json:"kind"`
	// Before and After are the input's text, secrets masked, at most 64 KiB of each; "" where there is none, or only a
	// digest. They hold what an agent wrote: show them by Diff.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	Why    string `json:"why,omitempty"` // says what keeps an unwatchable input from being compared
}

// maxShown bounds Change.Before and Change.After.
const maxShown = 64 << 10

// Compare lists what differs between the inputs of a command before and now, both as Inputs gives them, sorted by path
// and part.
func Compare(before, now []Input) []Change {
	var out []Change
	for len(before) > 0 || len(now) > 0 {
		switch {
		case len(now) == 0 || len(before) > 0 && byPlace(before[0], now[0]) < 0:
			if b := before[0]; b.lost == "" { // what could not be watched then is judged by what is there now
				out = append(out, change(Vanished, b, b.Text, nil))
			}
			before = before[1:]
		case len(before) == 0 || byPlace(now[0], before[0]) < 0:
			out = append(out, change(Appeared, now[0], nil, now[0].Text))
			now = now[1:]
		default:
			b, n := before[0], now[0]
			before, now = before[1:], now[1:]
			if n.lost += b.lost; n.lost != "" || !same(b, n) {
				out = append(out, change(Changed, n, b.Text, n.Text))
			}
		}
	}
	return out
}

// same compares by the strongest digest that both sides have.
func same(a, b Input) bool {
	if a.Sum != "" && b.Sum != "" {
		return a.Sum == b.Sum
	}
	return a.id != "" && a.id == b.id
}

func change(kind string, in Input, before, now []byte) Change {
	c := Change{Path: in.Path, Part: in.Part, For: in.For, Kind: kind}
	if in.lost != "" {
		c.Kind, c.Why = Lost, in.lost
		return c
	}
	c.Before, c.After = mask(c.Path, string(before), string(now))
	return c
}

// Name is what a change is about: "package.json scripts.postinstall".
func (c Change) Name() string { return strings.TrimSuffix(c.Path+" "+c.Part, " ") }

// Summary names the changes in one line for an operator, at most a few of them, escaped. It is "" if there are none.
func Summary(changes []Change) string {
	const most = 4
	var out []string
	for i, c := range changes {
		if i == most {
			out = append(out, fmt.Sprintf("and %d more", len(changes)-most))
			break
		}
		out = append(out, shorten(visible(c.Name()), 120)+" "+c.Kind)
	}
	return strings.Join(out, ", ")
}

// mask hides what is secret in the two texts of a change, and bounds them. Where only a secret differs the later one
// says so.
func mask(file, before, now string) (string, string) {
	b, n := maskText(file, before), maskText(file, now)
	if before != now && before != "" && now != "" && b == n {
		n += "(only what is hidden here is another)\n"
	}
	return bound(b), bound(n)
}

func maskText(file, text string) string {
	// The part of an address that logs in.
	text = regexp.MustCompile(`(://)[^/\s"'@]+@`).ReplaceAllString(text, "${1}<secret>@")
	switch path.Base(file) {
	case ".npmrc", ".yarnrc", ".yarnrc.yml", "bunfig.toml", "auth.json", "uv.toml", "poetry.toml", "pip.conf", "gradle.properties", "settings.xml", "config", "credentials", ".env":
	default:
		return text
	}
	secret := regexp.MustCompile(`(?i)(_auth|_authtoken|_password|password|passwd|token|secret|api-?key|username|http-basic|bearer|authorization)("?\s*[:=]\s*|\s+)(.+)`)
	var out strings.Builder
	for line := range strings.Lines(text) {
		bare := strings.TrimSuffix(line, "\n")
		out.WriteString(secret.ReplaceAllString(bare, "${1}${2}<secret>") + line[len(bare):])
	}
	return out.String()
}

func bound(s string) string {
	if len(s) > maxShown {
		return strings.ToValidUTF8(s[:maxShown], "") + "\n(cut here)\n"
	}
	return s
}

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
// change, the others are counted.
func diffLines(a, b []string) []string {
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	all := slices.Concat(marked(" ", a[:head]), aligned(a[head:len(a)-tail], b[head:len(b)-tail]), marked(" ", a[len(a)-tail:]))
	var out []string
	for begin, end := 0, 0; begin < len(all); begin = end {
		for end = begin; end < len(all) && all[end][0] == ' '; end++ {
		}
		before, after := min(begin, contextLines), min(len(all)-end, contextLines) // none at the beginning and at the end
		if n := end - begin - before - after; n > 0 {
			out = append(append(out, all[begin:begin+before]...), fmt.Sprintf("@%d equal lines@", n))
			begin = end - after
		}
		for ; end < len(all) && all[end][0] != ' '; end++ {
		}
		out = append(out, all[begin:end]...)
	}
	return out
}

func marked(mark string, lines []string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = mark + l
	}
	return out
}

// aligned is the diff by the longest common subsequence.
func aligned(a, b []string) []string {
	if len(a) > maxDiffInput || len(b) > maxDiffInput {
		return append(marked("-", a), marked("+", b)...)
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
	var out []string
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, " "+a[i])
			i++
			j++
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			out = append(out, "-"+a[i])
			i++
		default:
			out = append(out, "+"+b[j])
			j++
		}
	}
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
