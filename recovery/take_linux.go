package recovery

import (
	"fmt"
	"os"
)

// in is a path to an entry of an open directory: nothing above it can be exchanged any more.
func in(dir *os.File, name string) string { return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name) }
