package config

import (
	"encoding/json"
	"time"

	"github.com/superloop/superloop/schemas"
)

// Config is a checked configuration. Every default of the contract is filled
// in, so no caller asks "was it set?"; Load is the only maker.
type Config struct {
	// Path is the file that it was read from, absolute.
	Path string
	// Digest is the SHA-256 of the file's bytes, in hex.
	Digest string
	// Runners by name. A legacy top-level "runner" is the one named "default".
	Runners map[string]Runner
	Loops   []Loop
	// Prices of models by their exact names; they win over the built-in table.
	Prices map[string]Rate
	// Recovery and Webhooks are kept as they were written, nil when absent; see
	// Policy for what the former amounts to.
	Recovery json.RawMessage
	Webhooks json.RawMessage
	// Escalation is how people are reached, with its defaults; see Channels.
	Escalation Escalation
	// Warnings name every known key that this build does not act on, and
	// whatever else a person should read before the night.
	Warnings []Problem

	// doc is the file as it was read: it gives the places of what Check finds,
	// and what Diff compares.
	doc *schemas.Document
}

// Runner is how an agent CLI is started.
type Runner struct {
	Name string
	// Command is the program and its leading arguments; never empty.
	Command []string
	// Args follow the command; placeholders are replaced when the role starts.
	Args []string
	// FastArgs replace Args under `run --fast`; nil when absent.
	FastArgs []string
	// PromptMode is "stdin" (default), "file" or "arg".
	PromptMode string
	// Env is added to the agent's environment; values may hold placeholders.
	Env map[string]string
	// Adapter is the CLI that the command is; "" lets the program's name tell.
	Adapter string
	// Permissions is read-only, workspace or full; "" leaves it to the command.
	Permissions string
	// PassEnv, unless nil, are the only variables of superloop's environment
	// that the agent gets besides the basic ones and its own keys.
	PassEnv []string
}

// Rate is what a model costs, in US dollars per million tokens. CacheRead and
// CacheWrite are nil when the owner gave none: then Input is taken.
type Rate struct {
	Input, Output         float64
	CacheRead, CacheWrite *float64
}

// Loop is one loop with all defaults of the contract applied.
type Loop struct {
	ID string
	// SpecFile is relative to the repository, cleaned, inside it.
	SpecFile string
	// MaxIterations bounds the loop; 0 is no bound.
	MaxIterations int
	// MaxWallTime bounds the time that the loop is active (waiting for a person
	// does not count); 0 is no bound.
	MaxWallTime time.Duration
	// MaxCostUSD and MaxTokens bound what a run spends; 0 is no bound.
	MaxCostUSD float64
	MaxTokens  int64
	// CompletionPromise is the text inside the promise tag; "" never matches.
	CompletionPromise string
	Checklists        []string
	Tests             Tests
	Validation        Validation
	Prerequisites     Prerequisites
	Evidence          Evidence
	Approval          Approval
	ReviewerPacket    bool
	Stuck             Stuck
	Git               Git
	// Roles in the order in which they run; never empty.
	Roles []Role
	// Retry bounds how often a failing role is run again in one iteration.
	Retry Retry
	// Respond says what follows when a role fails.
	Respond Respond
	// Recovery is the loop's own override, as written; nil when absent.
	Recovery json.RawMessage
}

// Tests modes.
const (
	TestsEvery     = "every"      // in each iteration, after the implementer
	TestsOnPromise = "on_promise" // when the promise was made or the checklists are complete
	TestsDisabled  = "disabled"
)

// Tests are the commands that judge the work; each runs under `bash -c`.
type Tests struct {
	Mode     string
	Commands []string
	// Timeout bounds each command; default 30 minutes, 0 is no bound.
	Timeout time.Duration
}

// Validation is the gate between tests and prerequisites.
type Validation struct {
	Enabled             bool
	Mode                string // every | on_promise
	RequireOnCompletion bool
	Commands            []string
	Timeout             time.Duration // per command; default 10 minutes
	Preflight           *Preflight
}

// Preflight are the static checks of a built web page.
type Preflight struct {
	Entry             string
	WebRoot           string
	RequiredSelectors []string
	RequiredText      []string
	MinScriptBytes    int
	MaxScriptKB       int
	RequireScripts    bool
}

// Prerequisites are facts about files that must hold.
type Prerequisites struct {
	Enabled             bool
	RequireOnCompletion bool
	Checks              []Check
}

// Check is one prerequisite. Type is one of markdown_checklist_complete,
// file_regex_present, file_regex_absent, file_contains_all,
// file_not_contains_any, file_exists, file_nonempty.
type Check struct {
	ID       string
	Type     string
	Path     string // may hold {repo}, {loop_id}, {loop}, {iteration}
	Pattern  string
	Flags    string
	Needles  []string
	MinChars int
}

// Evidence are files that must exist at completion; their hashes are recorded.
type Evidence struct {
	Enabled             bool
	RequireOnCompletion bool
	Artifacts           []string
}

// Approval is the human gate after all others.
type Approval struct {
	Enabled             bool
	RequireOnCompletion bool
}

// Stuck ends a loop that changes nothing; Threshold is in iterations.
type Stuck struct {
	Enabled   bool
	Threshold int
	Action    string // report_and_stop
	Ignore    []string
}

// Git says what of the work is committed, and where the work happens.
type Git struct {
	CommitStrategy    string // never | per_iteration | on_test_pass
	PreCommitCommands []string
	MaxSubjectLength  int // characters; default 72
	// Worktree runs the loop in its own git worktree on branch superloop/<id>.
	Worktree bool
}

// Role is one step of an iteration.
type Role struct {
	Name     string // planner | implementer | tester | reviewer
	Runner   string // a key of Config.Runners
	Model    string // "" is the runner's own default
	Thinking string // none minimal low standard high max, or ""
	// Timeout bounds the role's wall time, Inactivity the time without a byte
	// of output; 0 is no bound.
	Timeout    time.Duration
	Inactivity time.Duration
	// Resume goes on with the role's last session instead of a new one, where
	// the CLI can.
	Resume bool
	// Permissions is read-only, workspace or full; "" is the runner's.
	Permissions string
	// Runners are all who may do the role, in the order in which they are asked;
	// never empty, and the first is Runner with Model.
	Runners []Choice
}

// Retry bounds a failing role: Attempts in one iteration in all (default 3),
// Backoff before the second, doubled for each later one (default 5 s, at most
// 5 minutes).
type Retry struct {
	Attempts int
	Backoff  time.Duration
}

// Loop returns the loop with that id.
func (c *Config) Loop(id string) (Loop, bool) {
	for _, l := range c.Loops {
		if l.ID == id {
			return l, true
		}
	}
	return Loop{}, false
}
