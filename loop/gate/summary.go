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

// maxEntries bounds run-summary.json, which is written anew in every iteration; older iterations are only counted, and
// stand in events.jsonl.
const maxEntries = 50

// FileFact is one file of the loop at the end of an iteration. Gate names the gate that it belongs to, "" for none.
type FileFact struct {
	Path   string `json:"path"`
	Exists bool   `json:"exists"`
	SHA256 string `json:"sha256,omitempty"`
	MTime  int64  `json:"mtime,omitempty"`
	// Size is in bytes, and told of a journal only: its SHA256 is the hash in its last line, which stands for that line
	// and all before it. Hashing a file that grows with every iteration would make each one dearer than the one before.
	Size int64  `json:"size,omitempty"`
	Gate string `json:"gate,omitempty"`
}

// FileFacts looks at the files of a loop by the names that run-summary.json gives them (plan, reviewer, test_status
// ...). Files are relative to the repository, or absolute inside of it. The error is for a repository that cannot be
// opened, and for ctx.
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
			fact.Gate = "approval" // the gate that is decided by them
		}
		if r.sum != nil {
			fact.Exists, fact.SHA256, fact.MTime = true, *r.sum, *r.mtime
		}
		out[name] = fact
	}
	return out, nil
}

// The last line of a journal ends in journalHash, 64 hexadecimal digits and journalEnd; see loop/journal.
const (
	journalHash = `,"hash":"`
	journalEnd  = "\"}\n"
)

// journal looks at the end of a journal only. Without a whole last line it has no hash.
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

// GateValues are the verdicts as run-summary.json and approval.json hold them.
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
		{"missing", orEmpty(e.Missing)}, {"artifacts", e.Artifacts}})
}

// render writes one entry a line: the file is written anew in every iteration, and indenting what is old each time cost
// more than all gates together. What is old stands as it was written.
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

// AddRunEntry puts an entry at the end of run-summary.json; prev is the file as it is, empty for none. Earlier entries
// stay byte for byte, those of the original too. An entry for the run and iteration that stand last replaces them, so
// that doing it twice changes nothing. Beyond 50 the oldest entries are dropped and counted. A prev that cannot be read
// is an error: the caller decides whether to begin anew with none.
func AddRunEntry(prev []byte, e Iteration) ([]byte, error) {
	sum := runSummary{}
	if len(prev) > 0 {
		if err := json.Unmarshal(prev, &sum); err != nil {
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
