package roles

import (
	"fmt"
	"strings"
)

// The roles, in the order in which they run.
const (
	Planner     = "planner"
	Implementer = "implementer"
	Tester      = "tester"
	Reviewer    = "reviewer"
)

// RecoveryFile is the tester's proposal, inside the loop's directory.
const RecoveryFile = "recovery.json"

var deliverables = map[string]string{Planner: "plan.md", Implementer: "implementer.md", Tester: "test-report.md", Reviewer: "review.md"}

// All returns the roles in the order in which they run.
func All() []string { return []string{Planner, Implementer, Tester, Reviewer} }

// Deliverable is the name, inside the loop's directory, of the report that the
// role must write; ok is false for a name that is not a role.
func Deliverable(role string) (file string, ok bool) {
	file, ok = deliverables[role]
	return file, ok
}

func unknownRole(role string) error {
	return fmt.Errorf("unknown role %q: the roles are %s", role, strings.Join(All(), ", "))
}
