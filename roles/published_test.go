package roles

import (
	"strings"
	"testing"
)

// TestTheTesterIsToldWhatToPropose: what the published design lists for the tester's prompt, item by item.
// Conforms: 004-4-confidence, 004-4-not, 004-4-do
func TestTheTesterIsToldWhatToPropose(t *testing.T) {
	t.Parallel()
	text := mustRender(t, firstTurn(t, Tester))
	_, do, _ := strings.Cut(text, "DO propose recovery for:")
	do, not, found := strings.Cut(do, "Do NOT propose recovery for:")
	not, _, ends := strings.Cut(not, "You diagnose, superloop executes")
	if !found || !ends {
		t.Fatal("the two lists are not in this order")
	}
	for _, want := range []string{"version conflicts", "missing dependencies", "corrupted dependency directories", "build caches", "syntax errors that a command can fix"} {
		if !strings.Contains(do, want) {
			t.Errorf("it is not told to propose for %s", want)
		}
	}
	for _, want := range []string{"failing assertions", "bugs in the code", "needs a change of the code", "implementer's job"} {
		if !strings.Contains(not, want) {
			t.Errorf("it is not told to leave alone: %s", want)
		}
	}
	for word, means := range map[string]string{"high": "this exact pattern is known", "medium": "a similar one is", "low": "best guess"} {
		if !strings.Contains(text, "`"+word+"` ("+means+")") {
			t.Errorf("it is not told what %s means", word)
		}
	}
}

// TestOnlyTheTesterIsAskedForProposals: no other role's prompt has the form of a proposal.
// Conforms: 004-4-only
func TestOnlyTheTesterIsAskedForProposals(t *testing.T) {
	t.Parallel()
	for _, role := range []string{Planner, Implementer, Tester, Reviewer} {
		if asked := strings.Contains(mustRender(t, firstTurn(t, role)), `"error_pattern"`); asked != (role == Tester) {
			t.Errorf("%s: %t", role, asked)
		}
	}
}
