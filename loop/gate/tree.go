package gate

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Reasons why a gate could not read a file, as results and reports state them.
const (
	ReasonNotFound   = "file_not_found"
	ReasonNotAFile   = "not_a_file"
	ReasonOutside    = "path_outside_repo"
	ReasonUnreadable = "unreadable"
	ReasonTooLarge   = "too_large"
	ReasonBadPattern = "bad_pattern"
	ReasonNoPath     = "missing_path"
	ReasonEmptyDir   = "empty_directory" // an artifact is a directory without any file
)

// fault is a reason with the error that caused it.
type fault struct {
	reason string
	err    error
}

func (f *fault) Error() string {
	if f.err == nil {
		return f.reason
	}
	return f.reason + ": " + f.detail()
}

func (f *fault) Unwrap() error { return f.err }

// detail returns the text of the error that caused the fault, or "" if there is none.
func (f *fault) detail() string {
	if f.err == nil {
		return ""
	}
	return f.err.Error()
}

// faultOf turns an error of the file system into a fault.
func faultOf(err error) *fault {
	var f *fault
	switch {
	case errors.As(err, &f):
		return f
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return &fault{reason: ReasonNotFound}
	case strings.Contains(err.Error(), "path escapes from parent"):
		return &fault{reason: ReasonOutside}
	}
	return &fault{reason: ReasonUnreadable, err: err}
}

// tree reads files of a repository and nothing outside of it. Every access goes through a directory handle that refuses
// "..", absolute paths and symbolic links that lead out of the repository. Paths are relative to the repository and use
// slashes.
type tree struct {
	root *os.Root
	abs  []string // absolute paths of the repository: as given, and without symbolic links
}

func openTree(dir string) (*tree, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the repository: %w", err)
	}
	root, err := os.OpenRoot(abs)
	if err != nil {
		return nil, fmt.Errorf("opening the repository: %w", err)
	}
	t := &tree{root: root, abs: []string{abs}}
	if real, err := filepath.EvalSymlinks(abs); err == nil && real != abs {
		t.abs = append(t.abs, real)
	}
	return t, nil
}

func (t *tree) close() { _ = t.root.Close() }

// rel makes p relative to the repository. A path that leads out of the repository is a fault; rel finds that without
// any access to the disk.
func (t *tree) rel(p string) (string, error) {
	if p == "" || strings.ContainsRune(p, 0) {
		return "", &fault{reason: ReasonNoPath}
	}
	if filepath.IsAbs(p) {
		for _, root := range t.abs {
			if r, err := filepath.Rel(root, p); err == nil && filepath.IsLocal(r) {
				return r, nil
			}
		}
		return "", &fault{reason: ReasonOutside}
	}
	if p = path.Clean(p); !filepath.IsLocal(p) {
		return "", &fault{reason: ReasonOutside}
	}
	return p, nil
}

// open opens a regular file. It never blocks on a pipe and never opens a device.
func (t *tree) open(rel string) (*os.File, fs.FileInfo, error) {
	regular := func(info fs.FileInfo, err error) (fs.FileInfo, error) {
		if err == nil && !info.Mode().IsRegular() {
			err = &fault{reason: ReasonNotAFile}
		}
		return info, err
	}
	if _, err := regular(t.root.Stat(rel)); err != nil {
		return nil, nil, faultOf(err)
	}
	f, err := t.root.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, faultOf(err)
	}
	info, err := regular(f.Stat())
	if err != nil {
		_ = f.Close()
		return nil, nil, faultOf(err)
	}
	return f, info, nil
}

// read reads a whole regular file of at most limit bytes.
func (t *tree) read(rel string, limit int64) ([]byte, error) {
	f, _, err := t.open(rel)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, faultOf(err)
	}
	if int64(len(data)) > limit {
		return nil, &fault{reason: ReasonTooLarge, err: fmt.Errorf("more than %d bytes", limit)}
	}
	return data, nil
}

// entries lists a directory in no particular order.
func (t *tree) entries(rel string) ([]fs.DirEntry, error) {
	info, err := t.root.Stat(rel)
	if err != nil || !info.IsDir() {
		return nil, cmp.Or[error](err, &fault{reason: ReasonNotFound})
	}
	d, err := t.root.Open(rel)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.ReadDir(-1)
}

