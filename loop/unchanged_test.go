package loop

import (
	"slices"
	"strings"
	"testing"

	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/plan"
)

// iterate plays one iteration whose tests end as f, and returns the roles that ran.
func (b *bench) iterate(f TestsEnded) (ran []string) {
	b.t.Helper()
	for n := b.s.Iteration; b.s.Iteration == n && !b.s.Status.Ended() && b.s.Status != AwaitingHuman; {
		p := *b.s.Pending
		switch {
		case p.Kind == RunRole:
			ran = append(ran, p.Role)
			b.good(false)
		case p.Kind == RunTests && p.Reason != ReasonBaseline:
			b.do(f)
		default:
			b.good(false)
		}
	}
	return ran
}

func red(tree string) TestsEnded {
	return TestsEnded{Status: "failed", Tree: tree, Failures: []TestFailure{{Command: "make", ExitCode: 1, Signature: "s"}}}
}

func TestNoRoleLooksTwiceAtTheSameFailingTests(t *testing.T) {
	t.Parallel()
	p := basicPlan()
	p.SameRed, p.MaxIterations = 3, 0
	all := []string{"planner", "implementer", "tester", "reviewer"}
	b := newBench(t, p)
	for i, step := range []struct {
		tests TestsEnded
		ran   []string
	}{
		{red("f1"), all},
		{red("f1"), all[:2]}, // nothing has changed
		{red("f2"), all},     // a file has changed
		{TestsEnded{Status: "failed", Tree: "f2", Failures: []TestFailure{{Command: "make", ExitCode: 1, Signature: "another"}}}, all},
		{red(""), all}, // superloop cannot tell
		{red(""), all},
		{TestsEnded{Status: "ok", Tree: "f2"}, all},
		{red("f2"), all},
		{red("f2"), all[:2]},
	} {
		if ran := b.iterate(step.tests); !slices.Equal(ran, step.ran) {
			t.Fatalf("iteration %d: %v ran, want %v", i+1, ran, step.ran)
		}
	}
	if b.iterate(red("f2")); b.s.Status != StuckEnd || b.s.Reason != ReasonSameRed || !strings.Contains(b.s.Detail, "in 3 iterations in a row") || !strings.Contains(b.s.Detail, "make") {
		t.Errorf("%s %s: %s", b.s.Status, b.s.Reason, b.s.Detail)
	}
	if n := len(b.notes) - len(slices.DeleteFunc(slices.Clone(b.notes), func(e string) bool { return e == "role_skipped" })); n != 6 {
		t.Errorf("%d roles were said to be left out, 6 were", n)
	}

	b.do(Resumed{Plan: p, Rules: CurrentRules}) // whoever runs it again wants it tried again
	if ran := b.iterate(red("f2")); !slices.Equal(ran, all) || b.s.Status.Ended() {
		t.Errorf("after the end %v ran; %s", ran, b.s.Status)
	}
}

// With a bound of 0 everybody looks each time, as with a configuration that says so.
func TestRolesLookAgainWithoutTheBound(t *testing.T) {
	t.Parallel()
	b := newBench(t, basicPlan())
	for range 4 {
		if ran := b.iterate(red("f")); len(ran) != 4 {
			t.Errorf("%v ran", ran)
		}
	}
}

// Where nothing is executed, what rules are sure of is a question with the command, before a role is paid for it, and
// once for each failure.
func TestARemedyIsTold(t *testing.T) {
	t.Parallel()
	p := basicPlan()
	p.Diagnosis = true
	sureOf := Classified{Source: FailedTests, Category: "dependency", Handler: "h", Infra: true, Confidence: 0.95, Gate: "propose", Signature: "s", Why: "left-pad is missing",
		Options: []plan.Choice{{Key: "a", ID: "a", Availability: "ready", Executor: "wrapper", Draft: action.Draft{Command: "npm install", WorkingDir: "."}}}}
	for name, c := range map[string]struct {
		change func(*Classified)
		asked  bool
	}{
		"sure":             {func(*Classified) {}, true},
		"weak":             {func(f *Classified) { f.Weak = true }, false},
		"unsure":           {func(f *Classified) { f.Confidence = 0.7 }, false},
		"the code":         {func(f *Classified) { f.Infra, f.Code = false, true }, false},
		"no command":       {func(f *Classified) { f.Options = nil }, false},
		"nobody can do it": {func(f *Classified) { f.Options[0].Availability = "impossible" }, false},
		"a human's":        {func(f *Classified) { f.Options[0].Executor = "human" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, p)
			f := sureOf
			f.Options = slices.Clone(f.Options)
			c.change(&f)
			b.until(RunTests, false)
			b.do(red("f"))
			f.ID = b.s.Pending.ID
			b.do(f)
			if asked := b.s.Status == AwaitingHuman; asked != c.asked {
				t.Fatalf("%s, pending %+v", b.s.Status, b.s.Pending)
			}
			if !c.asked {
				return
			}
			h := *b.s.Human
			if h.Class != ClassRemedy || h.Fix != "npm install" || b.s.Recovery != nil {
				t.Errorf("%+v", h)
			}
			b.do(Resolved{Of: To(*b.s.Pending), ID: h.ID, By: "eve", Method: MethodManual})
			if !b.pending(RunTests) {
				t.Fatalf("after the answer %+v is pending", b.s.Pending)
			}
			b.do(red("f"))
			f.ID = b.s.Pending.ID
			b.do(f)
			if !b.pending(RunRole) || b.s.Pending.Role != "tester" {
				t.Errorf("the same failure again: %s, %+v", b.s.Status, b.s.Pending)
			}
		})
	}
}

func (b *bench) pending(kind EffectKind) bool { return b.s.Pending != nil && b.s.Pending.Kind == kind }

// Work that could not be committed completes no loop; without the rest of the gates the loop goes on.
func TestAFailedCommitCompletesNothing(t *testing.T) {
	t.Parallel()
	p := basicPlan()
	p.Commit = "per_iteration"
	b := newBench(t, p)
	b.until(Commit, false)
	b.do(CommitEnded{Outcome: CommitFailed, Reason: "no identity"})
	if b.until(Commit, true); b.s.Iteration != 2 {
		t.Fatalf("iteration %d", b.s.Iteration)
	}
	b.do(CommitEnded{Outcome: CommitFailed, Reason: "no identity"})
	if b.s.Status != AwaitingHuman || b.s.Human.About != AboutCommit || !strings.Contains(b.s.Detail, "no identity") {
		t.Fatalf("%s: %s", b.s.Status, b.s.Detail)
	}
	b.do(Resolved{Of: To(*b.s.Pending), ID: b.s.Human.ID, By: "eve", Method: MethodManual})
	if !b.pending(Commit) {
		t.Fatalf("%+v", b.s.Pending)
	}
	if b.until(Report, true); b.s.Iteration != 2 {
		t.Fatalf("iteration %d", b.s.Iteration)
	}
	b.good(true)
	if b.s.Status != Completed || b.s.Spent.Runs != 8 {
		t.Errorf("%s after %d role runs", b.s.Status, b.s.Spent.Runs)
	}
	refused := newBench(t, p)
	refused.until(Commit, true)
	refused.do(CommitEnded{Outcome: CommitFailed, Reason: "no identity"})
	refused.do(Resolved{Of: To(*refused.s.Pending), ID: refused.s.Human.ID, By: "eve", Method: MethodReject})
	if refused.s.Status != Failed {
		t.Errorf("%s", refused.s.Status)
	}
}
