package worktree

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
)

const manyFiles = 100_000

func manyName(i int) string {
	return fmt.Sprintf("packages/component-%03d/src/module-%02d/file_%05d.ts", i/1000, i/100%10, i)
}

// A tree of 100,000 files is told, saved, read and compared within 60 MB, and in
// a tenth of a second on a quiet machine: the bound here is for a busy one with
// the race detector. git's own time and memory are not ours.
func TestScale(t *testing.T) {
	var out bytes.Buffer
	for i := range manyFiles {
		fmt.Fprintf(&out, "H 100644 %040x 0\t%s\x00", i, manyName(i))
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	start := time.Now()
	index, err := parseIndex(out.Bytes())
	must(t, err)
	s := Snapshot{entries: index}
	one := s.Signature()
	file := filepath.Join(t.TempDir(), "tree.snapshot")
	must(t, s.Save(durable.OS(), file))
	back, err := Load(file)
	must(t, err)
	if len(Diff(s, back)) != 0 || back.Signature() != one || len(back.entries) != manyFiles {
		t.Error("it is not what was saved")
	}
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	allocated := (after.TotalAlloc - before.TotalAlloc) >> 20
	info, err := os.Stat(file)
	must(t, err)
	t.Logf("%s, %d MB allocated in all, %d MB on disk", took, allocated, info.Size()>>20)
	if allocated > 60 || info.Size() > 6<<20 {
		t.Errorf("%d MB allocated, %d bytes on disk", allocated, info.Size())
	}
}

// BenchmarkSnapshot is the whole, git included, on a real tree: clean, and with
// a hundred changed files.
func BenchmarkSnapshot(b *testing.B) {
	dir := b.TempDir()
	for i := range manyFiles {
		p := filepath.Join(dir, manyName(i))
		if i%100 == 0 {
			if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
				b.Fatal(err)
			}
		}
		if err := os.WriteFile(p, fmt.Appendf(nil, "%d\n", i), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.TempDir(), "GIT_CONFIG_NOSYSTEM=1"}
	git := func(args ...string) {
		b.Helper()
		if _, err := (proc.Tool{Dir: dir, Env: env}).Run(b.Context(), append([]string{"git"}, args...)...); err != nil {
			b.Fatal(err)
		}
	}
	git("init", "-q")
	git("add", "-A")
	git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "all")
	git("update-index", "--refresh")
	r, err := OpenEnv(b.Context(), dir, "", env)
	if err != nil {
		b.Fatal(err)
	}
	for _, changed := range []int{0, 100} {
		for i := range changed {
			if err := os.WriteFile(filepath.Join(dir, manyName(i*977)), []byte("changed\n"), 0o644); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(fmt.Sprintf("changed=%d", changed), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Snapshot(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
