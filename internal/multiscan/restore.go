package multiscan

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"slices"
)

// Restore is Compile by a plan that holds most of the expressions, in any order: those
// that it lacks are compiled and put into its filters, those that only it has are left
// out. With the expressions of the plan the set is the one that the plan was made of; with
// others it finds the same hits as one that was compiled at once, if perhaps not quite
// as fast. What a plan holds is believed: it must come from where the program itself
// comes from.
func Restore(exprs []string, o Options, from []byte) (*Set, []Problem, error) {
	if err := o.complete(); err != nil {
		return nil, nil, err
	}
	text, ok := bytes.CutPrefix(from, planHead(o.MaxProgram))
	if !ok {
		return nil, nil, ErrOtherPatterns
	}
	var pl plan
	if err := gob.NewDecoder(bytes.NewReader(text)).Decode(&pl); err != nil {
		return nil, nil, fmt.Errorf("reading a plan of patterns: %w", err)
	}
	if len(pl.Patterns) != len(pl.Exprs) {
		return nil, nil, fmt.Errorf("reading a plan of patterns: it holds %d of %d", len(pl.Patterns), len(pl.Exprs))
	}
	to, missing := pl.number(exprs)
	if known := len(exprs) - len(missing); 2*known < max(len(pl.Exprs), len(exprs)) {
		return nil, nil, ErrOtherPatterns
	}
	s := pl.set(exprs, o.MaxProgram, to)
	c := compiler{set: s}
	for _, p := range pl.Problems {
		if n := to[p.Pattern]; n >= 0 {
			p.Pattern = int(n)
			c.problems = append(c.problems, p)
		}
	}
	if len(missing) > 0 {
		c.rarity = newRarity(o.sample())
		for _, i := range missing {
			c.add(i)
		}
	}
	c.build()
	if len(missing) > 0 {
		c.lint(o.sample())
	}
	return s, c.told(), nil
}

// numbers says for each pattern of a plan which one it is now, -1 if it is gone.
type numbers []int32

// of gives those of some patterns that are still there, in order.
func (to numbers) of(patterns []int32) []int32 {
	var list []int32
	for _, p := range patterns {
		if n := to[p]; n >= 0 {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return list
}

// number finds expressions in the plan; missing are those that are not in it.
func (pl *plan) number(exprs []string) (to numbers, missing []int) {
	at := make(map[exprID][]int32, len(pl.Exprs))
	to = make(numbers, len(pl.Exprs))
	for i, id := range pl.Exprs {
		at[id] = append(at[id], int32(i))
		to[i] = -1
	}
	for i, e := range exprs {
		id := idOf(e)
		if same := at[id]; len(same) > 0 {
			to[same[0]], at[id] = int32(i), same[1:]
		} else {
			missing = append(missing, i)
		}
	}
	return to, missing
}

// set makes the set again, with what is still there of the plan.
func (pl *plan) set(exprs []string, bound int, to numbers) *Set {
	s := &Set{patterns: make([]pattern, len(exprs)), every: to.of(pl.Every), limits: defaultLimits, exprs: exprs, bound: bound}
	for i := range pl.Patterns {
		pp := &pl.Patterns[i]
		if to[i] < 0 || pp.Names == nil {
			continue
		}
		p := &s.patterns[to[i]]
		p.expr, p.names, p.program, p.asks = exprs[to[i]], pp.Names, pp.Program, edges(pp.Asks)
		p.ends = ends{pp.First, pp.Last}
		p.also = needlesOf(pp.Also)
		for _, b := range pp.Branches {
			p.branches = append(p.branches, needlesOf(b))
		}
		if p.asks != 0 {
			p.cut = new(cutVariants)
		}
	}
	for i := range pl.Filters {
		s.filters = append(s.filters, pl.Filters[i].filter(to))
	}
	return s
}
