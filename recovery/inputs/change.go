package inputs

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The kinds of a Change.
const (
	Appeared = "appeared" // the baseline does not have the input
	Vanished = "vanished" // the input no longer exists
	Changed  = "changed"
	Lost     = "unwatchable" // the input exceeds a bound, or cannot be read reliably
)

// Change is an input that differs from the baseline.
type Change struct {
	Path string `json:"path"`
	Part string `json:"part,omitempty"` // as in Input
	For  string `json:"for"`            // the program that reads it
	Kind string `json:"kind"`
	// Before and After are the text of the input in the baseline and now, with secrets masked, at most 64 KiB each. A
	// text is "" if the input did not exist, or if only its digest is known. An agent may have written the texts: show
	// them with Diff only.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	Why    string `json:"why,omitempty"` // why an unwatchable input cannot be compared

	sum string // the SHA-256 of the input now; "" if it does not exist, or if it cannot be watched
}

// maxShown bounds Change.Before and Change.After.
const maxShown = 64 << 10

// Compare lists the differences between the inputs of a command in the baseline (before) and now. Both lists must be
// sorted by path and part, as Inputs returns them.
func Compare(before, now []Input) []Change {
	var out []Change
	for len(before) > 0 || len(now) > 0 {
		switch {
		case len(now) == 0 || len(before) > 0 && byPlace(before[0], now[0]) < 0:
			if b := before[0]; b.lost == "" { // an input that was unwatchable then and does not exist now is no change
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

// same compares the SHA-256 of two inputs. An input without one equals none.
func same(a, b Input) bool { return a.Sum != "" && a.Sum == b.Sum }

func change(kind string, in Input, before, now []byte) Change {
	c := Change{Path: in.Path, Part: in.Part, For: in.For, Kind: kind}
	if in.lost != "" {
		c.Kind, c.Why = Lost, in.lost
		return c
	}
	if kind != Vanished {
		c.sum = in.Sum
	}
	c.Before, c.After = mask(c.Path, string(before), string(now))
	return c
}

// Name identifies the input of a change by path and part, for example "package.json scripts.postinstall".
func (c Change) Name() string {
	return strings.TrimPrefix(strings.TrimSuffix(c.Path+" "+c.Part, " "), "/")
}

// Summary names the first four changes in one line for an operator, escaped, and counts the others. It returns "" for
// no changes.
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

// mask replaces the secrets in both texts of a change and limits their length. If the texts differ only in a secret,
// mask says so at the end of the second one.
func mask(file, before, now string) (string, string) {
	b, n := maskText(file, before), maskText(file, now)
	if before != now && before != "" && now != "" && b == n {
		n += "(only what is hidden here is another)\n"
	}
	return bound(b), bound(n)
}

func maskText(file, text string) string {
	// The user name and password in a URL.
	text = regexp.MustCompile(`(://)[^/\s"'@]+@`).ReplaceAllString(text, "${1}<secret>@")
	switch path.Base(file) {
	case ".npmrc", ".yarnrc", ".yarnrc.yml", "bunfig.toml", "auth.json", "uv.toml", "poetry.toml", "pip.conf", "gradle.properties", "settings.xml", "config", "config.toml", "config.json", "auth.toml",
		"settings-security.xml", ".gitconfig", ".gemrc", "rc", "config.yaml", "env", "credentials", ".env":
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

// Bounds of a diff, so that an operator can read it. Diff says how much it has cut.
const (
	maxDiffLines  = 60  // lines of one change
	maxDiffLine   = 300 // characters of one line
	maxDiffBytes  = 24 << 10
	maxDiffInput  = 600 // lines of each side that are aligned; a longer diff shows all old lines before all new ones
	contextLines  = 2
	maxDiffsShown = 50
)

// Diff shows changes to an operator in the style of a unified diff. It escapes invisible characters, so that no text
// can move the cursor, hide, or imitate another line. It cuts long lines and long diffs, and says how much it cut.
func Diff(changes []Change) string {
	var b strings.Builder
	for i, c := range changes {
		if i == maxDiffsShown || b.Len() > maxDiffBytes {
			fmt.Fprintf(&b, "... and %d more changes\n", len(changes)-i)
			break
		}
		c.show(&b, maxDiffLines, maxDiffLine)
	}
	return b.String()
}

// WholeDiff is Diff, but it cuts only texts of more than 64 KiB.
func WholeDiff(changes []Change) string {
	var b strings.Builder
	for _, c := range changes {
		c.show(&b, math.MaxInt, math.MaxInt)
	}
	return b.String()
}

// Shown reports whether Diff shows all that an operator needs in order to trust the changes: it cuts nothing, and the
// content of each is known.
func Shown(changes []Change) bool {
	for _, c := range changes {
		if c.Kind == Lost || c.hidden() || len(c.Before) > maxShown || len(c.After) > maxShown {
			return false
		}
	}
	return Diff(changes) == WholeDiff(changes)
}

// DigestOf returns the SHA-256, in hex, over the changes: equal digests mean that the same is to be trusted.
func DigestOf(changes []Change) string {
	h := sha256.New()
	for _, c := range changes {
		fmt.Fprintf(h, "%q %q %s %s\n", c.Path, c.Part, c.Kind, c.sum)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// hidden reports whether only digests of the content are known.
func (c Change) hidden() bool {
	return c.Kind == Changed && (c.Before == "" || c.After == "") || c.Kind == Appeared && c.After == "" && c.sum != sumOf("")
}

func (c Change) show(b *strings.Builder, most, wide int) {
	name := shorten(visible(c.Name()), 200)
	fmt.Fprintf(b, "%s: %s (read by %s)\n", name, c.Kind, visible(c.For))
	if c.Kind == Lost {
		fmt.Fprintf(b, "  it cannot be watched: %s\n", visible(c.Why))
		return
	}
	fmt.Fprintf(b, "--- %s\n+++ %s\n", side(name, "trusted", c.Kind != Appeared), side(name, "now", c.Kind != Vanished))
	if c.hidden() {
		b.WriteString("  (its content is not shown: only a digest of it is known)\n")
		return
	}
	lines := diffLines(cutLines(c.Before), cutLines(c.After))
	for n, l := range lines {
		if n == most {
			fmt.Fprintf(b, "... %d more lines\n", len(lines)-n)
			break
		}
		b.WriteString(l[:1] + shorten(visible(l[1:]), wide) + "\n")
	}
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

// diffLines returns the lines of both sides with " ", "-" or "+" before each. It keeps equal lines only near a change
// and replaces the others by their number.
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
		before, after := min(begin, contextLines), min(len(all)-end, contextLines) // there is no context before the first line and after the last one
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

// aligned computes the diff by the longest common subsequence.
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

// visible escapes the characters that an operator would not see or would mistake for others: control and format
// characters, unusual blanks, and bytes that are not valid UTF-8.
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

// shorten cuts a text to the given number of characters and appends how many are missing.
func shorten(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	r := []rune(s)
	return fmt.Sprintf("%s... (%d more characters)", string(r[:most]), len(r)-most)
}
