//go:build unix && !linux

package proc

import "golang.org/x/sys/unix"

func (id *Identity) complete() {}

func (id Identity) running() bool { return unix.Kill(id.PID, 0) != unix.ESRCH }
