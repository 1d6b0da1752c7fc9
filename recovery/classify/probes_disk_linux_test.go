package classify

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A full file system is named with what fills it; a path on another one is not full.
func TestFullFileSystem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=16m"); err != nil {
		t.Skipf("a file system is mounted only as root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	big := write(t, dir, "cache/old/big.bin", strings.Repeat("x", 13<<20))
	write(t, dir, "app/small.bin", strings.Repeat("x", 1<<10))
	f := look(t, t.TempDir(), ProbeFreeSpace, map[string]string{"path": filepath.Join(dir, "app", "new", "file")})
	if f.Holds != No || f.Value != dir || !strings.Contains(f.Detail, big+" (13 MiB)") || strings.Contains(f.Detail, "small") {
		t.Errorf("%+v", f)
	}
	if f := look(t, t.TempDir(), ProbeFreeSpace, map[string]string{"path": os.TempDir()}); f.Holds != Yes {
		t.Errorf("another file system: %+v", f)
	}
	c := embeddedClassifier(t)
	v, err := c.Classify(context.Background(), Input{Command: "cp a b", Dir: dir, Exit: Exit{Code: 1}, Probes: System{},
		Stderr: strings.NewReader("cp: error writing '" + dir + "/app/b': No space left on device\n")})
	if err != nil {
		t.Fatal(err)
	}
	if v.Category != "disk_full" || v.Weak || !strings.Contains(v.Why, "the file system on "+dir) || !strings.Contains(v.Why, "big.bin") {
		t.Errorf("%s, weak %v: %s", v.Category, v.Weak, v.Why)
	}
}
