//go:build unix && !linux

package proc

import (
	"errors"
	"fmt"
	"syscall"
)

const waitAll = 0

func spawnerAttr(Level, bool) (attr *syscall.SysProcAttr, more []string, err error) {
	return &syscall.SysProcAttr{Setsid: true}, nil, nil
}

// NeedsUser returns false: this system has no namespaces.
func NeedsUser() bool { return false }

// NamespaceHint returns "".
func NamespaceHint() string { return "" }

// Undumpable does nothing on this system.
func Undumpable() error { return nil }

func (n Namespaces) apply(*syscall.SysProcAttr, bool) error {
	if n != (Namespaces{}) {
		return errors.New("this system has no namespaces")
	}
	return nil
}

// Sweep returns nil: on this system a process cannot read the environment of another one.
func Sweep(marker string) []int { return nil }

// endOrphans does nothing: the kill of the process group is all that this system offers.
func endOrphans(session int, cgroups string) {}

// bounds returns "": on this system a process sets only its own limits.
func bounds() string { return "" }

func contain(l Level, _ []string) (containment, error) {
	if l != ProcessGroup {
		return nil, fmt.Errorf("%s does not exist on this system", l)
	}
	return group{}, nil
}
