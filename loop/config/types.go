package config

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/superloop/superloop/recovery/permit"
	"github.com/superloop/superloop/schemas"
)

// Config is a checked configuration with every default filled in. Only Load and its variants make one.
type Config struct {
	Path    string            // the absolute path of the file
	Digest  string            // the SHA-256 of the file's bytes, in hex
	Runners map[string]Runner // the runners by name; the legacy top-level "runner" has the name "default"
	Loops   []Loop
	Prices  map[string]Rate // the prices of models by their exact names; they win over the built-in table
	// Recovery and Webhooks are the sections of the file, without comments, nil when absent. Policy reads Recovery.
	Recovery   json.RawMessage
	Webhooks   json.RawMessage
	Escalation Escalation // how superloop reaches operators; see also Channels
	Protect    Protect    // what agents cannot write outside of the repository
	// Permissions says what agents may do while they work, and about what they ask.
	Permissions permit.Settings
	// Warnings name every key that has no effect, and other points that the operator should read before a run.
	Warnings []Problem

	// doc is the file as it was read. Check takes the lines of problems from it, and Diff compares it.
	doc *schemas.Document
}

// Protect extends and opens what agents cannot write, or do not see, at level L1. The lists are sorted and hold each
// element once.
type Protect struct {
	Paths []string `json:"paths,omitempty"` // absolute, or beginning with ~/
	Allow []string `json:"allow,omitempty"` // such paths, and names of groups of places
}

// Runner says how superloop starts an agent CLI.
type Runner struct {
	Name    string   `json:"-"`
	Command []string `json:"command"` // the program and its leading arguments; never empty
	// Args follow the command. superloop replaces their placeholders when the role starts.
	Args        []string          `json:"args"`
	FastArgs    []string          `json:"fast_args"`   // replaces Args under `run --fast`; nil when absent
	PromptMode  string            `json:"prompt_mode"` // "stdin" (default), "file" or "arg"
	Env         map[string]string `json:"env"`         // variables for the agent; the values may hold placeholders
	Adapter     string            `json:"adapter"`     // the adapter of the CLI; if "", the program's name decides
	Permissions string            `json:"permissions"` // read-only, workspace or full; if "", the command decides
	// PassEnv lists the variables of superloop's environment that the agent gets besides the basic ones and its own
	// keys. nil means that there is no such limit.
	PassEnv []string `json:"pass_env"`
}

// Rate is the price of a model, in US dollars per million tokens. If CacheRead or CacheWrite is nil, such tokens cost
// as much as Input.
type Rate struct {
	Input      float64  `json:"input"`
	Output     float64  `json:"output"`
	CacheRead  *float64 `json:"cache_read"`
	CacheWrite *float64 `json:"cache_write"`
}

// Loop is one loop of the configuration, with all defaults filled in.
type Loop struct {
	ID            string `json:"id"`
	SpecFile      string `json:"spec_file"`      // a cleaned path relative to the repository, inside it
	PromptOnly    bool   `json:"prompt_only"`    // the text of SpecFile is the prompt of the only role
	MaxIterations int    `json:"max_iterations"` // the maximum number of iterations; 0 is no bound
	// MaxWallTime bounds the time in which the loop is active. Waiting for an operator does not count. 0 is no bound.
	MaxWallTime time.Duration `json:"max_wall_time"`
	// MaxCostUSD and MaxTokens bound the cost and the tokens of a run. 0 is no bound.
	MaxCostUSD float64 `json:"max_cost_usd"`
	MaxTokens  int64   `json:"max_tokens"`
	// CompletionPromise is the text that the agent must write inside the promise tag. "" never matches.
	CompletionPromise string          `json:"completion_promise"`
	Completion        Completion      `json:"completion"`
	Checklists        []string        `json:"checklists"`
	Tests             Tests           `json:"tests"`
	Validation        Validation      `json:"validation"`
	Prerequisites     Prerequisites   `json:"prerequisites"`
	Evidence          Evidence        `json:"evidence"`
	Approval          Approval        `json:"approval"`
	Gates             Gates           `json:"gates"`
	ReviewerPacket    bool            `json:"-"`
	Stuck             Stuck           `json:"stuck"`
	Git               Git             `json:"-"`
	Roles             []Role          `json:"-"`     // the roles in the order in which they run; never empty
	Retry             Retry           `json:"retry"` // how often superloop runs a failing role again in one iteration
	Respond           Respond         `json:"-"`     // what superloop does when a role fails
	Recovery          json.RawMessage `json:"-"`     // the loop's own recovery section, as the file has it; nil when absent
}

