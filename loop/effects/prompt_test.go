package effects

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/gate"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/roles"
)

func TestPromptOfTheFirstRole(t *testing.T) {
	t.Parallel()
	inRoleWorld(t, func(t *testing.T, w *roleWorld) {
		got := w.roles.Prompts.input(t.Context(), w.effect("planner"), w.state)
		got.Context, got.Phases = nil, nil
		same(t, got, roles.Input{Role: "planner", Loop: "l", Iteration: 1, MaxIterations: 9, Attempt: 1, LoopDir: w.host.Paths.Loop, Promise: "COMPLETE", NoRecovery: true})
	})
}

// TestPromptTellsTheState: everything that the loop knows reaches the role.
func TestPromptTellsTheState(t *testing.T) {
	t.Parallel()
	inRoleWorld(t, func(t *testing.T, w *roleWorld) {
		p := w.roles.Prompts
		e := w.effect("implementer")
		e.Attempt = 2
		w.write(w.host.RoleFiles(3, "implementer", 1).Log, strings.Repeat("x", 3000)+"the end")
		w.write(w.host.Paths.File("test-output.txt"), strings.Repeat("a", 9<<10)+strings.Repeat("b", 9<<10))
		w.policies = []*recovery.Policy{{Settings: recovery.Settings{AutoApprove: []string{"old"}}}, {Settings: recovery.Settings{AutoApprove: []string{"npm ci"}}}}
		s := w.state
		s.Plan.Roles = append(s.Plan.Roles, "tester")
		s.Iteration, s.HumanNote, s.Plan.Recovery = 3, "be quick", true
		s.Stuck = loop.Streak{Count: 2, Threshold: 4}
		s.LastGates = loop.Gates{Promise: "p", Tests: "failed", Validation: "v", Prerequisites: "q", Checklist: "c", Evidence: "e", Approval: "a"}
		s.LastRoles = map[string]loop.RoleResult{"planner": {Output: "fresh"}, "reviewer": {Output: "stale", File: "review.md"}, "implementer": {}}
		s.Roles = map[string]loop.RoleResult{"planner": {Output: "empty", File: "plan.md"}, "reviewer": {Output: "fresh"}, "tester": {},
			"implementer": {Attempt: 1, Outcome: "signal", ExitCode: -1, Signal: "SIGKILL", DurationMS: 2500, Output: "missing", File: "implementer.md"}}
		s.Diagnosis = &loop.Diagnosis{Command: "make", Category: "disk", Why: "full", Infra: true, Confidence: 0.9, Evidence: []string{"no space"}, Hints: []string{"df"}}
		s.Recoveries.Problems = []string{"no command"}
		s.Recoveries.Recent = []loop.RecoveryNote{{Iteration: 2, Command: "npm i", Outcome: "denied", Note: "policy"}}
		s.Response = loop.Response{Policy: &failures.State{Task: w.host.Task("implementer"), Tell: []string{"first", "second"}},
			Cause: &loop.Cause{Role: loop.TestsTask, Type: "code", Summary: "nil map", Sure: true, Location: "a.go:3", Fix: string(failures.FixCode), Instruction: "make it", By: "rules", Confidence: 0.75,
				Evidence: []string{"1", "2", "3", "4", "5", "6", "7"}}}
		got := p.input(t.Context(), e, s)
		got.Context, got.Phases = nil, nil
		same(t, got, roles.Input{Role: "implementer", Loop: "l", Iteration: 3, MaxIterations: 9, Attempt: 2, LoopDir: w.host.Paths.Loop, Promise: "COMPLETE",
			Stuck: roles.Stuck{Streak: 2, Threshold: 4}, GatesOf: 2,
			Gates: [][2]string{{"promise", "p"}, {"tests", "failed"}, {"validation", "v"}, {"prerequisites", "q"}, {"checklist", "c"}, {"evidence", "e"}, {"approval", "a"}},
			Tests: &roles.Tests{Status: "failed", Iteration: 2, File: w.host.Paths.File("test-output.txt"), Output: strings.Repeat("a", 8<<10) + cutMark(got.Tests) + strings.Repeat("b", 8<<10)},
			Left: []roles.Left{{Role: "planner", Iteration: 3, Outcome: roles.Outcome{File: "plan.md", Status: "empty"}},
				{Role: "reviewer", Iteration: 2, Outcome: roles.Outcome{File: "review.md", Status: "stale"}}},
			LastAttempt: &roles.Attempt{Ended: "signal", Code: -1, Signal: "SIGKILL", After: 2500 * time.Millisecond, Tail: got.LastAttempt.Tail},
			HumanNote:   "be quick",
			Before: []roles.Note{{About: "What became of the attempts before this one", Text: "first\nsecond"},
				{About: "The cause of the tests' failing in the same way again (code, by rules, confidence 0.8; all of it is in root-cause.json)",
					Text: "nil map (a.go:3)\nTo do about it: make it\nEvidence:\n1\n2\n3\n4\n5\n6"}},
			Listed:           []string{"npm ci"},
			RecoveryProblems: []string{"no command"},
			Recoveries:       []roles.Recovery{{Iteration: 2, Command: "npm i", Outcome: "denied", Note: "policy"}},
			Diagnosis:        &roles.Diagnosis{Command: "make", Category: "disk", Why: "full", Infra: true, Evidence: []string{"no space"}, Hints: []string{"df"}}})
		if tail := got.LastAttempt.Tail; !strings.HasSuffix(tail, "the end") || strings.Count(tail, "x") != 2048-len("the end") {
			t.Errorf("%d bytes of the log", len(tail))
		}
		s.Iteration = 4
		if got := p.input(t.Context(), e, s); got.LastAttempt == nil || got.LastAttempt.Tail != "" {
			t.Errorf("a log that is gone: %+v", got.LastAttempt)
		}
		delete(s.Roles, "implementer")
		if got := p.input(t.Context(), e, s); got.LastAttempt != nil {
			t.Error("nothing is known of the attempt before")
		}
		s.HumanNote = ""
		if got := p.input(t.Context(), e, s); got.HumanNote != "" {
			t.Error("a note that nobody wrote")
		}
		s.Roles["implementer"] = loop.RoleResult{Attempt: 1}
		e.Attempt = 1
		if got := p.input(t.Context(), e, s); got.LastAttempt != nil {
			t.Error("the first attempt has one before it")
		}
	})
}

