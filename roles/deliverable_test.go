package roles

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	old := time.Now().Add(-time.Hour).Truncate(time.Second)
	keep := func(t *testing.T, path string) {
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	cases := map[string]struct {
		before    string // "" is no file
		run       func(t *testing.T, path string)
		want      Status
		unchanged bool
		why       string
	}{
		"nothing before, nothing after": {"", func(*testing.T, string) {}, Missing, false, ""},
		"first report":                  {"", func(t *testing.T, p string) { write(t, p, "report") }, Fresh, false, ""},
		"rewritten":                     {"one", func(t *testing.T, p string) { write(t, p, "two!") }, Fresh, false, ""},
		"same length, old time":         {"one", func(t *testing.T, p string) { write(t, p, "two"); keep(t, p) }, Fresh, false, ""},
		"same bytes written again":      {"one", func(t *testing.T, p string) { write(t, p, "one") }, Fresh, true, ""},
		"same bytes renamed into place": {"one", func(t *testing.T, p string) {
			write(t, p+".tmp", "one")
			keep(t, p+".tmp")
			if err := os.Rename(p+".tmp", p); err != nil {
				t.Fatal(err)
			}
		}, Fresh, true, ""},
		"untouched":         {"one", func(*testing.T, string) {}, Stale, false, ""},
		"emptied":           {"one", func(t *testing.T, p string) { write(t, p, "") }, Empty, false, ""},
		"white space alone": {"one", func(t *testing.T, p string) { write(t, p, "\n \t\n") }, Empty, false, ""},
		"removed":           {"one", func(t *testing.T, p string) { remove(t, p) }, Missing, false, ""},
		"link to a secret": {"one", func(t *testing.T, p string) {
			remove(t, p)
			if err := os.Symlink("/etc/passwd", p); err != nil {
				t.Fatal(err)
			}
		}, Missing, false, "a symbolic link"},
		"pipe": {"", func(t *testing.T, p string) {
			if err := syscall.Mkfifo(p, 0o644); err != nil {
				t.Fatal(err)
			}
		}, Missing, false, "a pipe"},
		"directory": {"", func(t *testing.T, p string) {
			if err := os.Mkdir(p, 0o755); err != nil {
				t.Fatal(err)
			}
		}, Missing, false, "a directory"},
		"too large to hash": {"one", func(t *testing.T, p string) {
			if err := os.Truncate(p, maxHashed+1); err != nil {
				t.Fatal(err)
			}
		}, Fresh, false, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, "plan.md")
			if c.before != "" {
				write(t, path, c.before)
				keep(t, path)
			}
			before := StampOf(dir, Planner)
			if before.Exists != (c.before != "") {
				t.Fatalf("stamp %+v", before)
			}
			c.run(t, path)
			got := Check(dir, Planner, before)
			if got.Status != c.want || got.Unchanged != c.unchanged || !strings.Contains(got.Why, c.why) || (c.why == "" && got.Why != "") {
				t.Errorf("got %+v, want %s, unchanged %v, why %q", got, c.want, c.unchanged, c.why)
			}
			if got.File != "plan.md" {
				t.Errorf("file %q", got.File)
			}
		})
	}
}

func TestCheckGivesTheHash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "review.md"), "abc")
	got := Check(dir, Reviewer, Stamp{})
	if got.Bytes != 3 || got.SHA256 != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Errorf("%+v", got)
	}
	if got := Check(dir, "critic", Stamp{}); got.Status != Missing || !strings.Contains(got.Why, "unknown role") {
		t.Errorf("%+v", got)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func TestReadRegular(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f")
	write(t, path, "0123456789")
	for _, c := range []struct {
		head, tail int
		want       string
	}{
		{10, 0, "0123456789"},
		{5, 5, "0123456789"},
		{2, 3, "01\n[... 5 bytes left out ...]\n789"},
		{0, 1, "[... 9 bytes left out ...]\n9"},
	} {
		got, size, err := ReadRegular(path, c.head, c.tail)
		if got != c.want || size != 10 || err != nil {
			t.Errorf("head %d tail %d: %q, %d, %v", c.head, c.tail, got, size, err)
		}
	}
}
