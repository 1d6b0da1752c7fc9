package recovery

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime is the processor time that this thread has had.
func threadTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
