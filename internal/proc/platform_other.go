//go:build unix && !linux

package proc

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	defaultExe = "" // asked from os.Executable
	waitAll    = 0
	pipeSize   = 64 << 10 // what a pipe can hold, in bytes
)

func ladder() []Level { return []Level{ProcessGroup} }

func spawnerAttr(Level) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// streamPair is a pair of connected sockets, close-on-exec.
func streamPair() ([2]int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(p[0])
		unix.CloseOnExec(p[1])
	}
	return p, err
}

// widePipe is a pipe, close-on-exec.
func widePipe() (p [2]int, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err = unix.Pipe(p[:]); err == nil {
		unix.CloseOnExec(p[0])
		unix.CloseOnExec(p[1])
	}
	return p, err
}

// recvRights is one recvmsg; descriptors that arrive are made close-on-exec before any fork.
func recvRights(sock int, p, oob []byte) (n, oobn int, err error) {
	for {
		n, oobn, _, _, err = unix.Recvmsg(sock, p, oob, 0)
		if err == unix.EINTR {
			continue
		}
		if err == nil && oobn > 0 {
			if msgs, perr := unix.ParseSocketControlMessage(oob[:oobn]); perr == nil {
				for i := range msgs {
					fds, _ := unix.ParseUnixRights(&msgs[i])
					for _, fd := range fds {
						unix.CloseOnExec(fd)
					}
				}
			}
		}
		return n, oobn, err
	}
}

// Undumpable does nothing here.
func Undumpable() error { return nil }

func (n Namespaces) unmapped(attr *syscall.SysProcAttr) error { return n.apply(attr) }

func (n Namespaces) apply(*syscall.SysProcAttr) error {
	if n != (Namespaces{}) {
		return errors.New("this system has no namespaces")
	}
	return nil
}

func (id *Identity) complete() {}

func (id Identity) running() bool { return unix.Kill(id.PID, 0) != unix.ESRCH }

// Sweep finds nothing here: the environment of another process cannot be read on this system.
func Sweep(marker string) []int { return nil }

// endOrphans has nothing to add to the kill of the process group.
func endOrphans(session int, cgroups string) {}

func contain(l Level) (containment, error) {
	if l != ProcessGroup {
		return nil, fmt.Errorf("%s does not exist on this system", l)
	}
	return group{}, nil
}

// onlyZombies cannot be told here. Zombies of a killed group go as soon as init has read their status.
func onlyZombies(group int) bool { return false }
