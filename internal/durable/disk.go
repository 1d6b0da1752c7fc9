package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Disk writes files. The zero value, and OS(), is the real disk.
type Disk struct {
	fault Fault
}

// OS is the real disk.
func OS() Disk { return Disk{} }

// WithFault is the same disk, with f asked before every physical step.
func (d Disk) WithFault(f Fault) Disk {
	d.fault = f
	return d
}

// Fault is asked before the step of that name is carried out, and may be called
// by several goroutines. If it returns an error the step is not carried out and
// fails with that error; a *ShortWrite lets a write do a part of its work
// first. A Fault that does not return (it kills the process) is a crash at
// exactly that point.
type Fault func(op string) error

// ShortWrite makes a write put N bytes on the disk and then fail with Err. For
// a step that is not a write it is the same as Err.
type ShortWrite struct {
	N   int
	Err error
}

func (s *ShortWrite) Error() string {
	return fmt.Sprintf("short write of %d bytes: %v", s.N, s.cause())
}

func (s *ShortWrite) Unwrap() error { return s.cause() }

func (s *ShortWrite) cause() error {
	if s.Err == nil {
		return syscall.ENOSPC
	}
	return s.Err
}

// check asks the fault about a step that is not a write.
func (d Disk) check(op, step, path string) error {
	if d.fault == nil {
		return nil
	}
	if err := d.fault(op + ":" + step); err != nil {
		return fail(op, step, path, err)
	}
	return nil
}

// write writes p at f's position as one step and says how many bytes got there.
func (d Disk) write(f *os.File, op, step string, p []byte) (int, error) {
	return d.writeBy(f.Write, f, op, step, p)
}

// writeAt is write at a place of its own.
func (d Disk) writeAt(f *os.File, op, step string, p []byte, off int64) (int, error) {
	return d.writeBy(func(p []byte) (int, error) { return f.WriteAt(p, off) }, f, op, step, p)
}

func (d Disk) writeBy(write func([]byte) (int, error), f *os.File, op, step string, p []byte) (int, error) {
	if d.fault != nil {
		if err := d.fault(op + ":" + step); err != nil {
			n := 0
			var short *ShortWrite
			if errors.As(err, &short) {
				n, _ = write(p[:min(max(short.N, 0), len(p))])
				err = short.cause()
			}
			return n, fail(op, step, f.Name(), err)
		}
	}
	n, err := write(p)
	if err != nil {
		return n, fail(op, step, f.Name(), err)
	}
	return n, nil
}

// open opens a regular file. O_NOFOLLOW refuses a link as the last component;
// O_NONBLOCK keeps a FIFO from stopping the process and means nothing to a
// regular file.
func (d Disk) open(op, step, path string, flag int, perm fs.FileMode) (*os.File, error) {
	if err := d.check(op, step, path); err != nil {
		return nil, err
	}
	f, err := openRegular(path, flag, perm)
	if err != nil {
		return nil, fail(op, step, path, err)
	}
	return f, nil
}

// Open opens a regular file for reading, under the same rules as for writing: no
// link as its last component, and nothing that could make the reader wait.
func Open(path string) (*os.File, error) {
	f, err := openRegular(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, fail("file", "open", path, err)
	}
	return f, nil
}

// Read reads a regular file whole, under the rules of Open. One with more than
// limit bytes is an error. What is read of an empty file is not nil.
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

// sync flushes f's content and its size.
func (d Disk) sync(f *os.File, op, step string) error {
	if err := d.check(op, step, f.Name()); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return fail(op, step, f.Name(), err)
	}
	return nil
}

// syncDir flushes the directory that path is an entry of.
func (d Disk) syncDir(op, path string) error {
	dir := filepath.Dir(path)
	if err := d.check(op, "dirsync", dir); err != nil {
		return err
	}
	f, err := os.Open(dir)
	if err != nil {
		return fail(op, "dirsync", dir, err)
	}
	defer f.Close()
	// Some file systems (FUSE, 9p) have no flush for directories and say so
	// with EINVAL; there is nothing to do on them.
	if err := f.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return fail(op, "dirsync", dir, err)
	}
	return nil
}

// closeFile closes f as a step: on some file systems (NFS, quota) it is the
// close that says that a write was lost.
func (d Disk) closeFile(f *os.File, op string) error {
	if err := d.check(op, "close", f.Name()); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return fail(op, "close", f.Name(), err)
	}
	return nil
}
