package sandbox

import (
	"errors"

	"golang.org/x/sys/unix"
)

// lookAt opens a directory that is only gone through.
const lookAt = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC

const renameTries = 1000

// beneath opens a directory below root, whose descriptor is top. The kernel sees
// to it that no step of the path leaves it.
func beneath(top int, root, rel string) (int, error) {
	for range renameTries {
		fd, err := unix.Openat2(top, rel, &unix.OpenHow{
			Flags:   lookAt,
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
		})
		switch err {
		case nil:
			return fd, nil
		case unix.EINTR, unix.EAGAIN: // EAGAIN: something was renamed meanwhile
			continue
		case unix.EXDEV:
			return -1, errors.New("it is not in the repository")
		case unix.ENOSYS, unix.EPERM: // before Linux 5.6, or a filter of system calls
			return below(root, rel)
		}
		return -1, err
	}
	return -1, errors.New("something on its path is renamed all the time")
}
