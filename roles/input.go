package roles

import "time"

// Input is everything that a prompt is made of. Render adds nothing that is not in it, so equal Inputs give equal
// prompts. Texts may be foreign and of any length; Render cleans, fences and cuts them.
type Input struct {
	Role     string   // one of the role constants
	Template Template // what Load gave for it

	Loop string
	// Iteration counts from 1; MaxIterations 0 is no bound.
	Iteration, MaxIterations int
	// Attempt counts from 1 within the iteration; LastAttempt, for a later one, says how the one before ended.
	Attempt     int
	LastAttempt *Attempt
	LoopDir     string // absolute; there the role leaves its report
	Promise     string // the loop's completion promise; "" is none

	// Gates are the last verdicts, and GatesOf the iteration they are of.
	Gates   []Gate
	GatesOf int
	Tests   *Tests
	Stuck   Stuck
	// Left are the reports of earlier turns that were not as they should be.
	Left []Left
	// Only the tester is told of the next three. NoRecovery: superloop does not look at proposals in this loop.
	// Listed are the commands that it runs without asking an operator. RecoveryProblems say what was wrong with the
	// last recovery.json.
	NoRecovery       bool
	Listed           []string
	RecoveryProblems []string
	// Recoveries are what became of earlier proposals, oldest first.
	Recoveries []Recovery
	// Diagnosis is what superloop's rules say of the tests' last failure.
	Diagnosis *Diagnosis
	// Changed are the files changed in this iteration, by role.
	Changed []Changed
	// Before is what superloop says of failed attempts at the same work, and of their cause. Notes are what people
	// wrote to the loop, oldest first.
	Before, Notes []Note

	// Context and Phases are what Gather found.
	Context []ContextFile
	Phases  []Phase
}

// Gate is one gate's last verdict.
type Gate struct {
	Name, Value string   // words of superloop: "tests", "failed"
	Reasons     []string // why it is not passed, one line each
}

// Tests is the last run of the configured tests.
type Tests struct {
	// Status is ok, failed or skipped; Reason is a phrase, "" if none.
	Status, Reason string
	Iteration      int // in which they ran
	// Output of what failed; "" when nothing did. File is where the whole output lies, absolute; "" if nowhere.
	Output, File string
}

// Diagnosis is what rules say of a failure.
type Diagnosis struct {
	Command string
	// Category is a word, Why a sentence; Code says that only a change of the code can repair it, Infra that the
	// environment is to blame.
	Category, Why string
	Code, Infra   bool
	// Evidence are lines of the output, Hints sentences to an agent, and Options the commands that may remedy it, the
	// best first; only the tester is told of those.
	Evidence, Hints []string
	Options         []Cure
}

// Cure is a command that may remedy a failure. Note is why superloop did not run it by itself.
type Cure struct{ Command, Label, Note string }

// Stuck is the streak of iterations that changed nothing that matters.
type Stuck struct {
	// Streak 0 is none; Threshold 0 is no bound.
	Streak, Threshold int
	Reason            string // a phrase such as "no code changes"
}

// Left is a report that was not as it should be.
type Left struct {
	Role      string
	Iteration int
	Outcome   Outcome
}

// Attempt is how an earlier attempt of the same role ended.
type Attempt struct {
	Ended  string        // a phrase: "timeout", "no output", "exited", "killed"
	Code   int           // the exit code
	Signal string        // its name, if one ended the attempt
	After  time.Duration // how long it ran
	Tail   string        // the end of what it printed
}

// Recovery is a proposal and what became of it.
type Recovery struct {
	Iteration int
	// Outcome is a phrase: "executed, exit 0", "rejected by ada".
	Command, Outcome string
	Note             string // what an operator or the policy said to it
}

// Changed are the files that one role changed.
type Changed struct {
	Role  string
	Files []string
}

// Note is what a person wrote to the loop. About is a phrase: "rejected the completion".
type Note struct{ By, About, Text string }

// ContextFile is one line of the list of context files.
type ContextFile struct {
	Label string
	// Value is a path (relative to the directory in which the agent runs, or absolute) or, for the git entries, a
	// name.
	Value string
}

// Phase is one phase file of the plan.
type Phase struct {
	File             string // absolute
	Remaining, Total int    // open tasks; all tasks
}
