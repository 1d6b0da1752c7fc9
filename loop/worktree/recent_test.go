package worktree

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// Commits come newest first, with their subjects and files however odd they are; a
// repository without a commit has none.
func TestRecent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.invalid", "-c", "commit.gpgsign=false"}, args...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	git("init", "-q")
	r, err := Open(t.Context(), dir, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.Recent(t.Context(), time.Time{}, 5); err != nil || len(got) != 0 {
		t.Fatalf("%v %v", got, err)
	}
	began := time.Now().Truncate(time.Second) // git keeps no fractions
	odd := "a name\twith\nlines"
	for _, name := range []string{"one", odd, "three"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
		git("add", "-A")
		git("commit", "-q", "-m", "adds <"+name[:3]+">\n\nand more\nlines")
	}
	got, err := r.Recent(t.Context(), time.Time{}, 2)
	if err != nil || len(got) != 2 || got[0].Subject != "adds <thr>" || !slices.Equal(got[0].Files, []string{"three"}) || len(got[0].SHA) != 40 || got[0].At.Before(began) {
		t.Fatalf("%+v %v", got, err)
	}
	if got[1].Subject != "adds <a n>" || len(got[1].Files) == 0 {
		t.Fatalf("%+v", got[1])
	}
	if got, err := r.Recent(t.Context(), time.Now().Add(time.Hour), 5); err != nil || len(got) != 0 {
		t.Fatalf("%+v %v", got, err)
	}
}
