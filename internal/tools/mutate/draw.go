package main

import (
	"math/rand/v2"
	"slices"
	"sync"
)

// draw hands out mutants at random, to each file as many as its share of all
// candidates. It may be used from several goroutines.
type draw struct {
	mu    sync.Mutex
	files []*share
	total int // candidates of all files
	drawn int
}

// share is what one file has to give.
type share struct {
	left       []*mutant
	candidates int
	drawn      int
}

// newDraw shuffles the candidates of each file. The seed and the sources decide all.
func newDraw(targets []*target, seed uint64) *draw {
	d := &draw{}
	random := rand.New(rand.NewPCG(seed, 0))
	for _, t := range targets {
		for _, f := range t.files {
			s := &share{left: t.candidates(f)}
			if s.candidates = len(s.left); s.candidates == 0 {
				continue
			}
			random.Shuffle(len(s.left), func(i, j int) { s.left[i], s.left[j] = s.left[j], s.left[i] })
			d.files = append(d.files, s)
			d.total += s.candidates
		}
	}
	// A file too small for a whole mutant has its chance all the same.
	random.Shuffle(len(d.files), func(i, j int) { d.files[i], d.files[j] = d.files[j], d.files[i] })
	return d
}

// next gives a mutant that the type checker accepts, or nil when there is none left.
func (d *draw) next() *mutant {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		s := d.poorest()
		if s == nil {
			return nil
		}
		for len(s.left) > 0 {
			m := s.left[0]
			s.left = s.left[1:]
			if _, err := m.target.typeCheck(m.src, m.text(), nil); err == nil {
				s.drawn++
				d.drawn++
				return m
			}
		}
	}
}

// poorest is the file that lacks the most to its share, of those that have
// candidates left.
func (d *draw) poorest() *share {
	lack := func(s *share) float64 {
		return float64(s.candidates)/float64(d.total)*float64(d.drawn+1) - float64(s.drawn)
	}
	var best *share
	for s := range slices.Values(d.files) {
		if len(s.left) > 0 && (best == nil || lack(s) > lack(best)) {
			best = s
		}
	}
	return best
}
