package durable

import "golang.org/x/sys/unix"

// fstat and flock are the system's, begun again when a signal interrupts them.

func fstat(fd int, st *unix.Stat_t) error {
	for {
		if err := unix.Fstat(fd, st); err != unix.EINTR {
			return err
		}
	}
}

func flock(fd int, how int) error {
	for {
		if err := unix.Flock(fd, how); err != unix.EINTR {
			return err
		}
	}
}
