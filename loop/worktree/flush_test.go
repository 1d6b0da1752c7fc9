package worktree

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// T-8: what an agent's git has written, which flushes little, is found: the objects of its commit, the branch, the
// reflogs and the index, with their directories.
func TestFlushFindsWhatAnAgentCommitted(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.put("old", "0")
	b.commitAll("zero")
	r := b.open()
	must(t, r.Flush(t.Context()))
	zero := r.durable.head
	equal(t, "head", zero, b.git("rev-parse", "HEAD"))
	<-time.After(50 * time.Millisecond)
	r.durable.last = time.Now().Add(coarse - 25*time.Millisecond) // as if the first commit was long ago; the clock of files goes after this one
	if found := append(r.newObjects(), r.newRefs()...); len(found) > 0 {
		t.Errorf("nothing is new, but %v", found)
	}
	b.put("dir/a", "1")
	b.commitAll("one")
	found := append(r.newObjects(), r.newRefs()...)
	var want []string
	for line := range strings.Lines(b.git("rev-list", "--objects", "HEAD", "^"+zero)) {
		id := strings.Fields(line)[0]
		want = append(want, filepath.Join("objects", id[:2]), filepath.Join("objects", id[:2], id[2:]))
	}
	want = append(want, "objects", "index", "refs/heads", "refs/heads/main", "logs/HEAD", "logs/refs/heads/main", ".")
	for _, name := range want {
		if !slices.Contains(found, filepath.Join(r.GitDir, name)) {
			t.Errorf("%s is not flushed", name)
		}
	}
	equal(t, "files between", strings.Join(r.between(t.Context(), zero, b.git("rev-parse", "HEAD")), " "), "dir/a")
	top := "/top"
	equal(t, "with directories", strings.Join(withDirs(top, []string{"dir/a", "dir/b"}), " "), "/top/dir/a /top/dir /top /top/dir/b")
	must(t, r.FlushAll(t.Context()))
	must(t, r.Flush(t.Context()))
	equal(t, "head", r.durable.head, b.git("rev-parse", "HEAD"))
}

// BenchmarkFlush is what a flush costs in which nothing is new, in a repository of 1,000 files.
func BenchmarkFlush(b *testing.B) {
	x := newBox(b)
	for i := range 1000 {
		x.put(manyName(i*97), "x")
	}
	x.commitAll("all")
	r := x.open()
	r.durable.last = time.Now().Add(time.Hour)
	for b.Loop() {
		if len(append(r.newObjects(), r.newRefs()...)) > 0 {
			b.Fatal("something is new")
		}
	}
}
