//go:build !linux

package classify

import "time"

// threadTime is the time of day: the thread's own is not known here.
func threadTime() time.Duration { return time.Duration(time.Now().UnixNano()) }
