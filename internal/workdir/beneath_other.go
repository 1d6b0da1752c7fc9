//go:build unix && !linux

package workdir

import "golang.org/x/sys/unix"

// lookAt holds the flags to open a directory from which the caller only opens other directories.
const lookAt = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC

// beneath opens a directory below the repository.
func (r *Root) beneath(rel string) (int, error) { return r.beneathRoot(rel) }
