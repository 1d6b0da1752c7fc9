package catalog

import (
	"cmp"
	"slices"
)

// Layer is how particular a handler is. The more particular is asked first.
type Layer string

const (
	LayerRecipe    Layer = "recipe"        // of one tool: stands in its recipe
	LayerMethod    Layer = "method_family" // of one way of installing, building or fetching: npm, apt, cc
	LayerInfra     Layer = "infra"         // of any command: disk, network, memory, permissions
	LayerBootstrap Layer = "bootstrap"     // what everything else stands on: a shell, a package manager
	LayerGuard     Layer = "guard"         // stands beside the others: its handlers have a Guard and no options
)

// Rank orders layers: 3 for recipe, 2 for method family, 1 for infra, 0 for bootstrap, -1 for anything else.
func (l Layer) Rank() int {
	return slices.Index([]Layer{LayerBootstrap, LayerInfra, LayerMethod, LayerRecipe}, l)
}

// Guard says what the match of a handler means for all the others. A handler with a guard recognises a failure of the
// code, and has no options.
type Guard string

const (
	GuardNone   Guard = ""
	GuardStrong Guard = "strong" // only a change of the code helps: vetoes every handler but recipes' and dominators
	GuardWeak   Guard = "weak"   // something of the code failed, perhaps because of the environment: nothing runs by itself
)

// Handler recognises one failure and lists its remedies.
type Handler struct {
	ID          string `yaml:"id" json:"id"`                             // unique: npm_eresolve
	Label       string `yaml:"label" json:"label"`                       // a few words for people
	Description string `yaml:"description" json:"description,omitempty"` // one sentence that says what happened
	Category    string `yaml:"category" json:"category"`                 // one of the closed list
	// Persistence overrides that of the category: transient, environment, permanent, code, usage, unknown.
	Persistence string `yaml:"persistence" json:"persistence,omitempty"`
	Guard       Guard  `yaml:"guard" json:"guard,omitempty"` // of a file with layer: guard
	// Dominates: where this matches, other matches are its consequences (a full disk inside the output of npm), so it
	// is the failure's cause.
	Dominates bool `yaml:"dominates" json:"dominates,omitempty"`
	// Priority orders handlers inside a layer; the higher is asked first. Ties go to the order of the file.
	Priority int `yaml:"priority" json:"priority,omitempty"`
	// Confidence is that of a match, 0 to 1; 0 means the layer's own.
	Confidence float64  `yaml:"confidence" json:"confidence,omitempty"`
	Match      Match    `yaml:"match" json:"match"`               // when it applies
	Probes     []string `yaml:"probes" json:"probes,omitempty"`   // by name, see recovery/classify
	Options    []Option `yaml:"options" json:"options,omitempty"` // its remedies

	Examples        []Example `yaml:"examples" json:"-"`         // real outputs that match
	CounterExamples []Example `yaml:"counter_examples" json:"-"` // real outputs that look alike and do not

	// Set by the loader.
	Layer  Layer  `yaml:"-" json:"layer"`
	Family string `yaml:"-" json:"family,omitempty"` // of LayerMethod: "npm"; of LayerRecipe: the recipe's id
	Origin Origin `yaml:"-" json:"origin"`
}

// Match says when a handler applies. Every field that is given must hold.
//
// Patterns are RE2, tried on one line at a time, without regard to case (write (?-i) to have it), after terminal
// control codes and a trailing carriage return are gone; ^ and $ are the line's ends. Named groups are captures, for
// the option's placeholders.
type Match struct {
	Any []string `yaml:"any" json:"any,omitempty"` // at least one matches some line
	All []string `yaml:"all" json:"all,omitempty"` // each matches some line
	Not []string `yaml:"not" json:"not,omitempty"` // none matches any line

	ExitCodes []int    `yaml:"exit_codes" json:"exit_codes,omitempty"` // one of these
	Signals   []string `yaml:"signals" json:"signals,omitempty"`       // one of these: SIGKILL
	Facts     []Fact   `yaml:"facts" json:"facts,omitempty"`           // one of these
	Streams   []string `yaml:"streams" json:"streams,omitempty"`       // stdout, stderr; both if empty
	// Commands restricts the handler to commands that call one of these programs or program and first words: "npm",
	// "npm ci", "git worktree".
	Commands []string `yaml:"commands" json:"commands,omitempty"`
}

