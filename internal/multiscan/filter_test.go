package multiscan

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestFilterFindsAll: every place of every literal is found, for all window
// lengths and wherever the literal lies.
func TestFilterFindsAll(t *testing.T) {
	t.Parallel()
	rare := newRarity([]byte("abc abd xyz"))
	rapid.Check(t, func(rt *rapid.T) {
		m := rapid.IntRange(minLiteral, maxWindow).Draw(rt, "m")
		letters := rapid.SampledFrom([]rune("abcX*@\n\u00e9 "))
		lits := rapid.SliceOfN(rapid.StringOfN(letters, m, 12, -1), 1, 12).Draw(rt, "literals")
		var want []wanted
		for i, l := range lits {
			lits[i] = lower(l)
			want = append(want, wanted{lits[i], int32(i)})
		}
		f, whole := newFilter(want, m, rare)
		parts := rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(lits), rapid.StringOfN(letters, 0, 5, -1)), 1, 20).Draw(rt, "text")
		text := []byte(strings.Join(parts, ""))
		for i := range text {
			if i%3 == 0 {
				copy(text[i:i+1], bytes.ToUpper(text[i:i+1]))
			}
		}
		got := map[int32]bool{}
		for i := f.next(text, 0); i < len(text); i = f.next(text, i+f.stride) {
			for _, v := range f.at(text, i, nil) {
				for _, p := range v.patterns {
					got[p] = true
				}
			}
		}
		for _, l := range lits {
			// Alone at each alignment, as far as the filter can tell a stranger.
			for pad := range 9 {
				b := []byte(strings.Repeat("~", pad) + l + "~~~~~~~~~")
				i := f.next(b, 0)
				for ; i < len(b) && !slices.ContainsFunc(f.at(b, i, nil), func(v *variant) bool {
					return v.lit == l || v.lit == "" || strings.Contains(l, v.lit)
				}); i = f.next(b, i+f.stride) {
				}
				if i >= len(b) {
					rt.Fatalf("m = %d: %q after %d bytes is not found", m, l, pad)
				}
			}
		}
		for i, l := range lits {
			has := strings.Contains(lower(string(text)), l)
			if has && !got[int32(i)] || !has && got[int32(i)] && whole[i] {
				rt.Fatalf("m = %d: %q in %q: found is %v", m, l, text, got[int32(i)])
			}
		}
	})
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
	for i := range maxVariants + 2 {
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
