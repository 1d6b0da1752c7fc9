package durable

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// syncSystems flushes the file systems on which the paths lie. It reports whether it could.
func syncSystems(paths []string) (bool, error) {
	done := map[uint64]bool{}
	for _, path := range paths {
		f, err := openToSync(path)
		if err != nil {
			return false, err
		}
		if f == nil {
			continue
		}
		var st unix.Stat_t
		err = unix.Fstat(int(f.Fd()), &st)
		if err == nil && !done[st.Dev] {
			done[st.Dev] = true
			err = unix.Syncfs(int(f.Fd()))
		}
		f.Close()
		if err == syscall.ENOSYS {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}
