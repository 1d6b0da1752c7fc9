package gate

import (
	"bytes"
	"fmt"
	"strings"
	"time"
)

// words are the verdicts with what an unasked gate is called.
func (v Verdicts) words() Verdicts {
	v.Promise = orUnknown(v.Promise)
	v.Tests = orUnknown(v.Tests)
	v.Checklist = orUnknown(v.Checklist)
	v.Validation = orSkipped(v.Validation)
	v.Prerequisites = orSkipped(v.Prerequisites)
	v.Evidence = orSkipped(v.Evidence)
	v.Approval = orSkipped(v.Approval)
	return v
}

func orSkipped(s string) string {
	if s == "" {
		return StatusSkipped
	}
	return s
}

// Summary is the line of gate-summary.txt, newline included. The lifecycle gate
// of the original (an audit of branches) does not exist here; its key stays, for
// those who parse the line. stuck is what StuckStatus gives.
func Summary(v Verdicts, stuck string) string {
	v = v.words()
	return fmt.Sprintf("promise=%s tests=%s validation=%s prerequisites=%s checklist=%s evidence=%s lifecycle=%s stuck=%s approval=%s\n",
		v.Promise, v.Tests, v.Validation, v.Prerequisites, v.Checklist, v.Evidence, StatusSkipped, stuck, v.Approval)
}

// Notes is what iteration_notes.md tells about one iteration.
type Notes struct {
	LoopID    string
	Iteration int
	Verdicts
	TestsMode string
	Stuck     string   // what StuckStatus gives
	Missing   []string // what Completion gives
	At        time.Time
}

// Markdown is iteration_notes.md. Its next steps follow from the gates that are
// not passed.
func (n Notes) Markdown() []byte {
	v := n.Verdicts.words()
	var b bytes.Buffer
	fmt.Fprintf(&b, "Iteration: %d\nLoop: %s\nPromise matched: %s\n", n.Iteration, n.LoopID, v.Promise)
	fmt.Fprintf(&b, "Tests: %s (mode: %s)\nValidation: %s\nPrerequisites: %s\n", v.Tests, n.TestsMode, v.Validation, v.Prerequisites)
	fmt.Fprintf(&b, "Checklist: %s\nEvidence: %s\nLifecycle: %s\nApproval: %s\n", v.Checklist, v.Evidence, StatusSkipped, v.Approval)
	fmt.Fprintf(&b, "Stuck streak: %s\nGenerated at: %s\n\nNext steps:\n", n.Stuck, stamp(n.At))
	if len(n.Missing) == 0 {
		b.WriteString("- None: every gate is passed.\n")
	}
	for _, m := range n.Missing {
		name, _, _ := strings.Cut(m, "=")
		fmt.Fprintf(&b, "- %s: %s\n", m, nextStep(name))
	}
	return b.Bytes()
}

// nextStep says where to look for what a gate lacks.
func nextStep(gate string) string {
	switch gate {
	case "promise":
		return "read the reviewer's findings in review.md."
	case "tests":
		return "read test-output.txt and test-status.json and fix the first failing command."
	case "validation":
		return "read validation-results.json and fix what it lists as failed."
	case "prerequisites":
		return "read prerequisites-results.json and make each failed check hold."
	case "checklist":
		return "do the items of checklist-remaining.md; files that are missing are in checklist-missing.md."
	case "evidence":
		return "create the artifacts that evidence.json lists as missing."
	}
	return "see gate-summary.txt."
}

// TimelineHeader is how timeline.md begins.
func TimelineHeader(loopID string) string { return "# Timeline\n\nLoop: " + loopID + "\n\n" }

// TimelineLine is one iteration in timeline.md, newline included.
func TimelineLine(at time.Time, runID string, iteration int, v Verdicts, stuck string, complete bool) string {
	v = v.words()
	return fmt.Sprintf("- %s run=%s iter=%d promise=%s tests=%s validation=%s prerequisites=%s checklist=%s evidence=%s lifecycle=%s approval=%s stuck=%s completion=%t\n",
		stamp(at), runID, iteration, v.Promise, v.Tests, v.Validation, v.Prerequisites, v.Checklist, v.Evidence, StatusSkipped, v.Approval, stuck, complete)
}
