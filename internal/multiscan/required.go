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
	maxClass = 64  // characters of a class that is expanded
	maxExact = 130 // literals that a part is expanded to
	maxGood  = 700 // literals that a part is expanded to where that makes them long enough
	maxLong  = 32  // literals that long ones are expanded to
	maxBytes = 64  // of a literal that is expanded
	maxCount = 16  // repetitions that are unfolded
)

// literalSet holds ASCII-lowered literals without line ends; nil means that nothing is known.
type literalSet []string

// shortest gives the length of the shortest literal.
func (s literalSet) shortest() int {
	n := 1 << 30
	for _, l := range s {
		n = min(n, len(l))
	}
	return n
}

// part is what is known of the texts that a part of an expression matches.
type part struct {
	exact  literalSet   // if not nil: these are all of them
	empty  bool         // the empty text may be one of them
	prefix literalSet   // if not nil: the others begin with one of these
	suffix literalSet   // if not nil: the others end with one of these
	turns  literalSet   // if not nil: the others are rows of these
	must   []literalSet // of each of these sets they contain a literal, the empty text too
}

// exactly is a part that matches these texts only.
func exactly(set literalSet) part {
	set = distinct(set)
	full := set
	p := part{exact: set}
	if len(set) > 0 && set[0] == "" {
		full, p.empty = set[1:], true
	}
	p.prefix, p.suffix = full, full
	return p
}

// required gives sets of literals: a text that the expression matches contains a literal of each of them. An empty set
// is one that no line can meet.
func required(re *syntax.Regexp) []literalSet {
	p := partOf(re)
	if p.exact != nil {
		p.must = addSet(nil, p.exact)
	}
	return p.must
}

// partOf is what is known of an expression.
func partOf(re *syntax.Regexp) part {
	switch re.Op {
	case syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText,
		syntax.OpEndText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return exactly(literalSet{""})
	case syntax.OpLiteral:
		return literally(re)
	case syntax.OpCharClass:
		return class(re.Rune)
	case syntax.OpCapture:
		return partOf(re.Sub[0])
	case syntax.OpConcat:
		parts := make([]part, len(re.Sub))
		for i, sub := range re.Sub {
			parts[i] = partOf(sub)
		}
		return concat(parts)
	case syntax.OpAlternate:
		return alternate(re.Sub)
	case syntax.OpQuest:
		return optional(partOf(re.Sub[0]))
	case syntax.OpStar:
		return optional(atLeastOnce(partOf(re.Sub[0])))
	case syntax.OpPlus:
		return atLeastOnce(partOf(re.Sub[0]))
	case syntax.OpRepeat:
		p := partOf(re.Sub[0])
		if re.Max == 0 {
			return exactly(literalSet{""})
		}
		if re.Min == 0 {
			return optional(atLeastOnce(p))
		}
		parts := slices.Repeat([]part{p}, min(re.Min, maxCount))
		if re.Max != len(parts) {
			parts[len(parts)-1] = atLeastOnce(p)
		}
		return concat(parts)
	}
	return part{}
}

// atLeastOnce is a part that comes once or more often.
func atLeastOnce(p part) part {
	if p.exact != nil {
		p.must, p.turns, p.exact = addSet(nil, p.exact), p.prefix, nil
	}
	return p
}

// optional is a part that may be left out.
func optional(p part) part {
	if p.exact != nil {
		return exactly(append(slices.Clone(p.exact), ""))
	}
	p.empty, p.must = true, nil
	return p
}

// literally is a run of runes. A rune whose letter case is open and that is not ASCII, and the replacement character
// (which a broken byte matches), have no fixed bytes.
func literally(re *syntax.Regexp) part {
	var parts []part
	from := 0
	for i, r := range re.Rune {
		if r == utf8.RuneError || r >= utf8.RuneSelf && re.Flags&syntax.FoldCase != 0 && unicode.SimpleFold(r) != r {
			parts = append(parts, exactly(literalSet{lower(string(re.Rune[from:i]))}), part{})
			from = i + 1
		}
	}
	return concat(append(parts, exactly(literalSet{lower(string(re.Rune[from:]))})))
}

// class expands a small character class.
func class(ranges []rune) part {
	var set literalSet
	for i := 0; i < len(ranges); i += 2 {
		if ranges[i] <= utf8.RuneError && utf8.RuneError <= ranges[i+1] || ranges[i+1]-ranges[i] > maxClass {
			return part{}
		}
		for r := ranges[i]; r <= ranges[i+1]; r++ {
			// The two characters that fold to "s" and "k" are left to these: see the package comment. No line holds a
			// line end.
			folded := r == '\u017f' && slices.Contains(set, "s") || r == '\u212a' && slices.Contains(set, "k")
			if r != '\n' && r != '\r' && !folded {
				set = append(set, lower(string(r)))
			}
		}
	}
	if set = distinct(set); len(set) == 0 || len(set) > maxClass {
		return part{}
	}
	return exactly(set)
}

func alternate(subs []*syntax.Regexp) part {
	exact, all := literalSet{}, literalSet{}
	p := part{prefix: literalSet{}, suffix: literalSet{}}
	for _, sub := range subs {
		s := partOf(sub)
		p.empty = p.empty || s.empty
		p.prefix, p.suffix = union(p.prefix, s.prefix), union(p.suffix, s.suffix)
		best := s.exact
		for _, set := range s.must {
			if best == nil || sampled().cost(set) < sampled().cost(best) {
				best = set
			}
		}
		exact, all = union(exact, s.exact), union(all, best)
	}
	if exact != nil && len(exact) <= maxExact {
		return exactly(exact)
	}
	p.must = addSet(nil, all)
	return p
}

