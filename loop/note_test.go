package loop

import (
	"fmt"
	"slices"
	"testing"
)

// A note stands in the prompts of every role that starts until the iteration after it has ended, and lets roles look again.
func TestNotes(t *testing.T) {
	t.Parallel()
	p := basicPlan()
	p.MaxIterations, p.SameRed = 0, 9
	b := newBench(t, p)
	texts := func() []string { return Map(b.s.Notes, func(n Note) string { return n.Text }) }
	b.iterate(red("f"))
	if ran := b.iterate(red("f")); len(ran) != 2 {
		t.Fatalf("%v ran", ran)
	}
	b.do(OperatorNote{Text: "use X", By: "eve"}) // in iteration 3
	pending := *b.s.Pending
	if ran := b.iterate(red("f")); len(ran) != 4 {
		t.Errorf("after the note %v ran", ran)
	}
	if got := texts(); !slices.Equal(got, []string{"use X"}) || pending.Kind != RunRole {
		t.Errorf("in the next iteration: %q; the note changed what is pending to %+v", got, pending)
	}
	for i := range maxNotes + 2 {
		b.do(OperatorNote{Text: fmt.Sprint(i), By: "eve"})
	}
	if got := texts(); len(got) != maxNotes || got[maxNotes-1] != fmt.Sprint(maxNotes+1) {
		t.Errorf("%q", got)
	}
	b.iterate(red("f"))
	b.iterate(red("f"))
	if got := texts(); len(got) != 0 {
		t.Errorf("two iterations later: %q", got)
	}
}
