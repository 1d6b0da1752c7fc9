package multiscan

import (
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of what is taken from one expression.
const (
	maxExact    = 16  // strings that a part of an expression is expanded to
	maxExactLen = 128 // bytes of one of them
	maxSetSize  = 128 // literals in one required set
	maxSets     = 8   // required sets of a pattern
)

// literalSet holds ASCII-lowered literals; a text that matches contains at
// least one of them, whatever its letter case. An empty, non-nil set can never
// be met.
type literalSet []string

// required is what the text that a part of an expression matches must hold.
type required struct {
	exact    literalSet   // if not nil: the part matches nothing but these
	must     []literalSet // one literal of each of these
	repeated literalSet   // if not nil: the part matches these only, once or more often
}

// extractor takes the required literals out of a syntax tree. better says
// which of two sets filters better.
type extractor struct {
	better func(a, b literalSet) bool
}

// sets gives the required sets of a whole expression.
func (x extractor) sets(re *syntax.Regexp) []literalSet {
	r := x.part(re)
	if r.exact != nil {
		r.must = addSet(nil, r.exact)
	}
	return r.must
}

var anything = required{}

func exactly(s ...string) required { return required{exact: s} }

func (x extractor) part(re *syntax.Regexp) required {
	switch re.Op {
	case syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText,
		syntax.OpEndText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return exactly("")
	case syntax.OpLiteral:
		return x.literal(re)
	case syntax.OpCharClass:
		return class(re.Rune)
	case syntax.OpCapture:
		return x.part(re.Sub[0])
	case syntax.OpConcat:
		var c concat
		for _, sub := range re.Sub {
			r := x.part(sub)
			c.add(r)
			if r.repeated != nil {
				// Its last turn stands before what follows.
				c.run = r.repeated
			}
		}
		return c.result()
	case syntax.OpAlternate:
		return x.alternate(re.Sub)
	case syntax.OpQuest:
		if sub := x.part(re.Sub[0]); sub.exact != nil && len(sub.exact) < maxExact {
			return required{exact: distinct(append(slices.Clone(sub.exact), ""))}
		}
	case syntax.OpPlus:
		return atLeastOnce(x.part(re.Sub[0]))
	case syntax.OpRepeat:
		switch {
		case re.Min == 0:
		case re.Min == 1 && re.Max == 1:
			return x.part(re.Sub[0])
		case re.Min == re.Max && re.Min <= maxExactLen:
			sub := x.part(re.Sub[0])
			var c concat
			for range re.Min {
				c.add(sub)
			}
			return c.result()
		default:
			return atLeastOnce(x.part(re.Sub[0]))
		}
	}
	return anything
}

func atLeastOnce(r required) required {
	if r.exact != nil {
		return required{must: addSet(nil, r.exact), repeated: r.exact}
	}
	return r
}

// literal is a run of runes. A rune whose letter case is open and that is
// not ASCII, and the replacement character (which a broken byte matches),
// have no fixed bytes.
func (x extractor) literal(re *syntax.Regexp) required {
	var c concat
	from := 0
	for i, r := range re.Rune {
		if r == utf8.RuneError || r >= utf8.RuneSelf && re.Flags&syntax.FoldCase != 0 && unicode.SimpleFold(r) != r {
			c.add(exactly(lower(string(re.Rune[from:i]))))
			c.add(anything)
			from = i + 1
		}
	}
	c.add(exactly(lower(string(re.Rune[from:]))))
	return c.result()
}

// class expands a small character class.
func class(ranges []rune) required {
	var set literalSet
	for i := 0; i < len(ranges); i += 2 {
		if ranges[i] <= utf8.RuneError && utf8.RuneError <= ranges[i+1] || ranges[i+1]-ranges[i] > maxExact {
			return anything
		}
		for r := ranges[i]; r <= ranges[i+1]; r++ {
			set = append(set, lower(string(r)))
		}
	}
	set = distinct(set)
	// The characters that fold to ASCII are left to the ASCII ones: see the
	// package comment.
	for _, f := range [...]struct{ ascii, other string }{{"s", "\u017f"}, {"k", "\u212a"}} {
		if slices.Contains(set, f.ascii) {
			set = slices.DeleteFunc(set, func(s string) bool { return s == f.other })
		}
	}
	if len(set) == 0 || len(set) > maxExact {
		return anything
	}
	return required{exact: set}
}

func (x extractor) alternate(subs []*syntax.Regexp) required {
	var exact, all literalSet
	allExact := true
	for _, sub := range subs {
		r := x.part(sub)
		best := r.exact
		if best == nil {
			allExact = false
			for _, s := range r.must {
				if best == nil || x.better(s, best) {
					best = s
				}
			}
		} else {
			exact = append(exact, r.exact...)
		}
		if best == nil {
			return anything
		}
		all = append(all, best...)
		if len(all) > maxSetSize {
			return anything
		}
	}
	if exact = distinct(exact); allExact && len(exact) <= maxExact {
		return required{exact: exact}
	}
	return required{must: addSet(nil, all)}
}

// concat gathers the parts of a concatenation: neighbours that are exact
// grow together.
type concat struct {
	run  literalSet // nil: empty run
	must []literalSet
	open bool // a part was not exact, or the run became too large
}

func (c *concat) add(r required) {
	if r.repeated != nil {
		// Its first turn stands after what came before.
		c.add(required{exact: r.repeated})
		c.flush()
		return
	}
	if r.exact == nil {
		c.flush()
		for _, s := range r.must {
			c.must = addSet(c.must, s)
		}
		return
	}
	if c.run == nil {
		c.run = r.exact
		return
	}
	var product literalSet
	if len(c.run)*len(r.exact) <= maxExact {
		for _, a := range c.run {
			for _, b := range r.exact {
				if len(a)+len(b) > maxExactLen {
					c.flush()
					c.run = r.exact
					return
				}
				product = append(product, a+b)
			}
		}
		c.run = distinct(product)
		return
	}
	c.flush()
	c.run = r.exact
}

func (c *concat) flush() {
	c.open = true
	if c.run != nil {
		c.must = addSet(c.must, c.run)
		c.run = nil
	}
}

func (c *concat) result() required {
	if !c.open {
		if c.run == nil {
			return exactly("")
		}
		return required{exact: c.run}
	}
	c.flush()
	return required{must: c.must}
}

// addSet adds a set, made as small as it can be: a literal with a line end
// never occurs in a line, and one that contains another of the set adds nothing.
func addSet(to []literalSet, set literalSet) []literalSet {
	set = slices.DeleteFunc(slices.Clone(set), func(s string) bool { return strings.ContainsAny(s, "\r\n") })
	if slices.Contains(set, "") {
		return to
	}
	slices.SortStableFunc(set, func(a, b string) int { return len(a) - len(b) })
	small := literalSet{}
	for _, s := range set {
		if !slices.ContainsFunc(small, func(in string) bool { return strings.Contains(s, in) }) {
			small = append(small, s)
		}
	}
	return append(to, small)
}

func distinct(set literalSet) literalSet {
	slices.Sort(set)
	return slices.Compact(set)
}

// lower changes ASCII letters only, so that lengths stay.
func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}
