package proc

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// descriptors are the ends of stdin, stdout and stderr that the command gets; -1 is none.
type descriptors struct{ stdin, stdout, stderr int }

// close closes them, once.
func (d *descriptors) close() {
	for _, fd := range []*int{&d.stdin, &d.stdout, &d.stderr} {
		if *fd >= 0 {
			unix.Close(*fd)
			*fd = -1
		}
	}
}

// descriptorsOf are the numbers of the files, which must be kept alive while those are used.
func descriptorsOf(files []*os.File) []int {
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	return fds
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// controlPair returns the two ends of the control socket: ours non-blocking, for the runtime's poller, theirs blocking.
func controlPair() (ours, theirs *os.File, err error) {
	p, err := streamPair()
	if err == nil {
		ours, err = pollable(p, "control")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("making the control socket: %w", err)
	}
	return ours, os.NewFile(uintptr(p[1]), "control"), nil
}

// outputPipe returns a pipe: the end to read is non-blocking, for the runtime's poller, the end to write is a plain
// blocking one, as a command expects it.
func outputPipe() (r *os.File, w int, err error) {
	p, err := widePipe()
	if err == nil {
		r, err = pollable(p, "output")
	}
	if err != nil {
		return nil, -1, fmt.Errorf("making an output pipe: %w", err)
	}
	return r, p[1], nil
}

// pollable makes a file of p[0], non-blocking. If that fails, both ends are closed.
func pollable(p [2]int, name string) (*os.File, error) {
	if err := unix.SetNonblock(p[0], true); err != nil {
		closeAll(p[:])
		return nil, err
	}
	return os.NewFile(uintptr(p[0]), name), nil
}