// Fact is something about an end that is known without reading the output.
type Fact string

const (
	FactTimedOut   Fact = "timed_out"   // ended by its own time limit
	FactOOM        Fact = "oom"         // the kernel killed it, or a child of it, for memory
	FactNotStarted Fact = "not_started" // no such program, or not executable
	FactNoOutput   Fact = "no_output"   // nothing on either stream
)

// Example is an output as a tool really wrote it.
type Example struct {
	Tool     string `yaml:"tool" json:"tool,omitempty"`           // name and version: "npm 10.9.2"
	Command  string `yaml:"command" json:"command"`               // as it was run
	ExitCode int    `yaml:"exit_code" json:"exit_code"`           // 0 if a signal ended it
	Signal   string `yaml:"signal" json:"signal,omitempty"`       // that ended it: SIGKILL
	TimedOut bool   `yaml:"timed_out" json:"timed_out,omitempty"` // ended by its time limit
	OOM      bool   `yaml:"oom" json:"oom,omitempty"`             // ended by the kernel for memory
	Stdout   string `yaml:"stdout" json:"stdout,omitempty"`       // the lines that matter, literally
	Stderr   string `yaml:"stderr" json:"stderr,omitempty"`       // the lines that matter, literally
}

// The sources of entries.
const (
	SourceEmbedded   = "embedded"   // part of superloop
	SourceUser       = "user"       // the operator's own directory of configuration
	SourceRepository = "repository" // the supervised repository, which an agent may write: never runs by itself
)

// Origin is where an entry came from. An entry that an overlay changed comes from that overlay, whole.
type Origin struct {
	Source  string `json:"source"` // embedded, user, repository
	File    string `json:"file"`
	Line    int    `json:"line"`
	Pointer string `json:"pointer,omitempty"` // in the file: /handlers/3
}

func (h *Handler) fillDefaults() {
	h.Label, h.Options = cmp.Or(h.Label, h.ID), slices.Clone(h.Options)
	for i := range h.Options {
		h.Options[i].fillDefaults()
	}
}

// Strategy is the mechanism of a remedy.
type Strategy string

// The strategies. Which fields of an Option each needs stands behind it.
const (
	InstallDep           Strategy = "install_dep"             // Dep
	InstallDepThenSwitch Strategy = "install_dep_then_switch" // Dep, SwitchTo
	InstallPackages      Strategy = "install_packages"        // Packages, PackageGroup or DynamicPackages
	SwitchMethod         Strategy = "switch_method"           // Method, or Prefer
	RetryWithModifier    Strategy = "retry_with_modifier"     // Modifier
	AddRepo              Strategy = "add_repo"                // RepoSetup, or that of the recipe whose handler it is
	UpgradeDep           Strategy = "upgrade_dep"             // Dep, MinVersion if known
	EnvFix               Strategy = "env_fix"                 // Commands, or Project
	Manual               Strategy = "manual"                  // Instructions
	CleanupRetry         Strategy = "cleanup_retry"           // Commands, or Project
	Retry                Strategy = "retry"                   // nothing: the failed command once more
)

// Executor is who can carry an option out. It decides more than any score.
type Executor string

// The executors.
const (
	ByWrapper Executor = "wrapper" // superloop itself, through the gate
	ByRole    Executor = "role"    // an agent: the option is a hint in its next prompt
	ByRunner  Executor = "runner"  // another runner takes the work over
	ByHuman   Executor = "human"
)

// Risk is how much an option may cost when it is wrong.
type Risk string

// The risks. Only low and medium ones can ever run without an operator.
const (
	RiskLow      Risk = "low"
	RiskMedium   Risk = "medium"
	RiskHigh     Risk = "high"
	RiskCritical Risk = "critical"
)

