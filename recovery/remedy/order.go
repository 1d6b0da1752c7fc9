package remedy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/superloop/superloop/recovery/catalog"
)

// effectOf names what an option does. Two options with the same steps in the same places are one.
func effectOf(o *Option) string {
	var b strings.Builder
	switch {
	case o.Plain():
		fmt.Fprintf(&b, "retry %s %s", o.GoalKey, o.Timeout)
	case len(o.Steps) > 0:
		for _, s := range o.Steps {
			fmt.Fprintf(&b, "%q %q %q %s\n", s.Env, s.Argv, s.Dir, s.Wait)
		}
		if o.Strategy == catalog.RetryWithModifier { // the same words with more time are not the same
			fmt.Fprintf(&b, "in %s", o.Timeout)
		}
	case o.Executor == catalog.ByHuman && o.Instructions != "":
		fmt.Fprintf(&b, "instructions %q", o.Instructions)
	default:
		fmt.Fprintf(&b, "%s %s %s %s", o.Strategy, o.Executor, o.GoalKey, o.ID)
		if o.Availability == Impossible {
			fmt.Fprintf(&b, " %s", o.From.ID)
		}
	}
	return b.String()
}

// merge leaves one of the options that come to the same: the first, with what speaks for the others noted on it.
func merge(list []Option) []Option {
	var out []Option
	at := map[string]int{}
	for _, o := range list {
		i, ok := at[o.effect]
		if !ok {
			at[o.effect] = len(out)
			o.order = len(out)
			out = append(out, o)
			continue
		}
		first := &out[i]
		first.Confidence = max(first.Confidence, o.Confidence)
		if rankExecutor(o.Executor) > rankExecutor(first.Executor) && first.proposal == nil {
			first.Executor = o.Executor // whoever is stricter about it
		}
		first.Risk = riskier(first.Risk, o.Risk)
		first.handlers = first.handlers || o.handlers && o.layer == first.layer
		first.priority = min(first.priority, o.priority)
		first.ProposalOnly = first.ProposalOnly && o.ProposalOnly
		first.Foreign = cmp.Or(first.Foreign, o.Foreign)
		if o.proposal != nil && first.proposal == nil {
			first.proposal, first.ProposalDigest, first.Executor = o.proposal, o.ProposalDigest, o.Executor
			first.Notes = append(first.Notes, "the tester proposes the same")
		}
	}
	return out
}

// recommend marks the one option that the most particular handler recommends and that this system allows; where no
// handler recommends one, the chain's order stands for itself.
func recommend(list []Option) {
	best := -1
	for i := range list {
		o := &list[i]
		o.Recommended = false
		if !o.handlers || o.Availability == Impossible || o.Demoted != "" {
			continue
		}
		if best < 0 || o.layer > list[best].layer || o.layer == list[best].layer && o.pressing && !list[best].pressing {
			best = i
		}
	}
	if best >= 0 {
		list[best].Recommended = true
	}
}

// order sorts: the recommended one first, then by who can carry it out, by availability, by the chain's priority, by
// confidence, by risk, by score, and by the order in which they were found.
func order(list []Option, score func(key string) float64) {
	if score == nil {
		score = func(string) float64 { return 0 }
	}
	first := map[bool]int{true: -1}
	slices.SortStableFunc(list, func(a, b Option) int {
		return cmp.Or(
			cmp.Compare(first[a.Recommended], first[b.Recommended]),
			cmp.Compare(rankExecutor(a.Executor), rankExecutor(b.Executor)),
			cmp.Compare(rankAvailability(&a), rankAvailability(&b)),
			cmp.Compare(a.priority, b.priority),
			cmp.Compare(b.Confidence, a.Confidence),
			cmp.Compare(rankRisk(a.Risk), rankRisk(b.Risk)),
			cmp.Compare(score(b.Key), score(a.Key)),
			cmp.Compare(a.order, b.order),
		)
	})
}

func rankExecutor(e catalog.Executor) int {
	if i := slices.Index([]catalog.Executor{catalog.ByWrapper, catalog.ByRunner, catalog.ByRole}, e); i >= 0 {
		return i
	}
	return 3
}

func rankAvailability(o *Option) int {
	switch {
	case o.Availability == Impossible:
		return 3
	case o.Demoted != "":
		return 2
	case o.Availability == Locked:
		return 1
	}
	return 0
}

func rankRisk(r catalog.Risk) int {
	return slices.Index([]catalog.Risk{catalog.RiskLow, catalog.RiskMedium, catalog.RiskHigh, catalog.RiskCritical}, r)
}

func riskier(a, b catalog.Risk) catalog.Risk {
	if rankRisk(b) > rankRisk(a) {
		return b
	}
	return a
}
