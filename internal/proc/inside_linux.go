package proc

import (
	"fmt"
	"os"
	"strings"
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
// from going through its directories and namespaces in /proc, unless they have CAP_SYS_PTRACE. Processes that it starts
// are not affected. There are no core files then. On systems other than Linux it does nothing.
func Undumpable() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("becoming undumpable: %w", err)
	}
	return nil
}

// apply asks for the namespaces in attr. If unmapped, an ordinary user's process maps itself, with MapUser: the files
// in /proc by which a parent does that are closed to one that is undumpable.
func (n Namespaces) apply(attr *syscall.SysProcAttr, unmapped bool) (err error) {
	if n.Mount {
		attr.Cloneflags |= unix.CLONE_NEWNS
	}
	if n.Network {
		attr.Cloneflags |= unix.CLONE_NEWNET
	}
	if !n.User {
		return nil
	}
	attr.Cloneflags |= unix.CLONE_NEWUSER
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN} // else it would lose all of them with its exec
		if !unmapped {
			attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
			attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		}
		return nil
	}
	attr.GidMappingsEnableSetgroups = true
	if attr.UidMappings, err = ownIDs("/proc/self/uid_map"); err != nil {
		return err
	}
	attr.GidMappings, err = ownIDs("/proc/self/gid_map")
	return err
}

// ownIDs maps to themselves all ids that a file like /proc/self/uid_map lists.
func ownIDs(table string) ([]syscall.SysProcIDMap, error) {
	text, err := os.ReadFile(table)
	if err != nil {
		return nil, fmt.Errorf("mapping users: %w", err)
	}
	var all []syscall.SysProcIDMap
	for line := range strings.Lines(string(text)) {
		var inside, outside, size int
		if _, err := fmt.Sscan(line, &inside, &outside, &size); err != nil {
			return nil, fmt.Errorf("mapping users: %s: %q: %w", table, line, err)
		}
		all = append(all, syscall.SysProcIDMap{ContainerID: inside, HostID: inside, Size: size})
	}
	return all, nil
}

// MapUser maps the user and the group that started this process in a user namespace of its own to the same numbers.
// Root's are mapped already.
func MapUser(uid, gid int) error {
	if uid == 0 {
		return nil
	}
	for _, f := range []struct{ path, text string }{
		{"/proc/self/setgroups", "deny"},
		{"/proc/self/uid_map", fmt.Sprintf("%d %d 1\n", uid, uid)},
		{"/proc/self/gid_map", fmt.Sprintf("%d %d 1\n", gid, gid)},
	} {
		if err := put(f.path, f.text); err != nil {
			return fmt.Errorf("mapping the user: %s: %w", f.path, err)
		}
	}
	return nil
}

// put writes a file of the kernel's.
func put(path, text string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return writeAll(fd, []byte(text))
}
