package classify

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime is the processor time of the thread, to the nanosecond: what others
// do on the machine does not count. The caller holds its thread.
func threadTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}
