package multiscan

import (
	"bytes"
	"crypto/sha256"
	"encoding/gob"
	"errors"
	"fmt"
	"math/bits"
	"slices"
)

// ErrOtherPatterns is what Restore gives for a plan that holds less than half of the
// expressions, or in which most are others, and for one of another bound or of another
// version of this package.
var ErrOtherPatterns = errors.New("the plan was made of other expressions")

// planVersion changes with what a plan holds, or with how literals are chosen.
const planVersion = 6

// plan is what Compile found out about expressions, which takes it some 50 us for
// each, in a form from which the set is made again in a tenth of that. Before it stands
// the digest of the bound and the version.
type plan struct {
	Exprs    []exprID
	Problems []Problem
	Every    []int32
	Patterns []planPattern
	Filters  []planFilter
}

type planPattern struct {
	Names       []string // none: rejected
	Program     int64
	Asks        uint8
	First, Last *byteSet
	Also        [][]string
	Branches    [][][]string
}

type planFilter struct {
	Shortest int // the shape
	Literals int // of the variants
	Marks    []byte
	Grams    []uint32 // places of the table that hold something
	Variants []planVariant

	// Of each word.
	Word, More, MoreMask, Pair []uint64
	MoreAt, PairAt             []int8
	Count                      []uint8
	First                      []int32
	// Of each entry.
	Variant, Off []int32
}

type planVariant struct {
	Lit      string
	Patterns []int32
	First    *byteSet
}

// exprID tells expressions apart.
type exprID [16]byte

func idOf(expr string) exprID {
	sum := sha256.Sum256([]byte(expr))
	return exprID(sum[:])
}

// planHead is what a plan begins with.
func planHead(bound int) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "multiscan %d, %d", planVersion, bound))
	return sum[:]
}

// Plan gives the set, with the problems that Compile found, in a form that Restore
// reads. It depends on nothing but what Compile was given.
func (s *Set) Plan(problems []Problem) ([]byte, error) {
	pl := plan{Problems: problems, Every: s.every}
	for _, e := range s.exprs {
		pl.Exprs = append(pl.Exprs, idOf(e))
	}
	for i := range s.patterns {
		p := &s.patterns[i]
		pp := planPattern{Names: p.names, Program: p.program, Asks: uint8(p.asks), First: p.ends.first, Last: p.ends.last, Also: texts(p.also)}
		for _, b := range p.branches {
			pp.Branches = append(pp.Branches, texts(b))
		}
		pl.Patterns = append(pl.Patterns, pp)
	}
	for _, f := range s.filters {
		pl.Filters = append(pl.Filters, f.plan())
	}
	b := *bytes.NewBuffer(planHead(s.bound))
	if err := gob.NewEncoder(&b).Encode(pl); err != nil {
		return nil, fmt.Errorf("writing a plan of %d patterns: %w", len(s.patterns), err)
	}
	return b.Bytes(), nil
}

func texts(sets [][]needle) [][]string {
	var out [][]string
	for _, set := range sets {
		lits := make([]string, len(set))
		for i := range set {
			lits[i] = string(set[i].lit)
		}
		out = append(out, lits)
	}
	return out
}

func needlesOf(sets [][]string) [][]needle {
	var out [][]needle
	for _, set := range sets {
		list := make([]needle, len(set))
		for i, l := range set {
			list[i] = newNeedle(l)
		}
		out = append(out, list)
	}
	return out
}

func (f *filter) plan() planFilter {
	p := planFilter{Shortest: f.shortest, Marks: f.marks, Literals: f.literals}
	for i, set := range f.table {
		for ; set != 0; set &= set - 1 {
			p.Grams = append(p.Grams, uint32(i*32+bits.TrailingZeros32(set)))
		}
	}
	for i := range f.variants {
		v := &f.variants[i]
		p.Variants = append(p.Variants, planVariant{v.lit, v.patterns, v.first})
	}
	list := slices.SortedFunc(slices.Values(f.words.all()), byBit) // so that making the tables finds them in order
	for _, w := range list {
		p.Word, p.More, p.MoreMask, p.Pair = append(p.Word, w.word), append(p.More, w.more), append(p.MoreMask, w.moreMask), append(p.Pair, w.pair)
		p.MoreAt, p.PairAt, p.Count = append(p.MoreAt, w.moreAt), append(p.PairAt, w.pairAt), append(p.Count, w.count)
		p.First = append(p.First, w.first)
	}
	for i := range f.entries {
		p.Variant, p.Off = append(p.Variant, f.entries[i].variant), append(p.Off, f.entries[i].off)
	}
	return p
}

// filter makes the tables again; to says how the patterns are numbered now.
func (p *planFilter) filter(to numbers) *filter {
	f := newFilter(p.Shortest, p.Marks)
	f.literals = p.Literals
	for _, g := range p.Grams {
		f.know(g)
	}
	f.variants = make([]variant, len(p.Variants))
	for i, v := range p.Variants {
		f.variants[i] = variant{lit: v.Lit, patterns: to.of(v.Patterns), first: v.First}
	}
	f.entries = make([]entry, len(p.Variant))
	for i, v := range p.Variant {
		f.entries[i] = newEntry(f.variants[v].lit, int(v), int(p.Off[i]))
	}
	list := make([]wordPlaces, len(p.Word))
	for i, w := range p.Word {
		list[i] = wordPlaces{
			word: w, more: p.More[i], moreMask: p.MoreMask[i], pair: p.Pair[i],
			first: p.First[i], count: p.Count[i], moreAt: p.MoreAt[i], pairAt: p.PairAt[i],
		}
	}
	f.words.know(list)
	return f
}
