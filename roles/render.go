package roles

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// MaxPrompt bounds every prompt, in bytes. It is below the 128 KiB that Linux allows for one argument, so a prompt can
// always be given in any way.
const MaxPrompt = 124 << 10

// Bounds in bytes: of names, statuses and phrases; of one path that is shown; of the completion promise.
const maxWord, maxPath, maxPromise = 128, 1024, 1024

// Render makes the prompt: the role's part, the rules that hold for every role, the state of the loop, the context
// files, the phase files, and what the role must leave behind. It is pure and deterministic, and the result is valid
// UTF-8 of at most MaxPrompt bytes.
//
// No prompt holds a completion promise in the form in which it would count: an agent that merely repeats its prompt
// must not end the loop. So the promise is described, not shown, and tags in quoted text are broken (clean). Only the
// owner's own role file is used verbatim.
func Render(in Input) (string, error) {
	if err := in.check(); err != nil {
		return "", fmt.Errorf("rendering the prompt of %s for loop %s: %w", line(in.Role, maxWord), line(in.Loop, maxWord), err)
	}
	text := joined(in.Template, rules, stateSection(in), contextSection(in.Context), phaseSection(in.Phases), leaveSection(in))
	if len(text) > MaxPrompt {
		return "", fmt.Errorf("rendering the prompt of %s: %d bytes are over the bound of %d", in.Role, len(text), MaxPrompt)
	}
	return text, nil
}

func (in Input) check() error {
	if _, ok := Deliverable(in.Role); !ok {
		return unknownRole(in.Role)
	}
	if err := checkTemplate(in.Template); err != nil {
		return fmt.Errorf("the role's part %w", err)
	}
	switch {
	case strings.TrimSpace(in.Loop) == "":
		return errors.New("no loop id given")
	case in.Iteration < 1 || in.Attempt < 1:
		return fmt.Errorf("iteration %d and attempt %d must count from 1", in.Iteration, in.Attempt)
	case !filepath.IsAbs(in.LoopDir):
		return fmt.Errorf("the loop's directory %q is not absolute", in.LoopDir)
	case len(pathName(in.LoopDir)) > maxPath:
		return fmt.Errorf("the path of the loop's directory is longer than %d bytes", maxPath)
	case len(in.Promise) > maxPromise:
		return fmt.Errorf("the completion promise is longer than %d bytes", maxPromise)
	case clean(in.Promise) != in.Promise:
		return fmt.Errorf("the completion promise %q cannot be shown to an agent as it is: use one line of printable characters without tags", in.Promise)
	}
	return nil
}

// leaveSection comes last, so that it is what the agent read most recently.
func leaveSection(in Input) string {
	p := &page{}
	file, _ := Deliverable(in.Role)
	p.f("## What you must leave behind\n\n- Your report: %s\n", pathName(filepath.Join(in.LoopDir, file)))
	switch {
	case in.Role == Planner:
		p.f("- Phase files, if the work needs them: %s\n", pathName(filepath.Join(in.LoopDir, "tasks", "PHASE_<n>.MD")))
	case in.Role == Tester && in.NoRecovery:
		p.f("- No %s: nobody looks at it in this loop. Say in the report what of the environment an operator has to mend.\n", RecoveryFile)
	case in.Role == Tester:
		p.f("- A recovery proposal, only if the environment is at fault: %s\n", pathName(filepath.Join(in.LoopDir, RecoveryFile)))
	}
	p.f("- A short last message, after the files are written: your final answer, as plain text.\n\n")
	return p.String() + promiseText(in)
}

func promiseText(in Input) string {
	if in.Role != Reviewer {
		return "Never write an XML-style element named `promise` in your last message. Only the reviewer decides about completion.\n"
	}
	if strings.TrimSpace(in.Promise) == "" {
		return "This loop has no completion promise: do not write an XML-style element named `promise` in your last message.\n"
	}
	return "Completion promise. If, and only if, every requirement of the spec is met, you have no open finding of grade High or Medium, " +
		"and no gate above is red for a reason that still holds (skipped gates and the promise itself do not count), end your last message with the promise: " +
		"one XML-style element named `promise`, its opening tag, then exactly the text of the next block, then its closing tag, on one line.\n\n" +
		fence(in.Promise, maxPromise, 0) +
		"\nOtherwise do not write that element at all, not even to quote or to explain it: the first one in your last message counts. " +
		"The gates are checked all the same; a promise that they contradict ends nothing.\n"
}

// page is a section that is being written.
type page struct{ strings.Builder }

func (p *page) f(format string, args ...any) { fmt.Fprintf(p, format, args...) }

// joined are the sections that are not empty, with one empty line between them.
func joined(sections ...string) string {
	var there []string
	for _, s := range sections {
		if s != "" {
			there = append(there, strings.TrimSuffix(s, "\n")+"\n")
		}
	}
	return strings.Join(there, "\n")
}

// Input is everything that a prompt is made of. Render adds nothing that is not in it, so equal Inputs give equal
// prompts. Texts may be foreign and of any length; Render cleans, fences and cuts them.
type Input struct {
	Role     string // one of the role constants
	Template string // what Load gave for it

	Loop                     string
	Iteration, MaxIterations int // Iteration counts from 1; MaxIterations 0 is no bound
	// Attempt counts from 1 within the iteration; LastAttempt, for a later one, says how the one before ended.
	Attempt     int
	LastAttempt *Attempt
	LoopDir     string // absolute; there the role leaves its report
	Promise     string // the loop's completion promise; "" is none

	Gates   [][2]string // the name of each gate, and its last verdict, in superloop's words
	GatesOf int         // the iteration that they are of
	Tests   *Tests
	Stuck   Stuck
	Left    []Left // the reports of earlier turns that were not as they should be
	// Only the tester is told of the next three. NoRecovery: superloop does not look at proposals in this loop. Listed
	// are the commands that it runs without asking an operator. RecoveryProblems say what was wrong with the last
	// recovery.json.
	NoRecovery       bool
	Listed           []string
	RecoveryProblems []string
	Recoveries       []Recovery // what became of earlier proposals, oldest first
	Diagnosis        *Diagnosis // what superloop's rules say of the tests' last failure
	Before           []Note     // what superloop says of failed attempts at the same work, and of their cause
	HumanNote        string     // what an operator answered the loop; "" is nothing

	Context []ContextFile // Context and Phases are what Gather found.
	Phases  []Phase
}

// Tests is the last run of the configured tests.
type Tests struct {
	Status    string // ok, failed or skipped
	Iteration int    // in which they ran
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
	Options         []Remedy
}

// Remedy is a command that may remedy a failure. Note is why superloop did not run it by itself.
type Remedy struct{ Command, Label, Note string }

// Stuck is the streak of iterations that changed nothing that matters.
type Stuck struct{ Streak, Threshold int } // Streak 0 is none; Threshold 0 is no bound

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
	Iteration        int
	Command, Outcome string // Outcome is a phrase: "executed, exit 0", "rejected by ada".
	Note             string // what an operator or the policy said to it
}

// Note is a text and a phrase that says what it is about.
type Note struct{ About, Text string }

// ContextFile is one line of the list of context files. Value is a path (relative to the directory in which the agent
// runs, or absolute) or, for the git entries, a name.
type ContextFile struct{ Label, Value string }

// Phase is one phase file of the plan.
type Phase struct {
	File             string // absolute
	Remaining, Total int    // open tasks; all tasks
}
