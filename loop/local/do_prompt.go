package local

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/superloop/superloop/loop"

	"github.com/superloop/superloop/loop/gate"
	"github.com/superloop/superloop/recovery/respond"
	"github.com/superloop/superloop/roles"
)

// writePrompt renders what the role is told and puts it where the runner reads
// it. The reviewer's packet is made first, because the prompt points to it.
func (d *driver) writePrompt(ctx context.Context, e loop.Effect, files roleFiles) error {
	if e.Role == roles.Reviewer && d.loop.ReviewerPacket {
		if err := d.writePacket(); err != nil {
			return err
		}
	}
	tpl, err := roles.Load(filepath.Join(d.paths.Super, "roles"), e.Role)
	if err != nil {
		return err
	}
	in := d.promptInput(ctx, e)
	in.Template = tpl
	text, err := roles.Render(in)
	if err != nil {
		return fmt.Errorf("making the prompt of the %s: %w", e.Role, err)
	}
	return d.host.Create("prompt", files.prompt, text)
}

// promptInput is the state of the loop as the role is to know it.
func (d *driver) promptInput(ctx context.Context, e loop.Effect) roles.Input {
	s := d.state
	in := roles.Input{Role: e.Role, Loop: d.o.LoopID, Iteration: s.Iteration, MaxIterations: s.Plan.MaxIterations,
		Attempt: e.Attempt, LoopDir: d.paths.Loop, Promise: s.Plan.Promise,
		Stuck: roles.Stuck{Streak: s.Stuck.Count, Threshold: s.Stuck.Threshold}}
	if s.Stuck.Count > 0 {
		in.Stuck.Reason = "no code changes"
	}
	if s.Iteration > 1 {
		in.GatesOf = s.Iteration - 1
		for _, g := range namedGates(s.LastGates) {
			in.Gates = append(in.Gates, roles.Gate{Name: g[0], Value: g[1]})
		}
	}
	in.Tests = d.testsForPrompt()
	in.Diagnosis = d.diagnosisForPrompt()
	d.recoveryForPrompt(&in)
	for _, role := range s.Plan.Roles {
		if r, ok := s.LastRoles[role]; ok && r.Output != "" && r.Output != string(roles.Fresh) {
			in.Left = append(in.Left, roles.Left{Role: role, Iteration: s.Iteration - 1,
				Outcome: roles.Outcome{File: r.File, Status: roles.Status(r.Output)}})
		}
		if r, ok := s.Roles[role]; ok && role != e.Role && r.Output != "" && r.Output != string(roles.Fresh) {
			in.Left = append(in.Left, roles.Left{Role: role, Iteration: s.Iteration,
				Outcome: roles.Outcome{File: r.File, Status: roles.Status(r.Output)}})
		}
	}
	if last, ok := s.Roles[e.Role]; ok && e.Attempt > 1 {
		in.LastAttempt = d.lastAttempt(e, last)
	}
	if s.HumanNote != "" {
		in.Notes = append(in.Notes, roles.Note{By: "a person", About: "answered the loop", Text: s.HumanNote})
	}
	in.Before = d.toldByLadder(e.Role)
	if len(d.tree.changed) > 0 {
		in.Changed = []roles.Changed{{Role: "the roles of this iteration so far", Files: d.tree.changed}}
	}
	if d.tree.branchOf != s.Iteration {
		d.tree.branch, _ = d.repo.Branch(ctx) // a detached head has none
		d.tree.branchOf = s.Iteration
	}
	pl := roles.Places{WorkDir: d.repo.Top, SpecFile: d.specFile(), LoopDir: d.paths.Loop, Role: e.Role, Branch: d.tree.branch}
	if d.loop.Git.Worktree {
		pl.Worktree = d.repo.Top
	}
	in.Context, in.Phases = roles.Gather(pl)
	return in
}

// toldByLadder is what the role is told of the attempts before it, and of the
// cause that was found for what fails.
func (d *driver) toldByLadder(role string) []roles.Note {
	var out []roles.Note
	r := d.state.Response
	if l := r.Ladder; l != nil && l.Task.Role == role && len(l.Tell) > 0 {
		out = append(out, roles.Note{About: "What became of the attempts before this one", Text: strings.Join(l.Tell, "\n")})
	}
	if c := r.Cause; c != nil && (c.Role == role || c.Role == loop.TestsTask) && c.Type != string(respond.CauseUnknown) {
		text := c.Summary
		if c.Location != "" {
			text += " (" + c.Location + ")"
		}
		if c.Instruction != "" && c.Fix == respond.FixCode {
			text += "\nTo do about it: " + c.Instruction
		}
		if len(c.Evidence) > 0 {
			text += "\nEvidence:\n" + strings.Join(c.Evidence[:min(len(c.Evidence), 6)], "\n")
		}
		what := "The cause of that"
		if c.Role == loop.TestsTask {
			what = "The cause of the tests' failing in the same way again"
		}
		out = append(out, roles.Note{Text: text, About: fmt.Sprintf("%s (%s, by %s, confidence %.1f; all of it is in %s)", what, c.Type, c.By, c.Confidence, rootCauseFile)})
	}
	return out
}

