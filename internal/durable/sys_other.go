//go:build unix && !linux

package durable

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// fullFsync is F_FULLFSYNC of Darwin's <fcntl.h>: an fsync there leaves the
// data in the drive's cache.
const fullFsync = 51

// datasync flushes a file's content as far as the system can be asked to.
func datasync(fd int) error {
	for {
		var err error
		if runtime.GOOS == "darwin" || runtime.GOOS == "ios" {
			_, err = unix.FcntlInt(uintptr(fd), fullFsync, 0)
		} else {
			err = unix.Fsync(fd)
		}
		if err != unix.EINTR {
			return err
		}
	}
}
