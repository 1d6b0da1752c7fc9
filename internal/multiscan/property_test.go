package multiscan

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// fragments are what random expressions and random texts have in common.
var fragments = []string{
	"npm error", "ERESOLVE", "code", "E404", "No space", " left on device", "EACCES", "SIGSEGV", "a", "ab", "aaaa", "aaaaaaaa", "abcabcabc",
	"größe", "\u00c4rger", "x", " ", ": ", "connection refused", "Connection", "lock", "could not get lock", "@[`{", "0", "17", "timeout", "K\u00e9k", "missing",
	"the quick brown fox jumps over the lazy dog",
}

// unlimited has budgets that no test reaches.
var unlimited = limits{budget{1 << 50, 0, 1 << 50}, budget{1 << 50, 0, 1 << 50}, 1 << 50, 1 << 50}

func genExpr() *rapid.Generator[string] {
	frag := rapid.Map(rapid.SampledFrom(fragments), regexp.QuoteMeta)
	atom := rapid.OneOf(frag, frag, frag, rapid.SampledFrom([]string{
		`[ab]`, `[Ee]`, `[a-z]`, `[^ ]`, `\d`, `\d+`, `\d*`, `[ab]*`, `[ab]+`, `\s*`, `\s+`, `[0x]{0,3}`, `\w`, `.`, `.*`, `.*?`, `\b`, `^`, `$`, `\s`, `[Ssx]`, `(?:)`, `[äÄ]`, `\x{fffd}`, `(?m:^)`, `(?-i:Code)`,
	}))
	var expr func(depth int) *rapid.Generator[string]
	expr = func(depth int) *rapid.Generator[string] {
		return rapid.Custom(func(t *rapid.T) string {
			var b strings.Builder
			for range rapid.IntRange(1, 4).Draw(t, "parts") {
				if depth == 0 || rapid.IntRange(0, 3).Draw(t, "kind") > 0 {
					b.WriteString(atom.Draw(t, "atom"))
					continue
				}
				var alts []string
				for range rapid.IntRange(1, 3).Draw(t, "alternatives") {
					alts = append(alts, expr(depth-1).Draw(t, "alternative"))
				}
				open := rapid.SampledFrom([]string{"(?:", "(", "(?P<n>", "(?i:"}).Draw(t, "group")
				times := rapid.SampledFrom([]string{"", "", "?", "*", "+", "{2}", "{1,3}", "{0,2}", "+?"}).Draw(t, "times")
				b.WriteString(open + strings.Join(alts, "|") + ")" + times)
			}
			return b.String()
		})
	}
	return rapid.Custom(func(t *rapid.T) string {
		return rapid.SampledFrom([]string{"", "(?i)"}).Draw(t, "flags") + expr(2).Draw(t, "expr")
	}).Filter(func(e string) bool {
		_, err := regexp.Compile(e)
		return err == nil
	})
}

func genText() *rapid.Generator[string] {
	frag := rapid.SampledFrom(fragments)
	part := rapid.OneOf(frag, frag, rapid.Map(frag, strings.ToUpper), rapid.Map(frag, strings.ToLower),
		rapid.SampledFrom([]string{"\n", "\n", "\n", "\r\n", "\r", "\x1b[31m", "\x1b[0m", "\x1b]0;t\x07", "\x1b]8;;u\x1b\\", "\x1b(B", "\x1b", "\b", "\x00", "\xff", "\xc3", "?", "7", "é"}),
		rapid.StringN(0, 8, -1))
	// Now and then a text is so long that patterns are found too often in it.
	parts := rapid.OneOf(rapid.SliceOfN(part, 0, 80), rapid.SliceOfN(part, 0, 80), rapid.Map(rapid.SliceOfN(part, 0, 12), func(s []string) []string {
		var out []string
		for n := range MaxHits + 30 {
			if out = append(out, s...); n%3 > 0 {
				out = append(out, "\n")
			}
		}
		return out
	}))
	return rapid.Map(parts, func(parts []string) string {
		// What folds to ASCII is an exception that the package comment names.
		return strings.NewReplacer("\u017f", "", "\u212a", "").Replace(strings.Join(parts, ""))
	})
}

// compileFreely has neither the bounds of programs nor those of work.
func compileFreely(exprs []string) (*Set, error) {
	s, problems, err := Compile(exprs, Options{MaxProgram: 100_000})
	if err != nil {
		return nil, err
	}
	for _, p := range problems {
		if p.Reject {
			return nil, fmt.Errorf("%q is rejected: %s", exprs[p.Pattern], p.Text)
		}
	}
	s.limits = unlimited
	return s, nil
}

