package sandbox

import "os"

// Every recovery, and every preparation of a Protection, begins with a start of superloop as the shim. What the rest of
// the program prepares for itself (the schema library compiles its own schemas, 4 ms of the 12 that a start took) is of
// no use to the shim. Go initialises packages in the order of their paths as soon as what they import is initialised;
// this one imports little, so its variables come before the heavy packages' ones, and the process has become bash, or a
// spawner process, before their turn. main looks for ShimArg all the same: the order is a matter of speed alone.
// TestShimIsEarly watches it.
var _ = becomeShim()

func becomeShim() struct{} {
	if len(os.Args) > 1 && os.Args[1] == ShimArg {
		os.Exit(ShimMain())
	}
	return struct{}{}
}
