// Command superloop keeps a loop of coding agents alive: it runs the roles,
// judges their work by gates that it executes itself, and records what happened.
package main

import (
	"os"

	"github.com/superloop/superloop/internal/proc"
)

func main() {
	// The process that starts agents is this binary again; it must do nothing
	// else of what a start of superloop does.
	if len(os.Args) > 1 && os.Args[1] == proc.SpawnerArg {
		os.Exit(proc.SpawnerMain())
	}
	os.Exit(run(os.Args, os.Stdin, os.Stdout, os.Stderr))
}