// recoveryForPrompt tells of proposals: what may be proposed, and what became of
// those before.
func (d *driver) recoveryForPrompt(in *roles.Input) {
	s := d.state
	if in.NoRecovery = !s.Plan.Recovery; in.NoRecovery {
		return
	}
	for _, p := range d.policies.InForce() {
		in.Listed = p.Settings.AutoApprove // the newest; what it does not list is not worth proposing
	}
	in.RecoveryProblems = s.Recoveries.Problems
	for _, r := range s.Recoveries.Recent {
		in.Recoveries = append(in.Recoveries, roles.Recovery{Iteration: r.Iteration, Command: r.Command, Outcome: r.Outcome, Note: r.Note})
	}
}

// diagnosisForPrompt is what rules say of the tests' last failure.
func (d *driver) diagnosisForPrompt() *roles.Diagnosis {
	g := d.state.Diagnosis
	if g == nil {
		return nil
	}
	out := &roles.Diagnosis{Command: g.Command, Category: g.Category, Why: g.Why, Code: g.Code, Infra: g.Infra, Evidence: g.Evidence, Hints: g.Hints}
	for _, o := range g.Options {
		out.Options = append(out.Options, roles.Cure{Command: o.Command, Label: o.Label, Note: o.Withheld})
	}
	return out
}

// specFile is the spec as an agent finds it from its folder. A spec that is not
// in the loop's own work tree is read from the repository.
func (d *driver) specFile() string {
	if d.loop.Git.Worktree {
		return filepath.Join(d.paths.Repo, d.loop.SpecFile)
	}
	return d.loop.SpecFile
}

func (d *driver) lastAttempt(e loop.Effect, last loop.RoleResult) *roles.Attempt {
	files := d.roleFiles(e.Role, last.Attempt)
	tail, _, err := roles.ReadRegular(files.log, 0, 2048)
	if err != nil {
		tail = "" // it printed nothing, or its log is gone
	}
	return &roles.Attempt{Ended: last.Outcome, Code: last.ExitCode, Tail: tail, Signal: last.Signal,
		After: time.Duration(last.DurationMS) * time.Millisecond}
}

// testsForPrompt is the newest verdict of the tests with what they printed.
func (d *driver) testsForPrompt() *roles.Tests {
	s := d.state
	t := roles.Tests{Status: s.Gates.Tests, Iteration: s.Iteration}
	if t.Status == "" {
		t.Status, t.Iteration = s.LastGates.Tests, s.Iteration-1
	}
	if t.Status == "" || t.Status == gate.StatusSkipped {
		return nil
	}
	t.File = d.paths.File("test-output.txt")
	if t.Status != gate.StatusOK {
		out, _, err := roles.ReadRegular(t.File, 8<<10, 8<<10)
		if err == nil {
			t.Output = out
		}
	}
	return &t
}

func namedGates(g loop.Gates) [][2]string {
	var out [][2]string
	for _, x := range [][2]string{{"promise", g.Promise}, {"tests", g.Tests}, {"validation", g.Validation},
		{"prerequisites", g.Prerequisites}, {"checklist", g.Checklist}, {"evidence", g.Evidence}, {"approval", g.Approval}} {
		if x[1] != "" {
			out = append(out, x)
		}
	}
	return out
}

func (d *driver) writePacket() error {
	p := gate.Packet{LoopID: d.o.LoopID, Iteration: d.state.Iteration, GatesOf: d.state.Iteration - 1,
		GateSummaryFile: d.paths.File("gate-summary.txt"), TestStatusFile: d.paths.File("test-status.json"),
		TestReportFile: d.paths.File("test-report.md"), ChecklistStatusFile: d.paths.File("checklist-status.json"),
		ChecklistRemainingFile: d.paths.File("checklist-remaining.md"), EvidenceFile: d.paths.File("evidence.json"),
		ValidationStatusFile: d.paths.File("validation-status.json"), ValidationResultsFile: d.paths.File("validation-results.json")}
	data, err := gate.ReviewerPacket(d.paths.Repo, p, d.host.Now(d.state))
	if err != nil {
		return err
	}
	return d.host.Write("reviewer-packet.md", data)
}
