package cage

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Undumpable keeps other processes of the same user from tracing this one, from
// reading its memory and environment, and from going through its directories and
// namespaces in /proc, unless they have CAP_SYS_PTRACE. Processes that it starts
// are not affected. There are no core files and no debuggers then.
func Undumpable() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("becoming undumpable: %w", err)
	}
	return nil
}
