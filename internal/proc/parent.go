package proc

import "runtime"

// startBound calls start, which starts the spawner process, in a thread that lives until ended is closed. To the kernel
// the parent of a process is a thread, and its end is what Pdeathsig reports. The Go runtime ends threads at any time,
// but not one that a goroutine has locked.
func startBound(ended <-chan struct{}, start func() error) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := start()
		if started <- err; err == nil {
			<-ended
		}
	}()
	return <-started
}
