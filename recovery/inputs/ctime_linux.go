package inputs

import "syscall"

// changeTime returns the time of the last change of the file or its owner, mode or times, in nanoseconds. No program
// can set it.
func changeTime(st *syscall.Stat_t) int64 { return st.Ctim.Nano() }
