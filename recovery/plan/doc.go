// Package plan is the state of fixing one failed command: a stack of levels, since a remedy can itself need a remedy.
//
//	goal: npm test fails (level 1: missing dependency)
//	   chosen: npm ci, which fails too (level 2: the cache is damaged)
//	      chosen: npm cache verify, succeeds: back to level 1
//	   npm ci again, succeeds: the goal's command runs again, and passes: done
//
// Three levels at most, no option twice, no level whose goal is that of an unfinished one above it, a bound on attempts
// and on time. Whoever walks the chain asks Advance for the next move, carries it out, and says what came of it: Begin
// before, then Succeeded, Failed, Skipped or Verified. There is no clock and no I/O in it: a Chain is a plain value
// that is written down before and after each move, so that a killed walker finds its place, and what was begun and has
// no outcome is never begun again by itself.
//
// An operator may Pick an option on any level, Retry a level, Cancel, and answer for what has no outcome with Lost or
// Again. Describe and Response show a chain.
//
// A loop walks a chain within its own state. Outside of one, package walk does, with files as the truth. remedy.Choices
// makes the options of a plan into those of a level.
package plan
