package worktree

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/durable"
)

// compared keeps what then lacks, lets change happen, and compares.
func compared(t *testing.T, b box, change func()) *Compared {
	t.Helper()
	r, disk, kept := b.open(), durable.OS(), filepath.Join(t.TempDir(), "kept")
	then := snap(t, r)
	must(t, r.Keep(t.Context(), disk, kept, then))
	change()
	c, err := r.Compare(t.Context(), disk, filepath.Join(t.TempDir(), "compare"), kept, then, snap(t, r))
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	return c
}

func TestCompareShowsWhatChangedSinceTheSnapshot(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"sha1", "sha256"} {
		b := box{t, t.TempDir(), hermetic(t)}
		b.git("init", "-q", "--object-format="+format)
		b.git("config", "user.name", "Ann")
		b.git("config", "user.email", "ann@example.invalid")
		b.put("kept", "same\n")
		b.put("committed", "one\ntwo\n")
		b.put("gone", "1\n2\n3\n")
		b.commitAll("one")
		b.put("mine", "not committed\n")
		b.put("committed", "one\ntwo\nnot committed\n")
		b.put("a\\b", "a name that Windows refuses\n")
		must(t, os.Symlink("kept", filepath.Join(b.dir, "link")))
		c := compared(t, b, func() {
			b.put("mine", "changed\n")
			b.put("committed", "one\n2\nnot committed\n")
			b.commitAll("an agent commits")
			b.rm("gone")
			b.rm("a\\b")
			b.rm("link")
			must(t, os.Symlink("mine", filepath.Join(b.dir, "link")))
			b.put("new/file", "a\nb\n")
			b.put("binary", "a\x00b")
			b.put(odd, "odd\n")
			b.put(".gitattributes", "* -diff\nnew/* diff=evil\n")
		})
		want := []FileChange{{".gitattributes", "added", 2, 0}, {odd, "added", 1, 0}, {"a\\b", "removed", 0, 1}, {"binary", "added", -1, -1},
			{"committed", "changed", 1, 1}, {"gone", "removed", 0, 3}, {"link", "changed", 1, 1}, {"mine", "changed", 1, 1}, {"new/file", "added", 2, 0}}
		if len(c.Files) != len(want) {
			t.Fatalf("%s: %+v", format, c.Files)
		}
		for i := range want {
			equal(t, format, c.Files[i], want[i])
		}
		out, err := c.Diff(t.Context(), false, 0)
		must(t, err)
		for _, line := range []string{"\n-not committed\n+changed\n", "\n-two\n+2\n not committed\n", "\n-kept\n", "\n+a\n+b\n", "GIT binary patch"} {
			if !strings.Contains(string(out), line) {
				t.Errorf("%s: no %q in\n%s", format, line, out)
			}
		}
		out, err = c.Diff(t.Context(), true, 80)
		must(t, err)
		if !strings.Contains(string(out), "9 files changed") {
			t.Errorf("%s", out)
		}
	}
}

func TestCompareSaysWhichContentIsNotKnown(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.put("a", "1")
	b.commitAll("one")
	b.put("large", strings.Repeat("x", maxHashed+1))
	b.put("lost", "not committed\n")
	r, disk := b.open(), durable.OS()
	then := snap(t, r)
	b.put("large", "small\n")
	b.put("lost", "other\n")
	c, err := r.Compare(t.Context(), disk, filepath.Join(t.TempDir(), "c"), filepath.Join(t.TempDir(), "never kept"), then, snap(t, r))
	must(t, err)
	equal(t, "files", len(c.Files), 2)
	equal(t, "large", c.Files[0], FileChange{"large", "changed", -1, -1})
	equal(t, "lost", c.Files[1], FileChange{"lost", "changed", -1, -1})
	out, err := c.Diff(t.Context(), false, 0)
	must(t, err)
	equal(t, "marks", strings.Count(string(out), "-superloop does not have the content"), 2)
	must(t, c.Close())
}

func TestNothingHasChanged(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.put("a", "1")
	c := compared(t, b, func() { b.commitAll("committed, not changed") })
	out, err := c.Diff(t.Context(), false, 0)
	must(t, err)
	equal(t, "files", len(c.Files), 0)
	equal(t, "patch", string(out), "")
}
