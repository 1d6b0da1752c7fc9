package gate

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
)

// words returns the verdicts with a word for each gate that has none: "unknown" or "skipped".
func words(v loop.Gates) loop.Gates {
	skipped := func(s string) string { return cmp.Or(s, StatusSkipped) }
	return loop.Gates{Promise: orUnknown(v.Promise), Tests: orUnknown(v.Tests), Checklist: orUnknown(v.Checklist),
		Validation: skipped(v.Validation), Prerequisites: skipped(v.Prerequisites), Evidence: skipped(v.Evidence), Approval: skipped(v.Approval)}
}

// Iteration holds the facts of one iteration for the reports: the state and the time at its end, the promise, and the
// files of the loop.
type Iteration struct {
	loop.State
	End       time.Time
	Promise   PromiseResult
	Artifacts map[string]FileFact
}

// Summary returns the line of gate-summary.txt, newline included. superloop does not have the lifecycle gate of the
// original (an audit of branches). Its key remains for programs that parse the line.
func (n Iteration) Summary() string {
	return fmt.Sprintf("%s stuck=%s approval=%s\n", n.gates(), stuckStatus(n.Stuck.Count, n.Stuck.Threshold), words(n.Gates).Approval)
}

func (n Iteration) gates() string {
	v := words(n.Gates)
	return fmt.Sprintf("promise=%s tests=%s validation=%s prerequisites=%s checklist=%s evidence=%s lifecycle=%s",
		v.Promise, v.Tests, v.Validation, v.Prerequisites, v.Checklist, v.Evidence, StatusSkipped)
}

// Notes returns the content of iteration_notes.md. The next steps in it follow from the gates that have not passed.
func (n Iteration) Notes() []byte {
	v := words(n.Gates)
	var b bytes.Buffer
	fmt.Fprintf(&b, "Iteration: %d\nLoop: %s\nPromise matched: %s\n", n.Iteration, n.LoopID, v.Promise)
	fmt.Fprintf(&b, "Tests: %s (mode: %s)\nValidation: %s\nPrerequisites: %s\n", v.Tests, n.Plan.Tests, v.Validation, v.Prerequisites)
	fmt.Fprintf(&b, "Checklist: %s\nEvidence: %s\nLifecycle: %s\nApproval: %s\n", v.Checklist, v.Evidence, StatusSkipped, v.Approval)
	fmt.Fprintf(&b, "Stuck streak: %s\nGenerated at: %s\n", stuckStatus(n.Stuck.Count, n.Stuck.Threshold), stamp(n.End))
	if len(n.Response.Incidents) > 0 {
		b.WriteString("\nWhat failed:\n")
		for _, i := range n.Response.Incidents {
			fmt.Fprintf(&b, "- %s\n", i.ForRoles()) // the next prompts name this file
		}
	}
	b.WriteString("\nNext steps:\n")
	if len(n.Missing) == 0 {
		b.WriteString("- None: every gate is passed.\n")
		if note := n.note(); note != "" {
			fmt.Fprintf(&b, "- Look at the work yourself: %s.\n", note)
		}
	}
	for _, m := range n.Missing {
		name, _, _ := strings.Cut(m, "=")
		why := strings.Join(loop.WhyMissing([]string{m}), "")
		fmt.Fprintf(&b, "- %s: %s\n", m, cmp.Or(nextSteps[name], why, "see gate-summary.txt."))
	}
	return b.Bytes()
}

// nextSteps says for each gate where the operator finds what it lacks.
var nextSteps = map[string]string{
	"promise":       "read the reviewer's findings in review.md.",
	"tests":         "read test-output.txt and test-status.json and fix the first failing command.",
	"validation":    "read validation-results.json and fix what it lists as failed.",
	"prerequisites": "read prerequisites-results.json and make each failed check hold.",
	"checklist":     "do the items of checklist-remaining.md; files that are missing are in checklist-missing.md.",
	"evidence":      "create the artifacts that evidence.json lists as missing.",
}

