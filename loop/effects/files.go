package effects

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/durable"
)

const RootCauseFile = "root-cause.json" // what an analysis came to, for people and for the next role

// Agents can write in the loop's directory too, and superloop is not confined. What superloop writes there must not
// follow a link of an agent. What is in the way is moved aside, not removed, and does not stop the loop. Dir makes a
// directory below the loop's, in which no part is a link; op names the operation for faults. It looks at each part each
// time, because an agent may have replaced it.
func (h *Host) Dir(op, path string) error {
	rel, err := filepath.Rel(h.Paths.Loop, path)
	if err != nil {
		return err
	}
	at := h.Paths.Loop
	for _, part := range strings.Split(rel, string(filepath.Separator)) {
		at = filepath.Join(at, part)
		info, err := os.Lstat(at)
		if err == nil && info.IsDir() {
			continue
		}
		if err == nil {
			err = h.setAside(op, at)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return h.Full(h.Disk.MkdirAll(op, path, 0o755))
	}
	return nil
}

// File makes a file of the loop's directory anew: a plain one, with no other name.
func (h *Host) File(op, path string) (*durable.File, error) {
	if err := h.Dir(op, filepath.Dir(path)); err != nil {
		return nil, err
	}
	if info, err := os.Lstat(path); err == nil && !plain(info) {
		if err := h.setAside(op, path); err != nil {
			return nil, err
		}
	}
	f, err := h.Disk.Create(op, path, 0o644)
	return f, h.Full(err)
}

// plain reports whether a file is a regular one with one name.
func plain(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return info.Mode().IsRegular() && (!ok || st.Nlink == 1)
}

func (h *Host) setAside(op, path string) error {
	to := path + ".foreign-" + h.Clock().UTC().Format("20060102T150405.000000000")
	h.Log.Warn("something that superloop did not make is in its way; it is moved aside", zap.String("path", path), zap.String("to", to))
	return h.Full(h.Disk.Rename(op, path, to))
}

// Create writes a file that belongs to one attempt: an attempt that did not come to its end is never looked at again,
// so it need not be whole at every moment.
func (h *Host) Create(op, path, text string) error {
	f, err := h.File(op, path)
	if err == nil {
		_, err = f.Write([]byte(text))
		err = errors.Join(err, f.Close())
	}
	return h.Full(err)
}

// Write puts one of the loop's files, a view that can be made again, on disk. Its name without the ending is the
// operation.
func (h *Host) Write(name string, data []byte) error {
	op := strings.TrimSuffix(name, filepath.Ext(name))
	return h.Full(h.Disk.WriteProjection(op, h.Paths.File(name), data, 0o644))
}

// Append adds whole lines to one of the loop's files.
func (h *Host) Append(op, name string, lines []byte) error {
	w, err := h.Disk.OpenAppend(op, h.Paths.File(name), 0o644)
	if err == nil {
		err = errors.Join(w.Append(lines), w.Close())
	}
	return h.Full(err)
}

// Full adds to a write error what a human can do about it.
func (h *Host) Full(err error) error {
	if durable.IsFull(err) {
		return fmt.Errorf("%w; nothing that was recorded is lost: free some space and type `superloop run --loop %s`", err, h.LoopID)
	}
	return err
}
