package proc

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// apply asks for the namespaces in attr.
func (n Namespaces) apply(attr *syscall.SysProcAttr) error {
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
	var err error
	if attr.UidMappings, err = ownIDs("/proc/self/uid_map", os.Geteuid()); err != nil {
		return err
	}
	attr.GidMappings, err = ownIDs("/proc/self/gid_map", os.Getegid())
	attr.GidMappingsEnableSetgroups = os.Geteuid() == 0
	if os.Geteuid() != 0 { // else it would lose all of them with its exec
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
	}
	return err
}

// ownIDs maps ids to themselves: for root all that a file like /proc/self/uid_map lists, else only own.
func ownIDs(table string, own int) ([]syscall.SysProcIDMap, error) {
	if os.Geteuid() != 0 {
		return []syscall.SysProcIDMap{{ContainerID: own, HostID: own, Size: 1}}, nil
	}
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
