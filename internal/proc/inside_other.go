//go:build unix && !linux

package proc

import "syscall"

// Undumpable does nothing here.
func Undumpable() error { return nil }

func (n Namespaces) unmapped(attr *syscall.SysProcAttr) error { return n.apply(attr) }
