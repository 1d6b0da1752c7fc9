// Package loop is the state machine of a superloop run.
//
// The machine is one pure function, Step. A State and an Input give the next State and the Effects that follow from the
// input. Step has no clock, no I/O, no goroutine and no randomness. Time arrives inside the input. Everything that Step
// takes and returns is a plain JSON value.
//
//	input --Step--> state + effects --engine, performers--> next input
//	  |                    |
//	  +--- events.jsonl <--+  (an input and its Record effects are one write)
//
// An engine drives the machine. It asks Due for the next effect, lets a performer (loop/effects) carry the effect out,
// and gives the resulting fact to Apply. Apply returns the lines for the journal. The engine writes a line before it
// acts upon it, so the journal is the truth, and Replay computes the State from the journal alone. loop/local is the
// engine of one machine. Another engine needs the same five calls: Apply, Due, Check, SyncedStep, Replay.
//
// # What is stable
//
// Other programs read the names of events and their fields, the values of Status, and the JSON of Wire. These only
// grow. A journal that a released superloop has written always leads to the same State. A change that would lead it to
// another State gets a new number of rules (CurrentRules). The fields of State, the kinds of Effect and the ids of
// effects belong to one version. An engine carries them and bases no decision on them.
package loop
