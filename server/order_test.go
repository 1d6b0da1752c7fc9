package server

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/server/registry"
)

// The registry is read again after each change, also one that the clock of the file system cannot tell from the one
// before, and not while nothing changes.
func TestGlance(t *testing.T) {
	t.Parallel()
	s := registry.Store{Disk: durable.OS(), State: filepath.Join(t.TempDir(), "state", "superloop")}
	var g glance
	expect := func(due bool, when string) {
		t.Helper()
		if g.due(s) != due {
			t.Errorf("%s: due is %t", when, !due)
		}
	}
	rest := func() { // as if nothing had happened for a minute
		t.Helper()
		at := time.Now().Add(-time.Minute)
		if err := os.Chtimes(s.Dir(), at, at); err != nil {
			t.Fatal(err)
		}
		expect(true, "it has changed")
		expect(false, "nothing has happened")
	}
	expect(true, "without a directory")
	e := registry.Entry{Repo: t.TempDir(), Loop: "l", Wanted: registry.Running}
	for range 2 {
		if err := s.Put(e); err != nil {
			t.Fatal(err)
		}
		expect(true, "an entry was put")
		expect(true, "another one could follow within the same step of the clock")
		rest()
	}
	g.at = time.Now().Add(-lookAgain)
	expect(true, "the last look is old")
	if err := s.Drop(e); err != nil {
		t.Fatal(err)
	}
	expect(true, "the entry was dropped")
	rest()
}
