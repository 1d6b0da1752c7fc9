package classify

import (
	"cmp"
	"context"
	"slices"

	"github.com/superloop/superloop/recovery/catalog"
)

// rank puts what matched into the cascade's order: dominators, then recipes, a
// strong guard, the method's family, other families, any command, bootstrap.
// What a strong guard or a probe speaks against is vetoed.
func (j *judgement) rank(ctx context.Context) {
	var rest []*match
	for _, m := range j.matched {
		switch m.rule.h.Guard {
		case catalog.GuardStrong:
			if j.strong == nil {
				j.strong = m
			}
		case catalog.GuardWeak:
			if j.weak == nil {
				j.weak = m
			}
		default:
			rest = append(rest, m)
		}
	}
	promote(rest)
	slices.SortStableFunc(rest, func(a, b *match) int {
		return cmp.Or(
			-cmp.Compare(bit(a.dominates()), bit(b.dominates())),
			-cmp.Compare(bit(a.voice.own()), bit(b.voice.own())),
			-cmp.Compare(a.rule.h.Layer.Rank(), b.rule.h.Layer.Rank()),
			-cmp.Compare(a.near, b.near),
			cmp.Compare(bit(a.unsure), bit(b.unsure)),
			cmp.Compare(a.rule.order, b.rule.order),
		)
	})
	if j.strong != nil {
		kept := rest[:0:0]
		for _, m := range rest {
			switch {
			case m.dominates(), m.rule.h.Layer == catalog.LayerRecipe && m.voice.own():
				kept = append(kept, m)
			case m.rule.h.Dominates && j.full(ctx, m):
				j.confirmed = true
				kept = append(kept, m)
			default:
				j.vetoed = append(j.vetoed, m)
			}
		}
		rest = kept
	}
	j.order = rest
	if len(j.order) > 0 {
		j.probe(ctx, j.order[0])
	}
	j.guards()
}

// guards puts the guards into the order and says what the code has to do with
// it.
func (j *judgement) guards() {
	var guards []*match
	for _, m := range j.matched {
		if m.rule.h.Guard == catalog.GuardStrong {
			guards = append(guards, m)
		}
	}
	for _, m := range j.matched {
		if m.rule.h.Guard == catalog.GuardWeak {
			guards = append(guards, m)
		}
	}
	if len(j.order) == 0 {
		j.order = guards
		return
	}
	first := j.order[0]
	j.weakened = !j.confirmed && (j.weakened || j.weak != nil && !first.dominates() || !first.voice.own())
	j.order = append(j.order, guards...)
}

// dominates reports whether other matches are consequences of this one.
func (m *match) dominates() bool { return (m.rule.h.Dominates || m.promoted) && m.voice.own() }

// promote marks what names the same failure as a dominator, more particularly:
// npm's own words for a full disk beside the system's.
func promote(all []*match) {
	found := map[string]bool{}
	for _, m := range all {
		if m.rule.h.Dominates && m.voice.own() {
			found[m.rule.h.Category] = true
		}
	}
	for _, m := range all {
		m.promoted = found[m.rule.h.Category] && m.hit != nil && m.voice.own()
	}
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
