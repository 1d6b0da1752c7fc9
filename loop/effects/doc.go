// Package effects performs what the machine asks for: one performer per family of
// effects, each a small type with the ports that it needs.
//
// A performer takes an effect and the state that issued it, touches the world, and gives the fact that came of it. It
// holds no state of the loop: whatever decides stands in the journal, so that a performer can be replaced between two
// effects, by another process or on another machine. What it keeps between two effects is a cache of what lies on the
// disk, and can be lost.
//
// An engine (loop/local) chooses the performer by the effect's kind, gives it a
// context that ends when the loop is to stop, and puts its fact through the machine.
package effects
