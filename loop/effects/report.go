package effects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/gate"
	"github.com/superloop/superloop/roles"
)

// report writes what people read of the iteration. Written twice it is the
// same: each piece is replaced, or found by its run and iteration.
func (g *Gates) report(ctx context.Context, e loop.Effect, s loop.State) (loop.Fact, error) {
	summary, err := g.WriteReports(ctx, s)
	if err != nil {
		return nil, err
	}
	return loop.Reported{Of: loop.To(e), Summary: strings.TrimSpace(summary)}, nil
}

// reportVerdicts are the gates as the reports tell them: with the approval that comes next, if one does.
func reportVerdicts(s loop.State) gate.Verdicts {
	v := gate.Verdicts(s.Gates)
	if v.Approval == "" {
		v.Approval = gate.StatusSkipped
		if s.Plan.Approval && len(s.Missing) == 0 {
			v.Approval = gate.StatusPending
		}
	}
	return v
}

// WriteReports brings gate-summary.txt, iteration_notes.md, timeline.md and
// run-summary.json in line with the state, and returns the line of gate-summary.txt.
func (g *Gates) WriteReports(ctx context.Context, s loop.State) (string, error) {
	at, v := g.Now(s), reportVerdicts(s)
	stuck := gate.StuckStatus(s.Stuck.Count, s.Stuck.Threshold)
	summary := gate.Summary(v, stuck)
	if err := g.Write("gate-summary.txt", []byte(summary)); err != nil {
		return "", err
	}
	notes := gate.Notes{LoopID: g.LoopID, Iteration: s.Iteration, Verdicts: v, TestsMode: s.Plan.Tests, Stuck: stuck,
		Missing: s.Missing, At: at}
	if err := g.Write("iteration_notes.md", notes.Markdown()); err != nil {
		return "", err
	}
	line := gate.TimelineLine(at, s.RunID, s.Iteration, v, stuck, len(s.Missing) == 0)
	if err := g.writeTimeline(s, line); err != nil {
		return "", err
	}
	return summary, g.writeRunSummary(ctx, s, at, v)
}

// timelineTail is how many bytes of the end of timeline.md are searched for an
// iteration: some twenty lines. An iteration that is reported again is the last one.
const timelineTail = 8 << 10

// writeTimeline adds the iteration's line. The file is only written anew where the line is there already, from before a
// crash or the loop's end, and where a line cannot be added to it: it is not there, its last line is torn, it is a link
// or has another name.
func (g *Gates) writeTimeline(s loop.State, line string) error {
	path := g.Paths.File("timeline.md")
	key := fmt.Appendf(nil, " run=%s iter=%d ", s.RunID, s.Iteration)
	tail, alone, err := readEnd(path, timelineTail)
	if err != nil {
		return err
	}
	if alone && bytes.HasSuffix(tail, []byte("\n")) && !bytes.Contains(tail, key) {
		return g.Append("timeline", "timeline.md", []byte(line))
	}
	old, _, err := readEnd(path, math.MaxInt64)
	if err != nil {
		return err
	}
	if len(old) == 0 {
		old = []byte(gate.TimelineHeader(g.LoopID))
	}
	var out []byte
	for l := range bytes.Lines(old) {
		if !bytes.Contains(l, key) {
			out = append(out, l...)
		}
	}
	return g.Write("timeline.md", append(out, line...))
}

// readEnd reads at most n bytes of the end of a regular file, and tells whether it
// has one name only. Where there is no such file there is nothing to read.
func readEnd(path string, n int64) (end []byte, alone bool, err error) {
	f, info, err := roles.OpenRegular(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, roles.ErrNotRegular) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	from := max(0, info.Size()-n)
	end, err = io.ReadAll(io.NewSectionReader(f, from, info.Size()-from))
	return end, plain(info), err
}

// summaryFiles are the files whose hashes an entry of run-summary.json holds.
var summaryFiles = map[string]string{"plan": "plan.md", "implementer": "implementer.md", "test_report": "test-report.md",
	"reviewer": "review.md", "test_output": "test-output.txt", "test_status": "test-status.json",
	"prerequisites_status": "prerequisites-status.json", "prerequisites_results": "prerequisites-results.json",
	"checklist_status": "checklist-status.json", "checklist_remaining": "checklist-remaining.md", "evidence": "evidence.json",
	"validation_status": "validation-status.json", "validation_results": "validation-results.json",
	"gate_summary": "gate-summary.txt", "iteration_notes": "iteration_notes.md", "events": "events.jsonl",
	"reviewer_packet": "reviewer-packet.md", "approval": "approval.json", "decisions": "decisions.jsonl", "decisions_md": "decisions.md"}

func (g *Gates) writeRunSummary(ctx context.Context, s loop.State, at time.Time, v gate.Verdicts) error {
	files := make(map[string]string, len(summaryFiles))
	for name, file := range summaryFiles {
		files[name] = g.Paths.File(file)
	}
	facts, err := gate.FileFacts(ctx, g.Paths.Repo, files)
	if err != nil {
		return err
	}
	p, err := promise(g.Messages, s)
	if err != nil {
		return err
	}
	entry := gate.RunEntry{RunID: s.RunID, Iteration: s.Iteration, StartedAt: s.IterationAt, EndedAt: at, Promise: p, Gates: v,
		TestsMode: s.Plan.Tests, Streak: s.Stuck.Count, Threshold: s.Stuck.Threshold, CompletionOK: len(s.Missing) == 0,
		Missing: s.Missing, Artifacts: facts}
	prev, err := os.ReadFile(g.Paths.File("run-summary.json"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	data, err := gate.AddRunEntry(prev, g.LoopID, entry, at)
	if err != nil {
		g.Log.Warn("run-summary.json could not be read and is begun anew", zap.Error(err))
		if data, err = gate.AddRunEntry(nil, g.LoopID, entry, at); err != nil {
			return err
		}
	}
	return g.Write("run-summary.json", data)
}
