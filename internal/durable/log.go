package durable

import (
	"os"
)

// maxLog is the size from which OpenLog sets a log aside, in bytes.
const maxLog = 8 << 20

// OpenLog opens a log that another process is going to append to. If the log is larger than 8 MiB, it becomes path.1, and
// the one before it goes. Steps: rename, open.
func (d Disk) OpenLog(path string) (*os.File, error) {
	if info, err := os.Lstat(path); err == nil && info.Size() > maxLog {
		if err := d.Rename("log", path, path+".1"); err != nil {
			return nil, err
		}
	}
	return d.open("log", "open", path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
}
