// Package gate judges one iteration of a loop by these gates: promise, tests, checklists, evidence, prerequisites,
// validation, approval and stuck.
//
// The supervisor executes the gates, and no agent can claim a verdict. Each verdict is based on bytes that the
// supervisor read or on commands that it ran. A gate fails, and says why, if it cannot verify a condition: for example
// if it cannot read a file, does not know a selector, or is given a path outside the repository.
//
// This package writes no file, runs no command and reads no clock. A gate reads the repository through a directory
// handle, which no "..", absolute path or symbolic link can leave. It returns a value. The methods of that value render
// the files that superloop documents, with the time that the caller passes:
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
// JSON files are indented by two spaces and end with a newline. Their times are in RFC 3339, in UTC and in whole
// seconds, as in the files of the bash original.
package gate

// Statuses of gates.
const (
	StatusOK        = "ok"
	StatusFailed    = "failed"
	StatusSkipped   = "skipped"
	StatusRemaining = "remaining"
	StatusPending   = "pending"
	StatusApproved  = "approved"
	StatusRejected  = "rejected"
)

// okOr returns StatusOK if ok is true, and otherwise the other status.
func okOr(ok bool, otherwise string) string {
	if ok {
		return StatusOK
	}
	return otherwise
}
