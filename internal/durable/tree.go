package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// goneMark begins the name of a directory that RemoveTree has begun to remove.
const goneMark = ".gone-"

// IsGone reports whether name is that of a directory whose removal was interrupted. RemoveTree ends it.
func IsGone(name string) bool { return strings.HasPrefix(name, goneMark) }

// RemoveTree removes the directory rel below top, with everything in it. Neither rel itself nor what leads to it below
// top may be a link, and no link below it is followed, also if somebody makes links meanwhile. A kill leaves the whole
// directory, or a remainder of another name: see IsGone. A power cut may undo the removal. Steps: rename, remove.
func (d Disk) RemoveTree(op, top, rel string) error {
	full := filepath.Join(top, rel)
	root, err := openBelow(top, filepath.Dir(rel))
	if err != nil {
		return fail(op, "remove", full, err)
	}
	defer root.Close()
	name := filepath.Base(rel)
	info, err := root.Lstat(name)
	if err == nil && !info.IsDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return fail(op, "remove", full, err)
	}
	gone := name
	if !IsGone(name) {
		gone = goneMark + name
		if _, err := root.Lstat(gone); err == nil { // an earlier directory of that name was being removed
			if err := d.do(op, "remove", full, func() error { return root.RemoveAll(gone) }); err != nil {
				return err
			}
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fail(op, "remove", full, err)
		}
		if err := d.do(op, "rename", full, func() error { return root.Rename(name, gone) }); err != nil {
			return err
		}
	}
	return d.do(op, "remove", full, func() error { return root.RemoveAll(gone) })
}

// openBelow opens the directory rel below top, and refuses a link on the way.
func openBelow(top, rel string) (*os.Root, error) {
	root, err := os.OpenRoot(top)
	if err != nil {
		return nil, err
	}
	for _, name := range strings.Split(filepath.Clean(rel), string(filepath.Separator)) {
		next, err := step(root, name)
		root.Close()
		if err != nil {
			return nil, err
		}
		root = next
	}
	return root, nil
}

// step opens the directory name in root, if it is no link.
func step(root *os.Root, name string) (*os.Root, error) {
	seen, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	next, err := root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	is, err := next.Stat(".")
	if err == nil && (!seen.IsDir() || !os.SameFile(seen, is)) {
		err = errLink
	}
	if err != nil {
		next.Close()
		return nil, err
	}
	return next, nil
}
