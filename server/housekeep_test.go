package server

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/superloop/superloop/loop/space"
	"github.com/superloop/superloop/server/registry"
	"github.com/superloop/superloop/server/slots"
)

// A daemon that starts removes what is too old in the repositories that it knows, and nothing of one that it does not.
func TestHousekeeping(t *testing.T) {
	t.Parallel()
	f := newFleet(t, slots.Limits{})
	f.o.Keep = space.Limits{Age: 30 * 24 * time.Hour}
	for _, repo := range []string{"a", "b"} {
		f.repo(repo, "x")
		f.write(repo+"/.superloop/loops/x/state.json", `{"status": "completed", "run_id": "r9"}`)
		for _, run := range []string{"r1", "r2", "r9"} {
			path := repo + "/.superloop/loops/x/archive/" + run + "/plan.md"
			f.write(path, "x")
			if then := time.Now().Add(-40 * 24 * time.Hour); run != "r2" {
				if err := os.Chtimes(filepath.Join(f.top, path), then, then); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	f.want("a", "x", registry.Ended, 0)
	here := func(repo, run string) bool {
		_, err := os.Stat(filepath.Join(f.top, repo, ".superloop/loops/x/archive", run, "plan.md"))
		return err == nil
	}
	f.serve()
	f.until("what is old has gone", func() bool { return !here("a", "r1") })
	f.stop()
	if !here("a", "r2") || !here("a", "r9") || !here("b", "r1") {
		t.Error("more has gone")
	}
}
