package recovery

import (
	"os"

	"golang.org/x/sys/unix"
)

// beneathRoot opens a directory with os.Root, which goes step by step and lets no step leave the repository.
func (r *Root) beneathRoot(rel string) (int, error) {
	f, err := r.dir.OpenFile(rel, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0) // a FIFO would wait for a writer
	if err != nil {
		return -1, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return -1, err
	}
	if !info.IsDir() {
		return -1, unix.ENOTDIR
	}
	return unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
}
