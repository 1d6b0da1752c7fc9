// Package durable is the only code of superloop that writes to disk. Each function says what is true after it returns,
// and what is true after the process, or the power, dies at any point inside it.
//
// Two words are used strictly:
//
//   - "survives a kill": the bytes are in the system's page cache; SIGKILL cannot take them back, a power cut can.
//   - "survives a power cut": the bytes, and the directory entry that leads to them, were flushed (fsync) and the flush
//     was successful.
//
// A Disk is a value and is passed to whoever writes; nothing is global. Every physical step is announced to the Disk's
// Fault, if it has one, under the name "<operation>:<step>": the operation is the caller's ("events", "state"), the
// step is one of
//
//	create open read write append truncate sync dirsync rename remove
//	mkdir chmod close aside aside-write aside-sync lock
//
// A test can therefore fail, cut short or never finish exactly one step of one operation, and run over all of them by
// recording the names of a clean run.
//
// No file is ever opened through a symbolic link in its last component, and nothing but a regular file is opened at
// all: an agent that plants a link or a FIFO where superloop writes gets an error, not a write elsewhere or a hang.
package durable

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/superloop/superloop/internal/text"
)

// Disk writes files. The zero value, and OS(), is the real disk.
type Disk struct {
	fault Fault
}

// OS is the real disk.
func OS() Disk { return Disk{} }

// WithFault is the same disk, with f asked before every physical step.
func (d Disk) WithFault(f Fault) Disk { return Disk{f} }

// Fault is asked before the step of that name is carried out, and may be called by several goroutines. If it returns an
// error the step is not carried out and fails with that error; a *ShortWrite lets a write do a part of its work first.
// A Fault that does not return (it kills the process) is a crash at exactly that point.
type Fault func(op string) error

// ShortWrite makes a write put N bytes on the disk and then fail with Err (nil is ENOSPC). Other steps fail with Err.
type ShortWrite struct {
	N   int
	Err error
}

func (s *ShortWrite) Error() string {
	return fmt.Sprintf("short write of %d bytes: %v", s.N, s.Unwrap())
}

func (s *ShortWrite) Unwrap() error { return cmp.Or[error](s.Err, syscall.ENOSPC) }

func (d Disk) ask(op, step string) error {
	if d.fault == nil {
		return nil
	}
	return d.fault(op + ":" + step)
}

// do carries out one step that is not a write, unless the fault forbids it.
func (d Disk) do(op, step, path string, act func() error) error {
	err := d.ask(op, step)
	if err == nil {
		err = act()
	}
	return fail(op, step, path, err)
}

// write carries out one step that writes p, and says how many bytes got there.
func (d Disk) write(put func([]byte) (int, error), op, step, path string, p []byte) (n int, err error) {
	if err = d.ask(op, step); err == nil {
		n, err = put(p)
	} else if short, ok := errors.AsType[*ShortWrite](err); ok {
		n, _ = put(p[:min(max(short.N, 0), len(p))])
		err = short.Unwrap()
	}
	return n, fail(op, step, path, err)
}

func (d Disk) open(op, step, path string, flag int, perm fs.FileMode) (f *os.File, err error) {
	err = d.do(op, step, path, func() (err error) {
		f, err = openRegular(path, flag, perm)
		return err
	})
	return f, err
}

// Open opens a regular file for reading, as for writing: through no link, and without waiting.
func Open(path string) (*os.File, error) { return OS().open("file", "open", path, os.O_RDONLY, 0) }

// Read reads a file whole, under the rules of Open, and refuses more than limit bytes. An empty file gives non-nil.
func Read(path string, limit int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("it has more than %d bytes", limit)
	}
	if err != nil {
		return nil, fail("file", "read", path, err)
	}
	return data, nil
}

