package preflight

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/roles/agent"
)

// Request asks for the examination of one runner.
type Request struct {
	Runner  string // the runner's name in the configuration
	CLI     agent.CLI
	Turns   []Turn        // how the roles use the runner; if empty, it is examined for a role without settings
	Spare   bool          // no loop uses the runner, so no finding is worse than a warning
	Environ []string      // the environment of the supervisor, as os.Environ returns it
	Root    bool          // the agents run as root
	WorkDir string        // the directory in which the agents work; absolute
	Adapter agent.Adapter // nil: the adapter that agent.For returns
	// Prompt is the absolute path of a file that stands for a prompt. It is read only if the prompt mode is arg.
	Prompt string
}

// Turn says how one role of one loop uses the runner.
type Turn struct {
	Loop, Role, Model, Thinking, Permissions string
	Resume                                   bool // the role also resumes earlier sessions
	Worktree                                 bool // the role works in a worktree; the loop's files are outside of it
	MaxCostUSD                               float64
}

// sessionID stands for the id of a session in the examined command lines.
const sessionID = "00000000-0000-4000-8000-000000000000"

// line is one command line that a role will get.
type line struct {
	agent.Command
	fast       bool
	prompt     string // the word that is the prompt itself; "" if no word is
	promptFile string // the path of the prompt file
	cli        agent.CLI
	at         string // the place of the runner in the configuration
}

// lines returns the different command lines of all turns: with args and with fast_args, of a new session and of a
// resumed one. A command line that cannot be made becomes a finding. lines also lists the command lines in the report's
// Commands.
func (r Request) lines(a agent.Adapter, rep *Report) []line {
	var list []line
	at := "runners." + r.Runner
	for _, req := range r.requests(a.Profile().ChoosesSession) {
		command, err := a.Command(req, r.Environ)
		if err != nil {
			rep.add(Error, at, "superloop validate", fmt.Sprintf("no command line can be made for the %s: %v", req.Role, err))
			continue
		}
		command.Dir = r.WorkDir // the worktree of a loop may not exist yet
		l := line{Command: command, fast: req.Fast, promptFile: req.PromptPath, cli: r.CLI, at: at}
		if r.CLI.PromptMode == agent.PromptArg {
			// Command has read the same file just before, so the error is ignored.
			l.prompt, _, _ = door.Ends(req.PromptPath, maxSaid, 0)
		}
		argv := l.shown(req)
		i := slices.IndexFunc(rep.Commands, func(c CommandLine) bool { return c.Fast == req.Fast && slices.Equal(c.Argv, argv) })
		if i < 0 {
			i = len(list)
			list = append(list, l)
			rep.Commands = append(rep.Commands, CommandLine{Fast: req.Fast, Argv: argv})
		}
		name := req.Role
		if req.Resume != nil {
			name += " (resumed)"
		}
		if c := &rep.Commands[i]; !slices.Contains(c.For, name) {
			c.For = append(c.For, name)
		}
	}
	return list
}

// shown returns the command line with placeholders for the parts that differ from run to run.
func (l line) shown(req agent.Request) []string {
	names := strings.NewReplacer(req.PromptPath, "{prompt_file}", req.LastMessageFile, "{last_message_file}", sessionID, "{session}")
	argv := make([]string, len(l.Argv))
	for i, word := range l.Argv {
		if argv[i] = names.Replace(word); l.prompt != "" && strings.Contains(word, l.prompt) {
			argv[i] = strings.ReplaceAll(word, l.prompt, "{prompt}")
		}
	}
	return argv
}

// requests returns the requests that the loops will make for the turns.
func (r Request) requests(choosesSession bool) []agent.Request {
	turns := r.Turns
	if len(turns) == 0 {
		turns = []Turn{{Role: "implementer"}}
	}
	ways := []bool{false} // false: with args; true: with fast_args
	if r.CLI.FastArgs != nil {
		ways = append(ways, true)
	}
	var list []agent.Request
	for _, t := range turns {
		loop := cmp.Or(t.Loop, "preflight")
		dir := filepath.Join(r.WorkDir, ".superloop", "loops", loop)
		req := agent.Request{
			CLI:        r.CLI,
			PromptPath: cmp.Or(r.Prompt, filepath.Join(dir, "prompt.md")), LastMessageFile: filepath.Join(dir, "last-message.md"),
			WorkDir: r.WorkDir, Repo: r.WorkDir, LoopDir: dir,
			Loop: loop, RunID: "preflight", Role: t.Role, Iteration: 1, Attempt: 1,
			Model: t.Model, Thinking: t.Thinking, Permissions: t.Permissions, MaxCostUSD: t.MaxCostUSD,
		}
		if t.Worktree {
			req.WorkDir = filepath.Join(r.WorkDir, ".superloop", "worktrees", loop)
		}
		for _, req.Fast = range ways {
			fresh, resumed := req, req
			if choosesSession {
				fresh.SessionID = sessionID
			}
			list = append(list, fresh)
			if t.Resume {
				resumed.Resume = &agent.Session{ID: sessionID}
				list = append(list, resumed)
			}
		}
	}
	return list
}

