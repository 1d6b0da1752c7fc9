package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func openAppend(t *testing.T, d Disk) (*Appender, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f")
	a, err := d.OpenAppend("op", path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	if err := a.Append([]byte("first\n")); err != nil {
		t.Fatal(err)
	}
	return a, path
}

// failing is a disk on which the steps in the map fail for as long as they are
// in it.
func failing() (Disk, map[string]error) {
	steps := map[string]error{}
	return OS().WithFault(func(op string) error { return steps[op] }), steps
}

func TestAppendGoesOnAfterAFullDisk(t *testing.T) {
	d, steps := failing()
	a, path := openAppend(t, d)
	for n := range 8 {
		steps["op:append"] = &ShortWrite{N: n, Err: syscall.ENOSPC}
		if err := a.Append([]byte("second\n")); !IsFull(err) {
			t.Fatalf("err is %v", err)
		}
		oneOf("f", "first\n")(t, filepath.Dir(path))
	}
	delete(steps, "op:append")
	if err := a.Append([]byte("second\n")); err != nil {
		t.Fatal(err)
	}
	oneOf("f", "first\nsecond\n")(t, filepath.Dir(path))
	if a.Size() != 13 {
		t.Errorf("size is %d", a.Size())
	}
}

func TestAppenderIsPoisoned(t *testing.T) {
	for _, tt := range []struct {
		name  string
		steps map[string]error
		do    func(a *Appender) error
	}{
		{"by a failed flush", map[string]error{"op:sync": syscall.EIO}, (*Appender).Sync},
		{"by a torn end that cannot be cut", map[string]error{
			"op:append": &ShortWrite{N: 2, Err: syscall.ENOSPC}, "op:truncate": syscall.EIO,
		}, func(a *Appender) error { return a.Append([]byte("x\n")) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, steps := failing()
			a, _ := openAppend(t, d)
			for k, v := range tt.steps {
				steps[k] = v
			}
			first := tt.do(a)
			if !errors.Is(first, syscall.EIO) {
				t.Fatalf("err is %v", first)
			}
			clear(steps)
			size := a.Size()
			if err := a.Append([]byte("y\n")); err != first {
				t.Errorf("Append then gives %v, want the first error", err)
			}
			if err := a.Sync(); err != first {
				t.Errorf("Sync then gives %v, want the first error", err)
			}
			if a.Size() != size {
				t.Error("the size changed")
			}
		})
	}
}

func TestAppendFindsForeignChanges(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"deleted":   os.Remove,
		"truncated": func(p string) error { return os.Truncate(p, 3) },
		"replaced": func(p string) error {
			if err := os.WriteFile(p+"2", []byte("first\n"), 0o600); err != nil {
				return err
			}
			return os.Rename(p+"2", p)
		},
		"appended to": func(p string) error {
			f, err := os.OpenFile(p, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.WriteString("{}\n")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, path := openAppend(t, OS())
			if err := change(path); err != nil {
				t.Fatal(err)
			}
			before := content(t, filepath.Dir(path), "f")
			err := a.Append([]byte("second\n"))
			var changed *ChangedError
			if !errors.As(err, &changed) || changed.Path != path {
				t.Fatalf("err is %v", err)
			}
			oneOf("f", before)(t, filepath.Dir(path))
			if again := a.Append([]byte("second\n")); again != err {
				t.Errorf("the next append gives %v", again)
			}
		})
	}
}

func TestAppenderAfterClose(t *testing.T) {
	a, _ := openAppend(t, OS())
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{"append": a.Append([]byte("x")), "sync": a.Sync()} {
		if !errors.Is(err, fs.ErrClosed) {
			t.Errorf("%s after close: %v", name, err)
		}
	}
	if err := a.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}

func TestAppenderConcurrently(t *testing.T) {
	a, path := openAppend(t, OS())
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 50 {
				line := []byte(strings.Repeat(string(rune('a'+i)), 20) + "\n")
				if err := errors.Join(a.Append(line), a.Sync()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	lines := strings.Split(content(t, filepath.Dir(path), "f"), "\n")
	if len(lines) != 8*50+2 {
		t.Fatalf("%d lines", len(lines))
	}
	for _, l := range lines[1 : len(lines)-1] {
		if len(l) != 20 || strings.Trim(l, l[:1]) != "" {
			t.Errorf("mixed line %q", l)
		}
	}
}

func TestAppendDoesNotAllocate(t *testing.T) {
	a, _ := openAppend(t, OS())
	line := bytes.Repeat([]byte("x"), 230)
	if n := testing.AllocsPerRun(100, func() {
		if err := a.Append(line); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations an append", n)
	}
}

// childLimit meets a real short write: the kernel writes what fits below the
// file size limit, then fails.
func childLimit(args []string) error {
	signal.Ignore(syscall.SIGXFSZ)
	a, err := OS().OpenAppend("op", args[0], 0o600)
	if err != nil {
		return err
	}
	if err := a.Append([]byte("kept\n")); err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 10, Max: 100}); err != nil {
		return err
	}
	if err := a.Append([]byte("does not fit\n")); !errors.Is(err, syscall.EFBIG) {
		return fmt.Errorf("beyond the limit: %v", err)
	}
	if b, err := os.ReadFile(args[0]); err != nil || string(b) != "kept\n" {
		return fmt.Errorf("after a short write: %q, %v", b, err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 100, Max: 100}); err != nil {
		return err
	}
	return a.Append([]byte("now it does\n"))
}

func TestARealShortWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	c := spawn(t, "limit", path)
	said, _ := c.out.ReadString('\n')
	if st := c.wait(t); st.ExitStatus() != 0 {
		t.Fatalf("child: %s", said)
	}
	oneOf("f", "kept\nnow it does\n")(t, filepath.Dir(path))
}

// TestARealFullDisk needs a file system that is always full.
func TestARealFullDisk(t *testing.T) {
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here")
	}
	defer f.Close()
	_, err = OS().write(f.Write, "op", "write", f.Name(), []byte("x"))
	if !IsFull(err) || !strings.Contains(err.Error(), "op:write: /dev/full: no space left on device (make room; see: df -h /dev)") {
		t.Errorf("err is %v", err)
	}
}
