package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/superloop/superloop/loop"

	"go.uber.org/zap"

	"github.com/superloop/superloop/loop/gate"
)

// report writes what people read of the iteration. Written twice it is the
// same: each piece is replaced, or found by its run and iteration.
func (d *driver) report() (loop.Fact, error) {
	summary, err := d.writeReports(d.host.Now(d.state))
	if err != nil {
		return nil, err
	}
	return loop.Reported{Of: d.to(), Summary: strings.TrimSpace(summary)}, nil
}

// reportVerdicts are the gates as the reports tell them: with the approval that
// comes next, if one does.
func (d *driver) reportVerdicts() gate.Verdicts {
	g := gate.Verdicts(d.state.Gates)
	if g.Approval == "" {
		g.Approval = gate.StatusSkipped
		if d.state.Plan.Approval && len(d.state.Missing) == 0 {
			g.Approval = gate.StatusPending
		}
	}
	return g
}

func (d *driver) writeReports(at time.Time) (string, error) {
	s := d.state
	v := d.reportVerdicts()
	stuck := gate.StuckStatus(s.Stuck.Count, s.Stuck.Threshold)
	summary := gate.Summary(v, stuck)
	if err := d.host.Write("gate-summary.txt", []byte(summary)); err != nil {
		return "", err
	}
	notes := gate.Notes{LoopID: d.o.LoopID, Iteration: s.Iteration, Verdicts: v, TestsMode: s.Plan.Tests, Stuck: stuck,
		Missing: s.Missing, At: at}
	if err := d.host.Write("iteration_notes.md", notes.Markdown()); err != nil {
		return "", err
	}
	if err := d.writeTimeline(at, v, stuck); err != nil {
		return "", err
	}
	return summary, d.writeRunSummary(at, v)
}

// writeTimeline adds the iteration's line, or replaces it.
func (d *driver) writeTimeline(at time.Time, v gate.Verdicts, stuck string) error {
	s := d.state
	old, err := os.ReadFile(d.paths.File("timeline.md"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(old) == 0 {
		old = []byte(gate.TimelineHeader(d.o.LoopID))
	}
	key := fmt.Appendf(nil, " run=%s iter=%d ", s.RunID, s.Iteration)
	var out []byte
	for line := range bytes.Lines(old) {
		if !bytes.Contains(line, key) {
			out = append(out, line...)
		}
	}
	line := gate.TimelineLine(at, s.RunID, s.Iteration, v, stuck, len(s.Missing) == 0)
	return d.host.Write("timeline.md", append(out, line...))
}

// summaryFiles are the files whose hashes an entry of run-summary.json holds.
var summaryFiles = map[string]string{"plan": "plan.md", "implementer": "implementer.md", "test_report": "test-report.md",
	"reviewer": "review.md", "test_output": "test-output.txt", "test_status": "test-status.json",
	"prerequisites_status": "prerequisites-status.json", "prerequisites_results": "prerequisites-results.json",
	"checklist_status": "checklist-status.json", "checklist_remaining": "checklist-remaining.md", "evidence": "evidence.json",
	"validation_status": "validation-status.json", "validation_results": "validation-results.json",
	"gate_summary": "gate-summary.txt", "iteration_notes": "iteration_notes.md", "events": "events.jsonl",
	"reviewer_packet": "reviewer-packet.md", "approval": "approval.json", "decisions": "decisions.jsonl", "decisions_md": "decisions.md"}

func (d *driver) writeRunSummary(at time.Time, v gate.Verdicts) error {
	s := d.state
	files := make(map[string]string, len(summaryFiles))
	for name, file := range summaryFiles {
		files[name] = d.paths.File(file)
	}
	facts, err := gate.FileFacts(context.Background(), d.paths.Repo, files)
	if err != nil {
		return err
	}
	p, err := d.promise()
	if err != nil {
		return err
	}
	entry := gate.RunEntry{RunID: s.RunID, Iteration: s.Iteration, StartedAt: s.IterationAt, EndedAt: at, Promise: p, Gates: v,
		TestsMode: s.Plan.Tests, Streak: s.Stuck.Count, Threshold: s.Stuck.Threshold, CompletionOK: len(s.Missing) == 0,
		Missing: s.Missing, Artifacts: facts}
	prev, err := os.ReadFile(d.paths.File("run-summary.json"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	data, err := gate.AddRunEntry(prev, d.o.LoopID, entry, at)
	if err != nil {
		d.log.Warn("run-summary.json could not be read and is begun anew", zap.Error(err))
		if data, err = gate.AddRunEntry(nil, d.o.LoopID, entry, at); err != nil {
			return err
		}
	}
	return d.host.Write("run-summary.json", data)
}
