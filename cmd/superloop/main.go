// Command superloop keeps a loop of coding agents alive: it runs the roles, judges their work by gates that it executes
// itself, and records what happened.
package main

import (
	"os"

	"github.com/superloop/superloop/loop/local"
)

func main() {
	local.Main()
	os.Exit(run(os.Args, os.Stdin, os.Stdout, os.Stderr))
}
