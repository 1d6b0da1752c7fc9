package effects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/gate"
	"github.com/superloop/superloop/roles/agent"
)

// Gates performs Report and the gates that run no command: CheckPromise, CheckChecklists, CheckPrerequisites,
// CollectEvidence, CheckTree and CheckStuck. When ctx ends, Gates has three seconds to finish the effect.
type Gates struct {
	*Host
	Tree *Tree
}

// Perform performs an effect of the gates.
func (g *Gates) Perform(ctx context.Context, e loop.Effect, s loop.State) (loop.Fact, error) {
	perform := map[loop.EffectKind]func(context.Context, loop.Effect, loop.State) (loop.Fact, error){
		loop.CheckPromise: g.checkPromise, loop.CheckChecklists: g.checkChecklists, loop.CheckPrerequisites: g.checkPrerequisites,
		loop.CollectEvidence: g.collectEvidence, loop.CheckTree: g.checkTree, loop.CheckStuck: g.checkStuck, loop.Report: g.report}[e.Kind]
	if perform == nil {
		return nil, fmt.Errorf("%q is no effect of the gates", e.Kind)
	}
	ctx, stop := Linger(ctx)
	defer stop()
	return perform(ctx, e, s)
}

// lastMessage returns the last message of the newest attempt of the promise role in this iteration, or "" if there is
// none.
func (h *Host) lastMessage(s loop.State) (string, error) {
	role := s.Plan.PromiseRole()
	r, ok := s.Roles[role]
	if !ok {
		return "", nil
	}
	text, _, err := door.Ends(h.RoleFiles(s.Iteration, role, r.Attempt).Last, agent.MaxMessage/2, agent.MaxMessage/2)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, door.ErrNotRegular) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading the last message: %w", err)
	}
	return text, nil
}

func (h *Host) promise(s loop.State) (gate.PromiseResult, error) {
	text, err := h.lastMessage(s)
	if err != nil {
		return gate.PromiseResult{}, err
	}
	return gate.Promise(text, s.Plan.Promise), nil
}

func (g *Gates) checkPromise(ctx context.Context, e loop.Effect, s loop.State) (loop.Fact, error) {
	p, err := g.promise(s)
	if err != nil {
		return nil, err
	}
	tree, err := g.Tree.Look(ctx, s)
	if err != nil {
		return nil, err
	}
	f := loop.PromiseChecked{Of: loop.To(e), Expected: p.Expected, Text: p.Text, Matched: p.Matched, Tree: tree,
		TreeChanged: s.TestsTree != "" && s.TestsTree != tree}
	if !p.Matched {
		return f, nil
	}
	if f.Files, err = g.Tree.Files(ctx); err != nil {
		return nil, err
	}
	if s.TestsFiles != "" {
		if f.TreeChanged = f.Files != s.TestsFiles; f.TreeChanged {
			f.Paths = g.Tree.touched(s)
		}
	}
	c := s.Plan.Completion
	if c == nil {
		return f, nil
	}
	if c.Change || c.TestChange || s.Baseline != "" {
		done, err := g.Tree.work(ctx)
		if err != nil {
			return nil, err
		}
		f.TestChange = done.tests
		if c.Change {
			f.Change, f.Changed = done.verdict, done.changed
		}
	}
	if len(c.Reports) > 0 {
		f.Reports = g.reports(s)
	}
	return f, err
}

// byRoot splits the paths of a gate by the directory that they are relative to, and calls look for each directory. The
// paths below .superloop are relative to the repository, even if the loop has its own work tree. The other paths are
// relative to the work tree.
func byRoot[T any](h *Host, list []T, path func(T) string, look func(root string, part []T) error) error {
	var work, own []T
	for _, x := range list {
		if strings.HasPrefix(path(x), ".superloop/") && h.Repo.Top != h.Paths.Repo {
			own = append(own, x)
		} else {
			work = append(work, x)
		}
	}
	if err := look(h.Repo.Top, work); err != nil || len(own) == 0 {
		return err
	}
	return look(h.Paths.Repo, own)
}

func (g *Gates) checkChecklists(_ context.Context, e loop.Effect, s loop.State) (loop.Fact, error) {
	started := g.Now(s)
	var res gate.ChecklistResult
	if err := byRoot(g.Host, g.Settings().Loop.Checklists, func(p string) string { return p }, res.Look); err != nil {
		return nil, err
	}
	if own := g.Paths.Rel(g.Paths.Checklist()); slices.Contains(g.Settings().Loop.Checklists, own) {
		if err := res.Kept(g.Paths.Repo, own, g.Settings().Loop.SpecFile); err != nil {
			return nil, err
		}
	}
	at := g.Now(s)
	for name, data := range map[string][]byte{"checklist-status.json": res.StatusJSON(at),
		"checklist-remaining.md": res.RemainingMarkdown(), "checklist-missing.md": res.MissingMarkdown()} {
		if err := g.Write(name, data); err != nil {
			return nil, err
		}
	}
	f := loop.GateEnded{Of: loop.To(e), Gate: "checklist", Status: res.Status(), OK: res.OK, DurationMS: at.Sub(started).Milliseconds(),
		Results: g.Paths.Rel(g.Paths.File("checklist-remaining.md"))}
	if !res.OK {
		f.Details = fmt.Sprintf("%d open", res.Remaining)
		if len(res.Items) > 0 {
			f.Details += ", the first: " + text.Line(res.Items[0].Text, 200)
		}
	}
	return f, nil
}