// Completion says what a loop needs to complete, besides the promise and the required gates.
type Completion struct {
	// RequireChange (default true) needs a change of the work tree since the run began. White space alone and paths
	// that the stuck check ignores are no change.
	RequireChange bool `json:"require_change"`
	// AllowUngated (default false) lets a loop run whose completion needs no executed gate (Loop.Gated).
	AllowUngated bool `json:"allow_ungated"`
	// RequireReports (default "review") names the reports that must be new in the iteration of the promise: plan,
	// implementer, test-report, review. "review" is the report of the role that promises. A role that the loop does not
	// have owes no report.
	RequireReports []string `json:"require_reports"`
	// TestsBaseline (default true) runs the tests once before the first role, so that completion can say whether they
	// see the work.
	TestsBaseline bool `json:"tests_baseline"`
	// RequireTestChange (default false) needs a change of a test file since the run began.
	RequireTestChange bool `json:"require_test_change"`
}

// Gated reports whether completion needs at least one executed gate: something that superloop itself runs, reads or
// asks. The gates are tests, validation, prerequisites, evidence and approval. Checklists are none, because agents tick
// the boxes.
func (l Loop) Gated() bool {
	v, p, e := l.Validation, l.Prerequisites, l.Evidence
	return l.Tests.Mode != TestsDisabled && len(l.Tests.Commands) > 0 ||
		v.Enabled && v.RequireOnCompletion && (len(v.Commands) > 0 || v.Preflight != nil) ||
		p.Enabled && p.RequireOnCompletion && len(p.Checks) > 0 ||
		e.Enabled && e.RequireOnCompletion && len(e.Artifacts) > 0 ||
		l.Approval.Enabled && l.Approval.RequireOnCompletion
}

// The modes of Tests say when superloop runs the tests.
const (
	TestsEvery     = "every"      // in each iteration, after the implementer
	TestsOnPromise = "on_promise" // when the agent has made the promise or the checklists are complete
	TestsDisabled  = "disabled"
)

// Tests holds the commands that judge the work. superloop runs each with `bash -c`.
type Tests struct {
	Mode     string   `json:"mode"`
	Commands []string `json:"commands"`
	// Timeout bounds each command. The default is 30 minutes; 0 is no bound.
	Timeout time.Duration `json:"timeout,omitzero"`
	// Outputs are globs of files that tests and tools write and no test judges. A change of them is none.
	Outputs []string `json:"outputs,omitempty"`
}

// FinalCheckout is the value of Gates.Final that asks for a checkout.
const FinalCheckout = "checkout"

// Gates says what the last look at the work is, before a loop completes.
type Gates struct {
	// Final is FinalCheckout if the tests run once more in a fresh checkout of what is committed. "" (tree, in the file)
	// is a look at the files of the work tree.
	Final string `json:"final,omitempty"`
	// Setup are the commands that make a fresh checkout ready for the tests. Each may take as long as a test command.
	Setup []string `json:"setup,omitempty"`
}

// Validation is the gate between the tests and the prerequisites.
type Validation struct {
	Enabled             bool          `json:"enabled"`
	Mode                string        `json:"mode"` // every | on_promise
	RequireOnCompletion bool          `json:"require_on_completion"`
	Commands            []string      `json:"commands"`
	Timeout             time.Duration `json:"timeout,omitzero"` // bound of each command; default 10 minutes
	Preflight           *Preflight    `json:"preflight,omitempty"`
}

