package effects

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/superloop/superloop/internal/durable"
)

const RootCauseFile = "root-cause.json" // the result of a root cause analysis, for operators and for the next role

// Dir makes a directory below the loop's directory, and makes sure that no part of its path is a link. Agents can write
// in the loop's directory too, and superloop is not confined, so superloop must not follow a link that an agent made.
// Dir renames a file or link that is in the way; it neither removes it nor stops the loop. Dir checks each part of the
// path at each call, because an agent may have replaced it. op names the operation for the injection of faults in
// tests.
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

// File creates or truncates a file in the loop's directory. The result is a regular file that has no other name.
func (h *Host) File(op, path string) (*durable.File, error) {
	if err := h.Dir(op, filepath.Dir(path)); err != nil {
		return nil, err
	}
	if err := h.clear(op, path); err != nil {
		return nil, err
	}
	f, err := h.Disk.Create(op, path, 0o644)
	return f, h.Full(err)
}

// clear moves aside what is at path, unless it is a regular file that has no other name.
func (h *Host) clear(op, path string) error {
	if info, err := os.Lstat(path); err == nil && !plain(info) {
		return h.setAside(op, path)
	}
	return nil
}

// plain reports whether a file is a regular file with exactly one name (hard link).
func plain(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return info.Mode().IsRegular() && (!ok || st.Nlink == 1)
}

// setAside moves what is at path to a free name beside it.
func (h *Host) setAside(op, path string) error {
	to, err := h.Disk.MoveFree(op, path, path+".foreign-"+h.Clock().UTC().Format("20060102T150405.000000000"))
	if err == nil && h.Moved != nil {
		h.Moved(path, to)
	}
	return h.Full(err)
}

// Create writes a file that belongs to one attempt. The write need not be atomic: if a crash interrupts the attempt,
// superloop never reads its files again.
func (h *Host) Create(op, path, text string) error {
	f, err := h.File(op, path)
	if err == nil {
		_, err = f.Write([]byte(text))
		err = errors.Join(err, f.Close())
	}
	return h.Full(err)
}

// Write replaces one of the loop's files atomically. Each such file is a view that superloop can make again. The file's
// name without its extension names the operation for the injection of faults in tests.
func (h *Host) Write(name string, data []byte) error {
	op := strings.TrimSuffix(name, filepath.Ext(name))
	return h.Full(h.Disk.WriteProjection(op, h.Paths.File(name), data, 0o644))
}

// Append appends whole lines to one of the loop's files. The file is a regular one that has no other name.
func (h *Host) Append(op, name string, lines []byte) error {
	if err := h.clear(op, h.Paths.File(name)); err != nil {
		return err
	}
	w, err := h.Disk.OpenAppend(op, h.Paths.File(name), 0o644)
	if err == nil {
		err = errors.Join(w.Append(lines), w.Close())
	}
	return h.Full(err)
}

// Full adds to the error of a full disk what the operator can do about it. It returns other errors unchanged.
func (h *Host) Full(err error) error {
	if durable.IsFull(err) {
		return fmt.Errorf("%w; nothing that was recorded is lost: free some space and type `superloop run --loop %s`", err, h.LoopID)
	}
	return err
}
