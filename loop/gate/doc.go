// Package gate judges one iteration of a loop: promise, tests, checklists, evidence, prerequisites, validation,
// approval and stuck, each its own file.
//
// Gates are executed, never claimed by an agent: every verdict here comes from bytes that were read or from commands
// that were run by the supervisor. Where a gate cannot verify what it was asked to verify (a file that cannot be read,
// a selector that it does not understand, a path outside the repository), it fails and says so.
//
// Nothing here writes a file, runs a command or asks for the time. A gate reads the repository through a directory
// handle that cannot be left by "..", an absolute path or a symbolic link, and returns a value; methods of that value
// render the files of the contract, with the time given by the caller:
//
//	gate           file                         statuses
//	promise        -                            true, false
//	tests          test-status.json             ok, failed, skipped
//	checklists     checklist-status.json        ok, remaining
//	evidence       evidence.json                ok, failed
//	prerequisites  prerequisites-results.json   ok, failed
//	validation     validation-results.json      ok, failed, skipped
//	stuck          stuck.json                   n/m
//	approval       approval.json                skipped, pending, approved, rejected
//
// JSON files are indented by two spaces and end in a newline; their times are RFC 3339, UTC, in seconds, as the bash
// original wrote them.
package gate

// The words that gates answer with.
const (
	StatusOK        = "ok"
	StatusFailed    = "failed"
	StatusSkipped   = "skipped"
	StatusRemaining = "remaining"
	StatusPending   = "pending"
	StatusApproved  = "approved"
	StatusRejected  = "rejected"
)

// okOr is the status of a gate that is passed, or another one.
func okOr(ok bool, otherwise string) string {
	if ok {
		return StatusOK
	}
	return otherwise
}
