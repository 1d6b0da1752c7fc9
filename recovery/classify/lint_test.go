package classify

import (
	"testing"

	"github.com/superloop/superloop/recovery/catalog"
)

// Conforms: 000-3.1-pattern, 000-12-intended, 000-12-false
func TestEmbeddedExamples(t *testing.T) {
	if raced {
		t.Skip("one goroutine and thousands of examples: the race detector adds only time")
	}
	cat := embedded(t)
	problems, err := LintExamples(cat)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if p.Fatal {
			t.Error(p)
		} else {
			t.Log(p)
		}
	}
	examples := 0
	for i := range cat.Handlers {
		examples += len(cat.Handlers[i].Examples) + len(cat.Handlers[i].CounterExamples)
	}
	t.Logf("%d handlers, %d examples", len(cat.Handlers), examples)
}

func embedded(t testing.TB) *catalog.Catalog {
	t.Helper()
	cat, err := catalog.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	if len(cat.Handlers) == 0 {
		t.Fatal("the embedded catalog has no handlers")
	}
	return cat
}
