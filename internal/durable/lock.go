package durable

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/internal/text"
)

// maxHolder bounds what is read of a lock file: it is text for a message.
const maxHolder = 4096

// Lock is an exclusive flock(2) on a file of its own, which stays. It ends with Unlock, or with the process, however
// that ends: there are no stale locks. Not for NFS.
type Lock struct{ file *os.File }

// LockedError says that somebody else, possibly in this process, holds a lock.
type LockedError struct {
	Path string
	// Holder is what the holder wrote about itself, up to 4 KiB. It is text from a file: show it, decide nothing by it.
	Holder []byte
}

func (e *LockedError) Error() string {
	who := text.Line(string(e.Holder), 200)
	if who == "" {
		who = "another process"
	}
	return fmt.Sprintf("%s is locked by %s; wait for it or stop it, the lock ends with it", e.Path, who)
}

// Lock takes the lock at path without waiting, and writes holder into the file for messages, if there is room. If it is
// held the error is a *LockedError. Steps, under the operation "lock": open, lock, write.
func (d Disk) Lock(path string, holder []byte) (*Lock, error) {
	for {
		f, err := d.open("lock", "open", path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		l := &Lock{file: f}
		err = d.do("lock", "lock", path, func() error { return exclusive(int(f.Fd())) })
		switch {
		case errors.Is(err, unix.EWOULDBLOCK):
			err = &LockedError{Path: path, Holder: readHolder(f)}
		case err == nil && l.Check() == nil:
			if f.Truncate(0) == nil {
				_, _ = d.write(f.Write, "lock", "write", path, holder[:min(len(holder), maxHolder)])
			}
			return l, nil
		}
		f.Close()
		if err != nil {
			return nil, err
		}
		// The file was removed between our open and our lock: nobody else could see that lock.
	}
}

// LockWait is Lock that waits while somebody else holds the lock: until ctx ends, and, unless patience is 0, at most so
// long; the error is then the *LockedError.
func (d Disk) LockWait(ctx context.Context, path string, holder []byte, patience time.Duration) (*Lock, error) {
	for end := time.Now().Add(patience); ; {
		l, err := d.Lock(path, holder)
		if _, held := errors.AsType[*LockedError](err); !held || patience > 0 && time.Now().After(end) {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for %s: %w", path, ctx.Err())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// exclusive locks fd. A failure may be due to a probe (see Holder), which holds a shared lock for a moment: then a
// shared lock is to be had here too, and the exclusive one soon.
func exclusive(fd int) error {
	for {
		err := flock(fd, unix.LOCK_EX)
		if err != unix.EWOULDBLOCK {
			return err
		}
		if err := flock(fd, unix.LOCK_SH); err != nil {
			return err
		}
		if err := flock(fd, unix.LOCK_UN); err != nil {
			return err
		}
		runtime.Gosched()
	}
}

// flock does not wait for others.
func flock(fd, how int) error {
	return retry(func() error { return unix.Flock(fd, how|unix.LOCK_NB) })
}

// retry calls again when a signal interrupts the call.
func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// Check reports whether the lock keeps others out: if its file was deleted or replaced, others lock another file.
func (l *Lock) Check() error {
	mine, err := l.file.Stat()
	if err == nil {
		var now fs.FileInfo
		if now, err = os.Lstat(l.file.Name()); err == nil && !os.SameFile(mine, now) {
			err = fs.ErrNotExist
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return &ChangedError{Path: l.file.Name(), Why: "the lock file was deleted or replaced, so it no longer keeps others out"}
	}
	return fail("lock", "check", l.file.Name(), err)
}

// Unlock gives the lock up and empties the file.
func (l *Lock) Unlock() error {
	_ = l.file.Truncate(0) // text for messages only
	// Closing alone does not free it while a child that is just being forked has the descriptor too.
	_ = flock(int(l.file.Fd()), unix.LOCK_UN)
	return fail("lock", "close", l.file.Name(), l.file.Close())
}

// Holder looks whether the lock at path is held, without taking it and without getting in the way of who does: a Lock
// that meets a Holder just goes on. The text is what the holder wrote, or nil if the lock is free.
func Holder(path string) (holder []byte, locked bool, err error) {
	f, err := openRegular(path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err == nil {
		defer f.Close()
		if err = flock(int(f.Fd()), unix.LOCK_SH); errors.Is(err, unix.EWOULDBLOCK) {
			return readHolder(f), true, nil
		}
	}
	return nil, false, fail("lock", "probe", path, err)
}

func readHolder(f *os.File) []byte {
	text, _ := io.ReadAll(io.NewSectionReader(f, 0, maxHolder))
	return text
}
