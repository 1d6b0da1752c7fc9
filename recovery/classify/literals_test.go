package classify

import (
	"flag"
	"os"
	"slices"
	"testing"

	"github.com/superloop/superloop/internal/multiscan"
)

var update = flag.Bool("update", false, "write what is made of the catalog anew")

// TestLiteralsAreTheCatalogs: what is known of the patterns of the embedded catalog is
// what there is to be found out about them.
func TestLiteralsAreTheCatalogs(t *testing.T) {
	t.Parallel()
	want := multiscan.Literals(embeddedClassifier(t).prog.exprs, maxOwnProgram)
	if *update && literals != want {
		literals = want
		if err := os.WriteFile("literals.txt", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if literals != want {
		t.Fatal("literals.txt is not that of the embedded catalog; type: go generate ./recovery/catalog ./recovery/classify")
	}
}

// BenchmarkNew is what a process that classifies does first.
func BenchmarkNew(b *testing.B) {
	cat := embedded(b)
	b.Run("known", func(b *testing.B) {
		for b.Loop() {
			if _, err := New(cat, Options{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("with an overlay", func(b *testing.B) {
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