// note returns what an operator should look at when the gates pass (State.Unseen), or "".
func (n Iteration) note() string {
	if len(n.Missing) > 0 {
		return ""
	}
	return n.Unseen()
}

// TimelineHeader returns the beginning of timeline.md.
func TimelineHeader(loopID string) string { return "# Timeline\n\nLoop: " + loopID + "\n\n" }

// TimelineLine returns the line of the iteration in timeline.md, newline included. It tells which roles failed and, as far
// as it is known, why.
func (n Iteration) TimelineLine() string {
	failed := ""
	for _, i := range n.Response.Incidents {
		failed += fmt.Sprintf(" failed=%s:%d", i.Role, i.Failures)
		if i.Cause != "" {
			failed += fmt.Sprintf(" cause=%q", i.Cause)
		}
	}
	return fmt.Sprintf("- %s run=%s iter=%d %s approval=%s stuck=%s completion=%t%s\n", stamp(n.End), n.RunID, n.Iteration, n.gates(),
		words(n.Gates).Approval, stuckStatus(n.Stuck.Count, n.Stuck.Threshold), len(n.Missing) == 0, failed)
}

// maxEntries bounds run-summary.json, which superloop rewrites in every iteration. The file only counts older
// iterations; events.jsonl holds them.
const maxEntries = 50

// FileFact describes one file of the loop at the end of an iteration. Gate names the gate that the file belongs to, or
// is "".
type FileFact struct {
	Path   string `json:"path"`
	Exists bool   `json:"exists"`
	SHA256 string `json:"sha256,omitempty"`
	MTime  int64  `json:"mtime,omitempty"`
	// Size is in bytes, and is set for a journal only. The SHA256 of a journal is the hash in its last line, which
	// covers that line and all lines before it. To hash the whole journal would take longer in each iteration, because
	// the journal grows.
	Size int64  `json:"size,omitempty"`
	Gate string `json:"gate,omitempty"`
}

// FileFacts describes the files of a loop. The keys are the names of run-summary.json (plan, reviewer, test_status
// ...). The paths are relative to the repository, or absolute and inside of it. FileFacts returns an error only if it
// cannot open the repository, or if ctx ends.
func FileFacts(ctx context.Context, root string, files map[string]string) (map[string]FileFact, error) {
	t, err := openTree(root)
	if err != nil {
		return nil, err
	}
	defer t.close()
	out := make(map[string]FileFact, len(files))
	for name, file := range files {
		if name == "events" {
			out[name] = t.journal(file)
			continue
		}
		r, err := t.recorded(ctx, file, false)
		if err != nil {
			return nil, fmt.Errorf("hashing %s: %w", file, err)
		}
		fact := FileFact{Path: r.rel}
		switch name {
		case "approval", "decisions", "decisions_md":
			fact.Gate = "approval" // these files belong to the decision about the approval
		}
		if r.sum != nil {
			fact.Exists, fact.SHA256, fact.MTime = true, *r.sum, *r.mtime
		}
		out[name] = fact
	}
	return out, nil
}

// The last line of a journal ends with journalHash, 64 hexadecimal digits and journalEnd; see loop/journal.
const (
	journalHash = `,"hash":"`
	journalEnd  = "\"}\n"
)

// journal describes a journal and reads only the end of the file. If the last line is not whole, the fact has no hash.
func (t *tree) journal(file string) FileFact {
	rel, err := t.rel(file)
	if err != nil {
		return FileFact{Path: file}
	}
	out := FileFact{Path: rel}
	f, info, err := t.open(rel)
	if err != nil {
		return out
	}
	defer f.Close()
	out.Exists, out.MTime, out.Size = true, info.ModTime().Unix(), info.Size()
	end := make([]byte, len(journalHash)+2*sha256.Size+len(journalEnd))
	if _, err := f.ReadAt(end, max(0, info.Size()-int64(len(end)))); err != nil {
		return out
	}
	sum, begins := strings.CutPrefix(string(end), journalHash)
	sum, ends := strings.CutSuffix(sum, journalEnd)
	if _, err := hex.DecodeString(sum); err == nil && begins && ends {
		out.SHA256 = sum
	}
	return out
}

