package loop

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

func told(t *testing.T, look <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-look:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: nobody was told", what)
	}
}

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// quiet ends the turns, so that only the file system tells.
func quiet(w *Watches) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = nil
}

// TestWatches: who watches a directory is told of what concerns them in it, and of
// nothing else; also when it was deleted and made again.
func TestWatches(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	w := NewWatches(ctx)
	a, b := t.TempDir(), t.TempDir()
	all := func(string) bool { return true }
	file := func(path string) bool { return filepath.Base(path) == "file" }
	leave, gone := context.WithCancel(ctx)
	first, second, other := w.Dir(ctx, a, file), w.Dir(leave, a, all), w.Dir(ctx, b, all)
	quiet(w)
	for len(second) > 0 || len(first) > 0 || len(other) > 0 {
		select { // turns that came before
		case <-first:
		case <-second:
		case <-other:
		}
	}
	write(t, filepath.Join(a, "nothing"))
	told(t, second, "everything concerns them")
	write(t, filepath.Join(a, "file"))
	told(t, first, "the file")
	if len(other) > 0 {
		t.Error("of another directory")
	}
	gone()
	for dropped := false; !dropped; {
		w.mu.Lock()
		dropped = len(w.dirs[a].by) == 1
		w.mu.Unlock()
	}
	write(t, filepath.Join(a, "file"))
	told(t, first, "after another one has left")

	again := filepath.Join(b, "again")
	if err := os.Mkdir(again, 0o755); err != nil {
		t.Fatal(err)
	}
	look := w.Dir(ctx, again, file)
	if err := os.Remove(again); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(again, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(again, "file"))
	told(t, look, "in a directory that was made again")
}

// TestWatchesTurns: where no file system tells of anything each of a few looks once
// in a second, and of many a hundred do.
func TestWatchesTurns(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{1: 30, 50: 150, 1000: 300} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			w := &Watches{dirs: map[string]*watched{}}
			go w.run(ctx)
			looks := 0
			for i := range n {
				look := w.Dir(ctx, fmt.Sprintf("/nowhere/%d", i), func(string) bool { return true })
				go func() {
					for {
						select {
						case <-look:
							w.mu.Lock()
							looks++
							w.mu.Unlock()
						case <-ctx.Done():
							return
						}
					}
				}()
			}
			time.Sleep(3*time.Second + time.Millisecond) // of the bubble
			synctest.Wait()
			if looks != want {
				t.Errorf("%d looks of %d in three seconds, want %d", looks, n, want)
			}
			stop()
			synctest.Wait()
			if len(w.all) > 0 || len(w.dirs) > 0 {
				t.Errorf("%d are watching still", len(w.all))
			}
		})
	}
}
