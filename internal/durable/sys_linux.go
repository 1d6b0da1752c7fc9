package durable

import "golang.org/x/sys/unix"

// datasync flushes a file's content and the metadata that is needed to read it
// back (its size), but not its times.
func datasync(fd int) error {
	for {
		if err := unix.Fdatasync(fd); err != unix.EINTR {
			return err
		}
	}
}
