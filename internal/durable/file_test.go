package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

func TestModeIsExact(t *testing.T) {
	dir := t.TempDir()
	for _, perm := range []os.FileMode{0o600, 0o644, 0o666} {
		path := filepath.Join(dir, "f")
		if err := OS().WriteFile("op", path, nil, perm); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != perm {
			t.Errorf("mode is %v, want %v (%v)", info.Mode(), perm, err)
		}
	}
}

// TestNothingButRegularFiles: what an agent may plant at a path that superloop
// writes to.
func TestNothingButRegularFiles(t *testing.T) {
	openers := map[string]func(d Disk, path string) error{
		"append": func(d Disk, p string) error { _, err := d.OpenAppend("op", p, 0o600); return err },
		"create": func(d Disk, p string) error { _, err := d.Create("op", p, 0o600); return err },
		"slots":  func(d Disk, p string) error { _, err := d.OpenSlots("op", p, 0o600); return err },
		"lock":   func(d Disk, p string) error { _, err := d.Lock(p, nil); return err },
		"repair": func(d Disk, p string) error { _, err := d.CutTail("op", p, 4); return err },
		"holder": func(_ Disk, p string) error { _, _, err := Holder(p); return err },
	}
	plants := map[string]func(dir, path string) error{
		"link":          func(dir, p string) error { return os.Symlink(filepath.Join(dir, "victim"), p) },
		"dangling link": func(dir, p string) error { return os.Symlink(filepath.Join(dir, "nothing"), p) },
		"fifo":          func(_, p string) error { return syscall.Mkfifo(p, 0o600) },
		"directory":     func(_, p string) error { return os.Mkdir(p, 0o700) },
	}
	for plantName, plant := range plants {
		for openName, open := range openers {
			t.Run(plantName+"/"+openName, func(t *testing.T) {
				dir := t.TempDir()
				path := filepath.Join(dir, "f")
				put("victim", "half a line")(t, dir)
				if err := plant(dir, path); err != nil {
					t.Fatal(err)
				}
				if err := open(OS(), path); err == nil {
					t.Error("it was opened")
				}
				oneOf("victim", "half a line")(t, dir)
				oneOf("nothing", missing)(t, dir)
			})
		}
		if plantName == "directory" {
			continue // a file cannot replace one
		}
		t.Run(plantName+"/write-file", func(t *testing.T) {
			dir := t.TempDir()
			put("victim", "half a line")(t, dir)
			if err := plant(dir, filepath.Join(dir, "f")); err != nil {
				t.Fatal(err)
			}
			if err := OS().WriteFile("op", filepath.Join(dir, "f"), []byte(newText), 0o600); err != nil {
				t.Fatal(err)
			}
			oneOf("f", newText)(t, dir) // the plant is replaced, what it pointed at is not touched
			oneOf("victim", "half a line")(t, dir)
		})
	}
}

func TestCutTailProperty(t *testing.T) {
	base := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		whole := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte().Filter(func(b byte) bool { return b != '\n' }), 0, 200), 0, 5).Draw(rt, "lines")
		tail := rapid.SliceOfN(rapid.Byte().Filter(func(b byte) bool { return b != '\n' }), 0, 9000).Draw(rt, "tail")
		var keep []byte
		for _, l := range whole {
			keep = append(append(keep, l...), '\n')
		}
		n++
		path := filepath.Join(base, fmt.Sprint(n))
		if err := os.WriteFile(path, append(bytes.Clone(keep), tail...), 0o600); err != nil {
			rt.Fatal(err)
		}
		rep, err := OS().CutTail("op", path, int64(len(keep)))
		if err != nil {
			rt.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(got, keep) {
			rt.Fatalf("file is %q, want %q (%v)", got, keep, err)
		}
		aside, err := os.ReadFile(rep.Broken)
		if err != nil || !bytes.Equal(aside, tail) || rep.Cut != int64(len(tail)) {
			rt.Fatalf("%+v: copy is %q, want %q (%v)", rep, aside, tail, err)
		}
	})
}

