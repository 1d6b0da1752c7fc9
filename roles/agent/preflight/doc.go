// Package preflight finds out before a long run whether a runner will work: is its program there and can this machine
// start it, which version is it, does that version know every flag of the command lines that the roles will get, is
// there a login, and is there one of the traps that let a run end at once, or do nothing, without an error that anybody
// would see.
//
// It spends no token and uses no network. The program is started with nothing but the arguments that print its version
// and its help (and codex once to run "true" in its sandbox), with an empty standard input and a bound of time, in the
// environment and the directory that the agent would get. A program of which nothing is known is only asked whether it
// works, and only if Examiner has Verify. A script that would take no notice of such a question and begin to work is
// never started.
//
// The flags are judged by the help of the installed program, not by a list that ages. A help that cannot be read leaves
// them unchecked, which is said and is no error.
package preflight
