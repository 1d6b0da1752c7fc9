package walk

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/recovery/plan"
)

// Conforms: 000-5.3-id
func TestNewID(t *testing.T) {
	t.Parallel()
	var ids []string
	at := start
	for i := range 200 {
		at = at.Add(time.Duration(1+i*i*i) * time.Millisecond).In(time.FixedZone("", (i%24-12)*3600))
		ids = append(ids, NewID(at))
	}
	if !slices.IsSorted(ids) || len(slices.Compact(slices.Clone(ids))) != len(ids) {
		t.Error(ids)
	}
	if a, b := NewID(at), NewID(at); a == b || !plan.IsID(a) {
		t.Error(a, b)
	}
	for _, bad := range []string{"", ".", "..", "a/b", "../a", "a..b", "-a", "a.", "a b", "a\x00", strings.Repeat("a", 101)} {
		if plan.IsID(bad) {
			t.Errorf("%q is an id", bad)
		}
	}
}
