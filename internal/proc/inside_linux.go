package proc

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Enter sets up what a level needs of the mounts, as long as that may be done: a program that becomes a spawner process
// calls it before it gives up its capabilities.
func Enter(l Level) error {
	if l != PIDNamespace {
		return nil
	}
	_, err := newNamespace()
	return err
}

// Undumpable keeps other processes of the same user from tracing this one, from reading its memory and environment, and
// from going through its directories and namespaces in /proc, unless they have CAP_SYS_PTRACE. Processes that it starts are
// not affected. There are no core files and no debuggers then. Other systems cannot do that; there it does nothing.
func Undumpable() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("becoming undumpable: %w", err)
	}
	return nil
}

// unmapped is apply, but an ordinary user's process maps itself, with MapUser: the files in /proc by which a parent
// does that are closed to one that is undumpable.
func (n Namespaces) unmapped(attr *syscall.SysProcAttr) error {
	if err := n.apply(attr); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		attr.UidMappings, attr.GidMappings = nil, nil
	}
	return nil
}

// MapUser maps the user and the group that started this process in a user namespace of its own to the same numbers. Root's are
// mapped already.
func MapUser(uid, gid int) error {
	if uid == 0 {
		return nil
	}
	for _, f := range []struct{ path, text string }{
		{"/proc/self/setgroups", "deny"},
		{"/proc/self/uid_map", fmt.Sprintf("%d %d 1\n", uid, uid)},
		{"/proc/self/gid_map", fmt.Sprintf("%d %d 1\n", gid, gid)},
	} {
		fd, err := unix.Open(f.path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			_, err = unix.Write(fd, []byte(f.text))
			unix.Close(fd)
		}
		if err != nil {
			return fmt.Errorf("mapping the user: %s: %w", f.path, err)
		}
	}
	return nil
}
