package multiscan

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// planned compiles expressions and gives the plan of what comes out.
func planned(t *testing.T, exprs []string) (*Set, []Problem, []byte) {
	t.Helper()
	set, problems, err := Compile(exprs, Options{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := set.Plan(problems)
	if err != nil {
		t.Fatal(err)
	}
	return set, problems, text
}

// TestRestoreIsCompile: the set that a plan gives is the one that it was made of, in all
// that a scan looks at.
func TestRestoreIsCompile(t *testing.T) {
	t.Parallel()
	patterns := benchPatterns()
	many := []string{`(?i)\bno literal here\d*`, `\d+`, `(`, `^only (?P<name>at the) start`, `ends (?:so|thus)$`, `ab|cd|ef`, `0 ✖|1 ✖`, `(?:x{300}){300}`}
	for range maxShared + 8 { // more than the filter tells apart
		many = append(many, "the same words stand in each of these "+string(rune('a'+len(many))))
	}
	for _, exprs := range [][]string{nil, {`fatal: not a git repository`}, slices.Concat(patterns, many)} {
		set, problems, text := planned(t, exprs)
		again, told, err := Restore(exprs, Options{}, text)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(problems, told) {
			t.Errorf("the problems are %v, not %v", told, problems)
		}
		for i := range set.patterns {
			a, b := &set.patterns[i], &again.patterns[i]
			if !reflect.DeepEqual(a.names, b.names) || a.expr != b.expr || a.program != b.program || a.asks != b.asks ||
				(a.cut == nil) != (b.cut == nil) || !reflect.DeepEqual(a.ends, b.ends) ||
				!reflect.DeepEqual(texts(a.also), texts(b.also)) || len(a.branches) != len(b.branches) {
				t.Fatalf("the pattern %q is another one", a.expr)
			}
			for n := range a.branches {
				if !reflect.DeepEqual(a.branches[n], b.branches[n]) {
					t.Fatalf("the pattern %q has other branches", a.expr)
				}
			}
		}
		if !reflect.DeepEqual(set.filters, again.filters) || set.variants != again.variants || set.asked != again.asked || !slices.Equal(set.every, again.every) {
			t.Errorf("of %d patterns the filters are others", len(exprs))
		}
		if second, err := again.Plan(told); err != nil || len(second) != len(text) || !bytes.Equal(second, text) {
			t.Errorf("the plan of what a plan gave is another one: %v", err)
		}
	}
}

// withOthers restores a set with expressions of which the plan holds some.
func withOthers(t rapid.TB, base, exprs []string) (restored, compiled *Set) {
	t.Helper()
	o := Options{Sample: []byte("ok: 1 passed\ncode of a lock\n"), MaxProgram: 100_000}
	compile := func(exprs []string) (*Set, []Problem) {
		set, problems, err := Compile(exprs, o)
		if err != nil {
			t.Fatal(err)
		}
		return set, problems
	}
	text, err := (func() ([]byte, error) { set, problems := compile(base); return set.Plan(problems) })()
	if err != nil {
		t.Fatal(err)
	}
	restored, _, err = Restore(exprs, o, text)
	if err != nil {
		t.Fatal(err)
	}
	compiled, _ = compile(exprs)
	restored.limits, compiled.limits = unlimited, unlimited
	return restored, compiled
}

// TestRestoreWithOthers: with a plan of which some expressions are gone, and to which
// others come, in any order, the same is found.
func TestRestoreWithOthers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		// So many of one kind that they are not told apart, some with another way to match.
		crowd := rapid.Custom(func(t *rapid.T) string {
			form := rapid.SampledFrom([]string{"the quick brown fox jumps over %d", "the quick brown fox jumps over %d|could not get lock %[1]d"}).Draw(t, "form")
			return fmt.Sprintf(form, rapid.IntRange(0, 99).Draw(t, "number"))
		})
		expr := rapid.OneOf(genExpr(), genExpr(), crowd)
		base := rapid.SliceOfN(expr, 2, 12).Draw(rt, "base")
		if rapid.IntRange(0, 3).Draw(rt, "many") == 0 {
			base = append(base, rapid.SliceOfN(crowd, 2*maxShared, 3*maxShared).Draw(rt, "crowd")...)
		}
		exprs := rapid.Permutation(base).Draw(rt, "order")
		exprs = exprs[:rapid.IntRange((len(base)+1)/2, len(base)).Draw(rt, "left")]
		exprs = append(exprs, rapid.SliceOfN(expr, 0, len(exprs)-len(base)/2).Draw(rt, "others")...)
		if len(exprs) > len(base) && rapid.Bool().Draw(rt, "others first") {
			slices.Reverse(exprs)
		}
		text := genText().Draw(rt, "text") + strings.ReplaceAll(crowd.Draw(rt, "one of the crowd"), "|", "\n") + "\n"
		restored, compiled := withOthers(rt, base, exprs)
		want, _ := scan(t, compiled, text)
		if got, _ := scan(t, restored, text); !slices.Equal(got, want) || !slices.Equal(got, naive(exprs, text)) {
			rt.Fatalf("%q of a plan of %q:\n got %v\nwant %v", exprs, base, got, want)
		}
		for i := range exprs {
			if a, b := &restored.patterns[i], &compiled.patterns[i]; a.expr != b.expr || a.program != b.program || a.asks != b.asks || !reflect.DeepEqual(a.ends, b.ends) || !reflect.DeepEqual(a.names, b.names) {
				rt.Fatalf("%q is another pattern", exprs[i])
			}
		}
	})
}