type runSummary struct {
	Version   int               `json:"version"`
	LoopID    string            `json:"loop_id"`
	UpdatedAt string            `json:"updated_at"`
	Dropped   int               `json:"dropped"`
	Entries   []json.RawMessage `json:"entries"`
}

// GateValues holds the verdicts in the form of run-summary.json and approval.json.
type GateValues struct {
	Tests         string `json:"tests"`
	Validation    string `json:"validation"`
	Prerequisites string `json:"prerequisites"`
	Checklist     string `json:"checklist"`
	Evidence      string `json:"evidence"`
	Lifecycle     string `json:"lifecycle"`
	Approval      string `json:"approval,omitempty"`
}

func gatesJSON(v loop.Gates) GateValues {
	v = words(v)
	return GateValues{v.Tests, v.Validation, v.Prerequisites, v.Checklist, v.Evidence, StatusSkipped, v.Approval}
}

func (e Iteration) entry() json.RawMessage {
	return compact(members{{"run_id", e.RunID}, {"iteration", e.Iteration}, {"started_at", stamp(e.IterationAt)}, {"ended_at", stamp(e.End)},
		{"promise", e.Promise}, {"gates", gatesJSON(e.Gates)}, {"tests_mode", e.Plan.Tests},
		{"stuck", members{{"streak", e.Stuck.Count}, {"threshold", e.Stuck.Threshold}}}, {"completion_ok", len(e.Missing) == 0},
		{"missing", orEmpty(e.Missing)}, {"why", orEmpty(loop.WhyMissing(e.Missing))}, {"note", e.note()}, {"artifacts", e.Artifacts}})
}

// render writes one line for each entry. It copies earlier entries unchanged: superloop rewrites the file in every
// iteration, and a new indentation of all entries would take more time than all gates together.
func (s runSummary) render() []byte {
	head := s
	head.Entries = []json.RawMessage{}
	out := append(bytes.TrimSuffix(compact(head), []byte("]}\n")), '\n')
	for i, e := range s.Entries {
		if i > 0 {
			out = append(out, ",\n"...)
		}
		out = append(out, bytes.TrimSpace(e)...)
	}
	return append(out, "\n]}\n"...)
}

// AddRunEntry appends an entry to run-summary.json. prev is the content of the file, empty if there is none. Earlier
// entries stay the same, byte for byte, also those of the original. If the last entry is of the same run and iteration,
// the new entry replaces it, so a second call changes nothing. AddRunEntry keeps the last 50 entries and counts the
// others. If it cannot read prev, it returns an error, and the caller decides whether to begin with an empty file.
func AddRunEntry(prev []byte, e Iteration) ([]byte, error) {
	sum := runSummary{}
	if len(prev) > 0 {
		if err := text.Decode(prev, &sum); err != nil {
			return nil, fmt.Errorf("reading run-summary.json: %w", err)
		}
		if sum.Version > 1 {
			return nil, fmt.Errorf("reading run-summary.json: its version %d is newer than 1", sum.Version)
		}
	}
	sum.Version, sum.LoopID, sum.UpdatedAt = 1, e.LoopID, stamp(e.End)
	if n := len(sum.Entries); n > 0 {
		var last struct {
			RunID     string `json:"run_id"`
			Iteration int    `json:"iteration"`
		}
		if json.Unmarshal(sum.Entries[n-1], &last) == nil && last.RunID == e.RunID && last.Iteration == e.Iteration {
			sum.Entries = sum.Entries[:n-1]
		}
	}
	sum.Entries = append(sum.Entries, e.entry())
	if over := len(sum.Entries) - maxEntries; over > 0 {
		sum.Dropped += over
		sum.Entries = sum.Entries[over:]
	}
	return sum.render(), nil
}
