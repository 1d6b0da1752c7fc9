package effects

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/gate"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/recovery/plan"
	"github.com/superloop/superloop/roles"
)

// WorkTree gives Prompts and Roles access to the work tree: its signature and its branch.
type WorkTree interface {
	Looker
	Branch(ctx context.Context) string // the branch of the work tree, or "" if there is none
}

// Prompts writes the prompts of roles.
type Prompts struct {
	*Host
	Tree  WorkTree
	Rules func() []*recovery.Policy // the policies in force, the newest last
}

// Make renders the prompt of a role and writes it to the file that the runner reads. It makes the reviewer's packet
// first, because the reviewer's prompt points to the packet.
func (p *Prompts) Make(ctx context.Context, e loop.Effect, s loop.State, files RoleFiles) error {
	if e.Role == roles.Reviewer && p.Settings().Loop.ReviewerPacket {
		if err := p.writePacket(s); err != nil {
			return err
		}
	}
	own, err := p.own(e.Role)
	if err != nil {
		return err
	}
	in := p.input(ctx, e, s)
	in.Template, in.Promises = own, e.Role == s.Plan.PromiseRole()
	if p.Settings().Loop.PromptOnly {
		in.Notes = p.Paths.File(layout.Notes)
	}
	text, err := roles.Render(in)
	if err != nil {
		return fmt.Errorf("making the prompt of the %s: %w", e.Role, err)
	}
	return p.Create("prompt", files.Prompt, text)
}

// own returns the part of the prompt that is the operator's or the role's own.
func (p *Prompts) own(role string) (string, error) {
	if !p.Settings().Loop.PromptOnly {
		return roles.Load(filepath.Join(p.Paths.Super, "roles"), role)
	}
	path := p.specFile()
	if !filepath.IsAbs(path) {
		path = filepath.Join(p.Repo.Top, path)
	}
	return roles.LoadPrompt(path)
}

// input collects the facts about the loop that the prompt of a role states.
func (p *Prompts) input(ctx context.Context, e loop.Effect, s loop.State) roles.Input {
	in := roles.Input{Role: e.Role, Loop: p.LoopID, Iteration: s.Iteration, MaxIterations: s.Plan.MaxIterations,
		Attempt: e.Attempt, LoopDir: p.Paths.Loop, Promise: s.Plan.Promise,
		Stuck: roles.Stuck{Streak: s.Stuck.Count, Threshold: s.Stuck.Threshold}}
	if s.Iteration > 1 {
		in.GatesOf, in.Gates = s.Iteration-1, NamedGates(s.LastGates)
	}
	in.Tests = p.tests(s)
	in.Diagnosis = diagnosisOf(s)
	p.recoveries(&in, s)
	left := func(role string, iteration int, r loop.RoleResult) {
		if r.Output != "" && r.Output != string(roles.Fresh) {
			in.Left = append(in.Left, roles.Left{Role: role, Iteration: iteration, Outcome: roles.Outcome{File: r.File, Status: roles.Status(r.Output)}})
		}
	}
	for _, role := range s.Plan.Roles {
		left(role, s.Iteration-1, s.LastRoles[role])
		if role != e.Role {
			left(role, s.Iteration, s.Roles[role])
		}
	}
	if last, ok := s.Roles[e.Role]; ok && e.Attempt > 1 {
		in.LastAttempt = p.lastAttempt(e, s, last)
	}
	in.Before, in.HumanNote = toldByPolicy(s, e.Role), saidByPeople(s)
	pl := roles.Places{WorkDir: p.Repo.Top, SpecFile: p.specFile(), LoopDir: p.Paths.Loop, Role: e.Role, Branch: p.Tree.Branch(ctx)}
	if p.Settings().Loop.Git.Worktree {
		pl.Worktree = p.Repo.Top
	}
	if own := p.Paths.Checklist(); slices.Contains(p.Settings().Loop.Checklists, p.Paths.Rel(own)) {
		pl.Checklist = own
	}
	in.Context, in.Phases = roles.Gather(pl)
	return in
}

// toldByPolicy returns notes for the prompt of a role: what became of the attempts before this one, and the root cause
// of the failure if superloop is sure of one.
func toldByPolicy(s loop.State, role string) []roles.Note {
	var out []roles.Note
	r := s.Response
	if l := r.Policy; l != nil && l.Task.Role == role && len(l.Tell) > 0 {
		out = append(out, roles.Note{About: "What became of the attempts before this one", Text: strings.Join(l.Tell, "\n")})
	}
	if c := r.Cause; c != nil && c.Sure && (c.Role == role || c.Role == loop.TestsTask) {
		text := c.Summary
		if c.Location != "" {
			text += " (" + c.Location + ")"
		}
		if c.Instruction != "" && c.Fix == failures.FixCode {
			text += "\nTo do about it: " + c.Instruction
		}
		if len(c.Evidence) > 0 {
			text += "\nEvidence:\n" + strings.Join(c.Evidence[:min(len(c.Evidence), 6)], "\n")
		}
		what := "The cause of that"
		if c.Role == loop.TestsTask {
			what = "The cause of the tests' failing in the same way again"
		}
		out = append(out, roles.Note{Text: text, About: fmt.Sprintf("%s (%s, by %s, confidence %.1f; all of it is in %s)", what, c.Type, c.By, c.Confidence, RootCauseFile)})
	}
	return out
}

