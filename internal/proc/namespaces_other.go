//go:build unix && !linux

package proc

import (
	"errors"
	"syscall"
)

func (n Namespaces) apply(*syscall.SysProcAttr) error {
	if n != (Namespaces{}) {
		return errors.New("this system has no namespaces")
	}
	return nil
}
