package worktree

import (
	"fmt"
	"strconv"
	"testing"
)

// BenchmarkIteration is what superloop does with git in an iteration, in a repository of 1,000 files: two looks at the
// tree, and a commit of three files.
func BenchmarkIteration(b *testing.B) {
	for _, commits := range []bool{false, true} {
		b.Run("commit="+strconv.FormatBool(commits), func(b *testing.B) {
			x := newBox(b)
			for i := range 1000 {
				x.put(manyName(i*97), fmt.Sprint(i))
			}
			x.commitAll("all")
			x.git("update-index", "--refresh")
			r := x.open()
			n := 0
			for b.Loop() {
				n++
				for i := range 3 {
					x.put(manyName(i*97), fmt.Sprint("changed ", n, i))
				}
				for range 2 {
					if _, err := r.Snapshot(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
				if !commits {
					continue
				}
				if _, err := r.Commit(b.Context(), request(n)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
