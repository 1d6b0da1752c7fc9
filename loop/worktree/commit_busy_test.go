package worktree

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/text"
)

func TestCommitInABusyRepository(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.put("c", "base\n")
	b.commitAll("one")
	r := b.open()
	b.put("d", "1")
	for _, file := range []string{"index.lock", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply"} {
		p := filepath.Join(b.dir, ".git", file)
		must(t, os.WriteFile(p, nil, 0o644))
		_, err := r.Commit(t.Context(), request(1))
		if !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), text.Paste(r.GitDir+"/"+file)) {
			t.Errorf("%s: %v", file, err)
		}
		if passes := errors.Is(err, ErrLocked); passes != (file == "index.lock") {
			t.Errorf("%s passes by itself: %v", file, passes)
		}
		must(t, os.Remove(p))
	}
	b.rm("d")
	b.git("checkout", "-q", "-b", "side")
	b.put("c", "side\n")
	b.commitAll("side")
	b.git("checkout", "-q", "main")
	b.put("c", "main\n")
	b.git("stash", "-q")
	b.put("c", "other\n")
	b.commitAll("other")
	if _, err := b.try("stash", "pop", "-q"); err == nil {
		t.Fatal("there was to be a conflict")
	}
	if _, err := r.Commit(t.Context(), request(1)); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "c has a conflict") {
		t.Errorf("conflict: %v", err)
	}
	q := request(1)
	q.Exclude = []string{"c"}
	if res := commit(t, r, q); res.Skipped != SkippedNoChanges {
		t.Errorf("conflict in a file that is not ours: %+v", res)
	}
}
