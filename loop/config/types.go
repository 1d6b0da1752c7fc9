package config

import (
	"encoding/json"
	"time"

	"github.com/superloop/superloop/schemas"
)

// Config is a checked configuration, with every default filled in. Load is its only maker.
type Config struct {
	Path    string            // the file that it was read from, absolute
	Digest  string            // the SHA-256 of the file's bytes, in hex
	Runners map[string]Runner // Runners by name. A legacy top-level "runner" is the one named "default".
	Loops   []Loop
	Prices  map[string]Rate // Prices of models by their exact names; they win over the built-in table
	// Recovery and Webhooks are kept as they were written, nil when absent; see Policy for what the former amounts to.
	Recovery   json.RawMessage
	Webhooks   json.RawMessage
	Escalation Escalation // how people are reached, with its defaults; see Channels
	// Warnings name every key that has no effect, and what else the operator should read before a run.
	Warnings []Problem

	// doc is the file as it was read: it gives the places of what Check finds, and what Diff compares.
	doc *schemas.Document
}

// Runner is how an agent CLI is started.
type Runner struct {
	Name    string   `json:"-"`
	Command []string `json:"command"` // the program and its leading arguments; never empty
	// Args follow the command; placeholders are replaced when the role starts.
	Args        []string          `json:"args"`
	FastArgs    []string          `json:"fast_args"`   // FastArgs replace Args under `run --fast`; nil when absent
	PromptMode  string            `json:"prompt_mode"` // "stdin" (default), "file" or "arg"
	Env         map[string]string `json:"env"`         // added to the agent's environment; values may hold placeholders
	Adapter     string            `json:"adapter"`     // the CLI that the command is; "" lets the program's name tell
	Permissions string            `json:"permissions"` // read-only, workspace or full; "" leaves it to the command
	// PassEnv, unless nil, are all that the agent gets of superloop's environment besides the basic and its own keys.
	PassEnv []string `json:"pass_env"`
}

// Rate is what a model costs, in US dollars per million tokens. CacheRead and CacheWrite, where nil, cost as Input.
type Rate struct {
	Input      float64  `json:"input"`
	Output     float64  `json:"output"`
	CacheRead  *float64 `json:"cache_read"`
	CacheWrite *float64 `json:"cache_write"`
}

// Loop is one loop with all defaults of the contract applied.
type Loop struct {
	ID            string `json:"id"`
	SpecFile      string `json:"spec_file"`      // relative to the repository, cleaned, inside it
	MaxIterations int    `json:"max_iterations"` // MaxIterations bounds the loop; 0 is no bound
	// MaxWallTime bounds the time that the loop is active (waiting for a human does not count); 0 is no bound.
	MaxWallTime time.Duration `json:"max_wall_time"`
	// MaxCostUSD and MaxTokens bound what a run spends; 0 is no bound.
	MaxCostUSD float64 `json:"max_cost_usd"`
	MaxTokens  int64   `json:"max_tokens"`
	// CompletionPromise is the text inside the promise tag; "" never matches.
	CompletionPromise string          `json:"completion_promise"`
	Checklists        []string        `json:"checklists"`
	Tests             Tests           `json:"tests"`
	Validation        Validation      `json:"validation"`
	Prerequisites     Prerequisites   `json:"prerequisites"`
	Evidence          Evidence        `json:"evidence"`
	Approval          Approval        `json:"approval"`
	ReviewerPacket    bool            `json:"-"`
	Stuck             Stuck           `json:"stuck"`
	Git               Git             `json:"-"`
	Roles             []Role          `json:"-"`     // Roles in the order in which they run; never empty
	Retry             Retry           `json:"retry"` // Retry bounds how often a failing role is run again in one iteration
	Respond           Respond         `json:"-"`     // Respond says what follows when a role fails
	Recovery          json.RawMessage `json:"-"`     // the loop's own override, as written; nil when absent
}

// Tests modes.
const (
	TestsEvery     = "every"      // in each iteration, after the implementer
	TestsOnPromise = "on_promise" // when the promise was made or the checklists are complete
	TestsDisabled  = "disabled"
)

