// Package loop is the machine that a superloop run is, and nothing else.
//
// The machine is one pure function, Step: a State and an Input give the next State and the Effects that follow from it.
// It has no clock, no I/O, no goroutine and no randomness; time arrives inside the input. Everything that it takes and
// gives is a plain JSON value.
//
//	input --Step--> state + effects --engine, performers--> next input
//	  |                    |
//	  +--- events.jsonl <--+  (an input and its Record effects are one write)
//
// An engine drives it: it asks Due what to do, has a performer do it (loop/effects), and gives what came of it to
// Apply, which returns the lines for the journal. A line is written before it is acted upon; the journal is therefore
// the truth, and a State is what remains after folding it (Replay). loop/local is the engine of one machine; another
// one needs the same five calls: Apply, Due, Check, Synced, Replay.
//
// # What is stable
//
// Names of events and their fields, the values of Status, and the JSON of Wire are read by other programs and only
// grow. A journal that a released superloop has written leads to the same State for ever: a change that would lead it
// elsewhere gets a new number of rules (CurrentRules). The fields of State, the kinds of Effect and their ids belong to
// one version: an engine carries them and decides nothing by them.
package loop
