// Package loop is the machine that a superloop run is, and the local driver
// that carries it out.
//
// The machine is one pure function, Step: a State and an Input give the next
// State and the Effects that follow from it. It has no clock, no I/O, no
// goroutine and no randomness; time arrives inside the input. Everything that
// it takes and gives is a plain JSON value, so that another engine than the
// local one can drive it.
//
// The driver (Run) carries effects out and reports what came of them as
// inputs. Each input is one line of events.jsonl, appended before it is acted
// upon; the journal is therefore the truth, and a State is what remains after
// folding it (Replay). state.json and every other file are views of it.
//
//	input --Step--> state + effects --driver--> next input
//	  |                    |
//	  +--- events.jsonl <--+  (an input and its Record effects are one write)
package loop