func (g *Gates) checkPrerequisites(_ context.Context, e loop.Effect, s loop.State) (loop.Fact, error) {
	started := g.Now(s)
	checks := loop.Map(g.Settings().Loop.Prerequisites.Checks, func(c config.Check) gate.PrerequisiteCheck { return gate.PrerequisiteCheck(c) })
	vars := map[string]string{"repo": g.Repo.Top, "loop_id": g.LoopID, "loop": g.LoopID, "iteration": fmt.Sprint(s.Iteration)}
	var res gate.PrerequisitesResult
	err := byRoot(g.Host, checks, func(c gate.PrerequisiteCheck) string { return c.Path }, func(root string, part []gate.PrerequisiteCheck) error {
		return res.Look(root, part, vars)
	})
	if err != nil {
		return nil, err
	}
	at := g.Now(s)
	file := g.Paths.Rel(g.Paths.File("prerequisites-results.json"))
	if err := g.Write("prerequisites-results.json", res.ResultsJSON(at)); err != nil {
		return nil, err
	}
	if err := g.Write("prerequisites-status.json", gate.StatusJSON(res.Status(), file, at)); err != nil {
		return nil, err
	}
	failed := loop.Map(res.Failed, func(x gate.PrerequisiteFailure) string { return fmt.Sprintf("%s (%s %s)", x.ID, x.Reason, x.Path) })
	return loop.GateEnded{Of: loop.To(e), Gate: "prerequisites", Status: res.Status(), OK: res.OK, Results: file, Details: strings.Join(failed, "; "),
		DurationMS: at.Sub(started).Milliseconds()}, nil
}

func (g *Gates) collectEvidence(ctx context.Context, e loop.Effect, s loop.State) (loop.Fact, error) {
	started := g.Now(s)
	l := g.Settings().Loop
	var res gate.EvidenceResult
	err := byRoot(g.Host, l.Evidence.Artifacts, func(p string) string { return p }, func(root string, part []string) error { return res.Look(ctx, root, part) })
	if err != nil {
		return nil, err
	}
	at := g.Now(s)
	data, err := gate.Manifest(ctx, g.Paths.Repo, gate.ManifestSpec{
		LoopID: g.LoopID, Iteration: s.Iteration, SpecFile: l.SpecFile,
		TestsMode: l.Tests.Mode, TestCommands: l.Tests.Commands, ChecklistPatterns: l.Checklists, File: g.Paths.File,
	}, res, at)
	if err != nil {
		return nil, err
	}
	if err := g.Write("evidence.json", data); err != nil {
		return nil, err
	}
	return loop.GateEnded{Of: loop.To(e), Gate: "evidence", Status: res.Status(), OK: res.OK, Details: strings.Join(res.Missing, "; "),
		Results: g.Paths.Rel(g.Paths.File("evidence.json")), DurationMS: at.Sub(started).Milliseconds()}, nil
}

// checkStuck compares the current work tree with the snapshot before the iteration.
func (g *Gates) checkStuck(ctx context.Context, e loop.Effect, s loop.State) (loop.Fact, error) {
	counted, ignored, sig, err := g.Tree.iteration(ctx, s)
	if err != nil {
		return nil, err
	}
	var prev gate.StuckState
	data, err := door.ReadJSON(g.Paths.File("stuck.json"), door.MaxReport)
	if err == nil {
		prev, err = gate.ParseStuck(data)
	}
	if err != nil || prev.RunID != s.RunID {
		prev = gate.StuckState{} // the file is missing, is no state, or belongs to another run
	}
	prev.Streak = s.Stuck.Count      // the count of the journal, which nobody can edit
	prev.Iteration = s.Iteration - 1 // a check that was not recorded has not counted
	now := gate.StuckState{RunID: s.RunID, Iteration: s.Iteration, CodeSignature: sig, Threshold: s.Plan.StuckThreshold, UpdatedAt: g.Now(s)}
	st := gate.Stuck(prev, now, counted)
	if err := g.Tree.keep(s); err != nil {
		return nil, err
	}
	if err := g.Write("stuck.json", st.JSON()); err != nil {
		return nil, err
	}
	f := loop.StuckChecked{Of: loop.To(e), Changed: len(counted), Ignored: len(ignored), Tree: sig, Streak: st.Streak,
		Threshold: st.Threshold, Triggered: st.Triggered(), Reason: st.Reason}
	if !f.Triggered && s.RedEnds() {
		f.Triggered, f.Reason = true, loop.ReasonSameRed
	}
	if !f.Triggered {
		return f, nil
	}
	f.Action = "report_and_stop"
	report := gate.StuckReport{LoopID: g.LoopID, State: st, Ignored: ignored,
		Patterns: g.Settings().Loop.Stuck.Ignore, Missing: s.MissingGates(), At: g.Now(s), Red: s.SameRed.Count, Tests: loop.Map(s.TestFailures,
			func(t loop.TestFailure) string { return fmt.Sprintf("%s: exit code %d", t.Command, t.ExitCode) })}
	if d := s.Diagnosis; d != nil {
		report.Known = d.Why
	}
	return f, g.Write("stuck-report.md", report.Markdown())
}

