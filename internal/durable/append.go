package durable

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// Appender appends to one file. Several goroutines may use it: an Append may run while a Sync waits for the disk. At
// any time there must be only one Appender for a file in all processes. The caller ensures that with a lock.
type Appender struct {
	d    Disk
	op   string
	path string
	file *os.File

	mu   sync.Mutex
	size int64
	err  error // the first error after which the content of the file is unknown

	syncMu sync.Mutex
}

// OpenAppend opens or creates path for appending. It flushes the directory of an empty file, so that a later Sync only
// has to flush the file. Steps: open, and for a new or empty file dirsync.
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

// Append appends p with one write(2). On success p survives a kill. On failure Append removes the part of p that was
// written, and a later Append works if there is room by then. If that removal fails too, the Appender is poisoned: this
// call and every later call return the error.
//
// If somebody else has changed the file since the last Append, the Appender is poisoned with a *ChangedError. Steps:
// append, and truncate after a partial write.
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

// unchanged checks with one fstat that nobody else has changed the file. So superloop notices at the next event that an
// agent has run `git clean` or has edited the file.
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

// Sync makes all bytes that were appended before the call survive a power cut. A failure poisons the Appender for good:
// after a failed flush the system may have dropped the dirty pages, and may report a second flush as a success. The
// content of the file is then unknown until a new process or a new Appender reads it. Steps: sync.
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

// Size returns the length of the file in bytes: its length at OpenAppend plus the length of every successful Append.
func (a *Appender) Size() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.size
}

// Close closes the file without a flush. Later calls return fs.ErrClosed, or the error that poisoned the Appender
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

// Repair says how many bytes CutTail has cut off the end of a file, and which file holds them.
type Repair struct {
	Cut    int64  // the number of bytes; 0 if there was nothing to repair
	Broken string // the file that holds these bytes now; "" if nothing was cut
}

// CutTail cuts path at offset, after it has copied the bytes behind offset to another file and has flushed the copy. If
// a kill interrupts it, the bytes are in one of the two files or in both. Steps: those of CopyAside, then open,
// truncate, sync.
func (d Disk) CutTail(op, path string, offset int64) (Repair, error) {
	broken, err := d.CopyAside(op, path, offset)
	if err != nil {
		return Repair{}, err
	}
	f, err := d.open(op, "open", path, os.O_WRONLY, 0)
	if err != nil {
		return Repair{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	err = fail(op, "open", path, err)
	if err == nil {
		err = d.do(op, "truncate", path, func() error { return f.Truncate(offset) })
	}
	if err == nil {
		err = d.do(op, "sync", path, f.Sync)
	}
	if err != nil {
		return Repair{}, err
	}
	return Repair{Cut: info.Size() - offset, Broken: broken}, nil
}

// CopyAside copies the bytes of path from offset on (0: all bytes) to "<path>.broken-<offset>" and flushes the copy and
// its directory. It does not change path. If a file of that name holds the same bytes, it is the copy. If it holds
// other bytes, it is evidence of another crash and stays as it is; the name of the new copy then ends in ".2", ".3" and
// so on. Steps: read, aside, aside-write (for each 256 KiB), aside-sync, dirsync.
func (d Disk) CopyAside(op, path string, offset int64) (string, error) {
	src, err := d.open(op, "read", path, os.O_RDONLY, 0)
	if err != nil {
		return "", err
	}
	defer src.Close()
	name := path + ".broken-" + strconv.FormatInt(offset, 10)
	for i, base := 2, name; i <= most+1; i++ {
		dst, err := d.open(op, "aside", name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		same := true
		if err == nil {
			if err = d.copyTail(op, dst, src, offset); err != nil {
				_ = os.Remove(name)
			}
		} else if errors.Is(err, fs.ErrExist) {
			if dst, err = d.open(op, "aside", name, os.O_RDONLY, 0); err == nil {
				same, err = sameBytes(tail(src, offset), dst)
				err = fail(op, "aside", name, err)
			}
		}
		if err == nil && same { // the process that made the copy may have been killed before its flush
			err = d.do(op, "aside-sync", name, dst.Sync)
		}
		dst.Close()
		if err != nil {
			return "", err
		}
		if same {
			return name, d.syncDir(op, name)
		}
		name = base + "." + strconv.Itoa(i)
	}
	return "", fail(op, "aside", path, errors.New("there are too many broken copies beside it; look at them and remove them"))
}

func tail(f *os.File, offset int64) io.Reader {
	return io.NewSectionReader(f, offset, math.MaxInt64-offset)
}

func (d Disk) copyTail(op string, dst, src *os.File, offset int64) error {
	from, buf := tail(src, offset), make([]byte, 256<<10)
	for {
		n, err := io.ReadFull(from, buf)
		if n > 0 {
			if _, err := d.write(dst.Write, op, "aside-write", dst.Name(), buf[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return nil
		}
		if err != nil {
			return fail(op, "read", src.Name(), err)
		}
	}
}

// sameBytes compares the rest of two files, in constant memory.
func sameBytes(a, b io.Reader) (bool, error) {
	x, y := sha256.New(), sha256.New()
	_, errA := io.Copy(x, a)
	_, errB := io.Copy(y, b)
	return string(x.Sum(nil)) == string(y.Sum(nil)), errors.Join(errA, errB)
}
