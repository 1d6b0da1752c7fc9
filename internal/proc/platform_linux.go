package proc

import (
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	defaultExe = "/proc/self/exe" // the very file that runs, even if it was replaced by an upgrade since
	waitAll    = unix.WALL        // children made by clone with another exit signal as well
	pipeSize   = 1 << 20          // wanted capacity of an output pipe, in bytes
)

func ladder() []Level { return []Level{PIDNamespace, Cgroup, Subreaper, ProcessGroup} }

// spawnerAttr returns how the spawner process is started for a level.
func spawnerAttr(l Level) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setsid: true}
	if l == PIDNamespace {
		a.Cloneflags = unix.CLONE_NEWPID | unix.CLONE_NEWNS
	}
	return a
}

// streamPair is a pair of connected sockets, close-on-exec.
func streamPair() ([2]int, error) {
	return unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
}

// widePipe is a pipe, close-on-exec. It is made large, so that a burst of output rarely makes the command
// wait; where the system grants less, the default size serves as well.
func widePipe() (p [2]int, err error) {
	if err = unix.Pipe2(p[:], unix.O_CLOEXEC); err == nil {
		_, _ = unix.FcntlInt(uintptr(p[0]), unix.F_SETPIPE_SZ, pipeSize)
	}
	return p, err
}

// recvRights is one recvmsg; descriptors that arrive are close-on-exec from the start.
func recvRights(sock int, p, oob []byte) (n, oobn int, err error) {
	for {
		n, oobn, _, _, err = unix.Recvmsg(sock, p, oob, unix.MSG_CMSG_CLOEXEC)
		if err != unix.EINTR {
			return n, oobn, err
		}
	}
}
