package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/superloop/superloop/loop"

	"github.com/superloop/superloop/loop/gate"
	"github.com/superloop/superloop/loop/worktree"
	"github.com/superloop/superloop/roles"
	"github.com/superloop/superloop/roles/agent"
)

// lastMessage is what the promise role said at the end of its newest attempt in
// this iteration; "" when it said nothing.
func (d *driver) lastMessage() (string, error) {
	role := d.state.Plan.PromiseRole()
	r, ok := d.state.Roles[role]
	if !ok {
		return "", nil
	}
	text, _, err := roles.ReadRegular(d.host.RoleFiles(d.state.Iteration, role, r.Attempt).Last, agent.MaxMessage/2, agent.MaxMessage/2)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, roles.ErrNotRegular) {
		return "", nil
	}
	return text, err
}

func (d *driver) promise() (gate.PromiseResult, error) {
	text, err := d.lastMessage()
	if err != nil {
		return gate.PromiseResult{}, fmt.Errorf("reading the last message: %w", err)
	}
	return gate.Promise(text, d.state.Plan.Promise), nil
}

func (d *driver) checkPromise(ctx context.Context) (loop.Fact, error) {
	p, err := d.promise()
	if err != nil {
		return nil, err
	}
	tree, err := d.lookAtTree(ctx)
	if err != nil {
		return nil, err
	}
	return loop.PromiseChecked{Of: d.to(), Expected: p.Expected, Text: p.Text, Matched: p.Matched, Tree: tree,
		TreeChanged: d.state.TestsTree != "" && d.state.TestsTree != tree}, nil
}

// byRoot parts what a gate looks at by where it lies: a loop with a work tree of
// its own still has its own files, below .superloop, in the repository.
func byRoot[T any](d *driver, list []T, path func(T) string, look func(root string, part []T) error) error {
	var work, own []T
	for _, x := range list {
		if strings.HasPrefix(path(x), ".superloop/") && d.repo.Top != d.paths.Repo {
			own = append(own, x)
		} else {
			work = append(work, x)
		}
	}
	if len(work) > 0 || len(own) == 0 {
		if err := look(d.repo.Top, work); err != nil {
			return err
		}
	}
	if len(own) == 0 {
		return nil
	}
	return look(d.paths.Repo, own)
}

func (d *driver) checkChecklists() (loop.Fact, error) {
	started := d.host.Now(d.state)
	res := gate.ChecklistResult{OK: true}
	err := byRoot(d, d.loop.Checklists, func(p string) string { return p }, func(root string, patterns []string) error {
		part, err := gate.Checklists(root, patterns)
		res.OK, res.Remaining, res.Files = res.OK && part.OK, res.Remaining+part.Remaining, res.Files+part.Files
		res.Items, res.Missing = append(res.Items, part.Items...), append(res.Missing, part.Missing...)
		return err
	})
	if err != nil {
		return nil, err
	}
	at := d.host.Now(d.state)
	for name, data := range map[string][]byte{"checklist-status.json": res.StatusJSON(at),
		"checklist-remaining.md": res.RemainingMarkdown(), "checklist-missing.md": res.MissingMarkdown()} {
		if err := d.host.Write(name, data); err != nil {
			return nil, err
		}
	}
	f := loop.GateEnded{Of: d.to(), Gate: "checklist", Status: res.Status(), OK: res.OK, DurationMS: at.Sub(started).Milliseconds(),
		Results: d.paths.Rel(d.paths.File("checklist-remaining.md"))}
	if !res.OK {
		f.Details = fmt.Sprintf("%d open", res.Remaining)
	}
	return f, nil
}

func (d *driver) checkPrerequisites() (loop.Fact, error) {
	started := d.host.Now(d.state)
	var checks []gate.PrerequisiteCheck
	for _, c := range d.loop.Prerequisites.Checks {
		checks = append(checks, gate.PrerequisiteCheck(c))
	}
	vars := map[string]string{"repo": d.repo.Top, "loop_id": d.o.LoopID, "loop": d.o.LoopID, "iteration": fmt.Sprint(d.state.Iteration)}
	res := gate.PrerequisitesResult{OK: true}
	err := byRoot(d, checks, func(c gate.PrerequisiteCheck) string { return c.Path }, func(root string, checks []gate.PrerequisiteCheck) error {
		part, err := gate.Prerequisites(root, checks, vars)
		res.OK, res.Total = res.OK && part.OK, res.Total+part.Total
		res.Verified, res.Failed = append(res.Verified, part.Verified...), append(res.Failed, part.Failed...)
		return err
	})
	if err != nil {
		return nil, err
	}
	at := d.host.Now(d.state)
	file := d.paths.Rel(d.paths.File("prerequisites-results.json"))
	if err := d.host.Write("prerequisites-results.json", res.ResultsJSON(at)); err != nil {
		return nil, err
	}
	if err := d.host.Write("prerequisites-status.json", gate.StatusJSON(res.Status(), file, at)); err != nil {
		return nil, err
	}
	f := loop.GateEnded{Of: d.to(), Gate: "prerequisites", Status: res.Status(), OK: res.OK, Results: file, DurationMS: at.Sub(started).Milliseconds()}
	var failed []string
	for _, x := range res.Failed {
		failed = append(failed, fmt.Sprintf("%s (%s %s)", x.ID, x.Reason, x.Path))
	}
	f.Details = strings.Join(failed, "; ")
	return f, nil
}

