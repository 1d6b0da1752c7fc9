package durable

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// tempMark stands in the name of every temporary file, after a dot and the name of the file that it is to replace.
const tempMark = ".tmp-"

// WriteFile replaces path by data. A reader, and a machine after a power cut, sees the old content whole or the new
// content whole. When it returns nil the new content survives a power cut. When it returns an error the old content is
// there as it was, with one exception: if the last step ("dirsync") fails the new content is in place and it is unknown
// which of the two a power cut leaves.
//
// The file has mode perm exactly (umask does not apply); while it is being written it is readable by its owner only.
// Steps: create, write, chmod, sync, close, rename, dirsync.
func (d Disk) WriteFile(op, path string, data []byte, perm fs.FileMode) error {
	if err := d.replace(op, path, data, perm, true); err != nil {
		return err
	}
	return d.syncDir(op, path)
}

// WriteProjection is WriteFile without the flushes, for a file that can be made again from another: a reader sees old
// or new, and the new content survives a kill; a power cut may leave the old, the new or an empty file. Steps: create,
// write, chmod, close, rename.
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

// MkdirAll makes path and every parent that is missing, with mode perm less the umask, and flushes the parent of each
// directory that it made: what is later flushed inside survives a power cut. An existing directory is left as it is.
// Steps: mkdir and dirsync, for each directory that is made.
func (d Disk) MkdirAll(op, path string, perm fs.FileMode) error {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return fail(op, "mkdir", path, cmp.Or[error](err, syscall.ENOTDIR))
	}
	if parent := filepath.Dir(path); parent != path {
		if err := d.MkdirAll(op, parent, perm); err != nil {
			return err
		}
	}
	if err := d.Mkdir(op, path, perm); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return fail(op, "mkdir", path, syscall.ENOTDIR)
	}
	return d.syncDir(op, path)
}

// Mkdir makes one directory that need not survive a power cut. Steps: mkdir.
func (d Disk) Mkdir(op, path string, perm fs.FileMode) error {
	return d.do(op, "mkdir", path, func() error { return os.Mkdir(path, perm) })
}

// Rename moves a file or directory within one file system and flushes both directories. After an error of step "rename"
// nothing has moved; after one of "dirsync" it has, and a power cut may undo it. Steps: rename, dirsync; a second
// dirsync if the directories differ.
func (d Disk) Rename(op, from, to string) error {
	if err := d.Move(op, from, to); err != nil {
		return err
	}
	// The new place first: between the two flushes the entry may be found twice, never nowhere.
	if err := d.syncDir(op, to); err != nil || filepath.Dir(from) == filepath.Dir(to) {
		return err
	}
	return d.syncDir(op, from)
}

// Move is Rename without the flushes: what has moved survives a kill, and a power cut may undo it. Steps: rename.
func (d Disk) Move(op, from, to string) error {
	return d.do(op, "rename", from, func() error { return os.Rename(from, to) })
}

// Remove removes a file or an empty directory, and flushes its directory. A path that is not there gives an error that
// is fs.ErrNotExist. Steps: remove, dirsync.
func (d Disk) Remove(op, path string) error {
	if err := d.Unlink(op, path); err != nil {
		return err
	}
	return d.syncDir(op, path)
}

// Unlink is Remove without the flush: after a power cut the file may be there again. Steps: remove.
func (d Disk) Unlink(op, path string) error {
	return d.do(op, "remove", path, func() error { return os.Remove(path) })
}
