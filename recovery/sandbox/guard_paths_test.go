//go:build linux

package sandbox

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// A link counts by who could replace it.
func TestSteady(t *testing.T) {
	t.Parallel()
	eachShielded(t, func(t *testing.T, s *shielded) {
		dir := s.outside
		for name, to := range map[string]string{"real/deep/x": "", "rel": "real/deep", "abs": dir + "/real", "up": "real/../real/deep", "two": "abs", "loop": "loop"} {
			if to == "" {
				s.write(t, dir+"/"+name, "")
			} else if err := os.Symlink(to, dir+"/"+name); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := steady(dir + "/real/./deep/../deep/missing"); err != nil || got != dir+"/real/deep/missing" {
			t.Error(got, err)
		}
		for name, want := range map[string]string{"rel/x": "real/deep/x", "abs": "real", "up/y": "real/deep/y", "two/deep": "real/deep"} {
			if _, err := steady(dir + "/" + name); err == nil || !strings.Contains(err.Error(), "an agent could replace") {
				t.Errorf("%s: %v", name, err)
			}
			if os.Getuid() == 0 {
				continue // who could replace everything
			}
			if err := os.Chmod(dir, 0o555); err != nil {
				t.Fatal(err)
			}
			if got, err := steady(dir + "/" + name); err != nil || got != dir+"/"+want {
				t.Errorf("%s: %q, want %s (%v)", name, got, want, err)
			}
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := steady(dir + "/loop"); err == nil {
			t.Error("a loop")
		}
	})
}

func TestMountTable(t *testing.T) {
	t.Parallel()
	table := parseMounts(`22 1 254:0 / / rw - ext4 /dev/vda rw
23 22 0:5 / /proc rw - proc proc rw
24 22 254:1 / /home rw - ext4 /dev/vdb rw
25 24 254:1 /u/repo/.superloop/specs /mnt/specs rw - ext4 /dev/vdb rw
26 24 254:1 /u/other /mnt/other rw - ext4 /dev/vdb rw
27 22 254:0 /odd\040name\134x /mnt/o\011dd rw shared:1 - ext4 /dev/vda rw
broken line
`)
	if len(table) != 6 || table[5] != (mounted{"254:0", `/odd name\x`, "/mnt/o\tdd"}) {
		t.Errorf("%q", table)
	}
	for path, want := range map[string][2][]string{
		"/home/u/repo/.superloop":           {nil, {"/mnt/specs"}},
		"/home/u/repo/.superloop/loops":     {},
		"/home/u/repo/.superloop/specs/a/b": {{"/mnt/specs/a/b"}, nil},
		"/home/u/other":                     {{"/mnt/other"}, nil},
		"/home/u":                           {nil, {"/mnt/specs", "/mnt/other"}},
		"/mnt/other/x":                      {{"/home/u/other/x"}, nil},
		"/etc":                              {},
		"/odd name\\x":                      {{"/mnt/o\tdd"}, nil},
	} {
		if whole, parts := table.aliases(path); !slices.Equal(whole, want[0]) || !slices.Equal(parts, want[1]) {
			t.Errorf("%s: %q %q, want %q", path, whole, parts, want)
		}
	}
}
