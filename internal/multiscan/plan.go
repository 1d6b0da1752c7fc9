package multiscan

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"math/bits"
	"slices"
)

// ErrOtherPatterns is what Restore gives for a plan of other expressions, or of another
// version of this package.
var ErrOtherPatterns = errors.New("the plan was made of other expressions")

// planVersion changes with what a plan holds, or with how literals are chosen.
const planVersion = 4

// plan is what Compile found out about expressions, which takes it some 50 us for
// each, in a form from which the set is made again in a tenth of that. Before it stands
// the digest of what it was made of.
type plan struct {
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

// digestOf tells expressions and bounds apart.
func digestOf(exprs []string, maxProgram int) [sha256.Size]byte {
	h := sha256.New()
	add := func(n int) { h.Write(binary.LittleEndian.AppendUint64(nil, uint64(n))) }
	add(planVersion)
	add(maxProgram)
	for _, e := range exprs {
		add(len(e))
		h.Write([]byte(e))
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// Plan gives the set, with the problems that Compile found, in a form that Restore
// reads. It depends on nothing but what Compile was given.
func (s *Set) Plan(problems []Problem) ([]byte, error) {
	pl := plan{Problems: problems, Every: s.every}
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
	b := *bytes.NewBuffer(slices.Clone(s.digest[:]))
	if err := gob.NewEncoder(&b).Encode(pl); err != nil {
		return nil, fmt.Errorf("writing a plan of %d patterns: %w", len(s.patterns), err)
	}
	return b.Bytes(), nil
}

// Restore is Compile by a plan of the same expressions and the same bound. What a
// plan holds is believed: it must come from where the program itself comes from.
func Restore(exprs []string, o Options, from []byte) (*Set, []Problem, error) {
	if o.MaxProgram == 0 {
		o.MaxProgram = DefaultMaxProgram
	}
	digest := digestOf(exprs, o.MaxProgram)
	text, ok := bytes.CutPrefix(from, digest[:])
	if !ok {
		return nil, nil, ErrOtherPatterns
	}
	var pl plan
	if err := gob.NewDecoder(bytes.NewReader(text)).Decode(&pl); err != nil {
		return nil, nil, fmt.Errorf("reading a plan of patterns: %w", err)
	}
	if len(pl.Patterns) != len(exprs) {
		return nil, nil, fmt.Errorf("reading a plan of patterns: it holds %d of %d", len(pl.Patterns), len(exprs))
	}
	s := &Set{patterns: make([]pattern, len(exprs)), every: pl.Every, limits: defaultLimits, digest: digest}
	for i := range pl.Patterns {
		pp, p := &pl.Patterns[i], &s.patterns[i]
		if pp.Names == nil {
			continue
		}
		p.expr, p.names, p.program, p.asks = exprs[i], pp.Names, pp.Program, edges(pp.Asks)
		p.ends = ends{pp.First, pp.Last}
		p.also = needlesOf(pp.Also)
		for _, b := range pp.Branches {
			p.branches = append(p.branches, needlesOf(b))
		}
		if p.asks != 0 {
			p.cut = new(cutVariants)
		}
	}
	s.asked = askedFor(nil)
	for i := range pl.Filters {
		if marks := pl.Filters[i].Marks; len(marks) > 0 { // one filter at most has some
			s.asked = askedFor(marks)
		}
		s.filters = append(s.filters, pl.Filters[i].filter(&s.variants))
	}
	return s, pl.Problems, nil
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
	p := planFilter{Shortest: f.shortest, Marks: f.marks}
	for i, set := range f.table {
		for ; set != 0; set &= set - 1 {
			p.Grams = append(p.Grams, uint32(i*32+bits.TrailingZeros32(set)))
		}
	}
	for i := range f.variants {
		v := &f.variants[i]
		p.Variants = append(p.Variants, planVariant{v.lit, v.patterns, v.first})
	}
	for _, w := range f.words.all() {
		p.Word, p.More, p.MoreMask, p.Pair = append(p.Word, w.word), append(p.More, w.more), append(p.MoreMask, w.moreMask), append(p.Pair, w.pair)
		p.MoreAt, p.PairAt, p.Count = append(p.MoreAt, w.moreAt), append(p.PairAt, w.pairAt), append(p.Count, w.count)
		p.First = append(p.First, w.first)
	}
	for i := range f.entries {
		p.Variant, p.Off = append(p.Variant, f.entries[i].variant), append(p.Off, f.entries[i].off)
	}
	return p
}

// filter makes the tables again; it numbers the variants from *id on.
func (p *planFilter) filter(id *int32) *filter {
	f := &filter{shape: shapeFor(p.Shortest), shortest: p.Shortest, marks: p.Marks}
	f.lanes.set(&f.shape)
	for _, g := range p.Grams {
		f.know(g)
	}
	f.variants = make([]variant, len(p.Variants))
	for i, v := range p.Variants {
		f.variants[i] = variant{lit: v.Lit, id: *id, patterns: v.Patterns, first: v.First}
		*id++
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
