package preflight

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/superloop/superloop/recovery/failures"
)

// TestBuiltin: both checks can be looked at, hold in an ordinary directory, and
// have the ids under which a Store would keep the same ones.
// Conforms: 003-c2.2-prevent
func TestBuiltin(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var ps failures.Preventions
	for _, p := range failures.Builtin() {
		if err := p.Valid(); err != nil {
			t.Error(err)
		}
		kept, fresh, err := ps.Add(p, noon)
		if err != nil || !fresh || kept.ID != p.ID || !p.Active() {
			t.Errorf("%+v was kept as %+v, %v", p, kept, err)
		}
	}
	for _, f := range Check(context.Background(), failures.Builtin(), dir, Look{Now: time.Now()}) {
		if f.State != failures.CheckOK {
			t.Errorf("%s is %s in %s: %s", f.Kind, f.State, dir, f.Why)
		}
	}
	gone := filepath.Join(dir, "gone")
	found := failures.Problems(Check(context.Background(), failures.Builtin(), gone, Look{Now: time.Now()}))
	if len(found) != 1 || found[0].Kind != failures.CheckPermission {
		t.Errorf("of a directory that is not there: %+v", found)
	}
	if os.Geteuid() == 0 {
		return // root may write anywhere
	}
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	if found := failures.Problems(Check(context.Background(), failures.Builtin(), dir, Look{Now: time.Now()})); len(found) != 1 {
		t.Errorf("of a directory that is read only: %+v", found)
	}
}
