package sandbox

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/internal/proc"
)

// become is the life of the shim from the order on, if it is to be the spawner
// process of agents. It returns when that failed.
func (a *agentOrder) become() int {
	rep := report{Level: None}
	back, err := takeControl()
	if err != nil {
		rep.fail(broken, err)
		_ = say(reportFD, rep) // if nobody listens nobody will miss it
		return 1
	}
	if err := a.guard(&rep); err != nil {
		rep.fail(noMount, err)
	} else if err := watchMounts(); err != nil {
		rep.fail(noMount, err)
	}
	if err := say(back, rep); err != nil || rep.Failure != "" {
		return 1
	}
	err = syscall.Exec(string(a.Path), convert[string](a.Argv), convert[string](a.Env))
	rep.fail(broken, fmt.Errorf("executing %s: %w", a.Path, err))
	_ = say(back, rep)
	return 1
}

// takeControl moves the control socket to where the spawner process expects it, in
// the place of the order, and returns where the report goes now.
func takeControl() (back int, err error) {
	back, err = unix.FcntlInt(reportFD, unix.F_DUPFD_CLOEXEC, orderFD+shimFiles+1)
	if err != nil {
		return -1, fmt.Errorf("keeping the way back: %w", err)
	}
	if err := unix.Dup3(orderFD+shimFiles, proc.ControlFD, 0); err != nil {
		return -1, fmt.Errorf("passing the control socket on: %w", err)
	}
	return back, nil
}

// watchMounts leaves the spawner process a descriptor that tells when the mounts change. They do when a file under a
// mount is removed or replaced from outside (the kernel takes the mount away then), and when something is mounted or
// unmounted on the host.
func watchMounts() error {
	fd, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.Dup3(fd, proc.WatchFD, 0)
	}
	if err != nil {
		return fmt.Errorf("watching the mounts: %w", err)
	}
	return nil
}
