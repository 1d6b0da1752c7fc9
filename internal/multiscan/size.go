package multiscan

import "regexp/syntax"

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

// Rough sizes in memory, in bytes.
const (
	sizeOfRegexp = 1200
	sizeOfInst   = 120 // the instruction, its runes, its part of the one-pass program
)

func (p *pattern) size() int {
	n := 160 + 2*len(p.expr)
	if p.re.Load() != nil {
		n += sizeOfRegexp + sizeOfInst*int(p.program)
	}
	if p.cut != nil {
		n += len(p.cut) * 32 // the variants themselves are for long lines only
	}
	for _, sets := range append([][][]needle{p.also}, p.branches...) {
		for _, set := range sets {
			for _, l := range set {
				n += 32 + len(l.lit)
			}
		}
	}
	return n
}

func (f *filter) size() int {
	n := 4*(len(f.table)+len(f.words.sieve)) + len(f.words.bits)*8 + len(f.words.before)*4 + len(f.words.list)*48 + len(f.entries)*32
	for _, v := range f.variants {
		n += 40 + len(v.lit) + 4*len(v.patterns)
	}
	return n
}
