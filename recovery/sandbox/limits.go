package sandbox

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// Resource limits of the command and of each process that it starts, hard and soft. None is raised by them.
const (
	maxCore = 0 // no core files: they hold the memory, and lie in the repository
	// maxOpen is enough for any package manager, and keeps one that leaks descriptors from filling the system's table.
	maxOpen = 4096
	// maxFile is the largest file in bytes. It bounds a program that fills the disk by one file; SIGXFSZ ends it.
	maxFile = 16 << 30
	// maxTasks bounds the processes and threads of the user, all of them, not only the command's; in a user namespace
	// of its own those in there. The kernel does not apply it to root: there the timeout bounds a fork bomb.
	maxTasks = 8192
)

func limit() error {
	for _, l := range []struct {
		name string
		what int
		most uint64
	}{
		{"core size", unix.RLIMIT_CORE, maxCore},
		{"open files", unix.RLIMIT_NOFILE, maxOpen},
		{"file size", unix.RLIMIT_FSIZE, maxFile},
		{"processes", unix.RLIMIT_NPROC, maxTasks},
	} {
		var now syscall.Rlimit
		if err := syscall.Getrlimit(l.what, &now); err != nil {
			return fmt.Errorf("limiting %s: %w", l.name, err)
		}
		most := min(now.Max, l.most)
		// Of package syscall, so that its Exec does not put the limit of open files
		// back to what this process started with.
		if err := syscall.Setrlimit(l.what, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("limiting %s to %d: %w", l.name, most, err)
		}
	}
	return nil
}
