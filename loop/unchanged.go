package loop

import (
	"fmt"
	"slices"
)

// No run is paid that cannot help. A role that looks at failing tests sees what the tests saw. If the tests fail in the
// same way again and no file has changed since, such a role could only repeat itself, so it does not start. Iterations
// that end like that are counted. After Plan.SameRed of them the loop ends as stuck.

// ReasonSameRed is the reason of a stuck loop whose tests fail while nothing changes.
const ReasonSameRed = "tests_unchanged"

// SameRed counts the iterations in a row that ended with the same failing tests on the same files.
type SameRed struct {
	Key       string `json:"key,omitempty"` // State.red of the last iteration that counted
	Count     int    `json:"count,omitempty"`
	Iteration int    `json:"iteration,omitempty"` // the last iteration that counted
}

type skippedFields struct {
	Role   string `json:"role"`
	Reason string `json:"reason"` // unchanged
	Since  int    `json:"since"`  // the iteration in which the role has looked at this
}

// Sight is what a role has last looked at, and when.
type Sight struct {
	Key       string `json:"key"`
	Iteration int    `json:"iteration"`
}

// red identifies the failing tests of the iteration together with the work tree on which they ran. It is "" if the tests
// do not fail. Files that git ignores do not count: tests write there, and what matters of them shows in the failure.
func (s State) red() string {
	if s.Gates.Tests != "failed" || s.TestsTree == "" || len(s.TestFailures) == 0 {
		return ""
	}
	return s.TestsTree + "\n" + signatureOf(s.TestFailures)
}

// looks reports whether a role comes after the tests in an iteration, so that it looks at what they showed.
func (p Plan) looks(role string) bool {
	all := p.steps()
	tests := slices.Index(all, stepTests)
	return tests >= 0 && slices.Index(all, rolePrefix+role) > tests
}

// looked notes what a role that has succeeded has seen of the tests.
func (t *turn) looked(role string) {
	key := t.s.red()
	if key == "" || !t.s.Plan.looks(role) {
		return
	}
	if t.s.Looked == nil {
		t.s.Looked = map[string]Sight{}
	}
	t.s.Looked[role] = Sight{key, t.s.Iteration}
}

// skips leaves out a role that could only repeat itself, and reports whether it did.
func (t *turn) skips(role string) bool {
	was, key := t.s.Looked[role], t.s.red()
	if t.s.Plan.SameRed == 0 || key == "" || was.Key != key || was.Iteration == t.s.Iteration || !t.s.Plan.looks(role) ||
		t.s.tried() {
		return false
	}
	t.note("role_skipped", skippedFields{role, "unchanged", was.Iteration})
	t.advance()
	return true
}

// tried reports whether the iteration had a recovery, or a proposal, or the next tester has to hear what was wrong with its
// last one. Then there is something new to look at.
func (s State) tried() bool {
	return len(s.Recoveries.Handled)+len(s.Recoveries.Ran)+len(s.Recoveries.Problems) > 0
}

// countRed counts the iteration that ends.
func (t *turn) countRed() {
	key, r := t.s.red(), t.s.SameRed
	switch {
	case r.Iteration == t.s.Iteration: // the gates run again
	case key == "":
		t.s.SameRed = SameRed{}
	case key == r.Key && !t.s.tried() && r.Iteration == t.s.Iteration-1:
		t.s.SameRed = SameRed{key, r.Count + 1, t.s.Iteration}
	default:
		t.s.SameRed = SameRed{key, 1, t.s.Iteration}
	}
}

// RedEnds reports whether the loop has seen the same failing tests on the same files so often that it ends.
func (s State) RedEnds() bool {
	return s.Plan.SameRed > 0 && s.SameRed.Iteration == s.Iteration && s.SameRed.Count >= s.Plan.SameRed
}

// whyRed says what fails, and what rules know about it.
func (t *turn) whyRed() string {
	why := fmt.Sprintf("the tests failed in the same way in %d iterations in a row, and no file changed in between: %s", t.s.SameRed.Count, t.s.TestFailures[0].Command)
	if d := t.s.Diagnosis; d != nil && d.Why != "" {
		why += "; " + d.Why
	}
	return why
}
