package roles

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// MaxPrompt bounds every prompt, in bytes. It is below the 128 KiB that Linux allows for one argument, so a prompt
// can always be given in any way.
const MaxPrompt = 124 << 10

// Bounds of single values, in bytes.
const (
	maxWord    = 128  // names, statuses, phrases
	maxPath    = 1024 // one path that is shown
	maxPromise = 1024
)

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
	rules, err := prompts.ReadFile("prompts/rules.md")
	if err != nil {
		return "", fmt.Errorf("reading the embedded rules: %w", err)
	}
	text := joined(in.Template.Text, string(rules), stateSection(in), contextSection(in.Context), phaseSection(in.Phases), leaveSection(in))
	if len(text) > MaxPrompt {
		return "", fmt.Errorf("rendering the prompt of %s: %d bytes are over the bound of %d", in.Role, len(text), MaxPrompt)
	}
	return text, nil
}

func (in Input) check() error {
	if _, ok := Deliverable(in.Role); !ok {
		return unknownRole(in.Role)
	}
	if err := checkTemplate(in.Template.Text); err != nil {
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
		p.f("- No %s: nobody looks at it in this loop. Say in the report what of the environment a person has to mend.\n", RecoveryFile)
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
