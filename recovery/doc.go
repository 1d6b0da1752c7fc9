// Package recovery judges what a tester proposes. It reads the proposal (recovery.json), reads the policy (the recovery
// section of config.json), and decides: Decide is a pure function from policy, command and facts to a verdict with its
// rule and its reason.
//
// Three rules hold the package together:
//
//   - A command runs without an operator only if its bytes are those of an entry of auto_approve (or if nobody is asked
//     at all: on_unknown "allow"). Neither side is trimmed, folded or normalised.
//   - Analysis, which parses the command as bash would, can turn "auto" into "human" and say why; it never grants
//     anything. What it does not understand it calls opaque.
//   - Whatever goes wrong inside (an odd policy, a panic) is a question for the operator.
//
// Nothing here runs a command, and a command is never printed back from its parsed form: what is executed are the bytes
// that were judged.
//
// require_human is a tripwire, not a wall: a program can be reached in more ways than any list of patterns names. The
// wall is auto_approve, and the sandbox below it.
package recovery
