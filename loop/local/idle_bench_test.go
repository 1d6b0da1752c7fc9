package local

import (
	"syscall"
	"testing"
	"time"
)

// idle gives the milliseconds of processor time that this process takes in a second
// of waiting.
func idle(b *testing.B) float64 {
	b.Helper()
	spent := func() time.Duration {
		var ru syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &ru); err != nil {
			b.Fatal(err)
		}
		return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
	}
	const span = 3 * time.Second
	before := spent()
	<-time.After(span)
	return float64((spent() - before).Microseconds()) / 1e3 / span.Seconds()
}
