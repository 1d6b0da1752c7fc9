package inputs

import (
	"fmt"
	"strings"
	"testing"
)

func TestSplit(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a b  c":                            `[a b c]`,
		"a;b&&c||d|e&f":                     `[a] [b] [c] [d] [e] [f]`,
		"a 'b c' \"d 'e'\" f\\ g":           `[a b c d 'e' f g]`,
		"a # no\nb#c":                       `[a] [b#c]`,
		"a >x 2>&1 <y b":                    `[a b]`,
		"a $X ${Y:-z}w \"$Z\"":              `[a ... ...w ...]`,
		"a $(b c) d":                        `[a ...] [b c] [d]`,
		"cd \"$(dirname \"$0\")/..\"; ./x":  `[cd ...dirname ...)/..] [./x]`,
		"if [ -f x ]; then ./y; fi":         `[if [ -f x ]] [then ./y] [fi]`,
		"a `b c` d":                         `[a] [b c] [d]`,
		"a \\\n  b":                         `[a b]`,
		"'":                                 `[]`,
		"X=1 node a.js":                     `[X=1 node a.js]`,
		"for f in *.sh; do sh \"$f\"; done": `[for f in *.sh] [do sh ...] [done]`,
		"a<<EOF\nb\nEOF":                    `[a] [b] [EOF]`,
	} {
		var got []string
		for _, argv := range first(split(in)) {
			got = append(got, fmt.Sprint(argv))
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("split(%q) = %s, want %s", in, s, want)
		}
	}
}

func TestDiffLines(t *testing.T) {
	t.Parallel()
	lines := func(from, to int) (out []string) {
		for i := from; i <= to; i++ {
			out = append(out, fmt.Sprint(i))
		}
		return out
	}
	for _, c := range []struct {
		a, b []string
		want string
	}{
		{nil, []string{"x"}, "+x"},
		{[]string{"x"}, nil, "-x"},
		{[]string{"a", "b", "c"}, []string{"a", "x", "c"}, " a|-b|+x| c"},
		{lines(1, 9), append(append(lines(1, 4), "x"), lines(5, 9)...), "@2 equal lines@| 3| 4|+x| 5| 6|@3 equal lines@"},
		{append([]string{"a"}, append(lines(1, 8), "b")...), append([]string{"x"}, append(lines(1, 8), "y")...), "-a|+x| 1| 2|@4 equal lines@| 7| 8|-b|+y"},
	} {
		if got := strings.Join(diffLines(c.a, c.b), "|"); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
	long := Diff([]Change{{Path: "x", Kind: Changed, For: "y", Before: strings.Repeat("a\n", 5000), After: strings.Repeat("b\n", 5000) + strings.Repeat("c", 5000)}})
	if n := strings.Count(long, "\n"); n > maxDiffLines+5 || !strings.Contains(long, "more lines") {
		t.Errorf("%d lines", n)
	}
}

func first[T, U any](t T, _ U) T { return t }
