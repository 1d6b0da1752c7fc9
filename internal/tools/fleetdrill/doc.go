// Package fleetdrill breaks a fleet on purpose and says what came of it: real loops of the real programs on a real Temporal
// server, which it starts itself. It has only tests.
package fleetdrill
