//go:build unix && !linux

package sandbox

import "golang.org/x/sys/unix"

// lookAt opens a directory that is only gone through.
const lookAt = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC

func beneath(_ int, root, rel string) (int, error) { return below(root, rel) }
