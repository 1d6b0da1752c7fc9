package preflight

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/recovery/failures"
)

// maxNamesake bounds how many files and directories one call of Namesakes looks at, and maxSought for how many paths.
const (
	maxNamesake = 20_000
	maxSought   = 8
)

// Namesakes returns, for each file in dir that the quotes name and that does not exist, the one file of the same name in
// another directory of dir. With several of them it returns the one that has more of the path's last directories than
// every other, and none if two have equally many. It looks at no hidden directory and into none that package managers
// fill. It reads no content, and it returns nothing if dir holds more than 20,000 entries.
func Namesakes(dir string, quotes []failures.Quote) map[string]string {
	sought := map[string][]string{} // by base name
	for _, q := range quotes {
		rel, ok := inside(dir, q.File)
		if !ok || len(sought) >= maxSought || !strings.Contains(rel, "/") {
			continue
		}
		if _, err := os.Lstat(filepath.Join(dir, rel)); errors.Is(err, fs.ErrNotExist) {
			sought[filepath.Base(rel)] = append(sought[filepath.Base(rel)], q.File)
		}
	}
	if len(sought) == 0 {
		return nil
	}
	found, left := map[string][]string{}, maxNamesake
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if left--; left < 0 {
			return fs.SkipAll
		}
		switch {
		case err != nil: // what cannot be read has no namesakes
			return nil
		case d.IsDir() && path != dir && (strings.HasPrefix(d.Name(), ".") || slices.Contains(filled(), d.Name())):
			return fs.SkipDir
		case d.Type().IsRegular() && sought[d.Name()] != nil:
			rel, _ := filepath.Rel(dir, path)
			found[d.Name()] = append(found[d.Name()], filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil || left < 0 {
		return nil
	}
	out := map[string]string{}
	for name, paths := range sought {
		for _, p := range paths {
			if best := nearest(p, found[name]); best != "" {
				out[p] = best
			}
		}
	}
	return out
}

// filled returns the names of directories that tools fill.
func filled() []string {
	return []string{"node_modules", "vendor", "target", "build", "dist", "out", "venv", "__pycache__", "site-packages", "coverage"}
}

// inside returns a path relative to dir, with slashes, if it lies in dir.
func inside(dir, path string) (string, bool) {
	rel := filepath.Clean(path)
	if filepath.IsAbs(rel) {
		var err error
		if rel, err = filepath.Rel(dir, rel); err != nil {
			return "", false
		}
	}
	return filepath.ToSlash(rel), path != "" && filepath.IsLocal(rel)
}

// nearest returns the candidate that shares the most last directories with a path, or "" if there is no single one.
func nearest(path string, candidates []string) string {
	best, most, tie := "", -1, false
	for _, c := range candidates {
		n := shared(path, c)
		switch {
		case n > most:
			best, most, tie = c, n, false
		case n == most:
			tie = true
		}
	}
	if tie {
		return ""
	}
	return best
}

// shared counts the equal elements at the ends of two paths.
func shared(a, b string) int {
	x, y := strings.Split(filepath.ToSlash(filepath.Clean(a)), "/"), strings.Split(b, "/")
	n := 0
	for n < len(x) && n < len(y) && x[len(x)-1-n] == y[len(y)-1-n] {
		n++
	}
	return n
}
