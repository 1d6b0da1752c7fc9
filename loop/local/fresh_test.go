package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/loop"
)

var errStopped = errors.New("stopped here")

// TestAFreshStartGoesOnWhereItStopped stops a fresh start after each of its moves, and in
// the middle between the moves and the first event of the new run. The next fresh start ends
// well, and every file of the first run is in the archive once.
func TestAFreshStartGoesOnWhereItStopped(t *testing.T) {
	t.Parallel()
	for step := 1; ; step += testkit.Sample(3, 1, 1) {
		w := newWorld(t, `echo said by $SUPERLOOP_ROLE > "$SUPERLOOP_LOOP_DIR/notes.md"; `+agentDone, ``)
		first := w.run(t.Context())
		w.ends(first, loop.Completed, loop.ReasonPromiseKept)
		// What open makes anew before each try, and what a person puts back, has the name of something archived.
		w.write(w.under(w.paths.Proposals(), "1-x.json"), "{}")
		if err := os.Chmod(w.paths.Proposals(), 0o555); err != nil { // a directory that its owner may not move
			t.Fatal(err)
		}
		w.o.Fresh = true
		moves := 0
		w.o.Disk = durable.OS().WithFault(func(op string) error {
			if op == "archive:rename" {
				moves++
			}
			if moves == step && (op == "archive:dirsync" || op == "events:append") {
				return errStopped
			}
			return nil
		})
		_, err := Run(t.Context(), w.o)
		if !errors.Is(err, errStopped) {
			if step < 8 {
				t.Fatalf("stopped after %d moves only: %v", step-1, err)
			}
			return
		}
		w.write(w.under(w.paths.Loop, "plan.md"), "written between the two")
		_ = os.Chmod(w.paths.Proposals(), 0o755) // it may be missing
		w.write(w.under(w.paths.Proposals(), "2-x.json"), "{}")
		w.o.Disk = durable.OS()
		again := w.run(t.Context())
		w.ends(again, loop.Completed, loop.ReasonPromiseKept)
		if again.RunID == first.RunID {
			t.Fatal("the run did not begin anew")
		}
		archived := names(t, filepath.Join(w.paths.Loop, "archive", first.RunID))
		for _, want := range []string{"notes.md", "timeline.md", "run-summary.json", "1-x.json", "2-x.json", "plan.md"} {
			if n := strings.Count(archived, fmt.Sprintf("/%s\n", want)); n != 1 {
				t.Errorf("stopped after move %d: the archive has %s %d times:\n%s", step, want, n, archived)
			}
		}
	}
}

// names are the files below a directory, one in a line.
func names(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			fmt.Fprintln(&out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestAFreshStartMovesALinkOutOfTheWay: an agent may make a link of the archive.
func TestAFreshStartMovesALinkOutOfTheWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, agentDone, ``)
	w.ends(w.run(t.Context()), loop.Completed, loop.ReasonPromiseKept)
	elsewhere := t.TempDir()
	if err := os.Symlink(elsewhere, w.paths.File("archive")); err != nil {
		t.Fatal(err)
	}
	w.o.Fresh = true
	w.ends(w.run(t.Context()), loop.Completed, loop.ReasonPromiseKept)
	if got := names(t, elsewhere); got != "" {
		t.Errorf("the archive followed a link: %s", got)
	}
}

// TestAJournalIsSetAsideInTwoSteps stops between the journal and its anchor.
func TestAJournalIsSetAsideInTwoSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, agentDone, ``)
	w.ends(w.run(t.Context()), loop.Completed, loop.ReasonPromiseKept)
	w.write(w.under(w.paths.Loop, "events.jsonl"), "")
	w.o.Fresh = true
	moves := 0
	w.o.Disk = durable.OS().WithFault(func(op string) error {
		if op == "tampered:rename" {
			if moves++; moves == 2 {
				return errStopped
			}
		}
		return nil
	})
	if _, err := Run(t.Context(), w.o); !errors.Is(err, errStopped) {
		t.Fatal(err)
	}
	w.o.Disk = durable.OS()
	w.ends(w.run(t.Context()), loop.Completed, loop.ReasonPromiseKept)
}
