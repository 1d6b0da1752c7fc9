package worktree

import (
	"strings"
	"testing"
)

// A flag in the index hides no change from a snapshot, from the list of changed paths, and, but for what a sparse checkout
// leaves out, no missing file.
func TestFlagsOfTheIndex(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"assume-unchanged", "skip-worktree"} {
		b := newBox(t)
		b.put("a", "one\n")
		b.put("b", "two\n")
		b.put("gone", "three\n")
		b.commitAll("one")
		r := b.open()
		one := snap(t, r)
		b.git("update-index", "--"+flag, "a", "b", "gone")
		equal(t, flag+": a flag is no change", diff(one, snap(t, r)), "")
		b.put("a", "changed\n")
		b.rm("gone")
		want := map[string]string{"assume-unchanged": "modified a, deleted gone", "skip-worktree": "modified a"}[flag]
		equal(t, flag, diff(one, snap(t, r)), want)
		dirty, err := r.Dirty(t.Context())
		must(t, err)
		equal(t, flag+": dirty", strings.Join(dirty, " "), strings.NewReplacer("modified ", "", "deleted ", "", ",", "").Replace(want))
		equal(t, flag+": git", b.git("status", "--porcelain"), "")
		b.git("update-index", "--no-"+flag, "a", "b", "gone")
		two := snap(t, r)
		b.git("update-index", "--"+flag, "a")
		equal(t, flag+": set behind the change", diff(two, snap(t, r)), "")
		_, err = r.Commit(t.Context(), CommitRequest{LoopID: "l", RunID: "r", Iteration: 1})
		must(t, err)
		equal(t, flag+": committed", b.git("show", "HEAD:a"), "changed")
		equal(t, flag+": behind the commit", diff(two, snap(t, r)), "")
	}
}
