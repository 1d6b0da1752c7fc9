//go:build !linux

package multiscan

import "time"

var started = time.Now()

// threadTime is the time since the start: the thread's own is not known here.
func threadTime() time.Duration { return time.Since(started) }
