//go:build unix && !linux

package recovery

import (
	"os"
	"path/filepath"
)

// in is a path to an entry of an open directory.
func in(dir *os.File, name string) string { return filepath.Join(dir.Name(), name) }
