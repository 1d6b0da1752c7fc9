package gate

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
)

// ErrNotPending is the error of Decide for an approval that already has a decision.
var ErrNotPending = errors.New("the approval is not pending")

// Approval is the content of approval.json: a candidate for completion that waits for the operator, and later the
// operator's decision. The file is a view. The decision itself is in events.jsonl.
type Approval struct {
	Status             string   `json:"status"` // pending, approved, rejected
	LoopID             string   `json:"loop_id"`
	RunID              string   `json:"run_id"`
	Iteration          int      `json:"iteration"`
	RequestedAt        string   `json:"requested_at"`
	IterationStartedAt string   `json:"iteration_started_at"`
	IterationEndedAt   string   `json:"iteration_ended_at"`
	Candidate          struct { // the verdicts of the gates
		Promise PromiseResult `json:"promise"`
		Gates   GateValues    `json:"gates"`
	} `json:"candidate"`
	Files ApprovalFiles `json:"files"`
	// Tree and Head name the work that the operator approves. If the tree has changed since, the gates run again before
	// the approval counts.
	Tree string `json:"tree,omitempty"`
	Head string `json:"head,omitempty"`

	Decision    *ApprovalDecision `json:"decision,omitempty"`
	DecidedAt   string            `json:"decided_at,omitempty"`
	DecidedBy   string            `json:"decided_by,omitempty"`
	DecidedNote string            `json:"decided_note,omitempty"`
}

// ApprovalFiles names the files that the operator reads before the decision.
type ApprovalFiles struct {
	GateSummary    string `json:"gate_summary"`
	Evidence       string `json:"evidence"`
	ReviewerReport string `json:"reviewer_report"`
	TestReport     string `json:"test_report"`
	Plan           string `json:"plan"`
	IterationNotes string `json:"iteration_notes"`
}

// ApprovalDecision is the decision in approval.json.
type ApprovalDecision struct {
	Status string  `json:"status"`
	By     string  `json:"by"`
	Note   *string `json:"note"`
	At     string  `json:"at"`
}

// Pending returns the approval with the status pending. v holds the verdicts of the gates on the iteration that ran
// from started to ended.
func (a Approval) Pending(p PromiseResult, v loop.Gates, requested, started, ended time.Time) Approval {
	a.Status, a.Candidate.Promise, a.Candidate.Gates = StatusPending, p, gatesJSON(v)
	a.Candidate.Gates.Approval = "" // the gate whose verdict the operator now gives
	a.RequestedAt, a.IterationStartedAt, a.IterationEndedAt = stamp(requested), stamp(started), stamp(ended)
	return a
}

// JSON returns the content of approval.json.
func (a Approval) JSON() []byte { return pretty(a) }

// ParseApproval reads the approval.json of superloop or of the original. A missing status means pending. An unknown
// status is an error.
func ParseApproval(data []byte) (Approval, error) {
	var a Approval
	if err := text.Decode(data, &a); err != nil {
		return a, fmt.Errorf("reading approval.json: %w", err)
	}
	switch a.Status {
	case "":
		a.Status = StatusPending
	case StatusPending, StatusApproved, StatusRejected:
	default:
		return a, fmt.Errorf("reading approval.json: unknown status %.80q", a.Status)
	}
	return a, nil
}

// Decision is the operator's decision: approved or rejected. File is the path of approval.json in the form that the
// decision log has.
type Decision struct {
	Status, By, Note, File string
	At                     time.Time
}

// Decide returns the approval with the decision in it. If the approval already has a decision, Decide returns
// ErrNotPending and the approval unchanged.
func (a Approval) Decide(d Decision) (Approval, error) {
	if a.Status != StatusPending {
		return a, fmt.Errorf("%w: it was %s by %s at %s", ErrNotPending, a.Status, orUnknown(a.DecidedBy), orUnknown(a.DecidedAt))
	}
	a.Status, a.Decision = d.Status, &ApprovalDecision{Status: d.Status, By: d.By, At: stamp(d.At)}
	if d.Note != "" {
		a.Decision.Note = &d.Note
	}
	a.DecidedAt, a.DecidedBy, a.DecidedNote = stamp(d.At), d.By, d.Note
	return a, nil
}

// LogLine returns the decision as a line of decisions.jsonl, newline included.
func (a Approval) LogLine(d Decision) []byte {
	m := members{{"timestamp", stamp(d.At)}, {"loop_id", a.LoopID}, {"run_id", a.RunID}, {"iteration", a.Iteration},
		{"decision", d.Status}, {"by", d.By}}
	for _, e := range []member{{"note", d.Note}, {"approval_file", d.File}} {
		if e.value != "" {
			m = append(m, e)
		}
	}
	return compact(m)
}

// LogMarkdown returns the decision as a section of decisions.md. A note of several lines becomes one line.
func (a Approval) LogMarkdown(d Decision) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "## %s %s\n\n- Loop: %s\n- Run: %s\n- Iteration: %d\n- Decision: %s\n- By: %s\n",
		stamp(d.At), d.Status, a.LoopID, a.RunID, a.Iteration, d.Status, oneLine(d.By, maxItem))
	if d.Note != "" {
		fmt.Fprintf(&b, "- Note: %s\n", oneLine(d.Note, 10*maxItem))
	}
	if d.File != "" {
		fmt.Fprintf(&b, "- Approval file: %s\n", pathText(d.File))
	}
	return append(b.Bytes(), '\n')
}
