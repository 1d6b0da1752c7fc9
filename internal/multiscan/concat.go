package multiscan

import "strings"

// concat gathers the parts of a concatenation: neighbours that are exact
// grow together.
type concat struct {
	run    literalSet // nil: empty run
	must   []literalSet
	prefix literalSet // the first run, once it ended
	open   bool       // a part was not exact, or the run became too large
}

func (c *concat) add(r required) {
	switch {
	case r.repeated != nil:
		// Its first turn stands after what came before.
		c.grow(r.repeated)
		c.flush()
		c.run = r.suffix // its last turn stands before what follows
	case r.exact != nil:
		c.grow(r.exact)
	default:
		if r.prefix != nil {
			c.grow(r.prefix)
		}
		c.flush()
		for _, s := range r.must {
			c.must = addSet(c.must, s)
		}
		c.run = r.suffix
	}
}

// grow puts a set at the end of the run. If that gives too much, the run ends
// with what the set has in common, and another begins with what the run has.
func (c *concat) grow(set literalSet) {
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
	p := literalSet{}
	for _, s := range a {
		for _, t := range b {
			if len(s)+len(t) > maxExactLen {
				return nil
			}
			p = append(p, s+t)
		}
	}
	return distinct(p)
}

func (c *concat) flush() {
	if !c.open && c.run != nil {
		c.prefix = c.run
	}
	c.open = true
	if c.run != nil {
		c.must = addSet(c.must, c.run)
		c.run = nil
	}
}

func (c *concat) result() required {
	if !c.open {
		if c.run == nil {
			return exactly("")
		}
		return required{exact: c.run}
	}
	suffix := c.run
	c.flush()
	return required{must: c.must, prefix: c.prefix, suffix: suffix}
}
