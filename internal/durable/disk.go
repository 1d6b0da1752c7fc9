// Package durable is the only code of superloop that writes to disk. The comment of each function says what is true
// after the function returns, and what is true if the process or the power dies at any point inside it.
//
// Two phrases have a strict meaning:
//
//   - "survives a kill": the bytes are in the system's page cache. SIGKILL cannot remove them, but a power cut can.
//   - "survives a power cut": the bytes, and the directory entry that leads to them, were flushed (fsync), and the
//     flush was successful.
//
// A Disk is a value that the caller passes to each writer. There is no global state. If a Disk has a Fault, it calls
// the Fault before every physical step, with the name "<operation>:<step>". The caller chooses the operation ("events",
// "state"). The step is one of
//
//	create open read write append truncate sync dirsync rename remove
//	mkdir chmod close aside aside-write aside-sync lock
//
// So a test can make exactly one step of one operation fail, write only a part, or never finish. It can do so for every
// step in turn, because a run without faults gives the names of all steps.
//
// The package opens regular files only, and follows no symbolic link in the last component of a path. If an agent
// plants a link or a FIFO at a path that superloop writes, superloop gets an error, or moves it aside (Disk.Clearing).
// It neither writes elsewhere nor blocks.
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

// Disk writes files. The zero value and OS() are the real disk.
type Disk struct {
	fault Fault
	said  func(path, to string) // of Clearing
	roots []string              // of Clearing
}

// OS returns the real disk.
func OS() Disk { return Disk{} }

// WithFault returns the same disk with the fault f, which the disk calls before every physical step.
func (d Disk) WithFault(f Fault) Disk {
	d.fault = f
	return d
}

// Fault is called before each step, with the step's name. Several goroutines may call it at the same time. If it
// returns an error, the disk does not carry out the step, and the step fails with that error. A *ShortWrite lets a
// write put some of its bytes on the disk first. A Fault that does not return, because it kills the process, simulates
// a crash at exactly that point.
type Fault func(op string) error

// ShortWrite makes a write put N bytes on the disk and then fail with Err (nil means ENOSPC). Other steps only fail
// with Err.
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

// write carries out one step that writes p, and returns the number of bytes written.
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
	act := func() (err error) {
		f, err = openRegular(path, flag, perm)
		return err
	}
	err = d.do(op, step, path, act)
	if err != nil && flag&(os.O_WRONLY|os.O_RDWR) != 0 && d.cleared(op, path, err) {
		err = d.do(op, step, path, act)
	}
	return f, err
}

// openRegular opens a regular file. O_NOFOLLOW refuses a link as the last component. O_NONBLOCK keeps the call from
// waiting for the other end of a FIFO.
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

// syncDir flushes the directory that holds the entry of path.
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
			return nil // some file systems (FUSE, 9p) cannot flush directories
		}
		return err
	})
}

// closeFile closes f as a step of its own, because some file systems (NFS, quota) report a lost write only at the
// close.
func (d Disk) closeFile(f *os.File, op, path string) error {
	defer f.Close() // in case the fault forbids the step
	return d.do(op, "close", path, f.Close)
}

// File is a file that its writer writes once from beginning to end, such as a log. One goroutine at a time may use it.
type File struct {
	d    Disk
	op   string
	file *os.File
}

// Create creates path, or empties it. The bytes written to it survive a kill, but not a power cut. Steps: create.
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

// Close closes the file without a flush. Steps: close.
func (f *File) Close() error { return f.d.closeFile(f.file, f.op, f.file.Name()) }

var (
	errLink       = errors.New("it is a symbolic link, and superloop does not write through links; remove it")
	errNotRegular = errors.New("it is not a regular file; remove it")
)

// Error is the error type of this package's functions. It names the failed step and the file.
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

// fail adds the step and the path to err, and removes the path that err itself may carry. A nil err stays nil.
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

// IsFull reports whether err means that the disk or the user's quota is full.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// ChangedError means that somebody else has changed a file: an append-only file became longer or shorter or was
// deleted, or a lock file was deleted or replaced. An Appender writes nothing to the file when it finds this, and
// nothing later.
type ChangedError struct {
	Path string
	Why  string
}

func (e *ChangedError) Error() string {
	return fmt.Sprintf("%s was changed by something else than superloop: %s", e.Path, e.Why)
}

// tempMark is part of the name of every temporary file. Before it stand a dot and the name of the file to be replaced.
const tempMark = ".tmp-"

