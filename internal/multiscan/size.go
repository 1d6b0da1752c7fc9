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
	n := 128 + 2*len(p.expr)
	if p.re != nil {
		n += sizeOfRegexp + sizeOfInst*int(p.program)
	}
	if p.cut != nil {
		n += len(p.cut) * 32
		for i := range p.cut {
			if p.asks&edges(i) != 0 {
				n += sizeOfRegexp + sizeOfInst*int(p.program)
			}
		}
	}
	for _, set := range p.also {
		for _, l := range set {
			n += 24 + len(l)
		}
	}
	return n
}

func (f *filter) size() int {
	n := len(f.bitmap)*4 + len(f.grams)*8 + len(f.slots)*16
	for _, vs := range f.windows {
		n += 24
		for _, v := range vs {
			n += 56 + len(v.lit) + 4*len(v.patterns)
		}
	}
	return n
}
