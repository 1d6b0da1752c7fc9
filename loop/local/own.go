package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/durable"
)

// The loop's directory belongs to agents as much as to superloop, and superloop is
// not confined: what it writes there must not land elsewhere because an agent
// has put a link in its way. What is in the way is moved aside, not removed, and
// does not stop the loop.

// ownDir makes a directory below the loop's, in which no part is a link.
func (d *driver) ownDir(op, path string) error {
	rel, err := filepath.Rel(d.paths.Loop, path)
	if err != nil {
		return err
	}
	at := d.paths.Loop
	for _, part := range strings.Split(rel, string(filepath.Separator)) {
		at = filepath.Join(at, part)
		info, err := os.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return err
		}
		if !info.IsDir() {
			if err := d.setForeign(op, at); err != nil {
				return err
			}
			break
		}
	}
	return d.full(d.o.Disk.MkdirAll(op, path, 0o755))
}

// ownFile makes a file of the loop's directory anew: a plain one, with no other
// name.
func (d *driver) ownFile(op, path string) (*durable.File, error) {
	if err := d.ownDir(op, filepath.Dir(path)); err != nil {
		return nil, err
	}
	if info, err := os.Lstat(path); err == nil && !plain(info) {
		if err := d.setForeign(op, path); err != nil {
			return nil, err
		}
	}
	f, err := d.o.Disk.Create(op, path, 0o644)
	return f, d.full(err)
}

// plain reports whether a file is a regular one with one name.
func plain(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return info.Mode().IsRegular() && (!ok || st.Nlink == 1)
}

// setForeign moves what is in the way aside.
func (d *driver) setForeign(op, path string) error {
	to := path + ".foreign-" + d.o.Now().UTC().Format("20060102T150405.000000000")
	d.log.Warn("something that superloop did not make is in its way; it is moved aside", zap.String("path", path), zap.String("to", to))
	return d.full(d.o.Disk.Rename(op, path, to))
}
