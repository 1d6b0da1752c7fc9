package multiscan

import (
	"cmp"
	"slices"
)

// chooser chooses for each literal, and for each remainder that a place in it can leave
// when divided by the stride, the gram by which the literal is found there.
type chooser struct {
	s      *shape
	spots  [][]spot // of each literal, for each place
	chosen [][]int  // of each literal, for each remainder: the place of the gram
	uses   map[uint32]int
	shared map[uint64]int // how many of the grams stand in the same word
}

// spot is a place of a literal.
type spot struct {
	gram uint32 // its hash
	word uint64
	// What it costs to have the gram in the table, and the word that is around it: in places
	// looked at in vain per sample.
	gramCost, wordCost float64
}

func newChooser(r *rarity, s *shape, lits []string) *chooser {
	c := &chooser{s: s, spots: make([][]spot, len(lits)), chosen: make([][]int, len(lits)), uses: map[uint32]int{}, shared: map[uint64]int{}}
	for i, l := range lits {
		lit := []byte(l)
		for at := 0; at+s.gram <= len(lit); at++ {
			_, word, cost := r.wordFor(lit, at, s)
			c.spots[i] = append(c.spots[i], spot{s.hash(lit, at), word, r.gramCost(lit, at, s), cost})
		}
	}
	return c
}

// have notes what is in a filter's tables already.
func (c *chooser) have(f *filter) {
	for _, list := range c.spots {
		for _, s := range list {
			if f.knows(s.gram) {
				c.uses[s.gram] = 1
			}
			if p := f.words.at(s.word); p != nil {
				c.shared[s.word] = int(p.count)
			}
		}
	}
}

func (c *chooser) use(s *spot, n int) {
	c.uses[s.gram] += n
	c.shared[s.word] += n
}

// choose takes for a literal what costs least as long as the literals after it are not
// known, and gives that cost.
func (c *chooser) choose(lit int) (cost float64) {
	for rest := range c.s.stride {
		at, each := c.least(lit, rest, func(s *spot) (known, allowed bool) { return c.uses[s.gram] > 0, true })
		c.use(&c.spots[lit][at], 1)
		c.chosen[lit] = append(c.chosen[lit], at)
		cost += each
	}
	return cost
}

// maxRounds bounds how often it is looked whether a gram can be done without; after a
// few rounds there is next to nothing left.
const maxRounds = 4

// grams gives for each literal from one on the places of its grams, one for each
// remainder.
func (f *filter) grams(from int, r *rarity) [][]int {
	lits := make([]string, len(f.variants)-from)
	for i := range lits {
		lits[i] = f.variants[from+i].lit
	}
	c := newChooser(r, &f.shape, lits)
	if from > 0 {
		c.have(f)
	}
	// Those with the least choice come first: others may share their grams.
	for _, i := range f.byLength(from) {
		c.choose(i - from)
	}
	if from > 0 {
		return c.chosen // the grams that could be done without are others'
	}
	for range maxRounds {
		if !c.improve() {
			break
		}
	}
	return c.chosen
}

// least gives the place of a literal with this remainder that costs least, of those that are
// allowed; -1 if none is. A gram that is in the table already costs only what it finds; one
// that stands in the same word in other literals costs a comparison with each.
func (c *chooser) least(lit, rest int, look func(*spot) (known, allowed bool)) (at int, cost float64) {
	at = -1
	for i := rest; i < len(c.spots[lit]); i += c.s.stride {
		s := &c.spots[lit][i]
		known, allowed := look(s)
		if !allowed {
			continue
		}
		each := s.wordCost + float64(c.shared[s.word])
		if !known {
			each += s.gramCost
		}
		if at < 0 || each < cost {
			at, cost = i, each
		}
	}
	return at, cost
}

// user is a literal, and a remainder.
type user struct{ lit, rest int }

// improve takes grams out of the table whose literals can all be found by other ones at
// less cost, the costliest first. It reports whether there were any.
func (c *chooser) improve() bool {
	users, price := map[uint32][]user{}, map[uint32]float64{}
	for i, places := range c.chosen {
		for rest, at := range places {
			s := &c.spots[i][at]
			users[s.gram] = append(users[s.gram], user{i, rest})
			price[s.gram] = max(price[s.gram], s.gramCost)
		}
	}
	order := make([]uint32, 0, len(users))
	for gram := range users {
		order = append(order, gram)
	}
	slices.SortFunc(order, func(a, b uint32) int { return cmp.Or(cmp.Compare(price[b], price[a]), cmp.Compare(a, b)) })
	improved := false
	for _, gram := range order {
		to := c.without(gram, users[gram], price[gram])
		for n, at := range to {
			u := users[gram][n]
			c.use(&c.spots[u.lit][c.chosen[u.lit][u.rest]], -1)
			s := &c.spots[u.lit][at]
			c.use(s, 1)
			c.chosen[u.lit][u.rest] = at
			users[s.gram] = append(users[s.gram], u)
			improved = true
		}
	}
	return improved
}

// without gives other places for the users of a gram, nil if there are none or they
// cost more than is saved.
func (c *chooser) without(gram uint32, users []user, price float64) []int {
	saved, cost := price, 0.0
	for _, u := range users {
		saved += c.spots[u.lit][c.chosen[u.lit][u.rest]].wordCost
	}
	added := map[uint32]bool{}
	to := make([]int, len(users))
	for n, u := range users {
		at, each := c.least(u.lit, u.rest, func(s *spot) (known, allowed bool) {
			// A word with many literals is left alone: with more, it would not tell them apart.
			return c.uses[s.gram] > 0 || added[s.gram], s.gram != gram && c.shared[s.word] < maxShared/2
		})
		if at < 0 {
			return nil
		}
		if cost += each; cost >= saved {
			return nil
		}
		added[c.spots[u.lit][at].gram] = true
		to[n] = at
	}
	return to
}
