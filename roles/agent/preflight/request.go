package preflight

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

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