// cutMark is what stands between the ends of an output.
func cutMark(got *roles.Tests) string {
	if got == nil {
		return ""
	}
	return strings.Trim(got.Output, "ab")
}

func TestToldByPolicy(t *testing.T) {
	t.Parallel()
	task := failures.Task{Loop: "l", Role: "planner"}
	cause := loop.Cause{Role: "planner", Type: "code", Sure: true, Summary: "sum", Fix: "config", Instruction: "do it", By: "rules"}
	told := func(change func(r *loop.Response)) []roles.Note {
		c := cause
		r := loop.Response{Cause: &c, Policy: &failures.State{Task: task, Tell: []string{"x"}}}
		change(&r)
		return toldByPolicy(loop.State{Response: r}, "planner")
	}
	both := []roles.Note{{About: "What became of the attempts before this one", Text: "x"},
		{About: "The cause of that (code, by rules, confidence 0.0; all of it is in root-cause.json)", Text: "sum"}}
	same(t, told(func(*loop.Response) {}), both)
	same(t, told(func(r *loop.Response) { r.Policy = nil }), both[1:])
	same(t, told(func(r *loop.Response) { r.Policy.Task.Role = "tester" }), both[1:])
	same(t, told(func(r *loop.Response) { r.Policy.Tell = nil }), both[1:])
	same(t, told(func(r *loop.Response) { r.Cause = nil }), both[:1])
	same(t, told(func(r *loop.Response) { r.Cause.Role = "tester" }), both[:1])
	same(t, told(func(r *loop.Response) { r.Cause.Sure = false }), both[:1]) // a guess is for operators
	got := told(func(r *loop.Response) { r.Cause.Fix, r.Cause.Instruction = string(failures.FixCode), "" })
	same(t, got, both)
}

func TestNamedGates(t *testing.T) {
	t.Parallel()
	same(t, NamedGates(loop.Gates{}), [][2]string(nil))
	same(t, NamedGates(loop.Gates{Evidence: "e", Promise: "p"}), [][2]string{{"promise", "p"}, {"evidence", "e"}})
}

