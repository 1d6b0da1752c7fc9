package multiscan

import (
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The bounds on the literals that are derived from one expression.
const (
	maxClass = 64  // characters of a class that is expanded
	maxExact = 130 // literals to which a part is expanded
	maxGood  = 700 // literals to which a part is expanded if the expansion makes them long enough for the filter
	maxLong  = 32  // literals to which a part is expanded that has literals long enough already
	maxBytes = 64  // bytes of an expanded literal
	maxCount = 16  // repetitions that are unfolded
)

// literalSet holds literals without line ends, their ASCII letters in lower case. nil means that nothing is known.
type literalSet []string

// shortest returns the length of the shortest literal.
func (s literalSet) shortest() int {
	n := 1 << 30
	for _, l := range s {
		n = min(n, len(l))
	}
	return n
}

// part describes the texts that a part of an expression matches.
type part struct {
	exact  literalSet   // if not nil: the part matches exactly these texts
	empty  bool         // the part may match the empty text
	prefix literalSet   // if not nil: each nonempty text begins with one of these
	suffix literalSet   // if not nil: each nonempty text ends with one of these
	turns  literalSet   // if not nil: each nonempty text is a sequence of these
	must   []literalSet // each text, also the empty one, contains a literal of each of these sets
}

// exactly returns a part that matches these texts only.
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

// required returns literal sets. Each text that the expression matches contains a literal of each set. An empty set
// means that no line can match.
func required(re *syntax.Regexp) []literalSet {
	p := partOf(re)
	if p.exact != nil {
		p.must = addSet(nil, p.exact)
	}
	return p.must
}

// partOf returns the description of the texts that an expression matches.
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

// atLeastOnce returns the part for one or more repetitions of p.
func atLeastOnce(p part) part {
	if p.exact != nil {
		p.must, p.turns, p.exact = addSet(nil, p.exact), p.prefix, nil
	}
	return p
}

// optional returns the part for p or the empty text.
func optional(p part) part {
	if p.exact != nil {
		return exactly(append(slices.Clone(p.exact), ""))
	}
	p.empty, p.must = true, nil
	return p
}

// literally returns the part for a literal. A rune beyond ASCII that matches in both cases, and the replacement
// character (which matches an invalid byte), have no fixed bytes, so nothing is known about their text.
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

// class returns the part for a character class. It expands a class of at most maxClass characters.
func class(ranges []rune) part {
	var set literalSet
	for i := 0; i < len(ranges); i += 2 {
		if ranges[i] <= utf8.RuneError && utf8.RuneError <= ranges[i+1] || ranges[i+1]-ranges[i] > maxClass {
			return part{}
		}
		for r := ranges[i]; r <= ranges[i+1]; r++ {
			// U+017F and U+212A are left out next to "s" and "k": see the package comment. So are line ends, because no
			// line contains one.
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

// reach describes one end of the texts that a sequence of parts matches.
type reach struct {
	set   literalSet // if not nil: each nonempty text has one of these at that end
	empty bool       // the text may be empty
}

// before returns the beginning of a sequence that consists of a part and then of the sequence whose beginning is r.
func (r reach) before(p part) reach {
	both := cross(p.exact, r.set)
	if p.turns != nil {
		both = cross(p.turns, mapped(union(p.turns, r.set), func(s string) string { return s[:1] }))
	}
	return r.grown(p, p.prefix, both, strings.HasPrefix)
}

// after returns the end of a sequence that consists of the sequence whose end is r and then of a part.
func (r reach) after(p part) reach {
	both := cross(r.set, p.exact)
	if p.turns != nil {
		both = cross(mapped(union(p.turns, r.set), func(s string) string { return s[len(s)-1:] }), p.turns)
	}
	return r.grown(p, p.suffix, both, strings.HasSuffix)
}

// grown returns the reach of r together with a part. own holds the literals at that end of the part alone, and both
// those of the part and r together. grown drops a literal that has a shorter one of the set at that end, because it
// adds no information.
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

// concat returns the part for a sequence of parts. With the repetitions of a part (turns) the literals become longer,
// but sometimes too many. So concat uses the sets with turns and those without.
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

// joined returns the part for a sequence of parts. At each border between two parts it combines the end of the parts
// before it with the beginning of the parts after it.
func joined(parts []part) part {
	none := reach{literalSet{}, true}
	begin := make([]reach, len(parts)+1) // begin[i]: the beginning of the parts from number i on
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

// mapped returns the set of the function's results for each literal; nil for nil.
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

// cross returns each literal of a joined with each literal of b. It returns nil if a or b is nil, or if the result
// would be too large. The bound is low if a or b is long enough for the filter already, and high if only the joined
// literals are.
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

// union returns the literals of both sets. It returns nil if one of them is nil, or if there are more than maxGood.
func union(a, b literalSet) literalSet {
	if a == nil || b == nil || len(a)+len(b) > maxGood {
		return nil
	}
	return distinct(append(append(literalSet{}, a...), b...))
}

// addSet adds a set to a list, unless it is nil, contains the empty text or is in the list already. It drops a literal
// with a line end, which no line contains, and a literal that contains another one of the set.
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

// smallest returns the set without the literals for which has reports that they have a shorter one. It returns nil for
// nil.
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

// lower returns s with ASCII letters in lower case. It keeps all other characters, so the length stays the same.
func lower(s string) string { return string(appendLower(nil, []byte(s))) }
