package local

import (
	"errors"
	"os"
	"sync/atomic"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/recovery/sandbox"
)

// startsHelpers says that the main function of this program has called Main.
var startsHelpers atomic.Bool

// ErrNoMain says that the main function of the program did not call Main before Run.
var ErrNoMain = errors.New("superloop starts this program again as its helper processes, but its main does not know them: call local.Main() first thing in main (in tests: in TestMain)")

// Main must be the first call in the main function of a program that calls Run. superloop starts the program's own
// binary again as its helper processes (the spawner, the sandbox shim, and the trial of the wall). In such a process Main does not return.
func Main() {
	startsHelpers.Store(true)
	if len(os.Args) < 2 {
		return
	}
	switch os.Args[1] {
	case proc.SpawnerArg:
		os.Exit(proc.SpawnerMain())
	case sandbox.ShimArg:
		os.Exit(sandbox.ShimMain())
	case sandbox.KnockArg:
		os.Exit(sandbox.KnockMain(os.Args[2:]))
	}
}
