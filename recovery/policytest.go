package recovery

import (
	"fmt"
	"path"
	"strings"

	"github.com/superloop/superloop/schemas"
)

// TestResult is how one of a policy's own tests went.
type TestResult struct {
	Test    PolicyTest `json:"test"`
	Pointer string     `json:"pointer"`
	OK      bool       `json:"ok"`
	Verdict Verdict    `json:"verdict"`
}

// RunTests judges every test of the policy. Nothing is looked up and nothing is run: a directory is judged by its path
// alone, nothing has changed, commands are confined, and the budget is untouched.
func (p *Policy) RunTests() []TestResult {
	out := make([]TestResult, 0, len(p.Settings.Tests))
	for i, t := range p.Settings.Tests {
		v := Decide(p, Command{Text: t.Command, WorkingDir: t.WorkingDir, DirProblem: lexicalProblem(t.WorkingDir)},
			Facts{LooseOK: true, Confined: true})
		out = append(out, TestResult{Test: t, Pointer: p.Pointer("tests", i), OK: v.Decision == t.Expect, Verdict: v})
	}
	return out
}

// CheckTests gives a problem for each test that fails: a config with such a policy is not taken.
func (p *Policy) CheckTests() []schemas.Problem {
	var problems []schemas.Problem
	for _, r := range p.RunTests() {
		if !r.OK {
			problems = append(problems, schemas.Problem{
				Pointer: r.Pointer, Code: "policy_test", Found: string(r.Verdict.Decision), Allowed: string(r.Test.Expect),
				Message: fmt.Sprintf("the policy's own test fails: %s is %s, not %s: %s", quoted(r.Test.Command), r.Verdict.Decision, r.Test.Expect, r.Verdict.Reason),
			})
		}
	}
	return problems
}

// lexicalProblem judges a working directory without looking at any.
func lexicalProblem(dir string) string {
	clean, why := path.Clean(dir), impossibleDir(dir)
	switch {
	case why != "":
	case path.IsAbs(dir):
		why = "is absolute; a test has paths below the repository"
	case clean == ".." || strings.HasPrefix(clean, "../"):
		why = "leads out of the repository"
	default:
		why = forbiddenDir(dir)
	}
	if why == "" {
		return ""
	}
	return (&DirError{dir, why}).Error()
}
