package screen

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// TestColour: only a terminal gets colour by itself, NO_COLOR and TERM=dumb prevent it, and --color has the last word.
func TestColour(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		when         string
		tty          bool
		noColor, tag string
		want         bool
	}{
		{"", true, "", "xterm", true}, {Auto, true, "", "xterm-256color", true}, {Auto, false, "", "xterm", false},
		{Auto, true, "1", "xterm", false}, {Auto, true, "", "dumb", false},
		{Always, false, "1", "dumb", true}, {Never, true, "", "xterm", false},
	} {
		env := func(name string) string { return map[string]string{"NO_COLOR": c.noColor, "TERM": c.tag}[name] }
		if got, err := Colour(c.when, c.tty, env); got != c.want || err != nil {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
	if _, err := Colour("sometimes", true, func(string) string { return "" }); err == nil || err.Error() != `--color "sometimes" is none of auto, always, never` {
		t.Error(err)
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		line        string
		width, hang int
		want        []string
	}{
		"it fits":                     {"one two", 7, 2, []string{"one two"}},
		"no width":                    {strings.Repeat("x", 500), 0, 2, []string{strings.Repeat("x", 500)}},
		"at the last blank":           {"one two three", 8, 2, []string{"one two", "  three"}},
		"a word that is too long":     {"a bbbbbbbbbbbb c", 6, 0, []string{"a", "bbbbbb", "bbbbbb", "c"}},
		"the indentation stays":       {"    one two", 8, 4, []string{"    one", "    two"}},
		"too much indentation":        {"          one two", 8, 4, []string{"    one", "    two"}},
		"wide characters":             {"漢字 漢字", 5, 0, []string{"漢字", "漢字"}},
		"blanks in the line stay":     {"a  b cc", 5, 0, []string{"a  b", "cc"}},
		"the rest is less than hang":  {"aaaa b", 5, 1, []string{"aaaa", " b"}},
		"more indentation than width": {"aaaa bbbb", 6, 20, []string{"aaaa", " bbbb"}},
	} {
		if got := Wrap(c.line, c.width, c.hang); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestWrapLosesNoWord: no part is wider than the terminal, no word is lost, and none is cut unless it is longer than a
// line.
func TestWrapLosesNoWord(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringMatching(`[a-zäö漢]{1,30}`), 1, 40).Draw(t, "words")
		width, hang := rapid.IntRange(4, 100).Draw(t, "width"), rapid.IntRange(0, 60).Draw(t, "hang")
		lines := Wrap(strings.Join(words, " "), width, hang)
		var got []string
		for _, line := range lines {
			if Cells(line) > width || !utf8.ValidString(line) {
				t.Fatalf("%q takes %d of %d columns", line, Cells(line), width)
			}
			got = append(got, strings.Fields(line)...)
		}
		if strings.Join(got, "") != strings.Join(words, "") {
			t.Fatalf("%q", lines)
		}
		room := width - min(hang, width/2)
		for _, w := range words {
			if Cells(w) <= room && !slices.Contains(got, w) {
				t.Fatalf("%q is cut: %q", w, lines)
			}
		}
	})
}

// TestFit: whatever the text, it takes exactly the columns that are asked for.
func TestFit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringMatching(`[ -~äö漢字]{0,80}`).Draw(t, "text")
		width := rapid.IntRange(0, 60).Draw(t, "width")
		got := Fit(s, width)
		if Cells(got) != width || !utf8.ValidString(got) {
			t.Fatalf("%q takes %d of %d columns", got, Cells(got), width)
		}
		if Cells(s) <= width && strings.TrimRight(got, " ") != strings.TrimRight(s, " ") {
			t.Fatalf("%q became %q", s, got)
		}
	})
}

// TestPaint: colour changes no character and no width, and blanks at the ends stay without it.
func TestPaint(t *testing.T) {
	t.Parallel()
	on := Form{Colour: true}
	if got := on.Paint(Bad, "  failed "); got != "  \x1b[31mfailed\x1b[0m " || Cells(got) != 9 {
		t.Errorf("%q", got)
	}
	for _, tone := range []Tone{Normal, Good, Bad, Ask, Strong, Faint, Chosen} {
		if got := (Form{}).Paint(tone, "x"); got != "x" {
			t.Errorf("%d: %q", tone, got)
		}
		if got := on.Paint(tone, "x"); (got == "x") != (tone == Normal) || Cells(got) != 1 {
			t.Errorf("%d: %q", tone, got)
		}
	}
	var b bytes.Buffer
	if err := (Form{Colour: true, Columns: func() int { return 8 }}).Print(&b, Bad, "one two three", 2); err != nil || b.String() != "\x1b[31mone two\x1b[0m\n  \x1b[31mthree\x1b[0m\n" {
		t.Errorf("%q, %v", b.String(), err)
	}
}