// Tests are the commands that judge the work; each runs under `bash -c`.
type Tests struct {
	Mode     string   `json:"mode"`
	Commands []string `json:"commands"`
	// Timeout bounds each command; default 30 minutes, 0 is no bound.
	Timeout time.Duration `json:"timeout,omitzero"`
}

// Validation is the gate between tests and prerequisites.
type Validation struct {
	Enabled             bool          `json:"enabled"`
	Mode                string        `json:"mode"` // every | on_promise
	RequireOnCompletion bool          `json:"require_on_completion"`
	Commands            []string      `json:"commands"`
	Timeout             time.Duration `json:"timeout,omitzero"` // per command; default 10 minutes
	Preflight           *Preflight    `json:"preflight,omitempty"`
}

// Preflight are the static checks of a built web page.
type Preflight struct {
	Entry             string   `json:"entry"`
	WebRoot           string   `json:"web_root"`
	RequiredSelectors []string `json:"required_selectors"`
	RequiredText      []string `json:"required_text"`
	MinScriptBytes    int      `json:"min_script_bytes"`
	MaxScriptKB       int      `json:"max_script_kb"`
	RequireScripts    bool     `json:"require_scripts"`
}

// Prerequisites are facts about files that must hold.
type Prerequisites struct {
	Enabled             bool    `json:"enabled"`
	RequireOnCompletion bool    `json:"require_on_completion"`
	Checks              []Check `json:"checks"`
}

// Check is one prerequisite. Type is one of markdown_checklist_complete, file_regex_present, file_regex_absent,
// file_contains_all, file_not_contains_any, file_exists, file_nonempty.
type Check struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Path     string   `json:"path"` // may hold {repo}, {loop_id}, {loop}, {iteration}
	Pattern  string   `json:"pattern"`
	Flags    string   `json:"flags"`
	Needles  []string `json:"needles"`
	MinChars int      `json:"min_chars"`
}

// Evidence are files that must exist at completion; their hashes are recorded.
type Evidence struct {
	Enabled             bool     `json:"enabled"`
	RequireOnCompletion bool     `json:"require_on_completion"`
	Artifacts           []string `json:"artifacts"`
}

// Approval is the human gate after all others.
type Approval struct {
	Enabled             bool `json:"enabled"`
	RequireOnCompletion bool `json:"require_on_completion"`
}

// Stuck ends a loop that changes nothing; Threshold is in iterations.
type Stuck struct {
	Enabled   bool     `json:"enabled"`
	Threshold int      `json:"threshold"`
	Action    string   `json:"action"` // report_and_stop
	Ignore    []string `json:"ignore"`
}

// Git says what of the work is committed, and where the work happens.
type Git struct {
	CommitStrategy    string   `json:"commit_strategy"` // never | per_iteration | on_test_pass
	PreCommitCommands []string `json:"pre_commit_commands"`
	MaxSubjectLength  int      `json:"-"` // characters; default 72
	// Worktree runs the loop in its own git worktree on branch superloop/<id>.
	Worktree bool `json:"worktree"`
}

// Role is one step of an iteration.
type Role struct {
	Name     string `json:"-"`        // planner | implementer | tester | reviewer
	Runner   string `json:"runner"`   // a key of Config.Runners
	Model    string `json:"model"`    // "" is the runner's own default
	Thinking string `json:"thinking"` // none minimal low standard high max, or ""
	// Timeout bounds the role's wall time, Inactivity the time without a byte of output; 0 is no bound.
	Timeout    time.Duration `json:"timeout"`
	Inactivity time.Duration `json:"inactivity"`
	// Resume goes on with the role's last session instead of a new one, where the CLI can.
	Resume      bool   `json:"-"`
	Permissions string `json:"permissions"` // read-only, workspace or full; "" is the runner's
	// Runners are all who may do the role, in the order of asking; never empty, the first is Runner with Model.
	Runners []Choice `json:"runners"`
}

// Retry bounds a failing role in one iteration: Attempts (3), and Backoff before the second, doubled (5 s to 5 min).
type Retry struct {
	Attempts int           `json:"attempts"`
	Backoff  time.Duration `json:"backoff_seconds"`
}

