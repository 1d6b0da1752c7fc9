package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// tempMark stands in the name of every temporary file, after a dot and the name of the file that it is to replace.
const tempMark = ".tmp-"

// WriteFile replaces path by data. A reader, and a machine after a power cut, sees the old content whole or the new
// content whole. When it returns nil the new content survives a power cut. When it returns an error the old content is
// there as it was, with one exception: if the last step ("dirsync") fails the new content is in place and it is unknown
// which of the two a power cut leaves.
//
// The file has mode perm exactly (umask does not apply); while it is being written it is readable by its owner only.
//
// Steps: create, write, chmod, sync, close, rename, dirsync.
func (d Disk) WriteFile(op, path string, data []byte, perm fs.FileMode) error {
	if err := d.replace(op, path, data, perm, true); err != nil {
		return err
	}
	return d.syncDir(op, path)
}

// WriteProjection is WriteFile without the flushes, for a file that can be made again from another: a reader sees old or
// new, and the new content survives a kill; a power cut may leave the old, the new or an empty file.
//
// Steps: create, write, chmod, close, rename.
func (d Disk) WriteProjection(op, path string, data []byte, perm fs.FileMode) error {
	return d.replace(op, path, data, perm, false)
}

// replace names path in its errors: the name of the temporary file tells the operator nothing.
func (d Disk) replace(op, path string, data []byte, perm fs.FileMode, flush bool) error {
	var f *os.File
	err := d.do(op, "create", path, func() (err error) {
		f, err = os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+tempMark+"*")
		return err
	})
	if err != nil {
		return err
	}
	_, err = d.write(f.Write, op, "write", path, data)
	if err == nil {
		err = d.do(op, "chmod", path, func() error { return f.Chmod(perm) })
	}
	if err == nil && flush {
		err = d.do(op, "sync", path, f.Sync)
	}
	if err == nil {
		err = d.closeFile(f, op, path)
	}
	if err == nil {
		err = d.do(op, "rename", path, func() error { return os.Rename(f.Name(), path) })
	}
	if err != nil {
		_ = f.Close()
		_ = os.Remove(f.Name())
	}
	return err
}

// RemoveTemps removes what replacements that were killed have left in dir, and says how many files that were. Only the
// one process that writes into dir may call it, at its start: it cannot tell a dead writer's file from a live one's.
//
// Steps: remove, once for each file.
func (d Disk) RemoveTemps(op, dir string) (int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, fail(op, "read", dir, err)
	}
	n := 0
	for _, e := range entries {
		i := strings.LastIndex(e.Name(), tempMark)
		if i < 2 || e.Name()[0] != '.' || !digits(e.Name()[i+len(tempMark):]) || !e.Type().IsRegular() {
			continue
		}
		switch err := d.Unlink(op, filepath.Join(dir, e.Name())); {
		case err == nil:
			n++
		case !errors.Is(err, fs.ErrNotExist): // gone is gone, whoever did it
			return n, err
		}
	}
	return n, nil
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