// TestRestoreCrowded: with what comes to a plan, literals of the plan are more than are told
// apart; the other literals of their patterns are found still.
func TestRestoreCrowded(t *testing.T) {
	t.Parallel()
	crowded := 0
	for n := maxShared / 2; n <= maxShared; n++ {
		var base, others []string
		for i := range n {
			base = append(base, fmt.Sprintf("all alike%d|could not get lock %[1]d", 1000+i))
			others = append(others, fmt.Sprintf("all alike%d", 5000+i))
		}
		exprs := slices.Concat(base, others)
		restored, _ := withOthers(t, base, exprs)
		if plan, _ := withOthers(t, base, base); len(plan.filters[0].variants) == plan.filters[0].literals && len(restored.filters[0].variants) > restored.filters[0].literals {
			crowded++
		}
		text := "could not get lock 1007\nall alike1003\nall alike5001\nalike1003\n"
		if got, _ := scan(t, restored, text); !slices.Equal(got, naive(exprs, text)) || len(got) != 3 {
			t.Errorf("%d: %v", n, got)
		}
	}
	if crowded == 0 {
		t.Error("all literals were told apart, or some not before: this test shows nothing")
	}
}

// TestRestoreLarge: with as many patterns as share hashes each literal is found still, and
// those of the others.
func TestRestoreLarge(t *testing.T) {
	t.Parallel()
	base := benchPatterns()
	for n := range 1500 {
		base = append(base, fmt.Sprintf("%x is not what it was", n*n*7919))
	}
	exprs := slices.Clone(base)
	for n := range 200 {
		exprs = append(exprs, fmt.Sprintf("%x is new here, and was not before", n*n*104729))
	}
	restored, compiled := withOthers(t, base, exprs)
	var text []byte
	for _, f := range compiled.filters {
		for i := range f.variants {
			text = append(append(text, f.variants[i].lit...), '\n')
		}
	}
	tried := func(s *Set) []int64 {
		sc := s.NewScanner(nil)
		sc.dry = true
		_, _ = sc.Write(text)
		var lines []int64
		for i := range sc.tried {
			lines = append(lines, int64(sc.tried[i].lines))
		}
		return lines
	}
	want, crowded := tried(compiled), 0
	for i, n := range tried(restored) {
		if n != want[i] {
			t.Errorf("%q would be tried on %d lines, not %d", exprs[i], n, want[i])
		}
	}
	w := &restored.filters[0].words
	for _, p := range w.all() {
		crowded += int(p.crowded)
		if p.other != 0 && contextHash(w.list[p.other].word) != contextHash(p.word) {
			t.Errorf("%x leads to %x", p.word, w.list[p.other].word)
		}
	}
	if crowded == 0 {
		t.Error("no two words share a bit: this test shows nothing")
	}
}

// TestRestoreTellsProblems: those of the plan and those of what came to it.
func TestRestoreTellsProblems(t *testing.T) {
	t.Parallel()
	patterns := benchPatterns()
	base := slices.Concat(patterns, []string{`\d+`, `(`, `short`})
	_, _, text := planned(t, base)
	exprs := slices.Concat([]string{`)`}, patterns, []string{`\w+`, `(`, `some`, `a new one that is long`, `short`})
	_, want, err := Compile(exprs, Options{})
	if err != nil {
		t.Fatal(err)
	}
	set, got, err := Restore(exprs, Options{}, text)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v: %v\nwant %v", err, got, want)
	}
	if names := set.Names(0); names != nil {
		t.Errorf("what is rejected has names: %q", names)
	}
	if hits, _ := scan(t, set, "here is a new one that is long, and some\n"); len(hits) != 3 {
		t.Errorf("%v", hits)
	}
}

// TestRestoreRefuses: a plan of other expressions for the most part, of another bound, or
// half of one.
func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	patterns := benchPatterns()
	_, _, text := planned(t, patterns)
	for name, try := range map[string]func() error{
		"too few": func() error { _, _, err := Restore(patterns[:len(patterns)/2-1], Options{}, text); return err },
		"none":    func() error { _, _, err := Restore(nil, Options{}, text); return err },
		"too many others": func() error {
			var others []string
			for n := range len(patterns) + 1 {
				others = append(others, fmt.Sprint("some other pattern ", n))
			}
			_, _, err := Restore(slices.Concat(patterns, others), Options{}, text)
			return err
		},
		"another bound": func() error { _, _, err := Restore(patterns, Options{MaxProgram: 7}, text); return err },
	} {
		if err := try(); !errors.Is(err, ErrOtherPatterns) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := Restore(patterns, Options{}, text[:len(text)/2]); err == nil {
		t.Error("half a plan was taken")
	}
}
