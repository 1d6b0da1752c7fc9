// Command superloop keeps a loop of coding agents alive: it runs the roles,
// judges their work by gates that it executes itself, and records what happened.
package main

import "os"

func main() {
	if code, ok := hidden(os.Args); ok {
		os.Exit(code)
	}
	os.Exit(run(os.Args, os.Stdin, os.Stdout, os.Stderr))
}
