package loop

import (
	"slices"
	"strings"
	"testing"
)

// filesBench is a loop whose tests found the files "f1", right before the look at the promise.
func filesBench(t *testing.T, p Plan) *bench {
	t.Helper()
	b := newBench(t, p)
	for b.s.Pending.Kind != CheckPromise {
		if b.s.Pending.Kind == RunTests {
			b.do(TestsEnded{Status: "ok", Tree: "t1", Files: "f1"})
		} else {
			b.good(true)
		}
	}
	return b
}

func (b *bench) pend(kind EffectKind) {
	b.t.Helper()
	if b.s.Pending == nil || b.s.Pending.Kind != kind {
		b.t.Fatalf("pending %+v in %s, want %s", b.s.Pending, b.s.Status, kind)
	}
}

// What git says of the tree does not count where superloop has looked at the files itself.
func TestTestsRunAgainWhenFilesChanged(t *testing.T) {
	b := filesBench(t, basicPlan())
	b.do(PromiseChecked{Matched: true, Tree: "t1", Files: "f2"})
	b.pend(RunTests)
	if b.s.Pending.Reason != ReasonTreeChanged {
		t.Errorf("%+v", b.s.Pending)
	}
	b.do(TestsEnded{Rerun: true, Status: "ok", Tree: "t1", Files: "f2"})
	b.pend(CheckTree)
	b.do(TreeChecked{Files: "f2"})
	b.good(true) // the report
	if b.s.Status != Completed || b.s.Gates.Tree != TreeOK {
		t.Errorf("%s, %+v", b.s.Status, b.s.Gates)
	}

	b = filesBench(t, basicPlan())
	b.do(PromiseChecked{Matched: true, Tree: "another one for git", Files: "f1"})
	b.pend(CheckTree)

	b = filesBench(t, basicPlan())
	b.do(PromiseChecked{Matched: false, Tree: "t2"})
	b.pend(Report)
}

// A change behind the last run of the tests makes the gates run again, twice at most. Then the next iteration begins.
func TestFilesThatChangeBehindTheTests(t *testing.T) {
	p := basicPlan()
	p.Validation, p.RequireValidation, p.Commit, p.StuckThreshold, p.Tests = "every", true, "per_iteration", 3, "on_promise"
	b := filesBench(t, p)
	b.do(PromiseChecked{Matched: true, Tree: "t1", Files: "f1"})
	var kinds []string
	ids := map[string]bool{}
	for n := 0; b.s.Iteration == 1; n++ {
		if n > 50 {
			t.Fatal("it never ends")
		}
		kinds = append(kinds, string(b.s.Pending.Kind))
		if ids[b.s.Pending.ID] {
			t.Errorf("the id %s twice", b.s.Pending.ID)
		}
		ids[b.s.Pending.ID] = true
		switch b.s.Pending.Kind {
		case RunTests:
			b.do(TestsEnded{Status: "ok", Tree: "t1", Files: "f1"})
		case CheckTree:
			b.do(TreeChecked{Files: "f2", Changed: true})
		default:
			b.good(true)
		}
	}
	want := "run_tests run_validation check_stuck commit check_tree run_tests run_validation check_tree run_tests run_validation check_tree report"
	if got := strings.Join(kinds, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if !slices.Equal(b.s.Missing, []string{"tree=changed"}) || b.s.Status != Running || b.s.Passes != 0 {
		t.Errorf("%v, %s, %d passes", b.s.Missing, b.s.Status, b.s.Passes)
	}

	b = filesBench(t, p)
	b.do(PromiseChecked{Matched: true, Tree: "t1", Files: UnseenFiles})
	b.do(TestsEnded{Status: "ok", Tree: "t1", Files: UnseenFiles})
	b.until(CheckTree, true)
	b.do(TreeChecked{Files: UnseenFiles})
	if !slices.Equal(b.s.Missing, []string{"tree=unseen"}) {
		t.Errorf("too many files: %v", b.s.Missing)
	}
}

// What superloop's own commands wrote behind the tests is no change.
func TestFilesOfOwnCommands(t *testing.T) {
	p := basicPlan()
	p.Validation, p.Commit = "every", "per_iteration"
	b := filesBench(t, p)
	b.do(PromiseChecked{Matched: true, Tree: "t1", Files: "f1"})
	b.pend(RunValidation)
	b.do(GateEnded{Gate: "validation", Status: "ok", OK: true, Files: "f2"})
	b.pend(Commit)
	b.do(CommitEnded{Outcome: "success", Files: "f3"})
	b.pend(CheckTree)
	b.do(TreeChecked{Files: "f3"})
	b.pend(Report)
}

// An approval is for the files that were there when it was asked for. Without tests nothing runs again before it.
func TestApprovalOfFiles(t *testing.T) {
	p := basicPlan()
	p.Approval, p.Tests = true, "disabled"
	b := filesBench(t, p)
	b.do(PromiseChecked{Matched: true, Tree: "t1", Files: "f1"})
	b.pend(CheckTree)
	b.do(TreeChecked{Files: "f2"})
	b.good(true) // the report
	b.pend(AskHuman)
	if b.s.Approval.Files != "f2" || b.s.Gates.Tree != "" {
		t.Errorf("%+v, %+v", b.s.Approval, b.s.Gates)
	}
}

// With a fresh checkout the loop completes, or asks whether it may, when the tests have passed there.
func TestTestsInACheckout(t *testing.T) {
	for _, approval := range []bool{false, true} {
		p := basicPlan()
		p.Final, p.Approval = true, approval
		b := newBench(t, p)
		b.until(RunFinal, true)
		b.do(FinalStarted{Commit: "c"})
		b.do(FinalEnded{Status: "failed", Interrupted: true})
		b.pend(RunFinal)
		b.do(FinalEnded{Status: "failed", ExitCode: 1})
		b.good(true) // the report
		if b.s.Iteration != 2 || !slices.Equal(b.s.Missing, []string{"final=failed"}) || len(WhyMissing(b.s.Missing)) != 1 {
			t.Errorf("iteration %d, %v", b.s.Iteration, b.s.Missing)
		}
		b.until(RunFinal, true)
		b.good(true)
		b.good(true) // the report
		if approval {
			b.pend(AskHuman)
			b.do(ApprovalDecided{Status: "approved", By: "eve", TreeChanged: true})
			b.until(RunFinal, true)
			b.good(true)
			b.good(true)
		}
		if b.s.Status != Completed || b.s.Gates.Final != "ok" {
			t.Errorf("%s, %+v", b.s.Status, b.s.Gates)
		}
	}
	b := newBench(t, func() Plan { p := basicPlan(); p.Final = true; return p }())
	b.until(CheckPromise, true)
	b.do(PromiseChecked{Matched: false})
	b.pend(Report)
}
