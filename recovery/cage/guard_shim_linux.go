package cage

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	busyRetries = 5
	busyPause   = 20 * time.Millisecond
)

// become is the life of the shim from the order on, if it is to be an agent. It
// returns when that failed, or for a probe.
func (a *agentOrder) become() int {
	rep := report{Level: None}
	back, err := a.takeFiles()
	if err != nil {
		rep.fail(broken, err)
		_ = say(reportFD, rep) // if nobody listens nobody will miss it
		return 1
	}
	if err := a.guard(&rep); err != nil {
		rep.fail(noMount, err)
	}
	if err := say(back, rep); err != nil || rep.Failure != "" {
		return 1
	}
	if a.Probe {
		return 0
	}
	path, argv, env := string(a.Path), convert[string](a.Argv), convert[string](a.Env)
	err = syscall.Exec(path, argv, env)
	// A script that was written a moment ago may still be open in a process that
	// is about to execute something else; nothing tells when that is over.
	for try := 0; err == syscall.ETXTBSY && try < busyRetries; try++ {
		<-time.After(busyPause)
		err = syscall.Exec(path, argv, env)
	}
	rep.fail(broken, fmt.Errorf("executing %s: %w", path, err))
	if no := syscall.Errno(0); errors.As(err, &no) {
		rep.Errno = int(no)
	}
	_ = say(back, rep)
	return 1
}

// takeFiles moves the agent's descriptors to where it expects them, in the place
// of the shim's own, and returns where the report goes now. Those alone outlive
// the exec.
func (a *agentOrder) takeFiles() (back int, err error) {
	back, err = unix.FcntlInt(reportFD, unix.F_DUPFD_CLOEXEC, orderFD+shimFiles+a.Files)
	if err != nil {
		return -1, fmt.Errorf("keeping the way back: %w", err)
	}
	for i := range a.Files {
		if err := unix.Dup3(orderFD+shimFiles+i, orderFD+i, 0); err != nil {
			return -1, fmt.Errorf("passing a file on: %w", err)
		}
	}
	return back, nil
}
