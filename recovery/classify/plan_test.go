package classify

import (
	"flag"
	"os"
	"slices"
	"testing"

	"github.com/superloop/superloop/internal/multiscan"
)

var update = flag.Bool("update", false, "write what is made of the catalog anew")

// TestPlanIsTheCatalogs: what the embedded plan gives is what compiling the patterns of
// the embedded catalog gives.
func TestPlanIsTheCatalogs(t *testing.T) {
	t.Parallel()
	c := embeddedClassifier(t)
	opts := multiscan.Options{MaxProgram: maxOwnProgram}
	set, problems, err := multiscan.Compile(c.prog.exprs, opts)
	if err != nil {
		t.Fatal(err)
	}
	want, err := set.Plan(problems)
	if err != nil {
		t.Fatal(err)
	}
	if *update && !slices.Equal(embeddedPlan, want) {
		embeddedPlan = want
		if err := os.WriteFile("embedded.plan", want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(embeddedPlan, want) {
		t.Fatal("the embedded plan is not that of the embedded catalog; type: go generate ./recovery/catalog ./recovery/classify")
	}
	if _, _, err := multiscan.Restore(c.prog.exprs, opts, embeddedPlan); err != nil {
		t.Error(err)
	}
}

// BenchmarkNew is what a process that classifies does first.
func BenchmarkNew(b *testing.B) {
	cat := embedded(b)
	b.Run("plan", func(b *testing.B) {
		for b.Loop() {
			if _, err := New(cat, Options{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("compile", func(b *testing.B) {
		exprs := embeddedClassifier(b).prog.exprs
		for b.Loop() {
			if _, _, err := multiscan.Compile(exprs, multiscan.Options{MaxProgram: maxOwnProgram}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