// WriteFile replaces path by data. A reader sees either the whole old content or the whole new content, also after a
// power cut. If WriteFile returns nil, the new content survives a power cut. If it returns an error, the old content is
// still there, with one exception: after an error of the last step ("dirsync") the new content is in place, and a power
// cut may leave either of the two.
//
// The file has exactly the mode perm, whatever the umask is. While WriteFile writes it, only its owner can read it.
// Steps: create, write, chmod, sync, close, rename, dirsync.
func (d Disk) WriteFile(op, path string, data []byte, perm fs.FileMode) error {
	return d.WriteFileBy(op, path, perm, whole(data))
}

// WriteFileBy is WriteFile for a content that put writes in pieces, so that it never is in memory as a whole. An error of
// put counts like that of a write. Steps: those of WriteFile, with a write for each piece.
func (d Disk) WriteFileBy(op, path string, perm fs.FileMode, put func(io.Writer) error) error {
	if err := d.replace(op, path, put, perm, true); err != nil {
		return err
	}
	return d.syncDir(op, path)
}

// whole returns a function that writes data in one piece.
func whole(data []byte) func(io.Writer) error {
	return func(to io.Writer) error {
		_, err := to.Write(data)
		return err
	}
}

// WriteProjection is WriteFile without the flushes, for a file that superloop can make again. The new content survives
// a kill. A power cut may leave the old content, the new content or an empty file. Steps: create, write, chmod, close,
// rename.
func (d Disk) WriteProjection(op, path string, data []byte, perm fs.FileMode) error {
	return d.replace(op, path, whole(data), perm, false)
}

// replace names path in its errors, because the name of the temporary file would not help the operator.
func (d Disk) replace(op, path string, put func(io.Writer) error, perm fs.FileMode, flush bool) error {
	var f *os.File
	err := d.do(op, "create", path, func() (err error) {
		f, err = os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+tempMark+"*")
		return err
	})
	if err != nil {
		return err
	}
	err = put(piece(func(p []byte) (int, error) { return d.write(f.Write, op, "write", path, p) }))
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
		err = d.Clear(op, path)
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

// piece is an io.Writer.
type piece func([]byte) (int, error)

func (p piece) Write(data []byte) (int, error) { return p(data) }

// RemoveTemps removes the temporary files that killed writers have left in dir, and returns their number. Only the one
// process that writes into dir may call it, because it cannot tell the file of a dead writer from that of a live one.
// Steps: remove, once for each file.
func (d Disk) RemoveTemps(op, dir string) (int, error) { return d.removeTemps(op, dir, IsTemp) }

// RemoveTempsOf is RemoveTemps for the temporary files of one file: other processes may write other files of its directory.
func (d Disk) RemoveTempsOf(op, path string) (int, error) {
	return d.removeTemps(op, filepath.Dir(path), func(name string) bool {
		return IsTemp(name) && name[1:strings.LastIndex(name, tempMark)] == filepath.Base(path)
	})
}

func (d Disk) removeTemps(op, dir string, temp func(name string) bool) (int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, fail(op, "read", dir, err)
	}
	n := 0
	for _, e := range entries {
		if !temp(e.Name()) || !e.Type().IsRegular() {
			continue
		}
		switch err := d.Unlink(op, filepath.Join(dir, e.Name())); {
		case err == nil:
			n++
		case !errors.Is(err, fs.ErrNotExist): // another process may have removed it
			return n, err
		}
	}
	return n, nil
}

// IsTemp reports whether name is that of a temporary file of WriteFile or WriteProjection.
func IsTemp(name string) bool {
	i := strings.LastIndex(name, tempMark)
	return i >= 2 && name[0] == '.' && digits(name[i+len(tempMark):])
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// MkdirAll creates path and all missing parents, with mode perm less the umask, and flushes their parents. So a file
// that is later flushed inside path survives a power cut. A link to a directory counts as a directory. Steps: mkdir and
// dirsync, for each new directory.
func (d Disk) MkdirAll(op, path string, perm fs.FileMode) error {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		return nil
	}
	if now, there := os.Lstat(path); there == nil && !now.IsDir() { // else another process has made it since
		if !d.clears(path) {
			return fail(op, "mkdir", path, cmp.Or[error](err, syscall.ENOTDIR))
		}
		if err := d.moveAway(op, path); err != nil {
			return err
		}
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

// Mkdir creates one directory. A power cut may undo it. Steps: mkdir.
func (d Disk) Mkdir(op, path string, perm fs.FileMode) error {
	return d.do(op, "mkdir", path, func() error { return os.Mkdir(path, perm) })
}
