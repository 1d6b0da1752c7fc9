package proc

import "os"

// Every run, and every set of mounts for agents, begins with a start of superloop as the spawner process. It needs nothing
// of the initialization of the packages that superloop is made of, which takes longer than its own work. Go initializes
// packages in the order of their paths, each as soon as its imports are initialized. This package imports little, so the
// process serves before the heavy packages are initialized, and without their memory. main looks for SpawnerArg all the
// same: the order matters only for speed. TestShimIsEarly of cmd/superloop checks it.
var _ = becomeSpawner()

func becomeSpawner() struct{} {
	if len(os.Args) > 1 && os.Args[1] == SpawnerArg {
		os.Exit(SpawnerMain())
	}
	return struct{}{}
}