// each calls f for every path that the patterns name (see expand), once for each path, until f returns false. If a
// pattern cannot be expanded or matches nothing, each calls f with the pattern and an error. each skips empty patterns.
func (t *tree) each(patterns []string, f func(path string, err error) bool) {
	seen := map[string]bool{"": true}
	for _, pattern := range patterns {
		if pattern == "" {
			continue
		}
		paths, err := t.expand(pattern)
		if err == nil && len(paths) == 0 {
			err = &fault{reason: ReasonNotFound}
		}
		if err != nil && !f(pattern, err) {
			return
		}
		if err != nil {
			continue
		}
		for _, p := range paths {
			if !seen[p] && !f(p, nil) {
				return
			}
			seen[p] = true
		}
	}
}

// expand lists the paths that a pattern names, relative to the repository, sorted and without duplicates. The syntax is
// that of the shell with globstar: "*", "?" and "[...]" match within one name, and "**" as a whole name matches any
// number of directories. Only a dot in the pattern matches a leading dot. A final "**" matches every file below. "**"
// does not follow symbolic links. If the pattern itself is the path of a file or directory (app/[id]/page.tsx), it
// names only that path. A pattern without a match gives an empty list. A directory that cannot be read is an error,
// because expand would otherwise skip its files silently.
func (t *tree) expand(pattern string) ([]string, error) {
	rel, err := t.rel(pattern)
	if err != nil {
		return nil, err
	}
	if _, err := t.root.Lstat(rel); err == nil {
		return []string{rel}, nil
	}
	segs := strings.Split(strings.ReplaceAll(rel, "[!", "[^"), "/")
	for _, seg := range segs {
		if _, err := path.Match(seg, ""); err != nil {
			return nil, &fault{ReasonBadPattern, err}
		}
	}
	segs = slices.CompactFunc(segs, func(a, b string) bool { return a == "**" && b == "**" })
	filesOnly := segs[len(segs)-1] == "**"
	if filesOnly {
		segs = append(segs, "*")
	}
	at, guessed := []string{"."}, false
	// A symbolic link out of the repository is an error if the pattern names it, and no match if a wildcard found it.
	passOver := func(err error) bool {
		reason := faultOf(err).reason
		return reason == ReasonNotFound || guessed && reason == ReasonOutside
	}
	for i, seg := range segs {
		found := map[string]bool{}
		for _, dir := range at {
			if err := t.below(dir, seg, filesOnly && i == len(segs)-1, found); err != nil && !passOver(err) {
				return nil, err
			}
		}
		guessed = guessed || seg != "**" && strings.ContainsAny(seg, wildcards)
		at = slices.Sorted(maps.Keys(found))
	}
	var out []string
	for _, p := range at {
		if _, err := t.root.Lstat(p); err == nil {
			out = append(out, p)
		} else if !passOver(err) {
			return nil, err
		}
	}
	return out, nil
}

const wildcards = `*?[\`

// below adds to found the paths that one segment of a pattern matches in a directory. For "**" these are the directory
// itself and all directories below it that found does not hold yet.
func (t *tree) below(dir, seg string, filesOnly bool, found map[string]bool) error {
	if seg == "**" {
		return fs.WalkDir(t.root.FS(), dir, func(p string, e fs.DirEntry, err error) error {
			switch {
			case err != nil && faultOf(err).reason != ReasonNotFound:
				return err
			case err != nil, !e.IsDir():
				return nil
			case found[p], p != dir && strings.HasPrefix(e.Name(), "."):
				return fs.SkipDir
			}
			found[p] = true
			return nil
		})
	}
	if !strings.ContainsAny(seg, wildcards) {
		found[path.Join(dir, seg)] = true
		return nil
	}
	list, err := t.entries(dir)
	for _, e := range list {
		ok, _ := path.Match(seg, e.Name())
		hidden := strings.HasPrefix(e.Name(), ".") && !strings.HasPrefix(seg, ".")
		if ok && !hidden && !(filesOnly && e.IsDir()) {
			found[path.Join(dir, e.Name())] = true
		}
	}
	return err
}
