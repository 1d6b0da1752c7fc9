//go:build !linux

package recovery

import "time"

var start = time.Now()

func threadTime() time.Duration { return time.Since(start) }
