package worktree

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkSurvey is superloop's own look at 1,000 tracked files, and at 20,000 more in node_modules, when nothing has
// changed since the last look.
func BenchmarkSurvey(b *testing.B) {
	for name, installed := range map[string]int{"tracked=1000": 0, "tracked=1000,node_modules=20000": 20_000} {
		b.Run(name, func(b *testing.B) {
			dir := b.TempDir()
			put := func(rel string, n int) {
				b.Helper()
				path := filepath.Join(dir, rel)
				must(b, os.MkdirAll(filepath.Dir(path), 0o755))
				must(b, os.WriteFile(path, fmt.Appendf(make([]byte, 0, 4096), "%4000d\n", n), 0o644))
			}
			tree := Snapshot{}
			for i := range 1000 {
				rel := fmt.Sprintf("src/m%02d/file_%04d.ts", i/20, i)
				put(rel, i)
				tree.index = append(tree.index, entry{path: rel})
			}
			for i := range installed {
				put(fmt.Sprintf("node_modules/p%04d/lib%d/file_%02d.js", i/10, i/5%2, i%5), i)
			}
			r := &Repo{Top: dir}
			first, err := r.Survey(b.Context(), SurveyOptions{Tree: tree})
			must(b, err)
			for i := range first.files {
				first.files[i].read += coarseTick
			}
			b.ReportAllocs()
			for b.Loop() {
				s, err := r.Survey(b.Context(), SurveyOptions{Tree: tree, Prev: first})
				must(b, err)
				_ = s.Signature()
			}
		})
	}
}
