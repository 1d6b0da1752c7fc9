package preflight

import (
	"slices"

	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/roles/agent"
)

// Severity is how grave a finding is.
type Severity string

// The severities, the gravest first.
const (
	Error Severity = "error" // the runner does not work, or not as configured
	Warn  Severity = "warn"  // it works, but hardly as its owner means it
	Note  Severity = "note"  // worth knowing
	// Fine is the verdict when there is no error and no warning.
	Fine Severity = "ok"
)

// Finding is one thing that the operator should know.
type Finding struct {
	Severity Severity `json:"severity"`
	Message  string   `json:"message"`
	// Fix is what to do; "" when there is nothing to do.
	Fix string `json:"fix,omitempty"`
	// Pointer is the place in the configuration ("runners.codex.args[1]"); "" when no line of it is the cause.
	Pointer string `json:"pointer,omitempty"`
}

// String is the finding on one line: message; fix (pointer).
func (f Finding) String() string {
	text := f.Message
	if f.Fix != "" {
		text += "; " + f.Fix
	}
	if f.Pointer != "" {
		text += " (" + f.Pointer + ")"
	}
	return text
}

// States of a Flag.
const (
	FlagKnown      = "known"
	FlagUnknown    = "unknown"
	FlagNotChecked = "not_checked"
)

// Flag is one flag of the command lines, without its value.
type Flag struct {
	Flag  string `json:"flag"`
	State string `json:"state"`
	// Pointer is as in Finding; "" for a flag that superloop's adapter adds.
	Pointer string `json:"pointer,omitempty"`
}

// File is what kind of file a program is.
type File struct {
	// Kind is one of elf, mach-o, script, text, empty, unknown; "" when the program was not found or could not be
	// read.
	Kind string `json:"kind"`
	// Interpreter is what the system starts to run it: a script's, or the loader that an ELF file names. "" when
	// there is none.
	Interpreter string `json:"interpreter,omitempty"`
	// Target is where the path leads when it is a link.
	Target string `json:"target,omitempty"`
}

// CommandLine is what some of the roles will get, with {prompt}, {prompt_file}, {last_message_file} and {session}
// for what differs from run to run.
type CommandLine struct {
	// For are the roles; "implementer (resumed)" is that of a session that goes on.
	For []string `json:"for"`
	// Fast: it is that of run --fast.
	Fast bool     `json:"fast,omitempty"`
	Argv []string `json:"argv"`
}

// Report is what was found of one runner. Its lists are never nil.
type Report struct {
	Runner string `json:"runner"`
	// Roles are those that it runs, each once; none when no loop uses it.
	Roles   []string `json:"roles"`
	Adapter string   `json:"adapter"`
	// Program is the command's first word with its placeholders replaced, Path where it was found; "" when it was
	// not.
	Program string `json:"program"`
	Path    string `json:"path"`
	File    File   `json:"file"`
	// Commands are the different command lines of the roles.
	Commands []CommandLine `json:"commands"`
	// Version is the line that the program prints; "" when it was not asked or did not tell.
	Version string `json:"version"`
	// Check is how a program of which nothing is known has shown whether it works; nil of any other, and of one
	// that was not asked.
	Check *Check `json:"check,omitempty"`
	Flags []Flag `json:"flags"`
	// Unchecked says why flags were not checked; "" when they were.
	Unchecked string      `json:"unchecked,omitempty"`
	Login     agent.Login `json:"login"`
	Findings  []Finding   `json:"findings"`
	// Verdict is the gravest severity of the findings but for notes: error, warn or ok.
	Verdict Severity `json:"verdict"`
}

// Of gives the findings of one severity.
func (r *Report) Of(s Severity) []Finding {
	return slices.DeleteFunc(slices.Clone(r.Findings), func(f Finding) bool { return f.Severity != s })
}

// add appends a finding, once: several roles share most of their command line.
func (r *Report) add(s Severity, pointer, fix, message string) {
	f := Finding{Severity: s, Message: message, Fix: fix, Pointer: pointer}
	if !slices.Contains(r.Findings, f) {
		r.Findings = append(r.Findings, f)
	}
}

// flag notes one flag, once. The same flag at the same place may be known to one command and not to another of the
// same CLI: then it counts as unknown.
func (r *Report) flag(f Flag) {
	i := slices.IndexFunc(r.Flags, func(have Flag) bool { return have.Flag == f.Flag && have.Pointer == f.Pointer })
	if i < 0 {
		r.Flags = append(r.Flags, f)
	} else if f.State == FlagUnknown {
		r.Flags[i].State = FlagUnknown
	}
}

// redact takes the owner's secrets out of all that others have said.
func (r *Report) redact(secrets *redact.Replacer) {
	all := []*string{&r.Version, &r.Unchecked, &r.Login.How}
	if r.Check != nil { // the Examiner goes on with its own
		c := *r.Check
		r.Check = &c
		all = append(all, &c.Original, &c.Repaired, &c.Why)
	}
	for i := range r.Findings {
		all = append(all, &r.Findings[i].Message, &r.Findings[i].Fix)
	}
	for _, c := range r.Commands {
		for i := range c.Argv {
			all = append(all, &c.Argv[i])
		}
	}
	for i := range r.Flags {
		all = append(all, &r.Flags[i].Flag)
	}
	for _, text := range all {
		*text = secrets.String(*text)
	}
}

// judge orders the findings, the gravest first, and gives the verdict. Nothing about a runner that no loop uses is
// worse than a warning.
func (r *Report) judge(spare bool) {
	rank := func(s Severity) int { return slices.Index([]Severity{Error, Warn, Note}, s) }
	for i := range r.Findings {
		if spare && r.Findings[i].Severity == Error {
			r.Findings[i].Severity = Warn
		}
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return rank(a.Severity) - rank(b.Severity) })
	r.Verdict = Fine
	if len(r.Findings) > 0 && r.Findings[0].Severity != Note {
		r.Verdict = r.Findings[0].Severity
	}
}

func newReport(r Request, a agent.Adapter) *Report {
	rep := &Report{Runner: r.Runner, Roles: []string{}, Adapter: a.Name(), Commands: []CommandLine{}, Flags: []Flag{}, Findings: []Finding{},
		Login: agent.Login{State: agent.LoginUnknown}}
	for _, t := range r.Turns {
		if !slices.Contains(rep.Roles, t.Role) {
			rep.Roles = append(rep.Roles, t.Role)
		}
	}
	return rep
}
