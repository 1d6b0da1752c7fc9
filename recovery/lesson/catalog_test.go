package lesson

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/classify"
)

// loader loads the embedded catalog with files of the operator.
func loader(first ...catalog.File) func(more ...catalog.File) (*catalog.Catalog, catalog.Problems) {
	return func(more ...catalog.File) (*catalog.Catalog, catalog.Problems) {
		return catalog.Load(context.Background(), catalog.Options{More: append(first[:len(first):len(first)], more...)})
	}
}

// Each example of the catalog, as if its handler were not there: the draft recognises it, matches no line of passing
// output and changes no verdict, or the refusal says why there is none. Make has proved the draft; the test proves it
// again with the whole linter for some. LESSON_SHOW=1 prints what was drafted.
func TestEveryExampleIsLearnedOrRefused(t *testing.T) {
	t.Parallel()
	cat, err := catalog.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	const cure = "./repair-the-environment"
	passing, err := os.ReadFile(filepath.Join("..", "..", "internal", "multiscan", "sample.txt"))
	if err != nil {
		t.Fatal(err)
	}
	every, lints, n := testkit.Sample(151, 7, 1), testkit.Sample(0, 60, 60), 0
	drafts, refused := 0, map[RefusalKind]int{}
	for i := range cat.Handlers {
		h := &cat.Handlers[i]
		for _, e := range h.Examples {
			in := classify.ExampleInput(h, e)
			if n++; n%every != 0 || in.Exit.OK() {
				continue
			}
			load := loader(catalog.File{Name: "without.yaml", Data: fmt.Appendf(nil, "handlers: [{id: %s, disabled: true}]\n", h.ID)})
			if _, ps := load(); len(ps.Errors()) > 0 {
				t.Fatal(ps)
			}
			f := Failure{Command: e.Command, Exit: in.Exit, Stdout: e.Stdout, Stderr: e.Stderr}
			d, err := Make(t.Context(), f, Cure{Command: cure, Shown: "a test"}, Options{Load: load, Redact: redact.Values(nil)})
			var no *Refusal
			switch {
			case err == nil:
				drafts++
			case errors.As(err, &no):
				if refused[no.Kind]++; no.Why == "" {
					t.Errorf("%s: a refusal without a reason", h.ID)
				}
				if os.Getenv("LESSON_SHOW") != "" {
					fmt.Printf("REFUSED %s\t%s\t%s\n", no.Kind, h.ID, no.Why)
				}
				continue
			default:
				t.Fatalf("%s: %v", h.ID, err)
			}
			if os.Getenv("LESSON_SHOW") != "" {
				fmt.Printf("DRAFT %s\t%s\t%s\t%s\n", h.ID, d.ID, d.Pattern, d.Line)
			}
			after, ps := load(catalog.File{Name: "draft.yaml", Data: d.YAML})
			if len(ps) > 0 {
				t.Errorf("%s: %v\n%s", h.ID, ps, d.YAML)
			}
			k, err := classify.New(after, classify.Options{})
			if err != nil {
				t.Fatal(err)
			}
			got, err := k.Classify(t.Context(), f.input())
			if err != nil || got.Handler != d.ID || got.Code {
				t.Errorf("%s: %v, %s\n%s", h.ID, err, got.Why, d.YAML)
			}
			if at := regexp.MustCompile(`(?im)` + d.Pattern).Find(passing); at != nil {
				t.Errorf("%s: passing output has %q\n%s", h.ID, at, d.YAML)
			}
			if lints == 0 || drafts%lints != 1 {
				continue
			}
			problems, err := classify.LintExamples(after)
			if err != nil {
				t.Fatal(err)
			}
			old, err := classify.LintExamples(mustLoad(load))
			if err != nil {
				t.Fatal(err)
			}
			if len(problems) > len(old) {
				t.Errorf("%s: %v, before %v\n%s", h.ID, problems, old, d.YAML)
			}
		}
	}
	t.Logf("%d drafts of %d examples, refused: %v", drafts, n/every, refused)
	if drafts*3 < n/every {
		t.Errorf("only %d drafts of %d examples", drafts, n/every)
	}
}

func mustLoad(load func(...catalog.File) (*catalog.Catalog, catalog.Problems)) *catalog.Catalog {
	c, _ := load()
	return c
}
