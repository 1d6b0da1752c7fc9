package multiscan

import (
	"fmt"
	"regexp/syntax"
	"slices"
)

// DefaultMaxProgram is the bound of Options.MaxProgram if that is 0.
const DefaultMaxProgram = 200

// maxExpression is the longest expression, in bytes.
const maxExpression = 8 << 10

// commonPerMB is how many lines of a MB of the sample may hold a pattern's
// literals before that is a Problem.
const commonPerMB = 20

// Options of Compile; the zero value is useful.
type Options struct {
	Sample     []byte // typical passing output, to choose rare literals by; nil: a built-in one
	MaxProgram int    // instructions of a compiled expression; larger ones are rejected; 0: DefaultMaxProgram
}

// Problem is what is wrong, or slow, with one pattern.
type Problem struct {
	Pattern int    // index into the expressions
	Reject  bool   // the pattern matches nothing
	Text    string // for a person
}

// complete puts in the bound if it is not given.
func (o *Options) complete() error {
	if o.MaxProgram < 0 {
		return fmt.Errorf("compiling patterns: MaxProgram is %d: give 0 for the default of %d, or a positive bound", o.MaxProgram, DefaultMaxProgram)
	}
	if o.MaxProgram == 0 {
		o.MaxProgram = DefaultMaxProgram
	}
	return nil
}

// sample is the output to choose by.
func (o *Options) sample() []byte {
	if o.Sample == nil {
		return builtinSample()
	}
	return o.Sample
}

// Compile compiles exprs, RE2 syntax, each as it is given. A pattern with a
// rejecting Problem matches nothing; problems are in order of patterns. The
// error is not nil only if the options cannot be used.
func Compile(exprs []string, o Options) (*Set, []Problem, error) {
	if err := o.complete(); err != nil {
		return nil, nil, err
	}
	c := compiler{
		set:    &Set{patterns: make([]pattern, len(exprs)), limits: defaultLimits, exprs: exprs, bound: o.MaxProgram},
		rarity: newRarity(o.sample()),
	}
	for i := range exprs {
		c.add(i)
	}
	c.build()
	c.lint(o.sample())
	return c.set, c.told(), nil
}

type compiler struct {
	set      *Set
	rarity   *rarity
	chosen   []choice
	fresh    int // of chosen: those that were not chosen before, when a plan was made
	problems []Problem
}

// choice is the required set by which a pattern is filtered.
type choice struct {
	pattern int32
	set     literalSet
	others  []literalSet
}

// told gives the problems in order of patterns.
func (c *compiler) told() []Problem {
	slices.SortStableFunc(c.problems, func(a, b Problem) int { return a.Pattern - b.Pattern })
	return c.problems
}

// add compiles one expression, or says why it is rejected.
func (c *compiler) add(i int) {
	if why := c.compile(i, c.set.exprs[i], c.set.bound); why != "" {
		c.problems = append(c.problems, Problem{i, true, why})
	}
}

// compile returns why an expression is rejected, or "".
func (c *compiler) compile(i int, expr string, maxProgram int) string {
	if len(expr) > maxExpression {
		return fmt.Sprintf("expression of %d bytes is too long (at most %d): split it", len(expr), maxExpression)
	}
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return fmt.Sprintf("does not compile: %v", err)
	}
	// The size is estimated first: compiling nested counts takes the memory
	// that the bound is to save.
	size := programSize(tree)
	if size <= 4*int64(maxProgram) {
		prog, err := syntax.Compile(tree.Simplify())
		if err != nil {
			return fmt.Sprintf("does not compile: %v", err)
		}
		size = int64(len(prog.Inst))
	}
	if size > int64(maxProgram) {
		return fmt.Sprintf("program of about %d instructions is too large (at most %d): use smaller counts, e.g. x* for x{0,300}", size, maxProgram)
	}
	p := &c.set.patterns[i]
	p.expr, p.names, p.program, p.asks, p.ends = expr, tree.CapNames(), size, asksFor(tree), endsOf(tree)
	if p.asks != 0 {
		p.cut = new(cutVariants)
	}
	x := extractor{c.rarity.better}
	for _, b := range x.branches(tree) {
		p.branches = append(p.branches, needles(b))
	}
	c.choose(int32(i), x.sets(tree))
	return ""
}

// choose takes the set that filters best.
func (c *compiler) choose(i int32, sets []literalSet) {
	if slices.ContainsFunc(sets, func(s literalSet) bool { return len(s) == 0 }) {
		c.warn(i, "can match no line: it asks for a line end inside the line")
		return
	}
	best := -1
	for n, s := range sets {
		if best < 0 || c.rarity.better(s, sets[best]) {
			best = n
		}
	}
	if best < 0 {
		c.chosen = append(c.chosen, choice{pattern: i})
		return
	}
	others := slices.Delete(slices.Clone(sets), best, best+1)
	slices.SortStableFunc(others, shortFirst)
	c.chosen = append(c.chosen, choice{i, sets[best], others[:min(len(others), maxSets)]})
}

// firstOf gives what the texts that any of the patterns match begin with.
func (c *compiler) firstOf(patterns []int32) *byteSet {
	all := new(byteSet)
	for _, p := range patterns {
		first := c.set.patterns[p].ends.first
		if first == nil {
			return nil
		}
		all.union(*first)
	}
	return all
}

