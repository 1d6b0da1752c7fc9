// Package verify sees whether a tool works, and repairs a verify section that asks the wrong question: a tool that does
// not know --version fails its check and works all the same.
//
// The proof that it works is what only a running program can write: a line of usage, or its own refusal of the argument
// that it was given. The name of the tool and a long output prove nothing: broken tools write them too. What proves the
// contrary - a missing library or module, a panic, a stack trace, a signal - beats everything else, in the check and in
// every fallback.
//
// A section that an operator wrote is never repaired, and no section is ever changed: a repair is a copy.
package verify
