// Package walk walks a chain outside of a loop, with files as the truth: a chain is on the disk before and after each
// move, so that a killed walker finds its place. Whoever walks hands in a Doer, which judges, waits and runs.
package walk
