package agent

import (
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Prompt modes: how the CLI is given its prompt.
const (
	PromptStdin = "stdin" // on standard input, to its end; "" is the same
	PromptFile  = "file"  // as a path, by {prompt_file}; standard input is empty
	PromptArg   = "arg"   // as one argument: {prompt}, else the last one
)

// CLI is how an agent command is started, as the configuration has it.
type CLI struct {
	Command        []string          // the program and its leading arguments; never empty
	Args, FastArgs []string          // Args follow; FastArgs replace them for a fast request, unless nil
	PromptMode     string            // one of the Prompt constants
	Env            map[string]string // is added to the agent's environment
	Adapter        string            // the name of the adapter to use; "" finds it by the program
	// PassEnv, unless nil, are the only variables of the supervisor's environment that the agent gets, besides those
	// that every program needs and the adapter's keys.
	PassEnv []string
}

// Request is one turn of one role. All paths are absolute.
type Request struct {
	CLI  CLI
	Fast bool

	PromptPath string // the rendered prompt, on disk before Run
	// LastMessageFile is where the agent may leave its last message. Run reads whatever is there afterwards and changes
	// no file, so the driver removes an old one before every attempt.
	LastMessageFile string
	// WorkDir is where the agent runs and what it is to change: the repository or the loop's worktree. It is {repo},
	// since commands use that as in `-C {repo}`, and an agent must not leave its worktree by it.
	WorkDir string
	Repo    string // the supervised repository; the agent knows it as SUPERLOOP_REPO
	LoopDir string

	Loop, RunID, Role  string
	Iteration, Attempt int      // from 1
	Model, Thinking    string   // "" is the CLI's own default; Thinking is none, minimal, low, standard, high or max
	Permissions        string   // one of the constants below; "" leaves it to the command and the CLI
	SessionID          string   // a UUID for a new session, for CLIs that take one; ignored when Resume is set
	Resume             *Session // to go on with instead of a new one
	MaxCostUSD         float64  // what the run may cost at most, for CLIs with a flag for it; 0 is no bound
}

// Session is one to go on with.
type Session struct {
	ID     string
	Totals *Totals // Learned.Totals of the last run in it; nil when that had none
}

// Permissions that a runner or a role can be given.
const (
	PermitRead      = "read-only" // look at files, change nothing, run nothing that changes
	PermitWorkspace = "workspace" // edit and run in the working directory, in the CLI's own sandbox where it has one
	PermitAll       = "full"      // no check and no sandbox of the CLI
)

// stdin reports whether the prompt is on standard input.
func (c CLI) stdin() bool { return c.PromptMode == "" || c.PromptMode == PromptStdin }

func (r Request) args() []string {
	if r.Fast && r.CLI.FastArgs != nil {
		return r.CLI.FastArgs
	}
	return r.CLI.Args
}

func (r Request) check() error {
	if len(r.CLI.Command) == 0 || r.CLI.Command[0] == "" {
		return errors.New("the runner has no command")
	}
	if !r.CLI.stdin() && r.CLI.PromptMode != PromptFile && r.CLI.PromptMode != PromptArg {
		return fmt.Errorf("unknown prompt_mode %q: use stdin, file or arg", r.CLI.PromptMode)
	}
	for _, p := range []struct{ name, path string }{
		{"prompt file", r.PromptPath}, {"last-message file", r.LastMessageFile}, {"working directory", r.WorkDir},
		{"repository", r.Repo}, {"loop directory", r.LoopDir},
	} {
		if !filepath.IsAbs(p.path) {
			return fmt.Errorf("the path %q of the %s is not absolute", p.path, p.name)
		}
	}
	for _, p := range []struct{ name, value string }{{"loop", r.Loop}, {"run id", r.RunID}, {"role", r.Role}} {
		if p.value == "" {
			return fmt.Errorf("the %s is not given", p.name)
		}
	}
	if r.Iteration < 1 || r.Attempt < 1 {
		return fmt.Errorf("iteration %d and attempt %d must count from 1", r.Iteration, r.Attempt)
	}
	if r.Thinking != "" && thinkingLevel(r.Thinking) < 0 {
		return fmt.Errorf("unknown thinking %q: use one of %s", r.Thinking, strings.Join(thinkingLevels[:], ", "))
	}
	if !slices.Contains([]string{"", PermitRead, PermitWorkspace, PermitAll}, r.Permissions) {
		return fmt.Errorf("unknown permissions %q: use %s, %s or %s", r.Permissions, PermitRead, PermitWorkspace, PermitAll)
	}
	return nil
}

// thinkingLevels from least to most.
var thinkingLevels = [...]string{"none", "minimal", "low", "standard", "high", "max"}

func thinkingLevel(word string) int { return slices.Index(thinkingLevels[:], word) }

// NewSessionID is a random UUID (version 4), the form that the CLIs take for the id of a session.
func NewSessionID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
