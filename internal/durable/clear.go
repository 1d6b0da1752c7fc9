package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Clearing returns the same disk with one difference: below the directories roots it makes room for what it writes. An
// agent can have put anything at a path that superloop writes: a directory, a FIFO, a socket, a link, a file that
// superloop may not open. The disk renames it to "<path>.foreign-<time>", calls said with both paths, and writes. It may
// call said from several goroutines at once.
func (d Disk) Clearing(said func(path, to string), roots ...string) Disk {
	d.said, d.roots = said, roots
	return d
}

// Clear makes room for a file at path, if the disk is a clearing one and something else than a regular file is there.
// Steps: rename, dirsync.
func (d Disk) Clear(op, path string) error {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().IsRegular() || !d.clears(path) {
		return nil
	}
	return d.moveAway(op, path)
}

func (d Disk) clears(path string) bool {
	for _, root := range d.roots {
		if strings.HasPrefix(path, root+string(filepath.Separator)) {
			return true
		}
	}
	return false
}

func (d Disk) moveAway(op, path string) error {
	to, err := d.MoveFree(op, path, path+".foreign-"+time.Now().UTC().Format("20060102T150405.000000000"))
	if err == nil {
		d.said(path, to)
	}
	return err
}

// cleared makes room for a file that could not be opened for writing because of err. It reports whether it is worth
// another try.
func (d Disk) cleared(op, path string, err error) bool {
	inTheWay := false
	for _, why := range []error{errLink, errNotRegular, syscall.EISDIR, syscall.ENXIO, syscall.EOPNOTSUPP, fs.ErrPermission} {
		inTheWay = inTheWay || errors.Is(err, why)
	}
	if !inTheWay || !d.clears(path) {
		return false
	}
	if _, err := os.Lstat(path); err != nil {
		return false
	}
	return d.moveAway(op, path) == nil
}
