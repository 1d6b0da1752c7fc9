package steering

import "testing"

// FuzzExpand: whatever a place or the environment says, no path of a place is empty.
func FuzzExpand(f *testing.F) {
	for _, place := range []string{"~/.bashrc", "$X/sock", "$PATH/*", "$HOME", "${X}", "$"} {
		f.Add(place, "/run/x")
	}
	f.Fuzz(func(t *testing.T, place, value string) {
		for _, env := range [][]string{nil, {"X=" + value, "PATH=/bin:" + value}} {
			for _, path := range expand(place, "/home/ada", env) {
				if path == "" {
					t.Fatal("an empty path")
				}
			}
		}
	})
}