// TestLikeNaive: for any patterns, any text and any chunking the hits are
// those of every expression on every cleaned line.
func TestLikeNaive(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		exprs := rapid.SliceOfN(genExpr(), 1, 12).Draw(rt, "exprs")
		text := genText().Draw(rt, "text")
		sizes := rapid.SliceOfN(rapid.IntRange(1, 300), 0, 5).Draw(rt, "sizes")
		s, err := compileFreely(exprs)
		if err != nil {
			rt.Fatal(err)
		}
		want := naive(exprs, text)
		got, stats := scan(t, s, text, sizes...)
		if !slices.Equal(got, want) {
			rt.Fatalf("%q:\n got %v\nwant %v", exprs, got, want)
		}
		whole, wholeStats := scan(t, s, text)
		wholeStats.Confirms = stats.Confirms // the filters see another part of a line at once
		if !slices.Equal(whole, want) || wholeStats != stats {
			rt.Fatalf("in one write: %v, %+v, not %v, %+v", whole, wholeStats, want, stats)
		}
	})
}

// windowNaive runs every expression on every unit of the stream: without a
// filter, but with the scanner's own cutting of lines.
type windowNaive struct {
	set          *Set
	line, offset int64
	found        findings
}

func (w *windowNaive) unit(text []byte, cut edges) {
	for i := range w.set.patterns {
		if w.found.has(i, w.line) {
			continue
		}
		if loc := w.set.on(int32(i), cut).FindSubmatchIndex(text); loc != nil {
			w.found.add(found{i, w.line, w.offset, string(text), ints(loc)})
		}
	}
}

func (w *windowNaive) run(stream string) []found {
	var u units
	for line := range strings.Lines(stream) {
		w.line++
		u.feed([]byte(strings.TrimSuffix(line, "\n")), w)
		u.endLine(w)
		w.offset += int64(len(line))
	}
	return w.found.all()
}

// TestLongLinesLikeNaive does the same with lines of many windows.
func TestLongLinesLikeNaive(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		exprs := rapid.SliceOfN(genExpr(), 1, 6).Draw(rt, "exprs")
		var b strings.Builder
		for range rapid.IntRange(1, 12).Draw(rt, "pieces") {
			b.WriteString(genText().Draw(rt, "text"))
			fill := rapid.SampledFrom([]string{"-", "ab", "é", "\x1b[31m", "~\b", "~~\b", "progress\r"}).Draw(rt, "fill")
			b.WriteString(strings.Repeat(fill, rapid.IntRange(0, 20_000).Draw(rt, "times")/len(fill)))
		}
		text := b.String()
		sizes := rapid.SliceOfN(rapid.IntRange(1, 100_000), 0, 5).Draw(rt, "sizes")
		s, err := compileFreely(exprs)
		if err != nil {
			rt.Fatal(err)
		}
		w := windowNaive{set: s}
		want := w.run(text)
		for _, sizes := range [][]int{nil, sizes} {
			got, _ := scan(t, s, text, sizes...)
			if !slices.EqualFunc(got, want, func(a, b found) bool { return a == b }) {
				rt.Fatalf("%q in writes of %v: %d hits, not %d:\n got %.2000v\nwant %.2000v", exprs, sizes, len(got), len(want), got, want)
			}
		}
	})
}

// FuzzLikeNaive lets the fuzzer write both the expressions (one a line) and
// the text.
func FuzzLikeNaive(f *testing.F) {
	f.Add("(?i)npm error code E[A-Z]+\n^a{2,3}b$", "NPM error code ENOENT\naab\n", 3)
	f.Add("foo(bar|baz)+quux\n[xy]{2}z", "foobarbazquux\r\nxyz\x1b[0mxyz\b", 1)
	f.Add("\\bsigsegv\\b|(?:core) dumped", "SIGSEGV (core dumped)\rsigsegv", 100)
	f.Fuzz(func(t *testing.T, list, text string, size int) {
		if len(list) > 300 || len(text) > 4000 || strings.ContainsAny(text, "\u017f\u212a") {
			return
		}
		exprs := strings.Split(list, "\n")
		if len(exprs) > 20 {
			return // else the last texts may be more than are kept
		}
		s, problems, err := Compile(exprs, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			if p.Reject {
				return
			}
		}
		s.limits = unlimited
		got, _ := scan(t, s, text, 1+max(0, size)%5000)
		if want := naive(exprs, text); !slices.Equal(got, want) {
			t.Fatalf("%q on %q:\n got %v\nwant %v", exprs, text, got, want)
		}
	})
}
