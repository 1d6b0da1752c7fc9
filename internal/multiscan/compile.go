package multiscan

import (
	"bytes"
	"cmp"
	_ "embed" // for the sample
	"fmt"
	"math"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"sync"
)

const (
	// DefaultMaxProgram is the bound of Options.MaxProgram if that is 0.
	DefaultMaxProgram = 200
	// maxExpression is the longest expression, in bytes.
	maxExpression = 8 << 10
	// commonPerMB is how many lines of a MB of the sample may hold a pattern's literals before that is a Problem.
	commonPerMB = 20
	// maxAlso is how many sets besides the one that is looked for a text is asked for before the expression is run, and
	// maxAsked how many literals such a set may have.
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
	Text    string // for an operator
}

// Compile compiles exprs, RE2 syntax, each as it is given. A pattern with a rejecting Problem matches nothing; problems
// are in order of patterns, and none is told of a known expression. The error is not nil only if the options cannot be
// used.
func Compile(exprs []string, o Options) (*Set, []Problem, error) {
	if o.MaxProgram < 0 {
		return nil, nil, fmt.Errorf("compiling patterns: MaxProgram is %d: give 0 for the default of %d, or a positive bound", o.MaxProgram, DefaultMaxProgram)
	}
	o.MaxProgram = cmp.Or(o.MaxProgram, DefaultMaxProgram)
	c := compiler{set: &Set{patterns: make([]pattern, len(exprs)), limits: defaultLimits, filter: &filter{entries: make([]entry, 0, 4*len(exprs))}}}
	known := readLiterals(o.Known)
	for i, e := range exprs {
		c.set.patterns[i].expr = e
		if line, ok := known[e]; !ok {
			if text, reject := c.analyse(int32(i), o.MaxProgram); text != "" {
				c.problems = append(c.problems, Problem{i, reject, text})
			}
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
func (c *compiler) analyse(i int32, maxProgram int) (problem string, reject bool) {
	p := &c.set.patterns[i]
	if len(p.expr) > maxExpression {
		return fmt.Sprintf("expression of %d bytes is too long (at most %d): split it", len(p.expr), maxExpression), true
	}
	tree, err := syntax.Parse(p.expr, syntax.Perl)
	if err != nil {
		return fmt.Sprintf("does not compile: %v", err), true
	}
	// The size is estimated first: compiling nested counts takes the memory that the bound is to save.
	size := programSize(tree)
	if size <= 4*int64(maxProgram) {
		prog, err := syntax.Compile(tree.Simplify())
		if err != nil {
			return fmt.Sprintf("does not compile: %v", err), true
		}
		size = int64(len(prog.Inst))
	}
	if size > int64(maxProgram) {
		return fmt.Sprintf("program of about %d instructions is too large (at most %d): use smaller counts, e.g. x* for x{0,300}", size, maxProgram), true
	}
	p.program = size
	sets := chosen(required(tree))
	if len(sets) == 0 {
		c.every(i)
		return "no literal in every alternative: it is tried on every line, for as long as its budget lasts", false
	}
	first := sets[0]
	if len(first) == 0 {
		return "can match no line: it asks for a line end inside the line", false
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
		return fmt.Sprintf("no literal of at least %d bytes in every alternative (the shortest of %q): every line is looked at, and the whole scan becomes slower; add the text around it", minLiteral, first), false
	} else if n > commonPerMB {
		return fmt.Sprintf("its literals are common in passing output (%q: %.0f lines per MB): add text that only the failure has", first[0], n), false
	}
	return "", false
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

// chosen puts the set first that is to be looked for, and after it some others that say something else. A set that
// nothing meets stands alone.
func chosen(sets []literalSet) []literalSet {
	slices.SortStableFunc(sets, func(a, b literalSet) int { return cmp.Compare(sampled().cost(a), sampled().cost(b)) })
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

// impliedBy reports whether a text with a literal of another set has one of this set, too.
func (s literalSet) impliedBy(other literalSet) bool {
	return !slices.ContainsFunc(other, func(o string) bool {
		return !slices.ContainsFunc(s, func(l string) bool { return strings.Contains(o, l) })
	})
}

// programSize estimates, without unfolding counts, how many instructions an expression compiles to: at most about twice
// off, never by the factor of a count.
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

// Characters that are in no expression and in no literal: they stand between what is known of an expression, and
// between the literals of a set.
const (
	betweenSets     = "\x1e"
	betweenLiterals = "\x1f"
)

// Literals writes down, one a line, what Compile finds out about expressions, which takes it some 50 us for each: the
// expression, its number of instructions, the literals to look for, each behind the place of its word (a character from
// '0' on), and the sets of which a text must have a literal besides. Options.Known reads it. Expressions of which it
// cannot be written are left out.
func Literals(exprs []string, maxProgram int) string {
	s, _, err := Compile(exprs, Options{MaxProgram: maxProgram})
	if err != nil {
		return ""
	}
	find := make([][]string, len(exprs))
	for _, e := range s.filter.entries {
		find[e.pattern] = append(find[e.pattern], string(rune('0'+e.at))+e.text)
	}
	var b strings.Builder
	for i, p := range s.patterns {
		if p.program > 0 && len(find[i])+len(p.also) > 0 && !strings.ContainsAny(p.expr, "\n"+betweenSets+betweenLiterals) {
			fmt.Fprintf(&b, "%s\x1e%d\x1e%s\x1e%s\n", p.expr, p.program, strings.Join(find[i], betweenLiterals), p.also)
		}
	}
	return b.String()
}

// readLiterals gives the rest of the line of each expression.
func readLiterals(text string) map[string]string {
	known := make(map[string]string, strings.Count(text, "\n"))
	for line := range strings.Lines(text) {
		expr, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), betweenSets)
		known[expr] = rest
	}
	return known
}

// take puts an expression into the set of which a line of Literals tells all.
func (c *compiler) take(i int32, known string) error {
	p := &c.set.patterns[i]
	number, rest, _ := strings.Cut(known, betweenSets)
	find, also, ok := strings.Cut(rest, betweenSets)
	var err error
	if p.program, err = strconv.ParseInt(number, 10, 64); err != nil || !ok {
		return fmt.Errorf("compiling patterns: what is known of %q is %q, which is not what Literals gave", p.expr, known)
	}
	p.also = also
	if find == "" {
		c.every(i)
		return nil
	}
	for l := range strings.SplitSeq(find, betweenLiterals) {
		c.set.filter.add(i, l[1:], int(l[0]-'0'))
	}
	return nil
}

// sample is output of builds and tests that pass: their words, and their habits (paths, durations, counts, names of
// tests that speak of errors). Lines may be added to it.
//
//go:embed sample.txt
var sample []byte

// rarity says how often each gram occurs in the sample, by the hash of the filter.
type rarity [1 << gramBits]uint16

var sampled = sync.OnceValue(func() *rarity { return newRarity(sample) })

func newRarity(of []byte) *rarity {
	r := new(rarity)
	for i := 0; i+minLiteral <= len(of); i++ {
		r[hashGram(fold(of[i:]))]++
	}
	return r
}

// of gives how often a literal occurs, at most: as often as its rarest gram.
func (r *rarity) of(b []byte) int {
	n := math.MaxUint16
	for i := 0; i+gram <= len(b); i++ {
		n = min(n, int(r[hashGram(foldEnd(b[i:]))]))
	}
	return n
}

// costOfGram is what it costs to know a gram, as a multiple of what it costs to compare one more literal where it
// stands.
const costOfGram = 5

// Costs as multiples of what it costs to know one more literal. The sample has few of the words of the world: a plain
// one may well be common elsewhere.
const (
	costOfHit   = 20      // to look at a line that has a literal
	costOfShort = 1 << 20 // that a literal is a byte too short for the filter
	costOfMark  = 1000    // to look for a mark
)

func (r *rarity) cost(set literalSet) (cost int) {
	for _, l := range set {
		b := []byte(l)
		cost += 1 + costOfHit*r.occurrences(b)
		_, least := r.rarest(l, nil)
		cost += least
	}
	if n := set.shortest(); n < minLiteral {
		cost = costOfShort * (minLiteral - n)
		if markOf(set) != 0 {
			cost = costOfMark
		}
	}
	return cost
}

func (r *rarity) occurrences(b []byte) int {
	word := bytes.Trim(b, " ")
	if len(word) < 10 && !bytes.ContainsFunc(word, func(c rune) bool { return c < 'a' || c > 'z' }) {
		return r.of(b) + 1024>>len(word)
	}
	return r.of(b)
}

// rarest gives the place of the word of a literal whose grams let the fewest places pass, and how many; none of a
// literal that is too short. A gram that the filter knows already lets no more pass; one that it does not know costs
// more than what it lets pass, as others may be taken for it. Without a filter all are taken to be known.
func (r *rarity) rarest(literal string, f *filter) (place, cost int) {
	for at := range len(literal) - minLiteral + 1 {
		c := 0
		for i := range stride {
			h := hashGram(foldEnd([]byte(literal[at+i:])))
			c += int(r[h])
			if f != nil && f.hasGram(h) == 0 {
				c += costOfGram*int(r[h]) + 4
			}
		}
		if at == 0 || c < cost {
			place, cost = at, c
		}
	}
	return place, cost
}

// common gives how many lines of each MB of the sample hold literals of all sets.
func common(sets []literalSet) float64 {
	n := 0
	for line := range bytes.Lines(lowered()) {
		if holds(textOf(sets), line) {
			n++
		}
	}
	return float64(n) * 1e6 / float64(len(sample))
}

var lowered = sync.OnceValue(func() []byte { return appendLower(nil, sample) })

// markOf gives a byte beyond ASCII that is in each literal of a set that is not empty, the last one since that tells
// characters apart; 0 if there is none.
func markOf(set literalSet) byte {
	for _, c := range slices.Backward([]byte(set[0])) {
		if c >= 0x80 && !slices.ContainsFunc(set, func(l string) bool { return !bytes.Contains([]byte(l), []byte{c}) }) {
			return c
		}
	}
	return 0
}
