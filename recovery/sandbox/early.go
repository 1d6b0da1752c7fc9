package sandbox

import "os"

// Every recovery command, and every preparation of a Protection, begins with a start of superloop as the shim. The shim
// needs nothing of the initialization of the other packages (the schema library compiles its own schemas, 4 ms of the
// 12 that a start took). Go initializes packages in the order of their paths, each as soon as its imports are
// initialized. This package imports little, so its variables are initialized before those of the heavy packages. The
// process has become bash, or a spawner process, before those are initialized. main looks for ShimArg all the same: the
// order matters only for speed. TestShimIsEarly checks it.
var _ = becomeShim()

func becomeShim() struct{} {
	if len(os.Args) > 1 && os.Args[1] == ShimArg {
		os.Exit(ShimMain())
	}
	return struct{}{}
}
