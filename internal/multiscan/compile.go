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
	// DefaultMaxProgram is the value of Options.MaxProgram if that is 0.
	DefaultMaxProgram = 200
	// maxExpression bounds the length of an expression, in bytes.
	maxExpression = 8 << 10
	// commonPerMB bounds how many lines per MB of the sample may contain a pattern's literals. More are a Problem.
	commonPerMB = 20
	// maxAlso bounds the literal sets that the scanner checks in a text before it runs the expression, besides the set
	// in the filter. maxAsked bounds the literals of such a set.
	maxAlso, maxAsked = 4, 32
)

// Options holds the options of Compile. The zero value is ready to use.
type Options struct {
	MaxProgram int    // bound on the instructions of a compiled expression; a larger one is rejected; 0: DefaultMaxProgram
	Known      string // the result of Literals for some of the expressions; Compile does not check it
}

// Problem describes a pattern that matches nothing or is slow.
type Problem struct {
	Pattern int    // index of the expression
	Reject  bool   // true: the pattern matches nothing; false: it is slow
	Text    string // a sentence for an operator
}

// Compile compiles expressions in RE2 syntax. A pattern that has a Problem with Reject matches nothing. The problems
// are in the order of the patterns. Compile reports no problem for an expression in Options.Known. It returns an error
// only if the options are not valid.
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
	// The shortest literals come first, because they have the fewest words to choose from. Longer ones can share their
	// grams.
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
	find     []entry // the literals for the filter, whose words are not chosen yet
}

// analyse adds an expression to the set. problem says what is wrong with it, or is "". reject is true if the expression
// can match nothing.
func (c *compiler) analyse(i int32, maxProgram int) (problem string, reject bool) {
	p := &c.set.patterns[i]
	if len(p.expr) > maxExpression {
		return fmt.Sprintf("expression of %d bytes is too long (at most %d): split it", len(p.expr), maxExpression), true
	}
	tree, err := syntax.Parse(p.expr, syntax.Perl)
	if err != nil {
		return fmt.Sprintf("does not compile: %v", err), true
	}
	// The size is estimated first, because to compile nested counts would take much memory.
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

// every makes the scanner try a pattern on every line that contains the pattern's mark, or on every line if it has
// none.
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

// textOf returns literal sets as one string, the form of pattern.also.
func textOf(sets []literalSet) string {
	text := make([]string, len(sets))
	for i, set := range sets {
		text[i] = strings.Join(set, betweenLiterals)
	}
	return strings.Join(text, betweenSets)
}

// chosen returns the literal sets of an expression that the scanner uses. The first one is the cheapest, for the
// filter. At most maxAlso others follow that are not implied by those before them. If a set is empty, no text can
// match, and chosen returns that set alone.
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

// impliedBy reports whether each text that contains a literal of the other set also contains one of this set.
func (s literalSet) impliedBy(other literalSet) bool {
	return !slices.ContainsFunc(other, func(o string) bool {
		return !slices.ContainsFunc(s, func(l string) bool { return strings.Contains(o, l) })
	})
}

// programSize estimates how many instructions an expression compiles to, without unfolding counted repetitions. The
// estimate is wrong by a factor of about two at most, however large the counts are.
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

// The separators in the text of Literals and in pattern.also: between the fields or the sets of an expression, and
// between the literals of a set. Literals leaves out expressions that contain one of them.
const (
	betweenSets     = "\x1e"
	betweenLiterals = "\x1f"
)

// Literals returns the results of Compile's analysis, one expression a line, for Options.Known. The analysis takes
// about 50 us for an expression. A line has the expression, its number of instructions, the literals for the filter,
// and the other literal sets of which a matching text has a literal each. Before each literal for the filter stands the
// place of its word, as a character from '0' on. Literals leaves out an expression without literals and one that does
// not fit into this form.
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

// readLiterals parses the text of Literals. It returns the rest of the line by expression.
func readLiterals(text string) map[string]string {
	known := make(map[string]string, strings.Count(text, "\n"))
	for line := range strings.Lines(text) {
		expr, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), betweenSets)
		known[expr] = rest
	}
	return known
}

// take adds an expression to the set from its line of Literals.
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

// sample is output of builds and tests that pass, with their usual words, paths, durations, counts, and names of tests
// that mention errors. From it Compile estimates how common a literal is. Lines may be added to it.
//
//go:embed sample.txt
var sample []byte

// rarity holds how often each gram occurs in the sample, by the gram's hash.
type rarity [1 << gramBits]uint16

var sampled = sync.OnceValue(func() *rarity { return newRarity(sample) })

func newRarity(of []byte) *rarity {
	r := new(rarity)
	for i := 0; i+minLiteral <= len(of); i++ {
		r[hashGram(fold(of[i:]))]++
	}
	return r
}

// of returns an upper bound on how often a literal occurs in the sample: the count of its rarest gram.
func (r *rarity) of(b []byte) int {
	n := math.MaxUint16
	for i := 0; i+gram <= len(b); i++ {
		n = min(n, int(r[hashGram(foldEnd(b[i:]))]))
	}
	return n
}

// costOfGram is the cost of one more known gram in the filter, for each place of the sample that has the gram. The unit
// is the cost of comparing one more literal at such a place.
const costOfGram = 5

// The costs of a literal set. The unit is the cost of one more literal in the filter.
const (
	costOfHit   = 20      // for each line of the sample that has a literal of the set
	costOfShort = 1 << 20 // for each byte by which the shortest literal is too short for the filter
	costOfMark  = 1000    // for the search for a mark
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

// occurrences estimates how often a literal occurs in output. It adds to the count of a short plain word, because the
// sample has few words, and such a word may be common in other output.
func (r *rarity) occurrences(b []byte) int {
	word := bytes.Trim(b, " ")
	if len(word) < 10 && !bytes.ContainsFunc(word, func(c rune) bool { return c < 'a' || c > 'z' }) {
		return r.of(b) + 1024>>len(word)
	}
	return r.of(b)
}

// rarest returns the place of the word in a literal whose grams occur least often in the sample, and the cost of that
// word. It returns 0, 0 for a literal that is too short. A gram that is new to the filter costs more, because it makes
// the filter stop at more places. Without a filter, rarest treats all grams as known.
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

// common returns how many lines per MB of the sample contain a literal of each set.
func common(sets []literalSet) float64 {
	n, text := 0, textOf(sets)
	if !holds(text, lowered(), nil) {
		return 0 // as for almost every pattern, without a look at each line
	}
	for line := range bytes.Lines(lowered()) {
		if holds(text, line, nil) {
			n++
		}
	}
	return float64(n) * 1e6 / float64(len(sample))
}

var lowered = sync.OnceValue(func() []byte { return appendLower(nil, sample) })

// markOf returns a byte of at least 0x80 that every literal of a set contains, or 0. The set must not be empty. markOf
// takes the last such byte of the first literal, because the last byte of a UTF-8 character differs most.
func markOf(set literalSet) byte {
	for _, c := range slices.Backward([]byte(set[0])) {
		if c >= 0x80 && !slices.ContainsFunc(set, func(l string) bool { return !bytes.Contains([]byte(l), []byte{c}) }) {
			return c
		}
	}
	return 0
}
