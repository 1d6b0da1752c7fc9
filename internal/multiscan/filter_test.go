package multiscan

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// inText gives the patterns whose literals the filter finds.
func inText(f *filter, text []byte) map[int32]bool {
	got := map[int32]bool{}
	s := search{f: f}
	s.begin(text)
	for p := s.next(); p >= 0; p = s.next() {
		got[p] = true
	}
	return got
}

// TestFilterFindsAll: every place of every literal is found, wherever the literal
// lies, and no other.
func TestFilterFindsAll(t *testing.T) {
	t.Parallel()
	rare := newRarity([]byte("abc abd xyz and more of that"))
	rapid.Check(t, func(rt *rapid.T) {
		letters := rapid.SampledFrom([]rune("abcX*@\n\u00e9 "))
		text := rapid.OneOf(rapid.StringOfN(letters, minLiteral, 14, -1), rapid.StringOfN(letters, 30, 32, -1))
		texts := rapid.SliceOfN(text, 1, 30).Draw(rt, "literals")
		f := new(filter)
		for i, l := range texts {
			texts[i] = lower(l)
			at, _ := rare.rarest(texts[i], f)
			f.add(int32(i), texts[i], at)
		}
		parts := rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(texts), rapid.StringOfN(letters, 0, 40, -1)), 1, 20).Draw(rt, "text")
		all := []byte(strings.Join(parts, ""))
		for i := range all {
			if i%3 == 0 {
				copy(all[i:i+1], bytes.ToUpper(all[i:i+1]))
			}
		}
		got := inText(f, all)
		for i, l := range texts {
			if has := strings.Contains(lower(string(all)), l); has != got[int32(i)] {
				rt.Fatalf("%q in %q: found is %v", l, all, got[int32(i)])
			}
			// Alone at each alignment, with much or with nothing around it.
			for pad := range 2*stride + 1 {
				for _, around := range []int{0, 40} {
					b := []byte(strings.Repeat("~", pad+around) + l + strings.Repeat("~", around))
					if !inText(f, b)[int32(i)] {
						rt.Fatalf("%q after %d bytes is not found", l, pad+around)
					}
				}
			}
		}
	})
}

// TestEveryPlaceKnown: texts of any length in which each place holds a known word.
func TestEveryPlaceKnown(t *testing.T) {
	t.Parallel()
	f := new(filter)
	f.add(7, "aaaaaaaa", 0)
	for n := batch*stride - 20; n < batch*stride+40; n++ {
		if !inText(f, []byte(strings.Repeat("a", n)))[7] {
			t.Errorf("nothing is found in %d bytes", n)
		}
	}
}

// TestBytesAtATime: what works on eight bytes at a time does what a loop does.
func TestBytesAtATime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		b := rapid.SliceOfN(rapid.OneOf(rapid.Byte(), rapid.SampledFrom([]byte("@AZ[`az{\x1a\x1b\x1c\x1f \x7f\x80\xc1\xda\xff"))), 0, 40).Draw(rt, "bytes")
		if got, want := string(appendLower([]byte("X"), b)), "X"+lowerBytes(b); got != want {
			rt.Fatalf("%q in lower case is %q, not %q", b, got, want)
		}
	})
}

func lowerBytes(b []byte) string {
	out := slices.Clone(b)
	for i, c := range out {
		if 'A' <= c && c <= 'Z' {
			out[i] = c | 0x20
		}
	}
	return string(out)
}

