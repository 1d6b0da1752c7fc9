package gate

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/superloop/superloop/loop"
)

// words are verdicts with what an unasked gate is called.
func words(v loop.Gates) loop.Gates {
	skipped := func(s string) string { return cmp.Or(s, StatusSkipped) }
	return loop.Gates{Promise: orUnknown(v.Promise), Tests: orUnknown(v.Tests), Checklist: orUnknown(v.Checklist),
		Validation: skipped(v.Validation), Prerequisites: skipped(v.Prerequisites), Evidence: skipped(v.Evidence), Approval: skipped(v.Approval)}
}

// Iteration is what reports tell of one iteration: the state and the time at its end, and what was found besides.
type Iteration struct {
	loop.State
	End       time.Time
	Promise   PromiseResult
	Artifacts map[string]FileFact
}

// Summary is the line of gate-summary.txt, newline included. The lifecycle gate of the original (an audit of branches)
// does not exist here; its key stays, for those who parse the line.
func (n Iteration) Summary() string {
	return fmt.Sprintf("%s stuck=%s approval=%s\n", n.gates(), stuckStatus(n.Stuck.Count, n.Stuck.Threshold), words(n.Gates).Approval)
}

func (n Iteration) gates() string {
	v := words(n.Gates)
	return fmt.Sprintf("promise=%s tests=%s validation=%s prerequisites=%s checklist=%s evidence=%s lifecycle=%s",
		v.Promise, v.Tests, v.Validation, v.Prerequisites, v.Checklist, v.Evidence, StatusSkipped)
}

// Notes are iteration_notes.md. Their next steps follow from the gates that are not passed.
func (n Iteration) Notes() []byte {
	v := words(n.Gates)
	var b bytes.Buffer
	fmt.Fprintf(&b, "Iteration: %d\nLoop: %s\nPromise matched: %s\n", n.Iteration, n.LoopID, v.Promise)
	fmt.Fprintf(&b, "Tests: %s (mode: %s)\nValidation: %s\nPrerequisites: %s\n", v.Tests, n.Plan.Tests, v.Validation, v.Prerequisites)
	fmt.Fprintf(&b, "Checklist: %s\nEvidence: %s\nLifecycle: %s\nApproval: %s\n", v.Checklist, v.Evidence, StatusSkipped, v.Approval)
	fmt.Fprintf(&b, "Stuck streak: %s\nGenerated at: %s\n\nNext steps:\n", stuckStatus(n.Stuck.Count, n.Stuck.Threshold), stamp(n.End))
	if len(n.Missing) == 0 {
		b.WriteString("- None: every gate is passed.\n")
	}
	for _, m := range n.Missing {
		name, _, _ := strings.Cut(m, "=")
		fmt.Fprintf(&b, "- %s: %s\n", m, cmp.Or(nextSteps[name], "see gate-summary.txt."))
	}
	return b.Bytes()
}

// nextSteps say where to look for what a gate lacks.
var nextSteps = map[string]string{
	"promise":       "read the reviewer's findings in review.md.",
	"tests":         "read test-output.txt and test-status.json and fix the first failing command.",
	"validation":    "read validation-results.json and fix what it lists as failed.",
	"prerequisites": "read prerequisites-results.json and make each failed check hold.",
	"checklist":     "do the items of checklist-remaining.md; files that are missing are in checklist-missing.md.",
	"evidence":      "create the artifacts that evidence.json lists as missing.",
}

// TimelineHeader is how timeline.md begins.
func TimelineHeader(loopID string) string { return "# Timeline\n\nLoop: " + loopID + "\n\n" }

// TimelineLine is the iteration in timeline.md, newline included.
func (n Iteration) TimelineLine() string {
	return fmt.Sprintf("- %s run=%s iter=%d %s approval=%s stuck=%s completion=%t\n", stamp(n.End), n.RunID, n.Iteration, n.gates(),
		words(n.Gates).Approval, stuckStatus(n.Stuck.Count, n.Stuck.Threshold), len(n.Missing) == 0)
}