// recoveries adds to the input which commands the role may propose, and what became of earlier proposals.
func (p *Prompts) recoveries(in *roles.Input, s loop.State) {
	if in.NoRecovery = !s.Plan.Recovery; in.NoRecovery {
		return
	}
	for _, policy := range p.Rules() {
		in.Listed = policy.Settings.AutoApprove // the list of the newest policy: other commands are not worth proposing
	}
	in.RecoveryProblems = s.Recoveries.Problems
	in.Recoveries = loop.Map(s.Recoveries.Recent, func(r loop.RecoveryNote) roles.Recovery {
		return roles.Recovery{Iteration: r.Iteration, Command: r.Command, Outcome: r.Outcome, Note: r.Note}
	})
}

// diagnosisOf returns the diagnosis that rules made of the last failure of the tests. It returns nil for a guess: the role
// reads the output itself, and a wrong cause in its prompt would mislead it.
func diagnosisOf(s loop.State) *roles.Diagnosis {
	g := s.Diagnosis
	if g == nil || !failures.Firm(g.Weak, g.Confidence) {
		return nil
	}
	return &roles.Diagnosis{Command: g.Command, Category: g.Category, Why: g.Why, Code: g.Code, Infra: g.Infra, Evidence: g.Evidence, Hints: g.Hints,
		Options: loop.Map(g.Options, func(o plan.Choice) roles.Remedy {
			return roles.Remedy{Command: o.Command, Label: o.Label, Note: o.Withheld}
		})}
}

// specFile returns the path of the spec as an agent finds it from its working directory. If the loop has its own work
// tree, the path leads to the spec in the repository.
func (p *Prompts) specFile() string {
	if p.Settings().Loop.Git.Worktree {
		return filepath.Join(p.Paths.Repo, p.Settings().Loop.SpecFile)
	}
	return p.Settings().Loop.SpecFile
}

func (p *Prompts) lastAttempt(e loop.Effect, s loop.State, last loop.RoleResult) *roles.Attempt {
	files := p.RoleFiles(s.Iteration, e.Role, last.Attempt)
	tail, _, _ := door.Ends(files.Log, 0, 2048) // "" if the role printed nothing, or its log is gone
	return &roles.Attempt{Ended: last.Outcome, Code: last.ExitCode, Tail: tail, Signal: last.Signal, After: ms(last.DurationMS)}
}

// tests returns the newest verdict of the tests, with their output if they did not pass.
func (p *Prompts) tests(s loop.State) *roles.Tests {
	t := roles.Tests{Status: s.Gates.Tests, Iteration: s.Iteration}
	if t.Status == "" {
		t.Status, t.Iteration = s.LastGates.Tests, s.Iteration-1
	}
	if t.Status == "" || t.Status == gate.StatusSkipped {
		return nil
	}
	t.File = p.Paths.File("test-output.txt")
	if t.Status != gate.StatusOK {
		t.Output, _, _ = door.Ends(t.File, 8<<10, 8<<10)
	}
	return &t
}

// NamedGates returns the name and the verdict of each gate that has a verdict.
func NamedGates(g loop.Gates) [][2]string {
	var out [][2]string
	for _, x := range [][2]string{{"promise", g.Promise}, {"tests", g.Tests}, {"validation", g.Validation},
		{"prerequisites", g.Prerequisites}, {"checklist", g.Checklist}, {"evidence", g.Evidence}, {"approval", g.Approval}, {"change", g.Change},
		{"test_change", g.TestChange},
		{"reports", g.Reports}, {"tree", g.Tree}, {"final", g.Final}} {
		if x[1] != "" {
			out = append(out, x)
		}
	}
	return out
}

// saidByPeople returns what operators have said: with an answer, or as a note.
func saidByPeople(s loop.State) string {
	all := []string{}
	if s.HumanNote != "" {
		all = append(all, s.HumanNote)
	}
	for _, n := range s.Notes {
		all = append(all, fmt.Sprintf("%s, in iteration %d: %s", n.By, n.Iteration, n.Text))
	}
	return strings.Join(all, "\n\n")
}

func (p *Prompts) writePacket(s loop.State) error {
	packet := gate.Packet{LoopID: p.LoopID, Iteration: s.Iteration, GatesOf: s.Iteration - 1, File: p.Paths.File}
	data, err := gate.ReviewerPacket(p.Paths.Repo, packet, p.Now(s))
	if err != nil {
		return err
	}
	return p.Write("reviewer-packet.md", data)
}
