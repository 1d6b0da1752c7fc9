package classify_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/superloop/superloop/recovery/classify"
)

// Failures beyond the recorded corpus: more.jsonl is of tools that were run,
// known.jsonl of texts that many tools are known to end with.
// Conforms: 003-sc-classified
func TestMoreFailures(t *testing.T) {
	t.Parallel()
	_, c := embedded(t)
	for _, name := range []string{"more", "known"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, right := 0, 0
			for _, r := range readReal(t, filepath.Join("..", name+".jsonl")) {
				f, err := c.Classify(context.Background(), classify.Input{
					Command: r.Command, Exit: classify.Exit{Code: r.ExitCode, Signal: r.Signal, TimedOut: r.TimedOut},
					Stdout: strings.NewReader(r.Stdout), Stderr: strings.NewReader(r.Stderr),
				})
				if err != nil {
					t.Errorf("%s: %v", r.Command, err)
					continue
				}
				all++
				if slices.Contains(r.WantCategory, f.Category) {
					right++
				} else {
					t.Logf("%s %s: said %s by %q, should be %s: %s", r.ID, r.Command, f.Category, f.Handler, strings.Join(r.WantCategory, " or "), f.Why)
				}
				if want := slices.Equal(r.WantCategory, []string{"code_bug"}); want && f.Infra {
					t.Errorf("%s %s: a failure of the code is called %s by %s", r.ID, r.Command, f.Category, f.Handler)
				}
				if want := !slices.Contains(r.WantCategory, "code_bug"); want && f.Code {
					t.Errorf("%s %s: a failure of the environment is called code: %s", r.ID, r.Command, f.Why)
				}
			}
			t.Logf("%s: %d of %d categories are right", name, right, all)
			if all == 0 || float64(right) < barMore*float64(all) {
				t.Errorf("%s: %d of %d categories are right, %.0f%% are promised", name, right, all, 100*barMore)
			}
		})
	}
}

// barMore is what is promised of failures that the catalog was tuned for.
const barMore = 0.97
