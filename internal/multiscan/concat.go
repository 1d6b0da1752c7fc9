package multiscan

import (
	"slices"
	"strings"
)

// concat gathers the parts of a concatenation: neighbours that are exact
// grow together.
type concat struct {
	run    literalSet // nil: empty run
	must   []literalSet
	prefix literalSet // the first run, once it ended
	begins literalSet // if there is no prefix
	open   bool       // a part was not exact, or the run became too large

	// deep is the run with a byte more before it: many strings, which are worth it only
	// where that makes a literal long enough.
	deep literalSet
	// A run before what may be left out is followed by that or by what comes after it.
	held literalSet // the run, until that is known
	next literalSet // the first bytes of what may follow it, as far as that is known
}

func (c *concat) add(r required) {
	if r.option != nil {
		c.maybe(r.option)
		return
	}
	c.settle(r)
	switch {
	case r.repeated != nil:
		// Its first turn stands after what came before, its last turn before what
		// follows.
		deep := crossed(union(lasts(c.run), r.repeated), r.repeated)
		c.grow(r.repeated)
		c.maybe(&option{first: firsts(r.repeated)})
		c.run, c.deep = r.suffix, deep
	case r.exact != nil:
		c.grow(r.exact)
	default:
		switch {
		case r.prefix != nil:
			c.grow(r.prefix)
		case c.run != nil:
			c.reach(r.begins)
		case !c.open:
			c.begins = r.begins
		}
		c.flush()
		for _, s := range r.must {
			c.must = addSet(c.must, s)
		}
		if c.run = r.suffix; c.run == nil {
			c.deep = r.ends
		}
	}
}

// reach puts one of many bytes at the end of the run, if that makes it long enough.
func (c *concat) reach(begins literalSet) {
	if n := c.run.shortest(); begins != nil && n < goodLiteral && n+begins.shortest() >= goodLiteral {
		if p := crossed(c.run, begins); p != nil {
			c.run = p
		}
	}
}

// maybe takes a part that may be left out. It ends the run; another begins with what
// the part or the run ends with.
func (c *concat) maybe(o *option) {
	run := c.run
	if !c.open && run != nil {
		c.prefix = run
	}
	c.open = true
	if c.held != nil && run != nil && run.shortest() < 2 {
		c.next = union(c.next, o.first) // what a loop ends with says less than what stands before it
	} else {
		c.settle(anything)
		c.held, c.next = c.ended(), o.first
	}
	c.deep = nil
	if o.turn != nil {
		c.deep = union(lastTwo(run), crossed(union(lasts(run), o.turn), o.turn))
	}
	c.run = union(lasts(run), o.last)
}

// settle ends a run that was held, since r is what follows what may be left out.
func (c *concat) settle(r required) {
	if c.held == nil {
		return
	}
	held := c.held
	c.held = nil
	if held.shortest() < goodLiteral {
		begin := r.exact
		if begin == nil {
			begin = r.prefix // also of what is repeated
		}
		if p := crossed(held, union(c.next, firsts(begin))); p != nil {
			held = p
		}
	}
	c.must = addSet(c.must, held)
}

// ended gives the run as a set that is required.
func (c *concat) ended() literalSet {
	if c.run != nil && c.deep != nil && c.run.shortest() < goodLiteral {
		return c.deep
	}
	return c.run
}

// grow puts a set at the end of the run. If that gives too much, the run ends
// with what the set has in common, and another begins with what the run has.
func (c *concat) grow(set literalSet) {
	c.deep = crossed(c.deep, set)
	if c.run == nil {
		c.run = set
		return
	}
	if p := product(c.run, set); p != nil {
		c.run = p
		return
	}
	tail := c.run[0]
	for _, s := range c.run {
		for !strings.HasSuffix(s, tail) {
			tail = tail[1:]
		}
	}
	head := set[0]
	for _, s := range set {
		for !strings.HasPrefix(s, head) {
			head = head[:len(head)-1]
		}
	}
	if p := product(c.run, literalSet{head}); p != nil {
		c.run = p
	}
	c.flush()
	c.run = set
	if p := product(literalSet{tail}, set); p != nil {
		c.run = p
	}
}

// product gives each of a with each of b after it; nil if that is too much:
// literals that are long already gain little from many ways to go on.
func product(a, b literalSet) literalSet {
	most := maxExact
	if len(b) > 1 && a.shortest() >= enough || len(a) > 1 && b.shortest() >= enough {
		most = maxEnough
	}
	if n := a.shortest(); n < goodLiteral && n+b.shortest() >= goodLiteral {
		most = maxGood
	}
	if len(a)*len(b) > most {
		return nil
	}
	return crossed(a, b)
}

func (c *concat) flush() {
	if !c.open && c.run != nil {
		c.prefix = c.run
	}
	c.open = true
	if c.run != nil {
		c.must = addSet(c.must, c.ended())
		c.run = nil
	}
	c.deep = nil
}

func (c *concat) result() required {
	c.settle(anything)
	if !c.open {
		if c.run == nil {
			return exactly("")
		}
		return required{exact: c.run}
	}
	suffix := c.run
	c.flush()
	return required{must: c.must, prefix: c.prefix, suffix: suffix, begins: c.begins}
}

// firsts gives the first bytes of strings, nil if one is empty or there are too many.
func firsts(set literalSet) literalSet {
	return bytesOf(set, func(s string) string { return s[:1] })
}

// lasts gives the last bytes likewise.
func lasts(set literalSet) literalSet {
	return bytesOf(set, func(s string) string { return s[len(s)-1:] })
}

func bytesOf(set literalSet, of func(string) string) literalSet {
	if len(set) == 0 || slices.Contains(set, "") {
		return nil
	}
	out := make(literalSet, len(set))
	for i, s := range set {
		out[i] = of(s)
	}
	if out = distinct(out); len(out) > maxClass {
		return nil
	}
	return out
}

// lastTwo gives the last two bytes of strings, nil if one is shorter.
func lastTwo(set literalSet) literalSet {
	if len(set) == 0 || set.shortest() < 2 {
		return nil
	}
	out := make(literalSet, len(set))
	for i, s := range set {
		out[i] = s[len(s)-2:]
	}
	return distinct(out)
}

// union gives the strings of both, nil if one of them is nil.
func union(a, b literalSet) literalSet {
	if a == nil || b == nil {
		return nil
	}
	return distinct(slices.Concat(a, b))
}

// crossed gives each of a with each of b after it, nil if one of them is nil or that is
// far too much.
func crossed(a, b literalSet) literalSet {
	if a == nil || b == nil || len(a)*len(b) > maxGood {
		return nil
	}
	out := literalSet{}
	for _, s := range a {
		for _, t := range b {
			if len(s)+len(t) > maxExactLen {
				return nil
			}
			out = append(out, s+t)
		}
	}
	return distinct(out)
}
