package workdir

import (
	"errors"

	"golang.org/x/sys/unix"
)

// lookAt holds the flags to open a directory from which the caller only opens other directories.
const lookAt = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC

// beneath opens a directory below the repository. The kernel makes sure that no step of the path leaves the repository.
func (r *Root) beneath(rel string) (int, error) {
	how := &unix.OpenHow{Flags: lookAt, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	for range 1000 {
		fd, err := unix.Openat2(int(r.File.Fd()), rel, how)
		switch {
		case err == nil:
			return fd, nil
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN): // EAGAIN: a concurrent rename
			continue
		case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM): // Linux before 5.6, or a filter of system calls
			return r.beneathRoot(rel)
		}
		return -1, err
	}
	return -1, unix.EAGAIN
}