// Severity is the severity of a finding.
type Severity string

// The severities, the most severe first.
const (
	Error Severity = "error" // the runner does not work, or not as configured
	Warn  Severity = "warn"  // the runner works, but probably not as the owner wants
	Note  Severity = "note"  // the operator should know it, but the runner works
	Fine  Severity = "ok"    // only as a verdict: there is no error and no warning
)

// Finding is a problem with a runner, or a fact about it, that the operator should know.
type Finding struct {
	Severity Severity `json:"severity"`
	Message  string   `json:"message"`
	Fix      string   `json:"fix,omitempty"`     // what the operator can do; "" if there is nothing to do
	Pointer  string   `json:"pointer,omitempty"` // place in the configuration ("runners.codex.args[1]"), or ""
}

// String returns the finding on one line: message; fix (pointer).
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

const FlagKnown, FlagUnknown, FlagNotChecked = "known", "unknown", "not_checked" // the states of a Flag

// Flag is one flag of the command lines, without its value.
type Flag struct {
	Flag    string `json:"flag"`
	State   string `json:"state"`
	Pointer string `json:"pointer,omitempty"` // as in Finding; "" for a flag that superloop's adapter adds
}

// File describes the file of a program.
type File struct {
	Kind        string `json:"kind"`                  // elf, mach-o, script, text, empty, unknown; "" if not found
	Interpreter string `json:"interpreter,omitempty"` // the interpreter of a script, or the loader that an ELF file names
	Target      string `json:"target,omitempty"`      // the target of the path if it is a symbolic link
}

// CommandLine is a command line that some of the roles will get. Placeholders such as {prompt_file} stand for the parts
// that differ from run to run.
type CommandLine struct {
	For  []string `json:"for"`            // the roles; "implementer (resumed)" is the implementer in a resumed session
	Fast bool     `json:"fast,omitempty"` // the command line of run --fast
	Argv []string `json:"argv"`
}

// Report holds the findings about one runner. Its lists are never nil.
type Report struct {
	Runner    string        `json:"runner"`
	Roles     []string      `json:"roles"` // the roles that the runner runs, each once; empty if no loop uses the runner
	Adapter   string        `json:"adapter"`
	Program   string        `json:"program"` // the command's first word with its placeholders replaced
	Path      string        `json:"path"`    // the path of the program; "" if it was not found
	File      File          `json:"file"`
	Commands  []CommandLine `json:"commands"`        // the different command lines of the roles
	Version   string        `json:"version"`         // the line that the program prints; "" if it printed none
	Check     *Check        `json:"check,omitempty"` // set only for an unknown program, if Verify ran
	Flags     []Flag        `json:"flags"`
	Unchecked string        `json:"unchecked,omitempty"` // why flags were not checked; "" if they were
	Login     agent.Login   `json:"login"`
	Findings  []Finding     `json:"findings"`
	Verdict   Severity      `json:"verdict"` // the highest severity of the findings except notes: error, warn or ok
}

// Of returns the findings of one severity.
func (r *Report) Of(s Severity) []Finding {
	return slices.DeleteFunc(slices.Clone(r.Findings), func(f Finding) bool { return f.Severity != s })
}

// add appends a finding unless the report already has it. Several roles share most of their command lines.
func (r *Report) add(s Severity, pointer, fix, message string) {
	f := Finding{Severity: s, Message: message, Fix: fix, Pointer: pointer}
	if !slices.Contains(r.Findings, f) {
		r.Findings = append(r.Findings, f)
	}
}

// flag adds one flag unless the report already has it. A flag that is unknown in one of the commands counts as unknown.
func (r *Report) flag(f Flag) {
	i := slices.IndexFunc(r.Flags, func(have Flag) bool { return have.Flag == f.Flag && have.Pointer == f.Pointer })
	if i < 0 {
		r.Flags = append(r.Flags, f)
	} else if f.State == FlagUnknown {
		r.Flags[i].State = FlagUnknown
	}
}

// redact removes the owner's secrets from all texts of the report that come from other programs.
func (r *Report) redact(secrets *redact.Replacer) {
	all := []*string{&r.Version, &r.Unchecked, &r.Login.How}
	if r.Check != nil { // a copy, because the Examiner still uses the original
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

// judge sorts the findings by severity and sets the verdict. It lowers the errors of a spare runner to warnings.
func (r *Report) judge(spare bool) {
	for i := range r.Findings {
		if spare && r.Findings[i].Severity == Error {
			r.Findings[i].Severity = Warn
		}
	}
	r.Findings = append([]Finding{}, slices.Concat(r.Of(Error), r.Of(Warn), r.Of(Note))...)
	r.Verdict = Fine
	if len(r.Findings) > 0 && r.Findings[0].Severity != Note {
		r.Verdict = r.Findings[0].Severity
	}
}
