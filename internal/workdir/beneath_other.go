//go:build unix && !linux

package workdir

import "golang.org/x/sys/unix"

// lookAt opens a directory for nothing but going through it.
const lookAt = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC

// beneath opens a directory below the repository.
func (r *Root) beneath(rel string) (int, error) { return r.beneathRoot(rel) }
