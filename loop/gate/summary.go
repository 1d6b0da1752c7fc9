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

// Iteration is what reports tell of one iteration.
type Iteration struct {
	LoopID, RunID      string
	Iteration          int
	StartedAt, EndedAt time.Time
	Promise            PromiseResult
	Gates              Verdicts
	TestsMode          string
	Streak, Threshold  int      // of the stuck gate
	Missing            []string // what the loop's completion lacks, "tests=failed"
	Artifacts          map[string]FileFact
}

// Summary is the line of gate-summary.txt, newline included. The lifecycle gate of the original (an audit of branches)
// does not exist here; its key stays, for those who parse the line.
func (n Iteration) Summary() string {
	return fmt.Sprintf("%s stuck=%s approval=%s\n", n.gates(), stuckStatus(n.Streak, n.Threshold), n.Gates.words().Approval)
}

func (n Iteration) gates() string {
	v := n.Gates.words()
	return fmt.Sprintf("promise=%s tests=%s validation=%s prerequisites=%s checklist=%s evidence=%s lifecycle=%s",
		v.Promise, v.Tests, v.Validation, v.Prerequisites, v.Checklist, v.Evidence, StatusSkipped)
}

// Notes are iteration_notes.md. Their next steps follow from the gates that are not passed.
func (n Iteration) Notes() []byte {
	v := n.Gates.words()
	var b bytes.Buffer
	fmt.Fprintf(&b, "Iteration: %d\nLoop: %s\nPromise matched: %s\n", n.Iteration, n.LoopID, v.Promise)
	fmt.Fprintf(&b, "Tests: %s (mode: %s)\nValidation: %s\nPrerequisites: %s\n", v.Tests, n.TestsMode, v.Validation, v.Prerequisites)
	fmt.Fprintf(&b, "Checklist: %s\nEvidence: %s\nLifecycle: %s\nApproval: %s\n", v.Checklist, v.Evidence, StatusSkipped, v.Approval)
	fmt.Fprintf(&b, "Stuck streak: %s\nGenerated at: %s\n\nNext steps:\n", stuckStatus(n.Streak, n.Threshold), stamp(n.EndedAt))
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
	return fmt.Sprintf("- %s run=%s iter=%d %s approval=%s stuck=%s completion=%t\n", stamp(n.EndedAt), n.RunID, n.Iteration, n.gates(),
		n.Gates.words().Approval, stuckStatus(n.Streak, n.Threshold), len(n.Missing) == 0)
}