func (d *driver) collectEvidence() (loop.Fact, error) {
	started := d.host.Now(d.state)
	ctx := context.Background() // bounded by the files themselves
	res := gate.EvidenceResult{OK: true}
	err := byRoot(d, d.loop.Evidence.Artifacts, func(p string) string { return p }, func(root string, artifacts []string) error {
		part, err := gate.Evidence(ctx, root, artifacts)
		res.OK = res.OK && part.OK
		res.Artifacts, res.Missing = append(res.Artifacts, part.Artifacts...), append(res.Missing, part.Missing...)
		return err
	})
	if err != nil {
		return nil, err
	}
	at := d.host.Now(d.state)
	data, err := gate.Manifest(ctx, d.paths.Repo, gate.ManifestSpec{
		LoopID: d.o.LoopID, Iteration: d.state.Iteration, SpecFile: d.loop.SpecFile,
		TestsMode: d.loop.Tests.Mode, TestCommands: d.loop.Tests.Commands,
		TestStatusFile: d.paths.File("test-status.json"), TestOutputFile: d.paths.File("test-output.txt"),
		ChecklistPatterns: d.loop.Checklists, ChecklistStatusFile: d.paths.File("checklist-status.json"),
		ChecklistRemainingFile: d.paths.File("checklist-remaining.md"),
		ValidationStatusFile:   d.paths.File("validation-status.json"), ValidationResultsFile: d.paths.File("validation-results.json"),
		PrerequisitesStatusFile:  d.paths.File("prerequisites-status.json"),
		PrerequisitesResultsFile: d.paths.File("prerequisites-results.json"),
	}, res, at)
	if err != nil {
		return nil, err
	}
	if err := d.host.Write("evidence.json", data); err != nil {
		return nil, err
	}
	return loop.GateEnded{Of: d.to(), Gate: "evidence", Status: res.Status(), OK: res.OK, Details: strings.Join(res.Missing, "; "),
		Results: d.paths.Rel(d.paths.File("evidence.json")), DurationMS: at.Sub(started).Milliseconds()}, nil
}

// checkStuck compares the tree with that before the iteration. The look was
// taken with the promise; after a start in between it is taken again.
func (d *driver) checkStuck() (loop.Fact, error) {
	if err := d.loadTrees(); err != nil {
		return nil, err
	}
	if d.tree.last.Signature() != d.state.Tree {
		if _, err := d.lookAtTree(context.Background()); err != nil {
			return nil, err
		}
	}
	counted, ignored, err := worktree.Filter(worktree.Diff(d.tree.first, d.tree.last), d.loop.Stuck.Ignore)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(d.paths.File("stuck.json"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	prev, err := gate.ParseStuck(data)
	if err != nil || prev.RunID != d.state.RunID {
		prev = gate.StuckState{} // a view of another run, or none
	}
	prev.Streak = d.state.Stuck.Count // the journal's count, which nobody edits
	if prev.Iteration >= d.state.Iteration {
		prev.Iteration = d.state.Iteration - 1 // written by a look that was not recorded
	}
	sig := d.tree.last.Signature()
	st, verdict := gate.Stuck(prev, gate.StuckInput{RunID: d.state.RunID, Iteration: d.state.Iteration,
		Changed: worktree.Paths(counted), Signature: sig, Threshold: d.state.Plan.StuckThreshold, At: d.host.Now(d.state)})
	if sig != d.state.Stuck.Tree {
		if err := d.tree.last.Save(d.o.Disk, d.paths.Tree(sig)); err != nil {
			return nil, d.host.Full(err)
		}
	}
	if err := d.host.Write("stuck.json", st.JSON()); err != nil {
		return nil, err
	}
	if verdict.Triggered {
		report := gate.StuckReport{LoopID: d.o.LoopID, State: st, Ignored: worktree.Paths(ignored),
			Patterns: d.loop.Stuck.Ignore, Missing: d.state.MissingGates(), At: d.host.Now(d.state)}
		if err := d.host.Write("stuck-report.md", report.Markdown()); err != nil {
			return nil, err
		}
	}
	f := loop.StuckChecked{Of: d.to(), Changed: len(counted), Ignored: len(ignored), Tree: sig, Streak: verdict.Streak,
		Threshold: verdict.Threshold, Triggered: verdict.Triggered, Reason: verdict.Reason}
	if verdict.Triggered {
		f.Action = "report_and_stop"
	}
	d.tree.first = d.tree.last
	return f, nil
}

// commitTimeout bounds a commit with its hooks.
const commitTimeout = 10 * time.Minute
