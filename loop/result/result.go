package result

import (
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/stats"
)

// Result is the result of one run of a loop.
type Result struct {
	LoopID, RunID, Version string
	Plan                   loop.Plan
	Status                 loop.Status
	Reason, Detail         string
	By, StopNote           string // who ended the loop, and that person's note; "" if nobody did
	Started, Updated       time.Time
	Ended                  time.Time // zero while the loop has not ended
	ActiveMS               int64     // the time in which the loop was active; of a loop that has not ended the time since its start
	Iterations             []Iteration
	Recoveries             []Recovery
	Questions              []Question
	Commits                []Commit
	Total                  stats.Figures
	Work                   Work
}

// Iteration is one iteration of the run. Gates and Missing are of its last evaluation.
type Iteration struct {
	N        int
	From, To time.Time
	Roles    []RoleRun
	Tests    []TestRun
	Gates    []Gate
	Complete bool
	Missing  []string // what completion lacked: "tests=failed"
	Why      []string // sentences about Missing
	Note     string   // what a person should look at although every gate passes
}

// Gate is the verdict of a gate, in the words of gate-summary.txt.
type Gate struct{ Name, Verdict string }

// Lacks reports whether completion lacked a gate.
func (i Iteration) Lacks(gate string) bool {
	return slices.ContainsFunc(i.Missing, func(m string) bool {
		name, _, _ := strings.Cut(m, "=")
		return name == gate
	})
}

// RoleRun is one attempt of a role. Outcome is "open" if the journal holds no end of it. Report is the base name of the
// report that the role owes, "" if it owes none or has not ended; ReportStatus says what became of it (roles.Status), and
// ReportDigest which one was left, if it was a fresh one.
type RoleRun struct {
	Role, Runner, Model string
	Attempt             int
	From, To            time.Time
	Outcome, Error      string
	DurationMS          int64
	CostUSD             *float64 // nil if it is not known
	Tokens              *int64   // nil if it is not known

	Report, ReportStatus, ReportDigest string
}

// TestRun is one run of the tests. Status is "" if the journal holds no end of it. Reason is that of tests_start,
// "baseline" among others, or "final" for the tests in a fresh checkout.
type TestRun struct {
	Commands       []string
	Reason, Status string
	ExitCode       int
	Failed         string // the command that failed
	At             time.Time
	DurationMS     int64
}

// Recovery is what became of one proposal. Outcome is verified, ineffective, harmful, failed, denied, "not run", executed,
// "executed, not verified" or "outcome unknown".
type Recovery struct {
	N, Iteration              int
	At                        time.Time
	Source, Category, Command string
	Verdict, Rule, Reason, By string
	RootCause                 string
	Evidence                  []string
	Outcome                   string
	DurationMS                int64
}

// Question is a question to an operator. Answer is "" if nobody has answered it.
type Question struct {
	ID, Type, Role, About string
	Iteration             int
	At, Answered          time.Time
	Answer, By, Note      string
}

// Commit is a commit that superloop made for an iteration.
type Commit struct {
	SHA, Subject string
	Iteration    int
}

// Work is what only the repository knows about a run.
type Work struct {
	Changes []Change // what differs from the tree before the first role, sorted by path
	Unknown string   // why Changes are not known; "" if they are
	Branch  string   // the branch on which the work is; "" if HEAD is detached or nobody looked
	Own     bool     // the loop has a work tree and a branch of its own
	Review  string   // what the role that promises has written last, at most MaxReview bytes; "" if there is none
}

// MaxReview bounds the part of the reviewer's report that a result repeats, in bytes.
const MaxReview = 4 << 10

// The kinds of a Change.
const (
	Added   = "added"
	Changed = "changed"
	Removed = "removed"
)

// Change is a file that differs. Plus and Minus are lines, -1 if the file is no text or its content is not known.
type Change struct {
	Path, Kind  string
	Plus, Minus int
}

// last returns the last iteration that evaluated its gates, or nil.
func (r Result) last() *Iteration {
	for n := len(r.Iterations) - 1; n >= 0; n-- {
		if len(r.Iterations[n].Gates) > 0 {
			return &r.Iterations[n]
		}
	}
	return nil
}

// Tested returns the last run of the tests that ended, or nil.
func (r Result) Tested() *TestRun {
	for n := len(r.Iterations) - 1; n >= 0; n-- {
		for t := len(r.Iterations[n].Tests) - 1; t >= 0; t-- {
			if x := &r.Iterations[n].Tests[t]; x.Status != "" && x.Status != "interrupted" {
				return x
			}
		}
	}
	return nil
}

// Lines returns the sums of the lines that Changes added and removed.
func (w Work) Lines() (plus, minus int) {
	for _, c := range w.Changes {
		plus, minus = plus+max(0, c.Plus), minus+max(0, c.Minus)
	}
	return plus, minus
}
