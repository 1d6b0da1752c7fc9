package script

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/superloop/superloop/internal/testkit"
)

// FuzzScenario: a scenario is refused with a place, or every step of it has one action and stays in the working directory.
func FuzzScenario(f *testing.F) {
	all, err := os.ReadFile("../../../../schemas/testdata/valid/scenario.all-steps.json")
	if err != nil {
		f.Fatal(err)
	}
	testkit.Seed(f, all, []byte(`{"version":1,"turns":[{"role":"planner","steps":[{"write":{"path":"../a","content":""}}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		sc, ok := testkit.Decoder[scenario]{Decode: parse}.Check(t, data)
		if !ok {
			return
		}
		lists := [][]step{sc.Default}
		for _, turn := range sc.Turns {
			lists = append(lists, turn.Steps)
		}
		for _, steps := range lists {
			for _, s := range steps {
				if s.action() == "" {
					t.Fatalf("a step without an action: %+v", s)
				}
				for _, to := range []*fileText{s.Write, s.Append, s.Delete} {
					if to != nil && !filepath.IsAbs(to.Path) && !filepath.IsLocal(to.Path) {
						t.Fatalf("a step leaves the working directory: %q", to.Path)
					}
				}
			}
		}
	})
}