// openRegular opens a regular file. O_NOFOLLOW refuses a link as the last component, O_NONBLOCK waits for no FIFO.
func openRegular(path string, flag int, perm fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, flag|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, perm)
	if errors.Is(err, syscall.ELOOP) {
		return nil, errLink
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errNotRegular
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// syncDir flushes the directory that path is an entry of.
func (d Disk) syncDir(op, path string) error {
	dir := filepath.Dir(path)
	return d.do(op, "dirsync", dir, func() error {
		f, err := os.Open(dir)
		if err != nil {
			return err
		}
		defer f.Close()
		err = f.Sync()
		if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
			return nil // some file systems (FUSE, 9p) have no flush for directories; there is nothing to do on them
		}
		return err
	})
}

// closeFile closes f as a step: on some file systems (NFS, quota) it is the close that says that a write was lost.
func (d Disk) closeFile(f *os.File, op, path string) error {
	defer f.Close() // if the fault forbids the step
	return d.do(op, "close", path, f.Close)
}

// File is a file that is written from the beginning to the end, such as a log. It is for one goroutine at a time.
type File struct {
	d    Disk
	op   string
	file *os.File
}

// Create makes path, or empties it. What is written survives a kill, and not a power cut. Steps: create.
func (d Disk) Create(op, path string, perm fs.FileMode) (*File, error) {
	f, err := d.open(op, "create", path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return nil, err
	}
	return &File{d: d, op: op, file: f}, nil
}

// Write implements io.Writer. Steps: write.
func (f *File) Write(p []byte) (int, error) {
	return f.d.write(f.file.Write, f.op, "write", f.file.Name(), p)
}

// Close closes the file; it does not flush. Steps: close.
func (f *File) Close() error { return f.d.closeFile(f.file, f.op, f.file.Name()) }

var (
	errLink       = errors.New("it is a symbolic link, and superloop does not write through links; remove it")
	errNotRegular = errors.New("it is not a regular file; remove it")
)

// Error is what every function of this package returns: the step that failed and the file it failed on.
type Error struct {
	Op   string // "events:append"
	Path string
	Err  error
}

func (e *Error) Error() string {
	s := e.Op + ": " + e.Path + ": " + e.Err.Error()
	if IsFull(e.Err) {
		s += " (make room; see: df -h " + text.Word(filepath.Dir(e.Path)) + ")"
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// fail names the step and the path once, whatever names the cause carries; nil stays nil.
func fail(op, step, path string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	} else if e, ok := errors.AsType[*os.LinkError](err); ok {
		err = e.Err
	} else if e, ok := errors.AsType[*os.SyscallError](err); ok {
		err = e.Err
	}
	return &Error{Op: op + ":" + step, Path: path, Err: err}
}

// IsFull reports whether err says that there is no room: the disk is full, or the user's quota is.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// ChangedError says that an append-only file is no longer the one that was written: another writer made it longer or
// shorter, or it was deleted. Nothing was written to it when this was found, and nothing will be.
type ChangedError struct {
	Path string
	Why  string
}

func (e *ChangedError) Error() string {
	return fmt.Sprintf("%s was changed by something else than superloop: %s", e.Path, e.Why)
}

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

// WriteProjection is WriteFile without the flushes, for a file that can be made again: the new content survives a kill;
// a power cut may leave the old, the new or an empty file. Steps: create, write, chmod, close, rename.
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

// RemoveTemps removes, and counts, what killed replacements have left in dir. Only the one process that writes into dir
// may call it: it cannot tell a dead writer's file from a live one's. Steps: remove, once for each file.
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

// MkdirAll makes path and every parent that is missing, with mode perm less the umask, and flushes their parents: what
// is later flushed inside survives a power cut. Steps: mkdir and dirsync, for each directory that is made.
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
// nothing has moved; after one of "dirsync" a power cut may undo it. Steps: rename, dirsync for each directory.
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

// Remove removes a file or an empty directory, and flushes its directory; else fs.ErrNotExist. Steps: remove, dirsync.
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
