package durable

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/internal/text"
)

// maxHolder bounds how much of a lock file is read, in bytes. The text is only shown in messages.
const maxHolder = 4096

// Lock is an exclusive flock(2) on a lock file, which stays after Unlock. The lock ends with Unlock or with the
// process, however the process ends, so there are no stale locks. Lock does not work on NFS.
type Lock struct{ file *os.File }

// LockedError means that another process, or another part of this one, holds a lock.
type LockedError struct {
	Path string
	// Holder is the text that the holder wrote about itself, up to 4 KiB. Anybody may have written it into the file, so
	// callers show it and decide nothing by it.
	Holder []byte
}

func (e *LockedError) Error() string {
	who := text.Line(string(e.Holder), 200)
	if who == "" {
		who = "another process"
	}
	return fmt.Sprintf("%s is locked by %s; wait for it or stop it, the lock ends with it", e.Path, who)
}

// Lock takes the lock at path without waiting. It writes holder into the file for messages, if there is room on the
// disk. If somebody else holds the lock, the error is a *LockedError. Steps, under the operation "lock": open, lock,
// write.
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
		// Somebody removed the file between open and lock. Nobody else can see a lock on the removed file, so try
		// again.
	}
}

// turns has a channel for each path that LockWait was called with. Who waits has put a value into it.
var turns sync.Map

// The time between two tries of LockWait grows from the first of these to the second one.
const (
	firstRetry = 2 * time.Millisecond
	lastRetry  = 20 * time.Millisecond
)

// LockWait is Lock, but it waits while somebody else holds the lock. Callers in this process that wait get it in the order
// of their calls, and only the first of them tries: a hundred that try keep the holder from the processor. That one waits
// until ctx ends, and at most for patience, unless patience is 0. After patience the error is the *LockedError.
func (d Disk) LockWait(ctx context.Context, path string, holder []byte, patience time.Duration) (*Lock, error) {
	l, err := d.Lock(path, holder)
	if _, held := errors.AsType[*LockedError](err); !held {
		return l, err
	}
	turn, _ := turns.LoadOrStore(path, make(chan struct{}, 1))
	select {
	case turn.(chan struct{}) <- struct{}{}:
		defer func() { <-turn.(chan struct{}) }()
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for %s: %w", path, ctx.Err())
	}
	wait := firstRetry
	for end := time.Now().Add(patience); ; {
		l, err := d.Lock(path, holder)
		if _, held := errors.AsType[*LockedError](err); !held || patience > 0 && time.Now().After(end) {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for %s: %w", path, ctx.Err())
		case <-time.After(wait):
			wait = min(wait*3/2, lastRetry)
		}
	}
}

// exclusive locks fd. If that fails, a probe (see Holder) may be the reason, because a probe holds a shared lock for a
// moment. In this case exclusive gets a shared lock, too, and tries again.
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

// flock calls flock(2) and never waits for other lock holders.
func flock(fd, how int) error {
	return retry(func() error { return unix.Flock(fd, how|unix.LOCK_NB) })
}

// retry repeats a call that a signal has interrupted.
func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// Check returns an error if the lock no longer keeps others out. This is the case if somebody deleted or replaced its
// file, because others then lock another file.
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

// Unlock releases the lock and empties the file.
func (l *Lock) Unlock() error {
	_ = l.file.Truncate(0) // the text is for messages only
	// A close alone does not release the lock while a child that is being forked has the descriptor, too.
	_ = flock(int(l.file.Fd()), unix.LOCK_UN)
	return fail("lock", "close", l.file.Name(), l.file.Close())
}

// Holder reports whether somebody holds the lock at path. It does not take the lock, and a Lock call that meets this
// probe simply goes on. holder is the text that the holder wrote, or nil if the lock is free.
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