// Preflight holds the static checks of a built web page.
type Preflight struct {
	Entry             string   `json:"entry"`
	WebRoot           string   `json:"web_root"`
	RequiredSelectors []string `json:"required_selectors"`
	RequiredText      []string `json:"required_text"`
	MinScriptBytes    int      `json:"min_script_bytes"`
	MaxScriptKB       int      `json:"max_script_kb"`
	RequireScripts    bool     `json:"require_scripts"`
}

// Prerequisites holds the checks of files that must pass before the loop completes.
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

// Evidence lists the files that must exist when the loop completes. superloop records their hashes.
type Evidence struct {
	Enabled             bool     `json:"enabled"`
	RequireOnCompletion bool     `json:"require_on_completion"`
	Artifacts           []string `json:"artifacts"`
}

// Approval is the gate after all others, at which an operator approves the completion.
type Approval struct {
	Enabled             bool `json:"enabled"`
	RequireOnCompletion bool `json:"require_on_completion"`
}

// Stuck ends a loop after Threshold iterations in a row that change no file in the repository, except those that match
// Ignore.
type Stuck struct {
	Enabled   bool `json:"enabled"`
	Threshold int  `json:"threshold"`
	// TestsThreshold (default 2) ends a loop after that many iterations in a row with the same failing tests on the same
	// files, also where Enabled is false. Meanwhile no role that looks at the tests is started again. 0 turns both off.
	TestsThreshold int      `json:"tests_threshold"`
	Action         string   `json:"action"` // report_and_stop
	Ignore         []string `json:"ignore"`
}

// Git says when superloop commits the work, and in which work tree the loop runs.
type Git struct {
	CommitStrategy    string   `json:"commit_strategy"` // never | per_iteration | on_test_pass
	PreCommitCommands []string `json:"pre_commit_commands"`
	MaxSubjectLength  int      `json:"-"` // in characters; default 72
	// Worktree makes the loop run in a git work tree of its own, on branch superloop/<id>.
	Worktree bool `json:"worktree"`
}

// Role is one role of a loop: one step of each iteration.
type Role struct {
	Name     string `json:"-"`        // planner | implementer | tester | reviewer
	Runner   string `json:"runner"`   // a key of Config.Runners
	Model    string `json:"model"`    // if "", the runner's default model
	Thinking string `json:"thinking"` // none, minimal, low, standard, high, max, or ""
	// Timeout bounds the role's wall time. Inactivity bounds the time without a byte of output. 0 is no bound.
	Timeout    time.Duration `json:"timeout"`
	Inactivity time.Duration `json:"inactivity"`
	// Resume makes the role continue its last session instead of starting a new one, if the CLI can do so.
	Resume      bool   `json:"-"`
	Permissions string `json:"permissions"` // read-only, workspace or full; if "", the runner's permissions
	// Runners lists all runners that may do the role, in the order in which superloop tries them. It is never empty,
	// and the first entry is Runner with Model.
	Runners []Choice `json:"runners"`
}

// Retry bounds the runs of a failing role in one iteration. Attempts (default 3) is the number of runs. Backoff
// (default 5 s, at most 5 min) is the pause before the second run and doubles after each run, up to 5 min.
type Retry struct {
	Attempts int           `json:"attempts"`
	Backoff  time.Duration `json:"backoff_seconds"`
}

// Choice is a runner, with its model, that may do a role.
type Choice struct {
	Runner string `json:"runner"` // a key of Config.Runners
	Model  string `json:"model"`  // if "", the runner's default model
	Tier   int    `json:"tier"`   // the strength of the model, larger is stronger; 0 if the file does not say
	// Permissions says what the agent may do without asking: the role's permissions, or else those of the runner. If it
	// is "", the command decides.
	Permissions string `json:"-"`
}

// The values that Respond.Insist may hold. A role's turn that ended well but lacks the required result has failed.
const (
	InsistReport     = "report"     // the role must leave a new report
	InsistDifference = "difference" // the report must differ from the previous one
	InsistChange     = "change"     // the implementer must have changed the repository
)

