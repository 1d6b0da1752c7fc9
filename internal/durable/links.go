package durable

import (
	"errors"
	"io/fs"
	"os"
)

// Symlinks creates a symbolic link to target at each of paths, and returns the errors by path. What exists at a path
// stays, without an error. A power cut may undo the creation. Where the system allows it, the links are hard links of one
// symbolic link: on ext4 it takes 20 ms less to make 170 of them where as many were just removed. Steps: symlink, once
// for all paths.
func (d Disk) Symlinks(op, target string, paths []string) map[string]error {
	first := ""
	return d.each(op, "symlink", paths, func(path string) error {
		err := errors.ErrUnsupported
		if first != "" {
			err = os.Link(first, path)
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			if err = os.Symlink(target, path); err == nil {
				first = path
			}
		}
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	})
}

// RemoveSymlinks removes those of paths that are symbolic links to target, and returns the errors by path. A power cut
// may undo the removal. Steps: remove, once for all paths.
func (d Disk) RemoveSymlinks(op, target string, paths []string) map[string]error {
	return d.each(op, "remove", paths, func(path string) error {
		if to, err := os.Readlink(path); err != nil || to != target {
			return nil
		}
		return os.Remove(path)
	})
}

// each does something with each of paths in one step.
func (d Disk) each(op, step string, paths []string, act func(path string) error) map[string]error {
	failed := map[string]error{}
	if len(paths) == 0 {
		return failed
	}
	err := d.do(op, step, paths[0], func() error {
		for _, path := range paths {
			if err := act(path); err != nil {
				failed[path] = fail(op, step, path, err)
			}
		}
		return nil
	})
	if err != nil {
		for _, path := range paths {
			failed[path] = err
		}
	}
	return failed
}
