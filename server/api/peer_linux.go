package api

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// peerOfConn asks the kernel which process opened the connection.
func peerOfConn(c net.Conn) (p peer, err error) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return p, errors.New("it is no unix socket")
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return p, err
	}
	var cred *unix.Ucred
	var cerr error
	if err := raw.Control(func(fd uintptr) { cred, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return p, err
	}
	if cerr != nil {
		return p, cerr
	}
	return peer{PID: int(cred.Pid), UID: int(cred.Uid)}, nil
}
