package main

import (
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/recovery/cage"
)

// hidden are the two arguments by which superloop starts itself: as the process
// that starts agents and commands, and as the shim that confines a recovery
// command before it becomes that command. Neither may do anything else of what a
// start of superloop does, so they are looked at before the flags.
func hidden(args []string) (code int, ok bool) {
	if len(args) < 2 {
		return 0, false
	}
	switch args[1] {
	case proc.SpawnerArg:
		return proc.SpawnerMain(), true
	case cage.ShimArg:
		return cage.ShimMain(), true
	}
	return 0, false
}