func TestRepairKeepsEarlierCopies(t *testing.T) {
	dir := t.TempDir()
	for i, torn := range []string{"a", "b", "b", strings.Repeat("c", 300<<10)} {
		put("f", oldText+torn)(t, dir)
		rep, err := OS().CutTail("op", filepath.Join(dir, "f"), int64(len(oldText)))
		want := []string{"f.broken-12", "f.broken-12.2", "f.broken-12.2", "f.broken-12.3"}[i]
		if err != nil || filepath.Base(rep.Broken) != want || content(t, dir, want) != torn {
			t.Errorf("%d: %+v, %v, want the tail in %s", i, rep, err, want)
		}
	}
	if rep, err := OS().CutTail("op", filepath.Join(dir, "none"), 0); !errors.Is(err, fs.ErrNotExist) || rep != (Repair{}) {
		t.Errorf("a missing file: %+v, %v", rep, err)
	}
}

func TestRemoveTempsTakesOnlyTemps(t *testing.T) {
	dir := t.TempDir()
	keep := []string{"a", ".a", ".tmp-1", "a.tmp-1", ".a.tmp-", ".a.tmp-1x", ".a.tmp-1.json"}
	for _, n := range append([]string{".a.tmp-1", ".state.json.tmp-99"}, keep...) {
		put(n, "")(t, dir)
	}
	n, err := OS().RemoveTemps("op", dir)
	if n != 2 || err != nil {
		t.Errorf("removed %d, %v", n, err)
	}
	for _, name := range keep {
		oneOf(name, "")(t, dir)
	}
}

func TestSlotsAlwaysHaveARecord(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	s, err := OS().OpenSlots("op", path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range 5 {
		if err := s.Store(fmt.Appendf(nil, "record %d", i)); err != nil {
			t.Fatal(err)
		}
	}
	whole := content(t, dir, "f")
	// The fifth record is in the second slot: damage anywhere in it gives the
	// fourth one back, damage in the other slot changes nothing.
	used := slotHead + len("record 4")
	for off := range len(whole) {
		want := "record 3"
		if off < slotStride {
			want = "record 4"
		}
		if off >= used && off < slotStride {
			continue // between the slots
		}
		b := []byte(whole)
		b[off] ^= 0x20
		put("g", string(b))(t, dir)
		if rec, ok, err := ReadSlots(filepath.Join(dir, "g")); string(rec) != want || !ok || err != nil {
			t.Fatalf("byte %d: %q, %v, %v, want %q", off, rec, ok, err, want)
		}
	}
	if err := s.Store(make([]byte, MaxRecord+1)); err == nil {
		t.Error("a record that does not fit was taken")
	}
	if err := s.Store(make([]byte, MaxRecord)); err != nil {
		t.Error(err)
	}
	for _, junk := range []string{"", "slot", strings.Repeat("\x00", 8192), "slot" + strings.Repeat("\xff", 5000)} {
		put("g", junk)(t, dir)
		if rec, ok, err := ReadSlots(filepath.Join(dir, "g")); ok || err != nil {
			t.Errorf("%.10q is a record: %q, %v", junk, rec, err)
		}
	}
}

func TestStream(t *testing.T) {
	d, steps := failing()
	dir := t.TempDir()
	put("f", oldText)(t, dir)
	f, err := d.Create("op", filepath.Join(dir, "f"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("a\n")); err != nil {
		t.Fatal(err)
	}
	steps["op:write"] = &ShortWrite{N: 1, Err: syscall.ENOSPC}
	if n, err := f.Write([]byte("b\n")); n != 1 || !IsFull(err) {
		t.Errorf("%d, %v", n, err)
	}
	clear(steps)
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	oneOf("f", "a\nb")(t, dir)
}
