package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// tempMark stands in the name of every temporary file, after a dot and the name
// of the file that it is to replace.
const tempMark = ".tmp-"

// WriteFile replaces path by data. A reader, and a machine after a power cut,
// sees the old content whole or the new content whole. When it returns nil the
// new content survives a power cut. When it returns an error the old content is
// there as it was, with one exception: if the last step ("dirsync") fails the
// new content is in place and it is unknown which of the two a power cut leaves.
//
// The file has mode perm exactly (umask does not apply); while it is being
// written it is readable by its owner only.
//
// Steps: create, write, chmod, sync, close, rename, dirsync.
func (d Disk) WriteFile(op, path string, data []byte, perm fs.FileMode) error {
	return d.replace(op, path, data, perm, true)
}

// WriteProjection is WriteFile without the flushes, for a file that can be made
// again from another: a reader sees old or new, and the new content survives a
// kill; a power cut may leave the old, the new or an empty file.
//
// Steps: create, write, chmod, close, rename.
func (d Disk) WriteProjection(op, path string, data []byte, perm fs.FileMode) error {
	return d.replace(op, path, data, perm, false)
}

func (d Disk) replace(op, path string, data []byte, perm fs.FileMode, flush bool) (err error) {
	if err := d.check(op, "create", path); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+tempMark+"*")
	if err != nil {
		return fail(op, "create", path, err)
	}
	renamed := false
	defer func() {
		if err != nil && !renamed {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if _, err := d.write(f, op, "write", data); err != nil {
		return at(err, path)
	}
	if err := d.chmod(f, op, perm); err != nil {
		return at(err, path)
	}
	if flush {
		if err := d.sync(f, op, "sync"); err != nil {
			return at(err, path)
		}
	}
	if err := d.closeFile(f, op); err != nil {
		return at(err, path)
	}
	if err := d.check(op, "rename", path); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fail(op, "rename", path, err)
	}
	renamed = true
	if flush {
		return d.syncDir(op, path)
	}
	return nil
}

func (d Disk) chmod(f *os.File, op string, perm fs.FileMode) error {
	if err := d.check(op, "chmod", f.Name()); err != nil {
		return err
	}
	if err := f.Chmod(perm); err != nil {
		return fail(op, "chmod", f.Name(), err)
	}
	return nil
}

// at makes err name the file that is to be replaced: the name of the temporary
// file tells a person nothing.
func at(err error, path string) error {
	var e *Error
	if errors.As(err, &e) {
		return &Error{Op: e.Op, Path: path, Err: e.Err}
	}
	return err
}

// RemoveTemps removes what replacements that were killed have left in dir, and
// says how many files that were. Only the one process that writes into dir may
// call it, at its start: it cannot tell a dead writer's file from a live one's.
//
// Steps: remove, once for each file.
func (d Disk) RemoveTemps(op, dir string) (int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, fail(op, "read", dir, err)
	}
	n := 0
	for _, e := range entries {
		name := e.Name()
		i := strings.LastIndex(name, tempMark)
		if i < 2 || name[0] != '.' || !digits(name[i+len(tempMark):]) || !e.Type().IsRegular() {
			continue
		}
		path := filepath.Join(dir, name)
		if err := d.check(op, "remove", path); err != nil {
			return n, err
		}
		switch err := os.Remove(path); {
		case err == nil:
			n++
		case !errors.Is(err, fs.ErrNotExist): // gone is gone, whoever did it
			return n, fail(op, "remove", path, err)
		}
	}
	return n, nil
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
