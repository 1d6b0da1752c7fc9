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
	known, err := readLiterals(o.Known)
	if err != nil {
		return nil, nil, fmt.Errorf("compiling patterns: reading what is known of them: %w", err)
	}
	c := compiler{set: &Set{patterns: make([]pattern, len(exprs)), limits: defaultLimits}, at: map[string]int{}}
	for i, e := range exprs {
		a, ok := known[e]
		if !ok {
			a = c.analyse(i, e, o.MaxProgram)
		}
		c.add(int32(i), e, a)
	}
	c.set.filter = newFilter(c.literals, sampled())
	return c.set, c.problems, nil
}

type compiler struct {
	set      *Set
	literals []literal
	at       map[string]int // in literals
	problems []Problem
}

// analysis is what is to be known of an expression: how many instructions it has,
// 0 if it is rejected or can match no line, and the sets of literals of which a text that it
// matches holds one each. The first set is the one to look for.
type analysis struct {
	program int64
	sets    []literalSet
}

// analyse looks at an expression, and tells what is wrong with it.
func (c *compiler) analyse(i int, expr string, maxProgram int) (a analysis) {
	tell := func(reject bool, format string, args ...any) analysis {
		c.problems = append(c.problems, Problem{i, reject, fmt.Sprintf(format, args...)})
		return a
	}
	if len(expr) > maxExpression {
		return tell(true, "expression of %d bytes is too long (at most %d): split it", len(expr), maxExpression)
	}
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return tell(true, "does not compile: %v", err)
	}
	// The size is estimated first: compiling nested counts takes the memory
	// that the bound is to save.
	size := programSize(tree)
	if size <= 4*int64(maxProgram) {
		prog, err := syntax.Compile(tree.Simplify())
		if err != nil {
			return tell(true, "does not compile: %v", err)
		}
		size = int64(len(prog.Inst))
	}
	if size > int64(maxProgram) {
		return tell(true, "program of about %d instructions is too large (at most %d): use smaller counts, e.g. x* for x{0,300}", size, maxProgram)
	}
	a.program = size
	a.sets = chosen(required(tree, sampled().better))
	if len(a.sets) == 0 {
		return tell(false, "no literal in every alternative: it is tried on every line, for as long as its budget lasts")
	}
	switch first := a.sets[0]; {
	case len(first) == 0:
		return tell(false, "can match no line: it asks for a line end inside the line")
	case first.shortest() < minLiteral && markOf(first) == 0:
		return tell(false, "no literal of at least %d bytes in every alternative (the shortest of %q): every line is looked at, and the whole scan becomes slower; add the text around it", minLiteral, first)
	default:
		if n := common(a.sets); n > commonPerMB {
			return tell(false, "its literals are common in passing output (%q: %.0f lines per MB): add text that only the failure has", first[0], n)
		}
	}
	return a
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

// add puts what is known of an expression into the set.
func (c *compiler) add(i int32, expr string, a analysis) {
	p := &c.set.patterns[i]
	p.expr, p.program = expr, a.program
	if a.program == 0 || len(a.sets) > 0 && len(a.sets[0]) == 0 {
		return
	}
	if len(a.sets) == 0 || a.sets[0].shortest() < minLiteral {
		c.set.every = append(c.set.every, i)
		if len(a.sets) > 0 {
			p.mark, p.also = markOf(a.sets[0]), a.sets
		}
		return
	}
	p.also = a.sets[1:]
	for _, l := range a.sets[0] {
		l = l[:min(len(l), maxLiteral)]
		n, ok := c.at[l]
		if !ok {
			n = len(c.literals)
			c.at[l] = n
			c.literals = append(c.literals, literal{text: l})
		}
		if of := &c.literals[n].patterns; len(*of) == 0 || (*of)[len(*of)-1] != i {
			*of = append(*of, i)
		}
	}
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
