package durable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Flush takes files and directories, and neither waits for nor fails at anything else.
func TestFlush(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, flushEach + 1} {
		dir := t.TempDir()
		var paths []string
		for i := range n {
			p := filepath.Join(dir, fmt.Sprint(i))
			if err := os.WriteFile(p, []byte("x"), 0o400); err != nil {
				t.Fatal(err)
			}
			paths = append(paths, p)
		}
		fifo, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "link")
		if err := errors.Join(syscall.Mkfifo(fifo, 0o600), os.Symlink("/nowhere", link)); err != nil {
			t.Fatal(err)
		}
		steps := 0
		disk := OS().WithFault(func(op string) error {
			if op == "x:sync" {
				steps++
			}
			return nil
		})
		if err := disk.Flush("x", append(paths, dir, fifo, link, filepath.Join(dir, "gone"), filepath.Join(paths[0], "below"))); err != nil || steps != 1 {
			t.Errorf("%d paths: %v, %d steps", n, err, steps)
		}
	}
	broken := errors.New("broken")
	if err := OS().WithFault(func(string) error { return broken }).Flush("x", []string{t.TempDir()}); !errors.Is(err, broken) {
		t.Errorf("a broken disk: %v", err)
	}
}
