package multiscan

import (
	"cmp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of what is taken from one expression.
const (
	maxExact    = 48  // strings that a part of an expression is expanded to
	enough      = 12  // bytes of a literal that filter well
	maxEnough   = 8   // strings that one of so many is expanded to
	maxGood     = 700 // strings that one is expanded to for the sake of being long enough
	maxClass    = 26  // characters of a class that is expanded
	maxWide     = 64  // characters of one that is where that makes a literal long enough
	maxExactLen = 128 // bytes of one of them
	maxSetSize  = 128 // literals in one required set
	maxSets     = 8   // required sets of a pattern
	maxBranches = 16  // alternatives that are looked at one by one
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
	option   *option      // if not nil: the part may be left out
	// begins and ends are of many bytes, one of which is where the part begins, or ends:
	// for use where that makes a literal long enough. Nil: any may be there.
	begins, ends literalSet
	prefix       literalSet // if not nil: what the part matches begins with one of these
	suffix       literalSet // if not nil: it ends with one of these
}

// option is what is known of a part that may be left out, or come several times.
type option struct {
	first, last literalSet // bytes that it begins and ends with; nil: not known
	turn        literalSet // if not nil: it is any number of these
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

// branches gives the required sets of each alternative, if the expression is an
// alternation or has one in a row of parts; nil if that says no more than sets.
func (x extractor) branches(re *syntax.Regexp) [][]literalSet {
	for re.Op == syntax.OpCapture {
		re = re.Sub[0]
	}
	if re.Op == syntax.OpConcat {
		for _, sub := range re.Sub {
			if b := x.branches(sub); b != nil {
				return b
			}
		}
	}
	if re.Op != syntax.OpAlternate || len(re.Sub) > maxBranches {
		return nil
	}
	more := false
	var all [][]literalSet
	for _, sub := range re.Sub {
		sets := x.sets(sub)
		if len(sets) == 0 {
			return nil
		}
		slices.SortStableFunc(sets, shortFirst)
		sets = sets[:min(len(sets), maxSets)]
		more = more || len(sets) > 1
		all = append(all, sets)
	}
	if !more {
		return nil
	}
	return all
}

// shortFirst puts those first that are quickly looked for.
func shortFirst(a, b literalSet) int {
	return cmp.Or(len(a)-len(b), b.shortest()-a.shortest())
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
			c.add(x.part(sub))
		}
		return c.result()
	case syntax.OpAlternate:
		return x.alternate(re.Sub)
	case syntax.OpQuest:
		sub := x.part(re.Sub[0])
		if sub.exact != nil && len(sub.exact) < maxExact {
			return required{exact: distinct(append(slices.Clone(sub.exact), ""))}
		}
		return optional(sub, false)
	case syntax.OpStar:
		return optional(x.part(re.Sub[0]), true)
	case syntax.OpPlus:
		return atLeastOnce(x.part(re.Sub[0]))
	case syntax.OpRepeat:
		switch {
		case re.Min == 0:
			return optional(x.part(re.Sub[0]), true)
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
		return required{must: addSet(nil, r.exact), repeated: r.exact, prefix: r.exact, suffix: r.exact}
	}
	return r
}

// optional is a part that may be left out. Its turns matter only if it may come
// several times.
func optional(r required, several bool) required {
	o := &option{first: firsts(r.prefix), last: lasts(r.suffix)}
	if r.exact != nil {
		o.first, o.last = firsts(r.exact), lasts(r.exact)
		if several && o.first != nil {
			o.turn = r.exact
		}
	}
	return required{option: o}
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
		if ranges[i] <= utf8.RuneError && utf8.RuneError <= ranges[i+1] || ranges[i+1]-ranges[i] > maxWide {
			return anything
		}
		for r := ranges[i]; r <= ranges[i+1]; r++ {
			// No line holds a line end.
			if r != '\n' && r != '\r' {
				set = append(set, lower(string(r)))
			}
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
	switch {
	case len(set) == 0 || len(set) > maxWide:
		return anything
	case len(set) > maxClass:
		return required{begins: set, ends: set}
	}
	return required{exact: set}
}

func (x extractor) alternate(subs []*syntax.Regexp) required {
	var exact, all, prefix, suffix literalSet
	allExact, someMust, allPrefix, allSuffix := true, true, true, true
	for _, sub := range subs {
		r := x.part(sub)
		best := r.exact
		allPrefix = allPrefix && (r.exact != nil || r.prefix != nil)
		allSuffix = allSuffix && (r.exact != nil || r.suffix != nil)
		prefix = append(append(prefix, r.exact...), r.prefix...)
		suffix = append(append(suffix, r.exact...), r.suffix...)
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
			someMust = false
		}
		if all = append(all, best...); len(all) > maxSetSize {
			return anything
		}
	}
	if exact = distinct(exact); allExact && len(exact) <= maxExact {
		return required{exact: exact}
	}
	var r required
	if someMust {
		r.must = addSet(nil, all)
	}
	if prefix = distinct(prefix); allPrefix && len(prefix) <= maxExact {
		r.prefix = prefix
	}
	if suffix = distinct(suffix); allSuffix && len(suffix) <= maxExact {
		r.suffix = suffix
	}
	return r
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
