package roles

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// MaxPrompt is the largest size of a prompt, in bytes. It is below the 128 KiB that Linux allows for one argument, so
// superloop can pass every prompt in any prompt mode.
const MaxPrompt = 124 << 10

// Bounds in bytes: of names, statuses and phrases; of a path in the prompt; of the completion promise.
const maxWord, maxPath, maxPromise = 128, 1024, 1024

// Render makes the prompt of a role. It consists of the role's part, the rules that hold for every role, the state of
// the loop, the context files, the phase files, and what the role must leave behind. Render is pure and deterministic.
// The result is valid UTF-8 of at most MaxPrompt bytes.
//
// A prompt never holds the completion promise in the form that counts, because an agent that merely repeats its prompt
// must not end the loop. So the prompt describes the promise, and clean breaks the tags in quoted text. Only the
// owner's own role file is used verbatim.
func Render(in Input) (string, error) {
	if err := in.check(); err != nil {
		return "", fmt.Errorf("rendering the prompt of %s for loop %s: %w", line(in.Role, maxWord), line(in.Loop, maxWord), err)
	}
	text := joined(in.Template, rules, stateSection(in), contextSection(in.Context), phaseSection(in.Phases), leaveSection(in))
	if in.Notes != "" {
		text = joined(in.Template, besideSection(in))
	}
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

// leaveSection lists what the role must leave behind. It comes last, so that the agent has read it most recently.
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
	if in.Role != Reviewer && !in.Promises {
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

// page builds the text of one section.
type page struct{ strings.Builder }

func (p *page) f(format string, args ...any) { fmt.Fprintf(p, format, args...) }

// joined joins the sections that are not empty, with one empty line between them.
func joined(sections ...string) string {
	var there []string
	for _, s := range sections {
		if s != "" {
			there = append(there, strings.TrimSuffix(s, "\n")+"\n")
		}
	}
	return strings.Join(there, "\n")
}

// Input holds everything that goes into a prompt. Render uses nothing else, so equal Inputs give equal prompts. Texts
// may be foreign and of any length; Render cleans, fences and cuts them.
type Input struct {
	Role     string // one of the role constants
	Template string // the role's part of the prompt, as Load returned it; with Notes it is the operator's whole prompt
	// Promises says that this role's last message may hold the promise although it is no reviewer.
	Promises bool
	// Notes is the absolute path of the file in which the role keeps notes for its next run. If it is not "", the prompt
	// is Template with a few lines behind it, and nothing of the rules and the context files.
	Notes string

	Loop                     string
	Iteration, MaxIterations int // Iteration counts from 1; MaxIterations 0 means no bound
	// Attempt counts from 1 within the iteration. For a later attempt LastAttempt says how the previous one ended.
	Attempt     int
	LastAttempt *Attempt
	LoopDir     string // absolute; the role writes its report there
	Promise     string // the loop's completion promise; "" means none

	Gates   [][2]string // the name of each gate and its last verdict
	GatesOf int         // the iteration of these verdicts
	Tests   *Tests
	Stuck   Stuck
	Left    []Left // the reports of earlier turns that are missing, empty or old
	// The prompt of the tester alone shows the next three fields. NoRecovery says that superloop ignores recovery
	// proposals in this loop. Listed are the commands that superloop runs without asking an operator. RecoveryProblems
	// say why the last recovery.json was invalid.
	NoRecovery       bool
	Listed           []string
	RecoveryProblems []string
	Recoveries       []Recovery // earlier proposals and their outcomes, oldest first
	Diagnosis        *Diagnosis // the diagnosis of the tests' last failure by superloop's rules
	Before           []Note     // superloop's notes on failed attempts at the same work and their cause
	HumanNote        string     // the operator's answer to the loop; "" if there is none

	Context []ContextFile // Context and Phases are the results of Gather
	Phases  []Phase
}

// Tests is the last run of the configured tests.
type Tests struct {
	Status    string // ok, failed or skipped
	Iteration int    // the iteration in which the tests ran
	// Output is the output of the failed commands; "" if none failed. File is the absolute path of the whole output; ""
	// if there is none.
	Output, File string
}

// Diagnosis is the result of superloop's rules for a failure.
type Diagnosis struct {
	Command string
	// Category is a word and Why a sentence. Code says that only a change of the code can repair the failure. Infra
	// says that the environment caused it.
	Category, Why string
	Code, Infra   bool
	// Evidence are lines of the output. Hints are sentences for an agent. Options are the commands that may remedy the
	// failure, the best first; only the tester's prompt shows them.
	Evidence, Hints []string
	Options         []Remedy
}

// Remedy is a command that may remedy a failure. Note says why superloop did not run it by itself.
type Remedy struct{ Command, Label, Note string }

// Stuck counts the latest iterations in a row without relevant changes.
type Stuck struct{ Streak, Threshold int } // Streak 0 means none; Threshold 0 means no bound

// Left is a report that is missing, empty or old.
type Left struct {
	Role      string
	Iteration int
	Outcome   Outcome
}

// Attempt says how an earlier attempt of the same role ended.
type Attempt struct {
	Ended  string        // how the attempt ended, as a phrase: "timeout", "no output", "exited", "killed"
	Code   int           // the exit code
	Signal string        // the name of the signal that ended the attempt, if one did
	After  time.Duration // how long the attempt ran
	Tail   string        // the end of its output
}

// Recovery is an earlier recovery proposal and its outcome.
type Recovery struct {
	Iteration        int
	Command, Outcome string // Outcome is a phrase: "executed, exit 0", "rejected by ada".
	Note             string // the comment of the operator or the policy
}

// Note is a text, with a phrase that says what it is about.
type Note struct{ About, Text string }

// ContextFile is one entry of the list of context files. Value is a path, absolute or relative to the directory in
// which the agent runs. For the git entries it is a name.
type ContextFile struct{ Label, Value string }

// Phase is one phase file of the plan.
type Phase struct {
	File             string // absolute
	Remaining, Total int    // the numbers of open tasks and of all tasks
}