// reach is what is known of one end of a row of parts.
type reach struct {
	set   literalSet // if not nil: there the texts that are not empty have one of these
	empty bool       // the text may be empty
}

// before gives the beginning of a part and what comes after it.
func (r reach) before(p part) reach {
	both := cross(p.exact, r.set)
	if p.turns != nil {
		both = cross(p.turns, mapped(union(p.turns, r.set), func(s string) string { return s[:1] }))
	}
	return r.grown(p, p.prefix, both, strings.HasPrefix)
}

// after gives the end of what was before a part, and of the part.
func (r reach) after(p part) reach {
	both := cross(r.set, p.exact)
	if p.turns != nil {
		both = cross(mapped(union(p.turns, r.set), func(s string) string { return s[len(s)-1:] }), p.turns)
	}
	return r.grown(p, p.suffix, both, strings.HasSuffix)
}

// grown adds a part, of which own is known, and both together with what there was. A literal that has another one at
// that end says nothing more.
func (r reach) grown(p part, own, both literalSet, has func(s, end string) bool) reach {
	if both == nil {
		both = own
	}
	if r.empty {
		both = union(both, own)
	}
	if p.empty {
		both = union(both, r.set)
	}
	return reach{smallest(both, has), r.empty && p.empty}
}

// concat joins parts in a row. How often a part is repeated says more where that makes literals long enough, and less
// where it makes them many: both are tried.
func concat(parts []part) part {
	p := joined(parts)
	plain := slices.Clone(parts)
	for i := range plain {
		plain[i].turns = nil
	}
	q := joined(plain)
	for _, set := range p.must {
		q.must = addSet(q.must, set)
	}
	return q
}

// joined joins parts: wherever one ends and the next begins, the end of what was before stands beside the beginning of
// what comes.
func joined(parts []part) part {
	none := reach{literalSet{}, true}
	begin := make([]reach, len(parts)+1) // of the parts from one on
	begin[len(parts)] = none
	for i := len(parts) - 1; i >= 0; i-- {
		begin[i] = begin[i+1].before(parts[i])
	}
	var p part
	end, exact := none, literalSet{""}
	for i, b := range begin {
		switch {
		case end.empty && b.empty:
		case end.empty:
			p.must = addSet(p.must, b.set)
		case b.empty:
			p.must = addSet(p.must, end.set)
		default:
			if both := cross(end.set, b.set); both != nil {
				p.must = addSet(p.must, both)
				break
			}
			p.must = addSet(addSet(p.must, end.set), b.set)
		}
		if i < len(parts) {
			p.must = append(p.must, parts[i].must...)
			exact = cross(exact, parts[i].exact)
			end = end.after(parts[i])
		}
	}
	if exact != nil {
		return exactly(exact)
	}
	p.prefix, p.suffix, p.empty = begin[0].set, end.set, end.empty
	return p
}

// mapped gives what a function makes of each literal; nil stays nil.
func mapped(set literalSet, to func(string) string) literalSet {
	if set == nil {
		return nil
	}
	out := literalSet{}
	for _, s := range set {
		out = append(out, to(s))
	}
	return distinct(out)
}

// cross gives each of a with each of b after it; nil if one of them is nil, or if that is too much. Literals that are
// long gain little from many ways to go on, those that become long enough by it gain much.
func cross(a, b literalSet) literalSet {
	if a == nil || b == nil {
		return nil
	}
	most := maxExact
	switch n, m := a.shortest(), b.shortest(); {
	case n >= minLiteral && len(b) > 1, m >= minLiteral && len(a) > 1:
		most = maxLong
	case n+m >= minLiteral:
		most = maxGood
	}
	if len(a)*len(b) > most {
		return nil
	}
	out := literalSet{}
	for _, s := range a {
		for _, t := range b {
			if len(s)+len(t) > maxBytes && s != "" && t != "" {
				return nil
			}
			out = append(out, s+t)
		}
	}
	return distinct(out)
}

// union gives the literals of both; nil if one of them is nil, or if that is too much.
func union(a, b literalSet) literalSet {
	if a == nil || b == nil || len(a)+len(b) > maxGood {
		return nil
	}
	return distinct(append(append(literalSet{}, a...), b...))
}

// addSet adds a set, made as small as it can be: a literal with a line end never occurs in a line, and one that
// contains another of the set adds nothing.
func addSet(to []literalSet, set literalSet) []literalSet {
	if set == nil || slices.Contains(set, "") {
		return to
	}
	set = slices.DeleteFunc(slices.Clone(set), func(s string) bool { return strings.ContainsAny(s, "\r\n") })
	small := smallest(set, strings.Contains)
	if slices.ContainsFunc(to, func(had literalSet) bool { return slices.Equal(had, small) }) {
		return to
	}
	return append(to, small)
}

// smallest leaves out the literals that have another one; nil stays nil.
func smallest(set literalSet, has func(s, other string) bool) literalSet {
	if set == nil {
		return nil
	}
	small := literalSet{}
	for _, s := range slices.SortedStableFunc(slices.Values(set), func(a, b string) int { return len(a) - len(b) }) {
		if !slices.ContainsFunc(small, func(other string) bool { return has(s, other) }) {
			small = append(small, s)
		}
	}
	return small
}

func distinct(set literalSet) literalSet {
	slices.Sort(set)
	return slices.Compact(set)
}

// lower changes ASCII letters only, so that lengths stay.
func lower(s string) string { return string(appendLower(nil, []byte(s))) }
