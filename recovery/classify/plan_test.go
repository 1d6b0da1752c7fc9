package classify

import (
	"bytes"
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
	// What is written twice by one process is the same to the byte; another one may
	// number the types of what it writes otherwise.
	current := func() bool {
		again, told, err := multiscan.Restore(c.prog.exprs, opts, embeddedPlan)
		if err != nil {
			return false
		}
		got, err := again.Plan(told)
		return err == nil && bytes.Equal(got, want)
	}
	if *update && !current() {
		embeddedPlan = want
		if err := os.WriteFile("embedded.plan", want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if !current() {
		t.Fatal("the embedded plan is not that of the embedded catalog; type: go generate ./recovery/catalog ./recovery/classify")
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
	b.Run("plan with an overlay", func(b *testing.B) {
		other := *cat
		other.Handlers = slices.Clone(cat.Handlers)
		h := other.Handlers[0]
		h.ID, h.Match.Any = "mytool_down", []string{`mytool: cannot reach \S+`, `mytool: it is torn`}
		other.Handlers = append(other.Handlers, h)
		for b.Loop() {
			if _, err := New(&other, Options{}); err != nil {
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