func (c *compiler) warn(pattern int32, format string, args ...any) {
	c.problems = append(c.problems, Problem{Pattern: int(pattern), Text: fmt.Sprintf(format, args...)})
}

// build makes the filters: short literals have one of their own, which has to
// look at more places, so that they do not slow the others; those of them with
// a byte that is rare have another, which looks at the places around that byte only.
// Filters that are there already take in what was chosen.
func (c *compiler) build() {
	var long, short, marked wants
	if f := c.filterOf(markedLiterals); f != nil {
		marked.marks = f.marks
	}
	c.fresh = len(c.chosen)
	for n, ch := range c.chosen {
		size := ch.set.shortest()
		if ch.set == nil || size < minLiteral {
			c.warn(ch.pattern, "no literal of at least %d bytes in every alternative: it is tried on every line, for as long as its budget lasts", minLiteral)
			c.set.every = append(c.set.every, ch.pattern)
			c.also(ch.pattern, ch.set)
			continue
		}
		switch {
		case size >= goodLiteral:
			long.add(n, ch)
		case c.rarity.mark(ch.set, &marked.marks):
			marked.add(n, ch)
		default:
			c.warn(ch.pattern, "no literal of at least %d bytes in every alternative (shortest: %q): the whole scan becomes slower; add the text around it", goodLiteral, ch.set.least())
			short.add(n, ch)
		}
	}
	c.filter(&long, longLiterals)
	c.filter(&short, shortLiterals)
	c.filter(&marked, markedLiterals)
	c.set.asked = askedFor(marked.marks)
	for _, ch := range c.chosen {
		for _, s := range ch.others {
			c.also(ch.pattern, s)
		}
	}
	c.set.variants = 0
	for _, f := range c.set.filters {
		for i := range f.variants {
			f.variants[i].id = c.set.variants
			c.set.variants++
		}
	}
}

// wants are the literals of one filter.
type wants struct {
	lits  []wanted
	of    []int  // the choice of each
	marks []byte // one of them is in each literal, if there are any
}

// shortest is the length of the shortest of them.
func (w *wants) shortest() int {
	n := maxFilterLiteral
	for _, l := range w.lits {
		n = min(n, len(l.lit))
	}
	return n
}

func (w *wants) add(n int, ch choice) {
	for _, l := range ch.set {
		w.lits = append(w.lits, wanted{l, ch.pattern})
		w.of = append(w.of, n)
	}
}

// filter sees to it that there is a filter for these literals.
func (c *compiler) filter(w *wants, kind literals) {
	if len(w.lits) == 0 {
		return
	}
	f := c.filterOf(kind)
	known, had := 0, []choice(nil) // variants, and what they were made of
	switch {
	case f == nil:
		f = newFilter(w.shortest(), w.marks)
		c.set.filters = append(c.set.filters, f)
	case kind != longLiterals || w.shortest() < f.shortest:
		// It has to be another one, for all of them.
		for _, ch := range f.choices() {
			w.add(len(c.chosen), ch)
			c.chosen = append(c.chosen, ch)
		}
		old := f
		f = newFilter(w.shortest(), w.marks)
		c.set.filters[slices.Index(c.set.filters, old)] = f
	default:
		known, had = len(f.variants), f.choices()
	}
	whole, joined := f.add(w.lits, c.rarity)
	for i := known; i < len(f.variants); i++ {
		f.variants[i].first = c.firstOf(f.variants[i].patterns)
	}
	checked := map[int]bool{}
	for i, all := range whole {
		// Of a large set what was found says nearly as much as looking for each.
		if n := w.of[i]; !all && !checked[n] && len(c.chosen[n].set) <= maxShared {
			checked[n] = true
			c.also(c.chosen[n].pattern, c.chosen[n].set)
		}
	}
	for _, ch := range had {
		if joined[ch.pattern] && len(ch.set) <= maxShared {
			c.also(ch.pattern, ch.set)
		}
	}
}

// literals is which of the filters a literal is for.
type literals int

const (
	longLiterals literals = iota
	shortLiterals
	markedLiterals
)

// filterOf gives the filter of a kind, nil if there is none yet.
func (c *compiler) filterOf(kind literals) *filter {
	for _, f := range c.set.filters {
		if f.kind() == kind {
			return f
		}
	}
	return nil
}

func (f *filter) kind() literals {
	switch {
	case len(f.marks) > 0:
		return markedLiterals
	case f.shortest >= goodLiteral:
		return longLiterals
	}
	return shortLiterals
}

// also lets the pattern be confirmed only where the set is met.
func (c *compiler) also(pattern int32, set literalSet) {
	if set == nil {
		return
	}
	p := &c.set.patterns[pattern]
	p.also = append(p.also, needles([]literalSet{set})...)
}

// lint finds the patterns whose literals are common in the sample.
func (c *compiler) lint(sample []byte) {
	sc := c.set.NewScanner(nil)
	sc.dry = true
	_, _ = sc.Write(sample) // a scanner takes everything
	_ = sc.Close()
	for _, ch := range c.chosen[:c.fresh] {
		n := sc.tried[ch.pattern].lines
		if perMB := float64(n) * 1e6 / float64(len(sample)); n > 2 && perMB > commonPerMB && ch.set.shortest() >= minLiteral && ch.set != nil {
			c.warn(ch.pattern, "its literals are common in passing output (%q: %.0f lines per MB): add text that only the failure has", ch.set[0], perMB)
		}
	}
}
