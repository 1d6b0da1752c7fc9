package multiscan

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"testing"
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

// TestRestoreRefuses: a plan of other expressions, of another bound, or half of one.
func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	patterns := benchPatterns()
	_, _, text := planned(t, patterns)
	for name, try := range map[string]func() error{
		"another order": func() error {
			other := slices.Clone(patterns)
			other[0], other[1] = other[1], other[0]
			_, _, err := Restore(other, Options{}, text)
			return err
		},
		"one less":      func() error { _, _, err := Restore(patterns[1:], Options{}, text); return err },
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
