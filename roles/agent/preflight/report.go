package preflight

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/roles"
	"github.com/superloop/superloop/roles/agent"
)

// Request is one runner to examine.
type Request struct {
	Runner  string // its name in the configuration
	CLI     agent.CLI
	Turns   []Turn        // what the roles of the loops ask of it; with none it is examined for a role without settings
	Spare   bool          // no loop uses it, so nothing about it is worse than a warning
	Environ []string      // of the supervisor, as os.Environ gives it
	Root    bool          // the agents run as root
	WorkDir string        // where the agents work; absolute
	Adapter agent.Adapter // nil is that of agent.For
	// Prompt is the absolute path of a file that stands for a prompt; it is read only for prompt_mode arg.
	Prompt string
}

// Turn is how one role of one loop uses the runner.
type Turn struct {
	Loop, Role, Model, Thinking, Permissions string
	Resume                                   bool // it also goes on with earlier sessions
	Worktree                                 bool // it works in a tree of its own, outside of which the loop's files are
	MaxCostUSD                               float64
}

// sessionID stands for that of a session, in the command lines examined.
const sessionID = "00000000-0000-4000-8000-000000000000"

// line is one command line that a role will get.
type line struct {
	agent.Command
	fast       bool
	prompt     string // the word that is the prompt itself; "" when none is
	promptFile string // where the prompt would be
	cli        agent.CLI
	at         string // the runner's place in the configuration
}

// lines are the different command lines of all turns: with args and fast_args, of a new session and of one that goes
// on. What cannot be made is a finding. The report's Commands are the same ones.
func (r Request) lines(a agent.Adapter, rep *Report) []line {
	var list []line
	at := "runners." + r.Runner
	for _, req := range r.requests(a.Profile().ChoosesSession) {
		command, err := a.Command(req, r.Environ)
		if err != nil {
			rep.add(Error, at, "superloop validate", fmt.Sprintf("no command line can be made for the %s: %v", req.Role, err))
			continue
		}
		command.Dir = r.WorkDir // a tree of its own is not there yet
		l := line{Command: command, fast: req.Fast, promptFile: req.PromptPath, cli: r.CLI, at: at}
		if r.CLI.PromptMode == agent.PromptArg {
			// Command has read the same file a moment ago.
			l.prompt, _, _ = roles.ReadRegular(req.PromptPath, maxSaid, 0)
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

// shown is the command line with a name in place of what differs from run to run.
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

// requests are the turns as the loops will ask for them.
func (r Request) requests(choosesSession bool) []agent.Request {
	turns := r.Turns
	if len(turns) == 0 {
		turns = []Turn{{Role: "implementer"}}
	}
	ways := []bool{false} // without and with fast_args
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

// Severity is how grave a finding is.
type Severity string

// The severities, the gravest first.
const (
	Error Severity = "error" // the runner does not work, or not as configured
	Warn  Severity = "warn"  // it works, but hardly as its owner means it
	Note  Severity = "note"  // worth knowing
	Fine  Severity = "ok"    // the verdict when there is no error and no warning
)

// Finding is one thing that the operator should know.
type Finding struct {
	Severity Severity `json:"severity"`
	Message  string   `json:"message"`
	Fix      string   `json:"fix,omitempty"`     // what to do; "" when there is nothing to do
	Pointer  string   `json:"pointer,omitempty"` // where in the configuration ("runners.codex.args[1]"); "" for nowhere
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

const FlagKnown, FlagUnknown, FlagNotChecked = "known", "unknown", "not_checked" // the states of a Flag

// Flag is one flag of the command lines, without its value.
type Flag struct {
	Flag    string `json:"flag"`
	State   string `json:"state"`
	Pointer string `json:"pointer,omitempty"` // as in Finding; "" for a flag that superloop's adapter adds
}

// File is what kind of file a program is.
type File struct {
	Kind        string `json:"kind"`                  // elf, mach-o, script, text, empty or unknown; "" when it was not found
	Interpreter string `json:"interpreter,omitempty"` // of a script, or the loader that an ELF file names
	Target      string `json:"target,omitempty"`      // where the path leads when it is a link
}

// CommandLine is what some of the roles will get; what differs from run to run is as {prompt_file}.
type CommandLine struct {
	For  []string `json:"for"`            // the roles; "implementer (resumed)" is that of a session that goes on
	Fast bool     `json:"fast,omitempty"` // it is that of run --fast
	Argv []string `json:"argv"`
}

// Report is what was found of one runner. Its lists are never nil.
type Report struct {
	Runner    string        `json:"runner"`
	Roles     []string      `json:"roles"` // that it runs, each once; none when no loop uses it
	Adapter   string        `json:"adapter"`
	Program   string        `json:"program"` // the command's first word with its placeholders replaced
	Path      string        `json:"path"`    // where it was found; "" when it was not
	File      File          `json:"file"`
	Commands  []CommandLine `json:"commands"`        // the different command lines of the roles
	Version   string        `json:"version"`         // the line that the program prints; "" when it did not tell
	Check     *Check        `json:"check,omitempty"` // of a program of which nothing is known, if it was asked
	Flags     []Flag        `json:"flags"`
	Unchecked string        `json:"unchecked,omitempty"` // why flags were not checked; "" when they were
	Login     agent.Login   `json:"login"`
	Findings  []Finding     `json:"findings"`
	Verdict   Severity      `json:"verdict"` // the gravest severity of the findings but for notes: error, warn or ok
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

// flag notes one flag, once. One that is unknown to one of the commands counts as unknown.
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

// judge orders the findings and gives the verdict. Of a spare runner nothing is worse than a warning.
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
