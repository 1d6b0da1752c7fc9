package gate

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Verdicts are the answers of one iteration's gates, in the words of gate-summary.txt. An empty one was not asked for.
type Verdicts struct {
	Promise       string `json:"promise,omitempty"`       // true, false
	Tests         string `json:"tests,omitempty"`         // ok, failed, skipped
	Checklist     string `json:"checklist,omitempty"`     // ok, remaining
	Validation    string `json:"validation,omitempty"`    // ok, failed, skipped
	Prerequisites string `json:"prerequisites,omitempty"` // ok, failed, skipped
	Evidence      string `json:"evidence,omitempty"`      // ok, failed, skipped
	Approval      string `json:"approval,omitempty"`      // skipped, pending, approved, rejected
}

// words are the verdicts with what an unasked gate is called.
func (v Verdicts) words() Verdicts {
	skipped := func(s string) string { return cmp.Or(s, StatusSkipped) }
	return Verdicts{orUnknown(v.Promise), orUnknown(v.Tests), orUnknown(v.Checklist),
		skipped(v.Validation), skipped(v.Prerequisites), skipped(v.Evidence), skipped(v.Approval)}
}

// Summary is the line of gate-summary.txt, newline included. The lifecycle gate of the original (an audit of branches)
// does not exist here; its key stays, for those who parse the line. stuck is what StuckStatus gives.
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
	Missing   []string // what the loop's completion lacks, "tests=failed"
	At        time.Time
}

// Markdown is iteration_notes.md. Its next steps follow from the gates that are not passed.
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

// TimelineLine is one iteration in timeline.md, newline included.
func TimelineLine(at time.Time, runID string, iteration int, v Verdicts, stuck string, complete bool) string {
	v = v.words()
	return fmt.Sprintf("- %s run=%s iter=%d promise=%s tests=%s validation=%s prerequisites=%s checklist=%s evidence=%s lifecycle=%s approval=%s stuck=%s completion=%t\n",
		stamp(at), runID, iteration, v.Promise, v.Tests, v.Validation, v.Prerequisites, v.Checklist, v.Evidence, StatusSkipped, v.Approval, stuck, complete)
}