// Respond says what superloop does when a role fails, or when the tests fail in the same way again and again. It also
// holds the environment checks before an iteration.
type Respond struct {
	// Enabled is true by default. If it is false, superloop only runs a failing role again, as Retry says.
	Enabled bool `json:"enabled"`
	// FallOver makes superloop give the work of a runner with wrong settings to another runner. If it is false, the
	// loop stops and asks an operator.
	FallOver bool `json:"fall_over"`
	// Insist lists what a turn must leave behind. If it is nil, each role must leave a report. If it is empty and not
	// nil, superloop requires nothing.
	Insist []string `json:"insist"`
	// SameFailure is the number of failures of the same kind in a role, by any runner, after which superloop asks an
	// operator (default 3, at least 2). SameTests is the number of iterations in a row in which the tests fail in the
	// same way, after which superloop asks an operator (default 3; 0 means never).
	SameFailure int `json:"same_failure"`
	SameTests   int `json:"same_tests"`
	// MaxRuns bounds the failed runs of a role in one iteration (default 6), and MaxTime the time since the first of
	// them, without waits (default 6 hours). AnalysisTime bounds one search for a root cause (default 10 minutes).
	// MaxWait bounds the sum of the waits for providers (default 8 days, so that superloop waits for a weekly limit).
	// None of them is ever 0.
	MaxRuns      int           `json:"max_runs"`
	MaxTime      time.Duration `json:"max_time"`
	AnalysisTime time.Duration `json:"analysis_time"`
	MaxWait      time.Duration `json:"max_wait"`
	Breaker      Breaker       `json:"breaker"`
	Systemic     Systemic      `json:"systemic"`
	// Diagnostician is the agent that looks for the root cause when no rule is certain of it. If it is nil, no agent
	// does.
	Diagnostician *Diagnostician `json:"diagnostician"`
	Preflight     Environment    `json:"preflight"`
}

// Breaker says when superloop stops using a runner for some time: after Failures failures in a row (default 3) in at
// least two tasks. The pause is First (default 1 minute). It doubles each time a probe of the runner fails, up to Most
// (default 30 minutes). None of these values is ever 0.
type Breaker struct {
	Failures int           `json:"failures"`
	First    time.Duration `json:"first"`
	Most     time.Duration `json:"most"`
}

// Systemic says when superloop treats failures as a problem of more than one task. If a rate, SameCategory or
// SilentRuns is 0, its trigger is off; failures.Thresholds represents that as -1. Window and MinRuns are never 0.
type Systemic struct {
	Window       time.Duration `json:"window"`        // default 1 hour
	MinRuns      int           `json:"min_runs"`      // default 5
	WarnRate     float64       `json:"warn_rate"`     // default 0.2
	CriticalRate float64       `json:"critical_rate"` // default 0.5
	SameCategory int           `json:"same_category"` // default 5
	SilentRuns   int           `json:"silent_runs"`   // default 3
}

// Diagnostician is the agent that looks for root causes. superloop tells it to change nothing, but only the permissions
// of its runner keep it from writing.
type Diagnostician struct {
	Runner  string        `json:"runner"`
	Model   string        `json:"model"`
	Timeout time.Duration `json:"timeout"` // default Respond.AnalysisTime; never 0
}

// Environment configures the environment checks before each iteration. superloop adds the checks that it has learned.
type Environment struct {
	Enabled bool               `json:"enabled"` // default true
	Checks  []EnvironmentCheck `json:"checks"`
}

// EnvironmentCheck is one environment check. Its kind says which fields count. failures.Preventions.Add accepts every
// check of a Config that Load returned.
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

// Opened returns what agents get although superloop knows it as something that steers other programs: protect.allow,
// and the ssh agent if a runner passes its variable on.
func (c *Config) Opened() []string {
	open := slices.Clone(c.Protect.Allow)
	for _, r := range c.Runners {
		if slices.Contains(r.PassEnv, "SSH_AUTH_SOCK") && !slices.Contains(open, "ssh-agent") {
			open = append(open, "ssh-agent")
		}
	}
	return open
}

// Loop returns the loop with the given id, and whether there is one.
func (c *Config) Loop(id string) (Loop, bool) {
	for _, l := range c.Loops {
		if l.ID == id {
			return l, true
		}
	}
	return Loop{}, false
}
