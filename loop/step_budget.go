package loop

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// historyLength is how many runs of a role the estimate of its next one looks at: enough for a 90th percentile, few
// enough to follow a change of model.
const historyLength = 10

// spend adds what a run has cost. An attempt that was interrupted, or failed before it could tell, costs what it says,
// and nothing is guessed.
func (t *turn) spend(f RoleEnded) {
	s := &t.s.Spent
	s.Runs++
	if n, ok := f.Usage.Total(); ok {
		s.Tokens += n
		s.Uses = remember(s.Uses, f.Role, n)
	} else {
		s.UnknownTokens++
		if f.Outcome == OutcomeOK && t.s.Plan.MaxTokens > 0 {
			s.Blind = blind("tokens", f)
		}
	}
	if f.CostUSD != nil {
		s.CostUSD += *f.CostUSD
		s.Costs = remember(s.Costs, f.Role, *f.CostUSD)
	} else {
		s.UnknownCost++
		if f.Outcome == OutcomeOK && t.s.Plan.MaxCostUSD > 0 {
			s.Blind = blind("cost", f)
		}
	}
}

func blind(what string, f RoleEnded) string {
	return fmt.Sprintf("the %s of the %s is not known (runner %s, model %s)", what, f.Role, f.Runner, cmp.Or(f.Model, "of its own choice"))
}

func remember[T any](all map[string][]T, role string, v T) map[string][]T {
	out := map[string][]T{}
	maps.Copy(out, all)
	list := append(slices.Clone(out[role]), v)
	out[role] = list[max(0, len(list)-historyLength):]
	return out
}

// expected is the 90th percentile of what the role has taken lately, 0 without a history.
func expected[T int64 | float64](history []T) T {
	if len(history) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(history))
	return sorted[(len(sorted)*9+9)/10-1]
}

type budgetFields struct {
	Limit    string  `json:"limit"` // max_cost_usd, max_tokens
	Role     string  `json:"role"`
	Spent    float64 `json:"spent"`
	Max      float64 `json:"max"`
	Expected float64 `json:"expected,omitempty"` // of the role, by its own history
	Unknown  int     `json:"unknown,omitempty"`  // runs that did not tell
}

// outOfBudget ends the loop before a role that its budget does not cover: it is spent, or the role has lately taken
// more than what is left. A bound that cannot be kept, because a role does not tell what it takes, ends it too.
func (t *turn) outOfBudget(role string) bool {
	p, s := t.s.Plan, t.s.Spent
	if p.MaxCostUSD <= 0 && p.MaxTokens <= 0 {
		return false
	}
	if s.Blind != "" {
		t.end(LimitReached, ReasonCostUnknown, fmt.Sprintf("%s, so the budget cannot be kept; put the model's price into prices, or take the bound away", s.Blind))
		return true
	}
	if e := expected(s.Costs[role]); p.MaxCostUSD > 0 && (s.CostUSD+e > p.MaxCostUSD || s.CostUSD >= p.MaxCostUSD) {
		t.reachBudget(ReasonMaxCost, role, s.CostUSD, p.MaxCostUSD, e)
		return true
	}
	if e := expected(s.Uses[role]); p.MaxTokens > 0 && (s.Tokens+e > p.MaxTokens || s.Tokens >= p.MaxTokens) {
		t.reachBudget(ReasonMaxTokens, role, float64(s.Tokens), float64(p.MaxTokens), float64(e))
		return true
	}
	return false
}

func (t *turn) reachBudget(limit, role string, spent, most, expected float64) {
	unknown := t.s.Spent.UnknownCost
	show := func(v float64) string { return fmt.Sprintf("$%.2f", v) }
	if limit == ReasonMaxTokens {
		unknown = t.s.Spent.UnknownTokens
		show = func(v float64) string { return fmt.Sprintf("%.0f tokens", v) }
	}
	t.note("budget_reached", budgetFields{limit, role, spent, most, expected, unknown})
	detail := fmt.Sprintf("%s of %s are spent", show(spent), show(most))
	if spent < most && expected > 0 {
		detail += fmt.Sprintf(", and the %s lately took %s", role, show(expected))
	}
	t.end(LimitReached, limit, detail)
}

// moneyLeft is what the next role may cost; 0 without a bound.
func (t *turn) moneyLeft() float64 {
	if t.s.Plan.MaxCostUSD <= 0 {
		return 0
	}
	return t.s.Plan.MaxCostUSD - t.s.Spent.CostUSD
}
