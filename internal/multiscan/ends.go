package multiscan

import (
	"regexp/syntax"
	"unicode"
	"unicode/utf8"
)

// byteSet is a set of bytes.
type byteSet [4]uint64

func (s *byteSet) add(c byte)      { s[c>>6] |= 1 << (c & 63) }
func (s *byteSet) has(c byte) bool { return s[c>>6]>>(c&63)&1 != 0 }

func (s *byteSet) addRange(from, to int) {
	for c := from; c <= to; c++ {
		s.add(byte(c))
	}
}

func (s *byteSet) union(t byteSet) {
	for i := range s {
		s[i] |= t[i]
	}
}

// ends are conditions on a text that cost nothing to check: a pattern that is
// bound to the start or the end of the text needs one of a few bytes there.
type ends struct {
	first, last *byteSet // nil: any text may do
}

func endsOf(re *syntax.Regexp) ends {
	var e ends
	if x := walkEnd(re, false); x.bound && !x.empty {
		e.first = &x.bytes
	}
	if x := walkEnd(re, true); x.bound && !x.empty {
		e.last = &x.bytes
	}
	return e
}

// allow reports whether the pattern may match a text with these ends.
func (e *ends) allow(text []byte, cut edges) bool {
	if e.first != nil && (cut&cutBefore != 0 || len(text) == 0 || !e.first.has(text[0])) {
		return false
	}
	return e.last == nil || cut&cutAfter == 0 && len(text) > 0 && e.last.has(text[len(text)-1])
}

// end is what is known of one end of whatever a part of an expression matches.
type end struct {
	bytes byteSet // that a match which is not empty can have there
	empty bool    // it can match the empty string
	bound bool    // it matches only at that end of the text
}

// walkEnd looks at the start of an expression, or at its end.
func walkEnd(re *syntax.Regexp, last bool) end {
	switch re.Op {
	case syntax.OpNoMatch:
		return end{bound: true}
	case syntax.OpBeginLine, syntax.OpBeginText:
		return end{empty: true, bound: !last}
	case syntax.OpEndLine, syntax.OpEndText:
		return end{empty: true, bound: last}
	case syntax.OpEmptyMatch, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return end{empty: true}
	case syntax.OpLiteral:
		r := re.Rune[0]
		if last {
			r = re.Rune[len(re.Rune)-1]
		}
		var e end
		e.addRune(r, last)
		if re.Flags&syntax.FoldCase != 0 {
			for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
				e.addRune(f, last)
			}
		}
		return e
	case syntax.OpCharClass:
		var e end
		for i := 0; i < len(re.Rune); i += 2 {
			e.bytes.addRange(int(re.Rune[i]), int(min(re.Rune[i+1], utf8.RuneSelf-1)))
			if re.Rune[i+1] >= utf8.RuneSelf {
				e.bytes.addRange(utf8.RuneSelf, 255)
			}
		}
		return e
	case syntax.OpCapture, syntax.OpPlus:
		return walkEnd(re.Sub[0], last)
	case syntax.OpRepeat:
		e := walkEnd(re.Sub[0], last)
		if re.Min == 0 {
			e.empty, e.bound = true, false
		}
		return e
	case syntax.OpStar, syntax.OpQuest:
		e := walkEnd(re.Sub[0], last)
		e.empty, e.bound = true, false
		return e
	case syntax.OpConcat:
		e := end{empty: true}
		for i := range re.Sub {
			if last {
				i = len(re.Sub) - 1 - i
			}
			s := walkEnd(re.Sub[i], last)
			e.bytes.union(s.bytes)
			e.bound = e.bound || s.bound
			if !s.empty {
				e.empty = false
				break
			}
		}
		return e
	case syntax.OpAlternate:
		e := end{bound: true}
		for _, sub := range re.Sub {
			s := walkEnd(sub, last)
			e.bytes.union(s.bytes)
			e.empty = e.empty || s.empty
			e.bound = e.bound && s.bound
		}
		return e
	}
	e := end{empty: true}
	e.bytes.addRange(0, 255)
	return e
}

// addRune adds the byte that a rune has at that end; the replacement character
// is what a broken byte is taken for.
func (e *end) addRune(r rune, last bool) {
	if r == utf8.RuneError {
		e.bytes.addRange(utf8.RuneSelf, 255)
		return
	}
	b := utf8.AppendRune(nil, r)
	if last {
		e.bytes.add(b[len(b)-1])
	} else {
		e.bytes.add(b[0])
	}
}
