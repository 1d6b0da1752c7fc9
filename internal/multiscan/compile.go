package multiscan

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
)

const (
	// DefaultMaxProgram is the bound of Options.MaxProgram if that is 0.
	DefaultMaxProgram = 200
	// maxExpression is the longest expression, in bytes.
	maxExpression = 8 << 10
	// commonPerMB is how many lines of a MB of the sample may hold a pattern's
	// literals before that is a Problem.
	commonPerMB = 20
	// maxAlso is how many sets besides the one that is looked for a text is asked
	// for before the expression is run, and maxAsked how many literals such a set may have.
	maxAlso, maxAsked = 4, 32
)

// Options of Compile; the zero value is useful.
type Options struct {
	MaxProgram int    // instructions of a compiled expression; larger ones are rejected; 0: DefaultMaxProgram
	Known      string // what Literals gave for some of the expressions: it is believed
}

// Problem is what is wrong, or slow, with one pattern.
type Problem struct {
	Pattern int    // index into the expressions
	Reject  bool   // the pattern matches nothing
	Text    string // for a person
}

// Compile compiles exprs, RE2 syntax, each as it is given. A pattern with a
// rejecting Problem matches nothing; problems are in order of patterns, and none
// is told of a known expression. The error is not nil only if the options cannot
// be used.
func Compile(exprs []string, o Options) (*Set, []Problem, error) {
	if o.MaxProgram < 0 {
		return nil, nil, fmt.Errorf("compiling patterns: MaxProgram is %d: give 0 for the default of %d, or a positive bound", o.MaxProgram, DefaultMaxProgram)
	}
	if o.MaxProgram == 0 {
		o.MaxProgram = DefaultMaxProgram
	}
	c := compiler{set: &Set{patterns: make([]pattern, len(exprs)), limits: defaultLimits, filter: new(filter)}}
	known := readLiterals(o.Known)
	for i, e := range exprs {
		c.set.patterns[i].expr = e
		if line, ok := known[e]; !ok {
			c.analyse(int32(i), o.MaxProgram)
		} else if err := c.take(int32(i), line); err != nil {
			return nil, nil, err
		}
	}
	// Those with the least choice come first: others may share their grams.
	slices.SortStableFunc(c.find, func(a, b entry) int { return len(a.text) - len(b.text) })
	for _, e := range c.find {
		at, _ := sampled().rarest(e.text, c.set.filter)
		c.set.filter.add(e.pattern, e.text, at)
	}
	return c.set, c.problems, nil
}

type compiler struct {
	set      *Set
	problems []Problem
	find     []entry // literals of which no word is chosen yet
}

// analyse puts an expression into the set, and tells what is wrong with it.
func (c *compiler) analyse(i int32, maxProgram int) {
	p := &c.set.patterns[i]
	tell := func(reject bool, format string, args ...any) {
		c.problems = append(c.problems, Problem{int(i), reject, fmt.Sprintf(format, args...)})
	}
	if len(p.expr) > maxExpression {
		tell(true, "expression of %d bytes is too long (at most %d): split it", len(p.expr), maxExpression)
		return
	}
	tree, err := syntax.Parse(p.expr, syntax.Perl)
	if err != nil {
		tell(true, "does not compile: %v", err)
		return
	}
	// The size is estimated first: compiling nested counts takes the memory
	// that the bound is to save.
	size := programSize(tree)
	if size <= 4*int64(maxProgram) {
		prog, err := syntax.Compile(tree.Simplify())
		if err != nil {
			tell(true, "does not compile: %v", err)
			return
		}
		size = int64(len(prog.Inst))
	}
	if size > int64(maxProgram) {
		tell(true, "program of about %d instructions is too large (at most %d): use smaller counts, e.g. x* for x{0,300}", size, maxProgram)
		return
	}
	p.program = size
	sets := chosen(required(tree, sampled().better))
	if len(sets) == 0 {
		tell(false, "no literal in every alternative: it is tried on every line, for as long as its budget lasts")
		c.every(i)
		return
	}
	first := sets[0]
	if len(first) == 0 {
		tell(false, "can match no line: it asks for a line end inside the line")
		return
	}
	if first.shortest() >= minLiteral {
		for _, l := range first {
			c.find = append(c.find, entry{text: l[:min(len(l), maxLiteral)], pattern: i})
		}
		p.also = textOf(sets[1:])
	} else {
		p.also = textOf(sets)
		c.every(i)
	}
	if n := common(sets); p.mark == 0 && first.shortest() < minLiteral {
		tell(false, "no literal of at least %d bytes in every alternative (the shortest of %q): every line is looked at, and the whole scan becomes slower; add the text around it", minLiteral, first)
	} else if n > commonPerMB {
		tell(false, "its literals are common in passing output (%q: %.0f lines per MB): add text that only the failure has", first[0], n)
	}
}

// every has a pattern tried on every line that has its mark.
func (c *compiler) every(i int32) {
	p := &c.set.patterns[i]
	first, _, _ := strings.Cut(p.also, betweenSets)
	p.mark = markOf(strings.Split(first, betweenLiterals))
	n := slices.IndexFunc(c.set.every, func(m marked) bool { return m.mark == p.mark })
	if n < 0 {
		n = len(c.set.every)
		c.set.every = append(c.set.every, marked{mark: p.mark})
	}
	c.set.every[n].patterns = append(c.set.every[n].patterns, i)
}

// textOf is what a pattern holds of sets.
func textOf(sets []literalSet) string {
	text := make([]string, len(sets))
	for i, set := range sets {
		text[i] = strings.Join(set, betweenLiterals)
	}
	return strings.Join(text, betweenSets)
}

// chosen puts the set first that is to be looked for, and after it some others that
// say something else. A set that nothing
// meets stands alone.
func chosen(sets []literalSet) []literalSet {
	better := sampled().better
	slices.SortStableFunc(sets, func(a, b literalSet) int {
		switch {
		case better(a, b):
			return -1
		case better(b, a):
			return 1
		}
		return 0
	})
	var out []literalSet
	for n, set := range sets {
		if len(set) == 0 {
			return []literalSet{set}
		}
		if n == 0 || len(set) <= maxAsked && len(out) <= maxAlso && !slices.ContainsFunc(out, set.impliedBy) {
			out = append(out, set)
		}
	}
	return out
}

// impliedBy reports whether a text with a literal of another set has one of this set,
// too.
func (s literalSet) impliedBy(other literalSet) bool {
	return !slices.ContainsFunc(other, func(o string) bool {
		return !slices.ContainsFunc(s, func(l string) bool { return strings.Contains(o, l) })
	})
}

// programSize estimates, without unfolding counts, how many instructions an
// expression compiles to: at most about twice off, never by the factor of a count.
func programSize(re *syntax.Regexp) int64 {
	const most = 1 << 40
	n := int64(1)
	switch re.Op {
	case syntax.OpLiteral:
		n = int64(len(re.Rune))
	case syntax.OpCapture:
		n = 2
	case syntax.OpAlternate:
		n = int64(len(re.Sub))
	}
	for _, sub := range re.Sub {
		n += programSize(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= int64(max(1, re.Min, re.Max))
	}
	return min(n, most)
}
