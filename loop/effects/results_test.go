package effects

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/durable"
)

// A comparison removes what a killed one has left, and not one that goes on.
func TestLeftComparisonsAreSwept(t *testing.T) {
	t.Parallel()
	private, old := t.TempDir(), time.Now().Add(-2*comparisonLasts)
	for _, name := range []string{"compare-left", "compare-goes-on", "other"} {
		dir := filepath.Join(private, name)
		err := errors.Join(os.MkdirAll(filepath.Join(dir, "objects"), 0o700), os.WriteFile(filepath.Join(dir, "objects", "x"), nil, 0o400))
		if name != "compare-goes-on" {
			err = errors.Join(err, os.Chtimes(dir, old, old))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	sweepComparisons(durable.OS(), private)
	left, err := filepath.Glob(filepath.Join(private, "*"))
	for i, l := range left {
		left[i] = filepath.Base(l)
	}
	if err != nil || !slices.Equal(left, []string{"compare-goes-on", "other"}) {
		t.Error(left, err)
	}
}
