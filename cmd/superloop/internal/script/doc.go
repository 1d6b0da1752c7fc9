// Package script is the built-in scripted agent: it plays a scenario file as a
// real child process in the place of an agent CLI. `superloop demo` and the
// tests use it, and anyone who wants to see what a loop does before paying for
// a model.
//
// It stands in for a foreign process, so it does what such processes do: this
// package is the one named exception from the rule that only internal/durable
// opens files for writing, and it may ignore signals and leave processes
// behind. Nothing of superloop may import it but the hidden verb that runs it.
//
// # Scenario files
//
//	{"version": 1,
//	 "turns": [
//	   {"role": "planner", "iteration": 1, "attempt": 1, "steps": [STEP, ...]},
//	   ...],
//	 "default": [STEP, ...]}
//
// The first turn plays whose matchers (role, iteration, attempt, each optional)
// all equal SUPERLOOP_ROLE, SUPERLOOP_ITERATION and SUPERLOOP_ATTEMPT; if none
// does, "default" plays. Without a default the agent says what it would have
// needed, writes a minimal report and ends with 0. A STEP is one of
//
//	{"say": TEXT}                               one line or more on standard output
//	{"stderr": TEXT}                            the same on standard error
//	{"write": {"path": P, "content": TEXT}}     a file below the working directory
//	{"append": {"path": P, "content": TEXT}}
//	{"delete": {"path": P}}
//	{"report": TEXT}                            the role's report in SUPERLOOP_LOOP_DIR
//	{"last_message": TEXT}                      SUPERLOOP_LAST_MESSAGE_FILE
//	{"run": [ARG, ...]}                         a command, waited for; its failure is told, not fatal
//	{"spawn": [ARG, ...], "detach": true}       a command left running; detached: in its own session
//	{"sleep_ms": N}
//	{"flood_bytes": N}                          so much standard output, in lines of 80 bytes
//	{"ignore_term": true}                       SIGTERM has no effect from here on; false: it has again
//	{"exit": N}                                 the end, with that exit code
//
// In every TEXT and P, {iteration}, {role} and {loop} are replaced. A path is
// relative to the working directory, or absolute, and stays below that
// directory, also through symbolic links. The file, and each turn, may have a
// "description".
//
// Exit codes: what "exit" says; 0 at the end of the steps; 2 when the scenario
// or a step of it is wrong, with the turn and step on standard error.
package script