// report writes the files that operators read about the iteration. A second call leads to the same files: each part is
// either replaced, or recognized by its run and iteration.
func (g *Gates) report(ctx context.Context, e loop.Effect, s loop.State) (loop.Fact, error) {
	summary, err := g.WriteReports(ctx, s)
	if err != nil {
		return nil, err
	}
	return loop.Reported{Of: loop.To(e), Summary: strings.TrimSpace(summary)}, nil
}

// reportVerdicts returns the verdicts of the gates for the reports. They include the approval that comes next, if one
// does.
func reportVerdicts(s loop.State) loop.Gates {
	v := s.Gates
	if v.Approval == "" {
		v.Approval = gate.StatusSkipped
		if s.Plan.Approval && len(s.Missing) == 0 {
			v.Approval = gate.StatusPending
		}
	}
	return v
}

// WriteReports updates gate-summary.txt, iteration_notes.md, timeline.md and run-summary.json from the state, and
// returns the text of gate-summary.txt.
func (g *Gates) WriteReports(ctx context.Context, s loop.State) (string, error) {
	n := gate.Iteration{State: s, End: g.Now(s)}
	n.Gates = reportVerdicts(s)
	summary := n.Summary()
	if err := g.Write("gate-summary.txt", []byte(summary)); err != nil {
		return "", err
	}
	if err := g.Write("iteration_notes.md", n.Notes()); err != nil {
		return "", err
	}
	if err := g.writeTimeline(s, n.TimelineLine()); err != nil {
		return "", err
	}
	return summary, g.writeRunSummary(ctx, s, n)
}

// timelineTail is how many bytes of the end of timeline.md writeTimeline searches for an iteration: about twenty lines.
// An iteration that is reported again is the last one in the file.
const timelineTail = 8 << 10

// Bounds of what superloop reads back, in bytes. A longer file is not what superloop wrote, and is begun anew.
const (
	maxTimeline = 4 << 20
	maxSummary  = 8 << 20
)

// writeTimeline appends the iteration's line to timeline.md. It rewrites the whole file if the line is in the file
// already, or if it cannot append: the file is missing, its last line is torn, or it is a link or has a second name.
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
	old, _, err := readEnd(path, maxTimeline+1)
	if err != nil {
		return err
	}
	if len(old) > maxTimeline {
		if err := g.setAside("timeline", path); err != nil {
			return err
		}
		old = nil
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

// readEnd reads at most n bytes of the end of a regular file. alone reports whether the file has one name only. If
// there is no regular file, readEnd returns no bytes and no error.
func readEnd(path string, n int64) (end []byte, alone bool, err error) {
	f, info, err := door.Open(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, door.ErrNotRegular) {
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

// summaryFiles names the files whose hashes an entry of run-summary.json holds.
var summaryFiles = map[string]string{"plan": "plan.md", "implementer": "implementer.md", "test_report": "test-report.md",
	"reviewer": "review.md", "test_output": "test-output.txt", "test_status": "test-status.json",
	"prerequisites_status": "prerequisites-status.json", "prerequisites_results": "prerequisites-results.json",
	"checklist_status": "checklist-status.json", "checklist_remaining": "checklist-remaining.md", "evidence": "evidence.json",
	"validation_status": "validation-status.json", "validation_results": "validation-results.json",
	"gate_summary": "gate-summary.txt", "iteration_notes": "iteration_notes.md", "events": "events.jsonl",
	"reviewer_packet": "reviewer-packet.md", "approval": "approval.json", "decisions": "decisions.jsonl", "decisions_md": "decisions.md"}

func (g *Gates) writeRunSummary(ctx context.Context, s loop.State, n gate.Iteration) (err error) {
	files := make(map[string]string, len(summaryFiles))
	for name, file := range summaryFiles {
		files[name] = g.Paths.File(file)
	}
	if n.Artifacts, err = gate.FileFacts(ctx, g.Paths.Repo, files); err != nil {
		return err
	}
	if n.Promise, err = g.promise(s); err != nil {
		return err
	}
	prev, err := door.ReadJSON(g.Paths.File("run-summary.json"), maxSummary)
	if errors.Is(err, fs.ErrNotExist) {
		prev, err = nil, nil
	}
	var data []byte
	if err == nil {
		data, err = gate.AddRunEntry(prev, n)
	}
	if err != nil {
		g.Log.Warn("run-summary.json could not be read and is begun anew", zap.Error(err))
		if data, err = gate.AddRunEntry(nil, n); err != nil {
			return err
		}
	}
	return g.Write("run-summary.json", data)
}
