package roles

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/door"
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
		before string // "" is no file
		run    func(t *testing.T, path string)
		want   Status
		why    string
	}{
		"nothing before, nothing after": {"", func(*testing.T, string) {}, Missing, ""},
		"first report":                  {"", func(t *testing.T, p string) { write(t, p, "report") }, Fresh, ""},
		"rewritten":                     {"one", func(t *testing.T, p string) { write(t, p, "two!") }, Fresh, ""},
		"same length, old time":         {"one", func(t *testing.T, p string) { write(t, p, "two"); keep(t, p) }, Fresh, ""},
		"same bytes written again":      {"one", func(t *testing.T, p string) { write(t, p, "one") }, Fresh, ""},
		"same bytes renamed into place": {"one", func(t *testing.T, p string) {
			write(t, p+".tmp", "one")
			keep(t, p+".tmp")
			if err := os.Rename(p+".tmp", p); err != nil {
				t.Fatal(err)
			}
		}, Fresh, ""},
		"untouched":         {"one", func(*testing.T, string) {}, Stale, ""},
		"emptied":           {"one", func(t *testing.T, p string) { write(t, p, "") }, Empty, ""},
		"white space alone": {"one", func(t *testing.T, p string) { write(t, p, "\n \t\n") }, Empty, ""},
		"removed":           {"one", func(t *testing.T, p string) { remove(t, p) }, Missing, ""},
		"link to a secret": {"one", func(t *testing.T, p string) {
			remove(t, p)
			if err := os.Symlink("/etc/passwd", p); err != nil {
				t.Fatal(err)
			}
		}, Missing, "a symbolic link"},
		"pipe": {"", func(t *testing.T, p string) {
			if err := syscall.Mkfifo(p, 0o644); err != nil {
				t.Fatal(err)
			}
		}, Missing, "a pipe"},
		"directory": {"", func(t *testing.T, p string) {
			if err := os.Mkdir(p, 0o755); err != nil {
				t.Fatal(err)
			}
		}, Missing, "a directory"},
		"too large to hash": {"one", func(t *testing.T, p string) {
			if err := os.Truncate(p, maxHashed+1); err != nil {
				t.Fatal(err)
			}
		}, Fresh, ""},
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
			if before.exists != (c.before != "") {
				t.Fatalf("stamp %+v", before)
			}
			c.run(t, path)
			if got := Check(dir, Planner, before); got != (Outcome{"plan.md", c.want}) {
				t.Errorf("got %+v, want %s", got, c.want)
			}
			f, _, err := door.Open(path)
			if err == nil {
				f.Close()
			}
			if errors.Is(err, door.ErrNotRegular) != (c.why != "") || c.why != "" && !strings.Contains(err.Error(), c.why) {
				t.Errorf("%v, want %q", err, c.why)
			}
		})
	}
}

func TestCheckOfNoRole(t *testing.T) {
	t.Parallel()
	if got := Check(t.TempDir(), "critic", Stamp{}); got != (Outcome{Status: Missing}) {
		t.Errorf("%+v", got)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}