func TestTestsInThePrompt(t *testing.T) {
	t.Parallel()
	inRoleWorld(t, func(t *testing.T, w *roleWorld) {
		p, s := w.roles.Prompts, w.state
		s.Iteration = 2
		if p.tests(s) != nil {
			t.Error("they have never run")
		}
		s.LastGates.Tests = gate.StatusSkipped
		if p.tests(s) != nil {
			t.Error("they were skipped")
		}
		w.write(w.host.Paths.File("test-output.txt"), "all fine")
		file := w.host.Paths.File("test-output.txt")
		s.LastGates.Tests = gate.StatusOK
		same(t, p.tests(s), roles.Tests{Status: "ok", Iteration: 1, File: file})
		s.Gates.Tests = gate.StatusFailed
		same(t, p.tests(s), roles.Tests{Status: "failed", Iteration: 2, File: file, Output: "all fine"})
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		same(t, p.tests(s), roles.Tests{Status: "failed", Iteration: 2, File: file})
	})
}

func TestWhereTheSpecIs(t *testing.T) {
	t.Parallel()
	inRoleWorld(t, func(t *testing.T, w *roleWorld) {
		p := w.roles.Prompts
		w.write(filepath.Join(w.host.Paths.Repo, ".superloop/specs/l.md"), "the spec")
		hasSpec := func() bool {
			in := p.input(t.Context(), w.effect("planner"), w.state)
			return slices.ContainsFunc(in.Context, func(c roles.ContextFile) bool { return strings.HasSuffix(c.Value, "specs/l.md") })
		}
		if p.specFile() != ".superloop/specs/l.md" || !hasSpec() {
			t.Error(p.specFile())
		}
		w.set.Loop.Git.Worktree = true
		if p.specFile() != filepath.Join(w.host.Paths.Repo, ".superloop/specs/l.md") || !hasSpec() {
			t.Error(p.specFile())
		}
	})
}

func TestMakePrompt(t *testing.T) {
	t.Parallel()
	inRoleWorld(t, func(t *testing.T, w *roleWorld) {
		p := w.roles.Prompts
		packet := w.host.Paths.File("reviewer-packet.md")
		files := w.host.RoleFiles(1, "reviewer", 1)
		mk := func(role string) error { return p.Make(t.Context(), w.effect(role), w.state, files) }
		if err := mk("reviewer"); err != nil || exists(packet) {
			t.Fatal(err)
		}
		w.set.Loop.ReviewerPacket = true
		if err := mk("planner"); err != nil || exists(packet) {
			t.Fatal("only the reviewer gets a packet", err)
		}
		parts := []string{"gate-summary.txt", "test-status.json", "test-report.md", "checklist-status.json", "checklist-remaining.md", "evidence.json",
			"validation-status.json", "validation-results.json"}
		for _, name := range parts {
			w.write(w.host.Paths.File(name), "this is "+name)
		}
		w.state.Iteration = 7
		if err := os.Remove(files.Prompt); err != nil {
			t.Fatal(err)
		}
		if err := mk("reviewer"); err != nil {
			t.Fatal(err)
		}
		text := w.read(packet)
		for _, want := range append(parts, "Loop: l\n", "Iteration: 7\n", "iteration 6") {
			if !strings.Contains(text, want) {
				t.Errorf("%s is not in the packet:\n%s", want, text)
			}
		}
		if !strings.Contains(w.read(files.Prompt), "eviewer") {
			t.Error("no prompt")
		}
		w.write(filepath.Join(w.host.Paths.Super, "roles", "planner.md"), "my own planner")
		if err := mk("planner"); err != nil || !strings.HasPrefix(w.read(files.Prompt), "my own planner") {
			t.Error(err)
		}
		if err := mk("nobody"); err == nil {
			t.Error("a role that there is not")
		}
		w.state.Plan.Promise = "<promise>x</promise>"
		if err := mk("planner"); err == nil || !strings.HasPrefix(err.Error(), "making the prompt of the planner: ") {
			t.Error(err)
		}
	})
}

// TestAGuessIsNoFact: a diagnosis that is weak or not sure stands in no prompt.
func TestAGuessIsNoFact(t *testing.T) {
	t.Parallel()
	g := loop.Diagnosis{Command: "make", Category: "disk", Why: "full", Infra: true, Confidence: failures.Sure}
	if diagnosisOf(loop.State{Diagnosis: &g}) == nil {
		t.Error("a sure diagnosis is not told")
	}
	weak, unsure := g, g
	weak.Weak, unsure.Confidence = true, failures.Sure-0.01
	for _, d := range []loop.Diagnosis{weak, unsure} {
		if got := diagnosisOf(loop.State{Diagnosis: &d}); got != nil {
			t.Errorf("%+v", got)
		}
	}
}
