package durable

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// MkdirAll makes path and every parent that is missing, with mode perm less the umask, and flushes the parent of each
// directory that it made: what is later flushed inside survives a power cut. An existing directory is left as it is.
//
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
// nothing has moved; after one of "dirsync" it has, and a power cut may undo it.
//
// Steps: rename, dirsync; a second dirsync if the directories differ.
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
// is fs.ErrNotExist.
//
// Steps: remove, dirsync.
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
