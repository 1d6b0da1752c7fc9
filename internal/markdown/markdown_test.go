package markdown

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestHeadings(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                       "",
		"# A\n## B ##\n### C #x\n#no\n####### n": "1:1 A, 2:2 B, 3:3 C #x",
		"\ufeff# A\r\n##\r\n   ## B\r\n    ## c": "1:1 A, 2:2 , 3:2 B",
		"A\n=\n\nB\nmore\n---\n":                 "1:1 A, 4:2 B more",
		"---\ntitle: x\n---\n# A":                "4:1 A",
		"---\nno end\n# A":                       "3:1 A",
		"***\nA\n---":                            "2:2 A",
		"- item\n---\n> q\n---\n| a |\n---\n":    "",
		"- item\ngoes on\n---\n\nA\n---":         "5:2 A",
		"text\n\n---\n\n# A":                     "5:1 A",
		"```\n# no\n```\n# A\n~~~~\n```\n# no\n~~~\n# no\n~~~~\n# B":   "4:1 A, 11:1 B",
		"```\n# never closed hides nothing":                            "2:1 never closed hides nothing",
		"- x\n  ```\n# no\n  ```\n# A":                                 "5:1 A",
		"<!--\n# no\n-->\n# A\n<!-- # no -->\n# B\ntext\n<!-- x\n# no": "4:1 A, 6:1 B",
		"<div>\nA\n---\n\n    A\n---":                                  "",
		"a | b\n--- | ---\n1 | 2\n":                                    "",
	} {
		var got []string
		for _, h := range Headings(text) {
			got = append(got, fmt.Sprintf("%d:%d %s", h.Line, h.Level, h.Title))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%q: %q, want %q", text, strings.Join(got, ", "), want)
		}
	}
}

func TestBoxes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "0 0",
		"- [ ] a\n* [x] b\n1. [X] c\n> - [ ] d\n":  "2 2",
		"## [ ] a\n[x] b\n| x | [ ] |\n| [x] | y":  "2 2",
		"a [ ] b\n- [x](link)\n- [ ](link)\n- [y]": "0 0",
		"```\n- [ ] a\n- [x] b\n```\n- [ ] c":      "1 0",
		"~~~\n- [ ] a\n- [x] b":                    "1 1",
		"- [x]\n- []\n- [ ]\n":                     "2 1",
	} {
		open, done := Boxes(text)
		if got := fmt.Sprint(open, " ", done); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// The lines are the text, whatever it is.
func TestLinesAreTheText(t *testing.T) {
	t.Parallel()
	piece := rapid.SampledFrom([]string{"# a", "```", "~~~~", "- [ ] b", "> ", "---", "<!--", "-->", "x", "", "    y", "\t", "=="})
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOf(piece).Draw(t, "lines")
		var got []string
		fence := 0
		for l := range Lines(strings.Join(want, "\n") + "\n") {
			got = append(got, l.Text)
			if l.N != len(got) {
				t.Fatalf("line %d has number %d", len(got), l.N)
			}
			if l.Fenced {
				fence++
			}
		}
		if len(want) > 0 && strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Fatalf("%q became %q", want, got)
		}
		if fence == 1 {
			t.Fatalf("%q: a fence of one line", want)
		}
	})
}

// FuzzHeadings: of any text come headings within it, in order, and none of them has a line break.
func FuzzHeadings(f *testing.F) {
	f.Add("# A\n\nB\n=\n```\n# c\n```\n<!-- # d -->\n- [ ] e\n")
	f.Add("---\na: b\n---\nC\n--\n")
	f.Fuzz(func(t *testing.T, text string) {
		last, lines := 0, strings.Count(text, "\n")+1
		for _, h := range Headings(text) {
			if h.Line <= last || h.Last < h.Line || h.Last > lines || h.Level < 1 || h.Level > 6 || strings.Contains(h.Title, "\n") {
				t.Fatalf("%q: %+v", text, h)
			}
			last = h.Last
		}
	})
}
