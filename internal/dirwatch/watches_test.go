package dirwatch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
)

func told(t *testing.T, look <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-look:
	case <-time.After(2 * time.Minute):
		t.Fatalf("%s: nobody was told", what)
	}
}

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
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
	write(t, filepath.Join(a, "nothing"))
	told(t, second, "everything concerns them")
	write(t, filepath.Join(a, "file"))
	told(t, first, "the file")
	told(t, other, "its turn")
	gone()
	for here := 2; here > 1; {
		told(t, first, "its turn")
		w.Mu.Lock()
		here = len(w.dirs[a])
		w.Mu.Unlock()
	}

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
	for n, want := range map[int]int{1: 3, 50: 150, 1000: 300} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			w := &Watches{dirs: map[string][]*watcher{}, armed: map[string]bool{}}
			go w.run(ctx)
			looks := 0
			for i := range n {
				look := w.Dir(ctx, fmt.Sprintf("/nowhere/%d", i), func(string) bool { return true })
				go func() {
					for {
						select {
						case <-look:
							w.Mu.Lock()
							looks++
							w.Mu.Unlock()
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
		})
	}
}

// TestWatchesByTheSystem: what the file system tells comes without any turn.
func TestWatchesByTheSystem(t *testing.T) {
	t.Parallel()
	fs, err := fsnotify.NewWatcher()
	if err != nil {
		t.Skipf("the system watches no more: %v", err)
	}
	defer fs.Close()
	w := &Watches{fs: fs, dirs: map[string][]*watcher{}, armed: map[string]bool{}}
	a, b := t.TempDir(), t.TempDir()
	file := func(path string) bool { return filepath.Base(path) == "file" }
	mine, other := w.Dir(t.Context(), a, file), w.Dir(t.Context(), b, file)
	write(t, filepath.Join(a, "nothing"))
	write(t, filepath.Join(a, "file"))
	for len(mine) == 0 {
		select {
		case ev := <-fs.Events:
			w.tell(ev)
			if filepath.Base(ev.Name) != "file" && len(mine) > 0 {
				t.Fatalf("told of %s", ev)
			}
		case <-time.After(2 * time.Minute):
			t.Fatal("nobody was told")
		}
	}
	if len(other) > 0 {
		t.Error("told of another directory")
	}
}
