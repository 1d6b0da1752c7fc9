package loop

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/recovery/failures"
)

// ClassEnvironment is the class of an escalation about a failing environment check, and of a wait until the check
// passes.
const ClassEnvironment = "preflight" // escalation.RulePreflight

// EscalationEnvironment is the type of an escalation about an environment that no rule can repair.
const EscalationEnvironment = "remediation_exhausted"

// environmentBroken takes the fact that an environment check kept the role from starting. If a remedy is known, its
// command goes through the policy. If all findings pass with time, the loop waits. Otherwise a human is asked. Nothing
// was spent.
func (t *turn) environmentBroken(f EnvironmentBroken) bool {
	if !t.keptFromStart(f.Role) || !t.responds() {
		return false
	}
	r := &t.s.Response
	var tried []string
	if r.Environment != nil && r.Environment.Iteration == t.s.Iteration {
		tried = slices.Clone(r.Environment.Tried)
	}
	r.Environment = &EnvironmentState{Iteration: t.s.Iteration, Role: f.Role, Findings: f.Findings, Tried: tried}
	if a := f.Command; a != nil && t.mayTry(*a) && !slices.Contains(tried, a.Digest) {
		r.Environment.Tried = append(tried, a.Digest)
		t.runRemedy(OriginPreflight, *a, f.Category, f.Why, Whys(f.Findings))
		return true
	}
	if at := OverAt(f.Findings); at.After(t.now) {
		t.waitForLimit(Limited{Role: f.Role, Class: ClassEnvironment, Source: SourceRole, LimitFact: LimitFact{Text: f.Why, Until: at}})
		return true
	}
	t.s.Detail = "the iteration cannot begin: " + f.Why
	t.ask(HumanState{ID: t.roleID("preflight"), About: AboutPreflight, Type: EscalationEnvironment, Class: ClassEnvironment, Role: f.Role, Text: f.Why,
		Fix: "superloop doctor --checks"})
	return true
}

// Whys returns the reasons of the findings.
func Whys(found []failures.Finding) []string {
	return Map(found, func(f failures.Finding) string { return f.Why })
}

// OverAt returns the time at which the last of the findings is over by itself. It is zero if one of them has no such
// time.
func OverAt(found []failures.Finding) time.Time {
	var at time.Time
	for _, f := range found {
		if f.Until.IsZero() {
			return time.Time{}
		}
		if f.Until.After(at) {
			at = f.Until
		}
	}
	return at
}

// If the tests fail in the same way in one iteration after another, although the tree changed in between, superloop
// looks for the root cause the second time. After SameTests iterations it asks an operator, before it spends more on
// roles.

// ClassSameTests is the class of an escalation about tests that fail in the same way again and again.
const ClassSameTests = "same_tests"

// TestsTask is the reason of an analysis that is about the tests, not about a role.
const TestsTask = "tests"

// passTests leaves the tests of the step at. It counts iterations whose tests failed in the same way, and asks or
// analyses if there were enough of them.
func (t *turn) passTests(at string) {
	next := t.s.Plan.next(at)
	if !t.responds() {
		t.enter(next)
		return
	}
	r := &t.s.Response
	if t.s.Gates.Tests != "failed" || len(t.s.TestFailures) == 0 {
		r.Same = SameTests{}
		t.becomes(TestsTask, solved)
		if r.Cause != nil && r.Cause.Role == TestsTask {
			r.Cause = nil
		}
		t.enter(next)
		return
	}
	sig := signatureOf(t.s.TestFailures)
	s := &r.Same
	switch {
	case s.Signature != sig || s.Iteration < t.s.Iteration-1:
		*s = SameTests{Signature: sig, Count: 1, Iteration: t.s.Iteration, Tree: t.s.TestsTree}
	case s.Iteration < t.s.Iteration && s.Tree != t.s.TestsTree:
		s.Count, s.Iteration, s.Tree = s.Count+1, t.s.Iteration, t.s.TestsTree
	default:
		// A second run of the tests in one iteration is the same failure. If the tree did not change, nothing was
		// tried, and the stuck gate deals with that.
		s.Iteration = t.s.Iteration
		t.enter(next)
		return
	}
	t.s.At = at
	if s.Count > 1 {
		t.failedAgain(TestsTask, fmt.Sprintf("%s ends with exit code %d, in %d iterations in a row", t.s.TestFailures[0].Command, t.s.TestFailures[0].ExitCode, s.Count), s.Count)
	}
	limit := t.s.Plan.Respond.SameTests
	switch {
	case limit > 0 && s.Count >= limit && !t.lastIteration():
		t.s.Detail = fmt.Sprintf("the tests have failed in the same way in %d iterations in a row", s.Count)
		t.becomes(TestsTask, withOperator)
		t.ask(HumanState{ID: t.roleID("same"), About: AboutTests, Type: failures.TypeRole, Class: ClassSameTests, Role: TestsTask, Text: t.s.Detail})
	case s.Count == 2:
		e := t.effect(Analyse, TestsTask)
		e.ID, e.Role, e.MaxCostUSD = e.ID+"/cause", TestsTask, t.moneyLeft()
		e.Until = t.now.Add(ms(t.s.Plan.Respond.Limits.AnalysisMS))
		t.issue(e)
	default:
		t.enter(next)
	}
}

// lastIteration reports whether max_iterations allows no further iteration.
func (t *turn) lastIteration() bool {
	return t.s.Plan.MaxIterations > 0 && t.s.Iteration >= t.s.Plan.MaxIterations
}

// signatureOf identifies a set of failures, in whatever order they come.
func signatureOf(fs []TestFailure) string {
	all := Map(fs, func(f TestFailure) string { return f.Command + "\x00" + f.Signature })
	slices.Sort(all)
	return strings.Join(slices.Compact(all), "\n")
}
