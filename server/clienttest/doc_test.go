// Package clienttest generates clients of the daemon's interface from the description that a running daemon serves, compiles
// them, and plays every route with one: a real daemon, real loops, and agents that are scripts. It is a module of its own,
// so that superloop does not depend on generators.
//
//	go test ./...
//
// What is generated lies in testdata/api/ and is not kept. The tests in routes/ are compiled against it, so a change of a name or a
// type that breaks clients fails here.
package clienttest
