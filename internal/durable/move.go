package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Rename moves a file or directory within one file system and flushes both parent directories. After an error of step
// "rename" nothing has moved. After an error of step "dirsync" a power cut may undo the move. Steps: rename, dirsync
// for each directory.
func (d Disk) Rename(op, from, to string) error {
	if err := d.Move(op, from, to); err != nil {
		return err
	}
	// Flush the new directory first: between the two flushes a power cut may leave two entries, but never none.
	if err := d.syncDir(op, to); err != nil || filepath.Dir(from) == filepath.Dir(to) {
		return err
	}
	return d.syncDir(op, from)
}

// Symlink makes a symbolic link at path that leads to target. A power cut may undo it. If path exists, the error is
// fs.ErrExist. Steps: symlink.
func (d Disk) Symlink(op, target, path string) error {
	return d.do(op, "symlink", path, func() error { return os.Symlink(target, path) })
}

// Move is Rename without the flushes. The move survives a kill, but a power cut may undo it. A directory that its owner
// may not write, and that therefore cannot change its parent, gets the mode 0700 first. Steps: rename.
func (d Disk) Move(op, from, to string) error {
	return d.do(op, "rename", from, func() error {
		err := os.Rename(from, to)
		if errors.Is(err, syscall.EACCES) && writable(from) == nil {
			err = os.Rename(from, to)
		}
		return err
	})
}

// writable lets the owner of a directory write it. It follows no link.
func writable(dir string) error {
	info, err := os.Lstat(dir)
	if err == nil && !info.IsDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return err
	}
	return unix.Fchmodat(unix.AT_FDCWD, dir, 0o700, unix.AT_SYMLINK_NOFOLLOW)
}

// most bounds how many names MoveFree and CopyAside try.
const most = 1000

// MoveFree moves from to the first of the paths to, to.2, to.3 and so on at which there is nothing, and returns that
// path. It replaces nothing, and can be called again after a kill at any step. The caller is the only one that makes
// files beside to. Steps: rename, dirsync for each directory.
func (d Disk) MoveFree(op, from, to string) (string, error) {
	free := to
	for n := 2; n <= most; n++ {
		if _, err := os.Lstat(free); errors.Is(err, fs.ErrNotExist) {
			return free, d.Rename(op, from, free)
		} else if err != nil {
			return "", fail(op, "rename", from, err)
		}
		free = to + "." + strconv.Itoa(n)
	}
	return "", fail(op, "rename", from, fmt.Errorf("%s and %d names like it are taken; look at them and remove them", to, most))
}

// Remove removes a file or an empty directory, and flushes its parent directory. If path does not exist, the error is
// fs.ErrNotExist. Steps: remove, dirsync.
func (d Disk) Remove(op, path string) error {
	if err := d.Unlink(op, path); err != nil {
		return err
	}
	return d.syncDir(op, path)
}

// RemoveAll removes a path with everything below it, and follows no link. It is no error if there is nothing. A power cut
// may undo the removal. Steps: remove.
func (d Disk) RemoveAll(op, path string) error {
	return d.do(op, "remove", path, func() error { return os.RemoveAll(path) })
}

// Unlink is Remove without the flush. A power cut may undo the removal. Steps: remove.
func (d Disk) Unlink(op, path string) error {
	return d.do(op, "remove", path, func() error { return os.Remove(path) })
}
