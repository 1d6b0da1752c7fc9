package durable

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"syscall"
)

const (
	flushAtOnce = 32 // how many files Flush flushes at the same time, because a disk writes the log for all of them once
	flushEach   = 64 // above this number of paths, a flush of the whole file system takes less time
)

// Flush makes files and directories survive a power cut that somebody else has written: the bytes of a file, the
// entries of a directory. It leaves out what is gone, and what is neither a regular file nor a directory. Flushing a
// directory does not flush what its entries lead to. For more than 64 paths it may flush their whole file systems.
// Steps: sync, once for all paths.
func (d Disk) Flush(op string, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	return d.do(op, "sync", paths[0], func() error {
		if len(paths) > flushEach {
			if done, err := syncSystems(paths); done || err != nil {
				return err
			}
		}
		errs := make([]error, len(paths))
		var group sync.WaitGroup
		slots := make(chan struct{}, flushAtOnce)
		for i, path := range paths {
			slots <- struct{}{}
			group.Go(func() {
				errs[i] = syncPath(path)
				<-slots
			})
		}
		group.Wait()
		return errors.Join(errs...)
	})
}

// FlushSystems makes everything survive a power cut that was written to the file systems on which the paths lie. It
// reports whether it could: only Linux can flush one file system. It takes as long as the disk needs, and cannot be
// interrupted. Steps: sync, once for all paths.
func (d Disk) FlushSystems(op string, paths []string) (done bool, err error) {
	err = d.do(op, "sync", paths[0], func() (err error) {
		done, err = syncSystems(paths)
		return err
	})
	return done, err
}

// syncPath flushes one file or directory.
func syncPath(path string) error {
	f, err := openToSync(path)
	if f == nil {
		return err
	}
	defer f.Close()
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		return nil // some file systems (FUSE, 9p) cannot flush directories
	}
	return err
}

// openToSync opens a regular file or a directory. It returns nil for everything that Flush leaves out. A file that this
// user may not read is another user's, and nobody can flush it but them.
func openToSync(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	for _, out := range []error{fs.ErrNotExist, fs.ErrPermission, syscall.ELOOP, syscall.ENOTDIR, syscall.ENXIO} {
		if errors.Is(err, out) {
			return nil, nil
		}
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() && !info.IsDir() {
		f.Close()
		return nil, err
	}
	return f, nil
}
