package remedy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/superloop/superloop/recovery/catalog"
)

// effectOf returns a text that identifies the effect of an option. Two options with the same text do the same: they
// have the same steps in the same directories.
func effectOf(o *Option) string {
	var b strings.Builder
	switch {
	case o.Plain():
		fmt.Fprintf(&b, "retry %s %s", o.GoalKey, o.Timeout)
	case len(o.Steps) > 0:
		for _, s := range o.Steps {
			fmt.Fprintf(&b, "%q %q %q %s\n", s.Env, s.Argv, s.Dir, s.Wait)
		}
		if o.Strategy == catalog.RetryWithModifier { // the same command with another time limit is another effect
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

// merge removes all but the first of the options with the same effect. The first takes the highest confidence, the
// stricter executor and risk, the recommendation and the tester's proposal from the others.
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
			first.Executor = o.Executor // the stricter executor counts
		}
		first.Risk = riskier(first.Risk, o.Risk)
		first.handlers = first.handlers || o.handlers && o.layer == first.layer
		first.priority = min(first.priority, o.priority)
		first.ProposalOnly = first.ProposalOnly && o.ProposalOnly
		first.Foreign = cmp.Or(first.Foreign, o.Foreign)
		first.again = cmp.Or(first.again, o.again)
		if o.proposal != nil && first.proposal == nil {
			first.proposal, first.ProposalDigest, first.Executor = o.proposal, o.ProposalDigest, o.Executor
			first.Notes = append(first.Notes, "the tester proposes the same")
		}
	}
	return out
}

// recommend marks the option that the most particular handler recommends and that is possible on this system. If no
// handler recommends such an option, it marks none, and the order of the chain decides.
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

// order sorts options. What operators have chosen before comes first, the most often chosen one at the top. The
// recommended one is next. The others follow by executor, availability, whether operators have refused them, priority of
// the chain's approach, confidence, risk, and the order in which Resolve found them.
func order(list []Option) {
	first := map[bool]int{true: -1}
	slices.SortStableFunc(list, func(a, b Option) int {
		return cmp.Or(
			cmp.Compare(b.liked(), a.liked()),
			cmp.Compare(first[a.Recommended], first[b.Recommended]),
			cmp.Compare(rankExecutor(a.Executor), rankExecutor(b.Executor)),
			cmp.Compare(rankAvailability(&a), rankAvailability(&b)),
			cmp.Compare(min(b.past.Preference(), 0), min(a.past.Preference(), 0)),
			cmp.Compare(a.priority, b.priority),
			cmp.Compare(b.Confidence, a.Confidence),
			cmp.Compare(rankRisk(a.Risk), rankRisk(b.Risk)),
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
