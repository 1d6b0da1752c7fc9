package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Appender adds to the end of one file. It may be used by several goroutines: an Append may run while a Sync is waiting
// for the disk. There must be one Appender for a file at a time, in all processes; a lock beside the file sees to that.
type Appender struct {
	d    Disk
	op   string
	path string
	file *os.File

	mu   sync.Mutex
	size int64
	err  error // the first error after which the file's state is unknown

	syncMu sync.Mutex
}

// OpenAppend opens path for appending and creates it if need be. A created file (and one that is still empty: its
// creator may have been killed before the flush) has its directory flushed, so that later a Sync of the file is enough.
// Steps: open, and for a new or empty file dirsync.
func (d Disk) OpenAppend(op, path string, perm fs.FileMode) (*Appender, error) {
	f, err := d.open(op, "open", path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, perm)
	if err != nil {
		return nil, err
	}
	a := &Appender{d: d, op: op, path: path, file: f}
	a.size, err = f.Seek(0, io.SeekEnd)
	if err = fail(op, "open", path, err); err == nil && a.size == 0 {
		err = d.syncDir(op, path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return a, nil
}

// Append adds p with one write(2). On success p survives a kill. On failure nothing of p counts: what was written of it
// is cut off again, and a later Append works if there is room by then. If the cut fails too, the Appender is poisoned:
// this and every later call returns that error.
//
// Before it writes it looks whether the file is still the one it wrote, and is poisoned with a *ChangedError if it is
// not. Steps: append, and truncate after a partial write.
func (a *Appender) Append(p []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil || len(p) == 0 {
		return a.err
	}
	if a.err = a.unchanged(); a.err != nil {
		return a.err
	}
	n, err := a.d.write(a.file.Write, a.op, "append", a.path, p)
	if err == nil {
		a.size += int64(n)
		return nil
	}
	if n > 0 {
		cut := a.d.do(a.op, "truncate", a.path, func() error { return a.file.Truncate(a.size) })
		if cut != nil {
			a.err = fmt.Errorf("%w; and the half-written end could not be cut off: %w", err, cut)
			return a.err
		}
	}
	return err
}

// unchanged costs one fstat, a fifth of a write. An agent that runs `git clean` or edits the file is thus found at the
// next event, not at the next start.
func (a *Appender) unchanged() error {
	var st unix.Stat_t // os.File.Stat allocates
	err := retry(func() error { return unix.Fstat(int(a.file.Fd()), &st) })
	switch {
	case err != nil:
		return fail(a.op, "append", a.path, err)
	case st.Nlink == 0:
		return &ChangedError{Path: a.path, Why: "it was deleted or replaced"}
	case st.Size != a.size:
		return &ChangedError{Path: a.path, Why: fmt.Sprintf("it has %d bytes where %d were written", st.Size, a.size)}
	}
	return nil
}

// Sync makes everything that was appended before the call survive a power cut. A failure poisons the Appender for good:
// after a failed flush the system may have dropped the dirty pages and would call a second flush a success, so the
// file's state is unknown until it is read again by a new process or a new Appender. Steps: sync.
func (a *Appender) Sync() error {
	a.syncMu.Lock()
	defer a.syncMu.Unlock()
	if err := a.poison(nil); err != nil {
		return err
	}
	if err := a.d.do(a.op, "sync", a.path, a.file.Sync); err != nil {
		return a.poison(err)
	}
	return nil
}

// poison keeps the first error and returns it.
func (a *Appender) poison(err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err == nil {
		a.err = err
	}
	return a.err
}

// Size is the length of the file in bytes: what it had at the start and every Append that was successful since.
func (a *Appender) Size() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.size
}

// Close closes the file; it does not flush. Later calls return fs.ErrClosed, or the error that poisoned the Appender
// before.
func (a *Appender) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if errors.Is(a.err, fs.ErrClosed) {
		return nil
	}
	if a.err == nil {
		a.err = fail(a.op, "append", a.path, fs.ErrClosed)
	}
	return a.d.closeFile(a.file, a.op, a.path)
}