// Option is one remedy for a failure, before it is worked out for a system.
//
// Arguments may hold placeholders in braces: {name} for a named group of the handler's match, {dir} and {command} of
// the failed command. What a tool printed is put in only if it looks like a name (see recovery/remedy), so that an
// output cannot make up a command.
type Option struct {
	ID          string   `yaml:"id" json:"id"`
	Label       string   `yaml:"label" json:"label"`
	Description string   `yaml:"description" json:"description,omitempty"`
	Icon        string   `yaml:"icon" json:"icon,omitempty"`
	Recommended bool     `yaml:"recommended" json:"recommended,omitempty"` // exactly one of a handler's
	Strategy    Strategy `yaml:"strategy" json:"strategy"`
	Executor    Executor `yaml:"executor" json:"executor,omitempty"` // default: human for manual, else wrapper
	Risk        Risk     `yaml:"risk" json:"risk,omitempty"`         // default low
	Confidence  float64  `yaml:"confidence" json:"confidence,omitempty"`

	Dep             string              `yaml:"dep" json:"dep,omitempty"`             // a recipe's id
	SwitchTo        string              `yaml:"switch_to" json:"switch_to,omitempty"` // a method
	Method          string              `yaml:"method" json:"method,omitempty"`
	Prefer          []string            `yaml:"prefer" json:"prefer,omitempty"` // methods, the best first
	MinVersion      string              `yaml:"min_version" json:"min_version,omitempty"`
	Packages        map[string][]string `yaml:"packages" json:"packages,omitempty"`                 // by distribution family
	PackageGroup    string              `yaml:"package_group" json:"package_group,omitempty"`       // of packages.yaml
	DynamicPackages string              `yaml:"dynamic_packages" json:"dynamic_packages,omitempty"` // lib, header, pkgconfig, cmake, tool: the capture of that name is looked up in packages.yaml
	Modifier        Modifier            `yaml:"modifier" json:"modifier,omitzero"`
	// Commands run in order, each if the one before succeeded; each is a list of arguments, never a shell's text.
	Commands  [][]string            `yaml:"commands" json:"commands,omitempty"`
	Sudo      bool                  `yaml:"sudo" json:"sudo,omitempty"`             // Commands need the superuser
	Project   string                `yaml:"project" json:"project,omitempty"`       // an action of the project recipe that the lock file chooses: install, clean_install, fetch, build, clean_build
	RepoSetup map[string][][]string `yaml:"repo_setup" json:"repo_setup,omitempty"` // by package manager

	// When says what probes must have found for the option to be one at all: the finding's value ("stale") or its
	// answer (yes, no, unknown), by the probe's name. Where it holds, the option comes before the recommended one.
	When           map[string]string `yaml:"when" json:"when,omitempty"`
	Requires       []string          `yaml:"requires" json:"requires,omitempty"`               // conditions of the system, see Condition
	RequiresBinary []string          `yaml:"requires_binary" json:"requires_binary,omitempty"` // all on PATH
	ArchExclude    []string          `yaml:"arch_exclude" json:"arch_exclude,omitempty"`       // GOARCH names

	Instructions string `yaml:"instructions" json:"instructions,omitempty"`
	Expect       string `yaml:"expect" json:"expect,omitempty"` // what is true afterwards, in one sentence
}

// Modifier is how a failed command is run again.
type Modifier struct {
	Wait         []int             `yaml:"wait_seconds" json:"wait_seconds,omitempty"` // before each try
	Args         []string          `yaml:"args" json:"args,omitempty"`                 // appended
	DropArgs     []string          `yaml:"drop_args" json:"drop_args,omitempty"`
	Env          map[string]string `yaml:"env" json:"env,omitempty"`
	LessParallel bool              `yaml:"less_parallel" json:"less_parallel,omitempty"` // by the method's own switch
	ExtendTime   float64           `yaml:"extend_time" json:"extend_time,omitempty"`     // factor on the time limit
	Sudo         bool              `yaml:"sudo" json:"sudo,omitempty"`
	Ask          string            `yaml:"ask" json:"ask,omitempty"` // what an operator must give first: password, token
}

// Conditions that Option.Requires and recipes may name.
var Conditions = [...]string{
	"sudo", "root", "not_root", "systemd", "writable_rootfs", "network", "container", "not_container", "glibc", "musl", "linux", "darwin",
}

func (o *Option) fillDefaults() {
	executor := ByWrapper
	if o.Strategy == Manual {
		executor = ByHuman
	}
	o.Executor, o.Risk = cmp.Or(o.Executor, executor), cmp.Or(o.Risk, RiskLow)
}