// TestLogsLikeNaive: real patterns on logs of real kinds, plain and coloured.
func TestLogsLikeNaive(t *testing.T) {
	t.Parallel()
	var exprs []string
	for i, e := range benchPatterns() {
		if i%4 == 0 {
			exprs = append(exprs, e)
		}
	}
	size := 24 << 10
	if raceEnabled {
		size = 6 << 10
	}
	s, _, err := Compile(exprs, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.limits = unlimited
	for n, kind := range []logKind{passingLog, nearLog, hotLog} {
		log := string(logOf(kind, size, uint64(n)))
		if n == 2 {
			log = strings.NewReplacer("error", "\x1b[31merror\x1b[m", "code", "c\x1b[1mode\x1b[0m", "the ", "\rthe ").Replace(log)
		}
		want := naive(exprs, log)
		if len(want) == 0 && kind == hotLog {
			t.Errorf("%s: nothing to be found", kind.name)
		}
		for _, sizes := range [][]int{nil, {1000, 7}} {
			if got, _ := scan(t, s, log, sizes...); !slices.Equal(got, want) {
				t.Errorf("%s in writes of %v: %d hits, not %d", kind.name, sizes, len(got), len(want))
			}
		}
	}
}

// TestEachAlignment finds real patterns wherever they stand, in lines that end
// at once after them.
func TestEachAlignment(t *testing.T) {
	t.Parallel()
	s := compile(t, benchPatterns()...)
	for pad := range 40 {
		text := strings.Repeat(".", pad) + " npm error code ERESOLVE"
		for _, tail := range []string{"", "\n", "\nmore\n"} {
			if got, _ := scan(t, s, text+tail); len(got) != 1 || got[0].pattern != 0 || got[0].line != 1 {
				t.Errorf("%d: %v", pad, got)
			}
		}
	}
}

// TestWindowOverLineEnd: "\n" and "*" differ in bit 0x20 only, which the
// filter does not see.
func TestWindowOverLineEnd(t *testing.T) {
	t.Parallel()
	var exprs []string
	for i := range 34 {
		exprs = append(exprs, fmt.Sprintf(`zq\*jxkvq is an error %d`, i))
	}
	s := compile(t, exprs...)
	for pad := range 9 {
		text := strings.Repeat(".", pad) + "zq\njxkvq is an error 1\nzq*jxkvq is an error 1\n"
		got, _ := scan(t, s, text)
		if want := naive(exprs, text); len(want) != 1 || !slices.Equal(got, want) {
			t.Errorf("%d: %v", pad, got)
		}
	}
}

func TestBrokenBytes(t *testing.T) {
	t.Parallel()
	exprs := []string{`\x{fffd}abcdefgh`, `[\x{fffd}z]abcdefgh`, `(?i)\x{c4}bcdefgh`, `(?i)abc\x{e4}`}
	text := "\xffabcdefgh\nzabcdefgh\n\u00e4bcdefgh\n\u00c4BCDEFGH\nABC\u00c4\n"
	got, _ := scan(t, compile(t, exprs...), text)
	if want := naive(exprs, text); len(want) < 6 || !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestWindows: "^" and "$" are the ends of the text, not of a window; a match
// of half a window is found wherever it stands; what a backspace takes away
// does not depend on how the line comes.
func TestWindows(t *testing.T) {
	t.Parallel()
	s := compile(t, `^abcdefgh`, `abcdefgh$`, `(?m:^)abcdefghi`, `b[0-9]{0,9}abcdefgh`, `unseenword`, `startword-*finalword`)
	for _, sizes := range [][]int{nil, {1000}, {1 << 20}} {
		for _, at := range []int{step, 2 * step, Window - 8, Window, 9 * step, 20 * step} {
			line := strings.Repeat("-", at) + "abcdefgh" + strings.Repeat("-", 3*Window-8-at%step)
			if got, _ := scan(t, s, line+"\nabcdefgh\n", sizes...); len(got) != 2 || got[0].line != 2 || got[1].line != 2 || got[0].offset != int64(len(line)+1) {
				t.Errorf("at %d in writes of %v: %v", at, sizes, got)
			}
		}
		for n := range 120 {
			at := n/40*step + n%40
			line := strings.Repeat("-", at) + "startword" + strings.Repeat("-", step-18) + "finalword" + strings.Repeat("-", Window)
			if got, _ := scan(t, s, line+"\n"); len(got) != 1 || got[0].pattern != 5 {
				t.Fatalf("half a window at %d: %d hits", at, len(got))
			}
		}
		line := strings.Repeat("-", 100_000)
		if got, _ := scan(t, s, line+"b123abcdefgh\n", sizes...); len(got) != 2 || got[0].pattern != 1 && got[0].pattern != 3 {
			t.Errorf("at the end, in writes of %v: %v", sizes, got)
		}
		// More is taken away than a window keeps.
		line = strings.Repeat("-", 70_000) + "unseenwo" + strings.Repeat("-", 9000) + strings.Repeat("\b", 9000) + "rd\n"
		w := windowNaive{set: s}
		if got, _ := scan(t, s, line, sizes...); !slices.Equal(got, w.run(line)) {
			t.Errorf("backspaces, in writes of %v: %v", sizes, got)
		}
	}
}
