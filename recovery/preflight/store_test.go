package preflight

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"testing"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/recovery/failures"
)

// TestStore: what one supervisor adds another one sees, nothing is lost, and a
// damaged file is said.
func TestStore(t *testing.T) {
	t.Parallel()
	s := Store[failures.Preventions]{Disk: durable.OS(), Path: filepath.Join(t.TempDir(), "preventions.json")}
	if v, err := s.Load(); err != nil || len(v.Checks) != 0 {
		t.Fatalf("%+v, %v", v, err)
	}
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			_, err := s.Update(t.Context(), func(ps *failures.Preventions) bool {
				_, fresh, err := ps.Add(failures.Prevention{Kind: failures.CheckTool, Spec: failures.CheckSpec{Name: fmt.Sprint("t", n)}}, noon)
				return err == nil && fresh
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	v, err := s.Load()
	if err != nil || len(v.Checks) != 8 {
		t.Fatalf("%d checks, %v", len(v.Checks), err)
	}
	before, err := os.Stat(s.Path)
	must(t, err)
	same, err := s.Update(t.Context(), func(*failures.Preventions) bool { return false })
	after, _ := os.Stat(s.Path)
	if err != nil || !reflect.DeepEqual(same, v) || !os.SameFile(before, after) || before.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", err, before.Mode())
	}
	must(t, os.WriteFile(s.Path, []byte("{"), 0o600))
	var damaged *door.StateError
	if _, err := s.Load(); !errors.As(err, &damaged) || damaged.Path != s.Path {
		t.Errorf("%v", err)
	}
	if _, err := s.Update(t.Context(), func(*failures.Preventions) bool { return true }); !errors.As(err, &damaged) {
		t.Errorf("a damaged file is overwritten: %v", err)
	}
}