// Choice is who may do a role.
type Choice struct {
	Runner string `json:"runner"` // a key of Config.Runners
	Model  string `json:"model"`  // "" is the runner's own default
	Tier   int    `json:"tier"`   // how strong the model is, larger is stronger; 0 where nobody said
	// Permissions are what it may do without asking: the role's, else its own runner's; "" leaves it to the command.
	Permissions string `json:"-"`
}

// What Respond.Insist may hold: a turn that ended well and lacks it has failed.
const (
	InsistReport     = "report"     // a fresh report
	InsistDifference = "difference" // a report that is not the last one over again
	InsistChange     = "change"     // of the repository, by the implementer
)

// Respond says what follows when a role fails or the tests fail alike again and again, and what is checked before.
type Respond struct {
	// Enabled is true unless it is switched off: then a role that fails is only run again, as Retry says.
	Enabled bool `json:"enabled"`
	// FallOver gives the work of a runner whose settings are wrong to another one, instead of stopping for a human.
	FallOver bool `json:"fall_over"`
	// Insist, when nil: a role with several runners is held to its report. Empty and not nil: nothing is insisted on.
	Insist []string `json:"insist"`
	// SameFailure is how often a role may fail in the same way, whoever does it, before a human is asked (default 3, at
	// least 2); SameTests the same of iterations in a row whose tests fail (default 3; 0 never asks).
	SameFailure int `json:"same_failure"`
	SameTests   int `json:"same_tests"`
	// MaxRuns bounds the failed runs of a role in one iteration (default 6), MaxTime the time of that (default 6
	// hours), AnalysisTime one search for a cause (default 10 minutes), MaxWait the waits for providers, together
	// (default 8 days, so that a limit of a week is waited for). None of them is ever 0.
	MaxRuns      int           `json:"max_runs"`
	MaxTime      time.Duration `json:"max_time"`
	AnalysisTime time.Duration `json:"analysis_time"`
	MaxWait      time.Duration `json:"max_wait"`
	Breaker      Breaker       `json:"breaker"`
	Systemic     Systemic      `json:"systemic"`
	// Diagnostician looks for a cause when no rule is sure of one; nil: nobody.
	Diagnostician *Diagnostician `json:"diagnostician"`
	Preflight     Environment    `json:"preflight"`
}

// Breaker says when a runner is unfit: after Failures in a row (default 3) of at least two tasks, for First (default 1
// minute), doubled each time it fails again, at most Most (default 30 minutes). None of them is ever 0.
type Breaker struct {
	Failures int           `json:"failures"`
	First    time.Duration `json:"first"`
	Most     time.Duration `json:"most"`
}

// Systemic says when failures are more than one task's. A rate, SameCategory or SilentRuns that is 0 switches its
// trigger off, which failures.Thresholds writes as -1; Window and MinRuns are never 0.
type Systemic struct {
	Window       time.Duration `json:"window"`        // default 1 hour
	MinRuns      int           `json:"min_runs"`      // default 5
	WarnRate     float64       `json:"warn_rate"`     // default 0.2
	CriticalRate float64       `json:"critical_rate"` // default 0.5
	SameCategory int           `json:"same_category"` // default 5
	SilentRuns   int           `json:"silent_runs"`   // default 3
}

// Diagnostician is an agent that is told to change nothing; only the permissions of its runner keep it from writing.
type Diagnostician struct {
	Runner  string        `json:"runner"`
	Model   string        `json:"model"`
	Timeout time.Duration `json:"timeout"` // default Respond.AnalysisTime; never 0
}

// Environment are the environment checks before each iteration, besides those that superloop has learned.
type Environment struct {
	Enabled bool               `json:"enabled"` // default true
	Checks  []EnvironmentCheck `json:"checks"`
}

// EnvironmentCheck is one. Its kind says which fields count. What Load gives is what failures.Preventions.Add takes.
type EnvironmentCheck struct {
	Kind    string `json:"kind"`
	Path    string `json:"path"`
	Want    string `json:"want"`
	Manager string `json:"manager"`
	FreeMB  int64  `json:"free_mb"`
	Port    int    `json:"port"`
	Name    string `json:"name"`
	Address string `json:"address"`
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
