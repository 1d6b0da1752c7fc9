package catalog

import "slices"

const (
	// maxApproaches is how many approaches a chain lists at most, not counting that a person is asked in the end.
	maxApproaches = 4
	// AskUser is the approach that ends every chain. It is not listed: the engine appends it.
	AskUser = "ask_user"
)

func (l *linter) chain(ch *Chain) {
	cat, ok := l.c.Category(ch.Category)
	if !ok {
		l.known(tokens("category"), "category", ch.Category, l.categories)
		return
	}
	if len(ch.Approaches) > maxApproaches {
		l.fail(tokens("approaches"), "the chain of %s has %d approaches: a chain has %d at most", ch.Category, len(ch.Approaches), maxApproaches)
	}
	if cat.Area == "code" && len(ch.Approaches) > 0 {
		l.fail(tokens("approaches"), "the chain of %s must be empty: code is the normal work of the loop", ch.Category)
	}
	seen := map[int]string{}
	for i := range ch.Approaches {
		a := &ch.Approaches[i]
		t := tokens("approaches", "@"+a.ID)
		if a.ID == AskUser {
			l.fail(t, "leave %s out: every chain ends with it", AskUser)
		}
		if l.optionID(t, a.ID); slices.ContainsFunc(ch.Approaches[:i], func(p Approach) bool { return p.ID == a.ID }) {
			l.fail(t, "the approach %q stands in this chain twice", a.ID)
		}
		if other, twice := seen[a.Priority]; twice {
			l.fail(sub(t, "priority"), "%s has the priority %d too: an order needs different ones", other, a.Priority)
		}
		seen[a.Priority] = a.ID
		l.approach(t, a)
	}
}

func (l *linter) approach(t []string, a *Approach) {
	if a.Label == "" {
		l.fail(t, "has no label")
	}
	l.fraction(sub(t, "confidence"), a.Confidence)
	l.known(sub(t, "executor"), "executor", string(a.Executor), executors())
	if a.Priority < 1 {
		l.fail(sub(t, "priority"), "must be 1 or more: 1 is tried first")
	}
	allKnown(l, sub(t, "covers"), "strategy", a.Covers, strategies())
	switch {
	case a.Executor == ByWrapper && len(a.Covers) == 0 && a.Option == nil:
		l.fail(t, "the wrapper's approach %q needs an option, or strategies that it covers", a.ID)
	case a.Executor == ByRole && a.Hint == "":
		l.fail(t, "the role's approach %q needs a hint: one sentence for the prompt", a.ID)
	}
	if o := a.Option; o != nil {
		l.option(sub(t, "option"), o)
		for _, name := range o.placeholders() {
			if name != "dir" && name != "command" {
				l.fail(sub(t, "option"), "a chain captures nothing: {%s} cannot be filled in", name)
			}
		}
	}
}

// completeness: every category has a chain; only auth and code have an empty one.
func (l *linter) completeness() {
	for _, cat := range l.c.Categories {
		ch, ok := l.c.Chains[cat.ID]
		if !ok {
			l.fail(nil, "the category %s has no chain", cat.ID)
		} else if len(ch.Approaches) == 0 && cat.Area != "code" && cat.ID != "auth" {
			l.fail(nil, "the chain of %s is empty", cat.ID)
		}
	}
}
