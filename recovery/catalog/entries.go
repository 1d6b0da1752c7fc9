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

// Recipe says how one tool gets onto a system, and how to see that it works.
type Recipe struct {
	ID       string `yaml:"id" json:"id"`
	Label    string `yaml:"label" json:"label"`
	CLI      string `yaml:"cli" json:"cli,omitempty"` // the program; default the id
	Category string `yaml:"category" json:"category"` // core, build, node, python, go, rust, ruby, php, java, cloud, service
	Risk     Risk   `yaml:"risk" json:"risk,omitempty"`

	// Packages names it in the system's package managers, by manager (apt, dnf, apk, pacman, zypper, brew, snap, ...);
	// the command line is the manager's.
	Packages map[string][]string `yaml:"packages" json:"packages,omitempty"`
	// Install are the command lines of any other method (npm, pip, pipx, cargo, go, gem, curl_pipe_bash,
	// github_release, source, ...).
	Install map[string][][]string `yaml:"install" json:"install,omitempty"`
	// InstallVia names the method family whose handlers know a method's failures, where that is not the method itself.
	InstallVia map[string]string     `yaml:"install_via" json:"install_via,omitempty"`
	Prefer     []string              `yaml:"prefer" json:"prefer,omitempty"` // methods, the best first
	NeedsSudo  map[string]bool       `yaml:"needs_sudo" json:"needs_sudo,omitempty"`
	RepoSetup  map[string][][]string `yaml:"repo_setup" json:"repo_setup,omitempty"` // before the install, by manager
	Update     map[string][][]string `yaml:"update" json:"update,omitempty"`
	PostEnv    string                `yaml:"post_env" json:"post_env,omitempty"` // a directory that PATH needs afterwards

	Requires RecipeNeeds `yaml:"requires" json:"requires,omitzero"`
	Verify   Verify      `yaml:"verify" json:"verify,omitzero"`
	Health   Verify      `yaml:"health" json:"health,omitzero"` // of a service: is it up; never started by superloop

	OnFailure []Handler `yaml:"on_failure" json:"on_failure,omitempty"` // LayerRecipe
	Origin    Origin    `yaml:"-" json:"origin"`
}

// RecipeNeeds is what must be there before an install.
type RecipeNeeds struct {
	Binaries    map[string][]string `yaml:"binaries" json:"binaries,omitempty"` // recipe ids by method; "*" for all
	Packages    map[string][]string `yaml:"packages" json:"packages,omitempty"` // by distribution family
	Conditions  []string            `yaml:"conditions" json:"conditions,omitempty"`
	ArchExclude []string            `yaml:"arch_exclude" json:"arch_exclude,omitempty"`
}

// Verify says how to see that a tool works.
type Verify struct {
	Command  string `yaml:"command" json:"command,omitempty"` // default: CLI --version
	Mode     string `yaml:"mode" json:"mode,omitempty"`       // version (exit code only, default) or output (Pattern too)
	Pattern  string `yaml:"pattern" json:"pattern,omitempty"` // RE2, without regard to case
	ExitCode int    `yaml:"exit_code" json:"exit_code,omitempty"`
	Reason   string `yaml:"reason" json:"reason,omitempty"`
	// Origin is default, generated or user. One that a user wrote is never repaired.
	Origin string `yaml:"-" json:"origin,omitempty"`
}

// ProjectRecipe brings up what a project declares, by the project's own package manager. The one whose lock file is
// there is chosen.
type ProjectRecipe struct {
	ID        string                `yaml:"id" json:"id"`
	Label     string                `yaml:"label" json:"label"`
	Method    string                `yaml:"method" json:"method"`         // its method family: npm
	LockFiles []string              `yaml:"lock_files" json:"lock_files"` // any of these decides
	Manifests []string              `yaml:"manifests" json:"manifests"`   // any of these is needed
	Produces  []string              `yaml:"produces" json:"produces"`     // directories that can be made again: node_modules
	Actions   map[string][][]string `yaml:"actions" json:"actions"`       // install, clean_install, fetch, build, clean_build
	Requires  []string              `yaml:"requires" json:"requires"`     // recipe ids of the tools
	Priority  int                   `yaml:"priority" json:"priority,omitempty"`
	Origin    Origin                `yaml:"-" json:"origin"`
}

// Manager is one package manager of a system.
type Manager struct {
	ID       string     `yaml:"id" json:"id"`
	Families []string   `yaml:"families" json:"families"` // distribution families that have it from birth
	CLI      string     `yaml:"cli" json:"cli"`
	Sudo     bool       `yaml:"sudo" json:"sudo"`
	Native   bool       `yaml:"native" json:"native"`   // missing means impossible; others can be installed
	Install  []string   `yaml:"install" json:"install"` // the packages are appended
	Refresh  [][]string `yaml:"refresh" json:"refresh,omitempty"`
	Clean    [][]string `yaml:"clean" json:"clean,omitempty"`
	Origin   Origin     `yaml:"-" json:"origin"`
}

// Names are the packages' names, by what asks for them and then by family.
type Names struct {
	Groups     map[string]map[string][]string `yaml:"groups" json:"groups"`         // build_tools
	Libs       map[string]map[string][]string `yaml:"libs" json:"libs"`             // ssl, of -lssl
	Headers    map[string]map[string][]string `yaml:"headers" json:"headers"`       // openssl/ssl.h
	PkgConfigs map[string]map[string][]string `yaml:"pkgconfigs" json:"pkgconfigs"` // openssl.pc without .pc
	CMakes     map[string]map[string][]string `yaml:"cmakes" json:"cmakes"`         // find_package's names
	Sonames    map[string]map[string][]string `yaml:"sonames" json:"sonames"`       // libssl.so.3

	// Origins are those of the names that an overlay added or changed, by kind and name: "libs/ssl". See
	// Catalog.NameOrigin.
	Origins map[string]Origin `yaml:"-" json:"origins,omitempty"`
}

// The origins of a verify section.
const (
	VerifyDefault   = "default"   // of an embedded recipe
	VerifyGenerated = "generated" // nobody wrote one: the program with --version
	VerifyUser      = "user"      // of an overlay: never repaired
)

// The modes of a verify section.
const (
	ModeVersion = "version" // the exit code decides
	ModeOutput  = "output"  // and the output must match the pattern
)

func (r *Recipe) fillDefaults() {
	r.CLI, r.Label, r.Risk = cmp.Or(r.CLI, r.ID), cmp.Or(r.Label, r.ID), cmp.Or(r.Risk, RiskLow)
	mode := ModeVersion
	if r.Verify.Pattern != "" {
		mode = ModeOutput
	}
	v := &r.Verify
	v.Command, v.Origin, v.Mode = cmp.Or(v.Command, r.CLI+" --version"), cmp.Or(v.Origin, VerifyGenerated), cmp.Or(v.Mode, mode)
}

// Category is one of the closed list of what can be wrong with an environment.
type Category struct {
	ID          string   `yaml:"id" json:"id"`
	Label       string   `yaml:"label" json:"label"`
	Description string   `yaml:"description" json:"description"`
	Area        string   `yaml:"area" json:"area"` // of a proposal: dependency, config, environment, permissions, network; and code, none
	Persistence string   `yaml:"persistence" json:"persistence"`
	Infra       bool     `yaml:"infra" json:"infra"`               // false: only code_bug and what a role must change
	Retry       []int    `yaml:"retry" json:"retry,omitempty"`     // seconds before each plain try that the engine may make by itself
	Aliases     []string `yaml:"aliases" json:"aliases,omitempty"` // other designs' names for it, taken on input
}

// Chain is the order of approaches for a category. Asking an operator comes last, always, and is not listed.
type Chain struct {
	Category   string     `yaml:"category" json:"category"`
	Approaches []Approach `yaml:"approaches" json:"approaches"`
	Origin     Origin     `yaml:"-" json:"origin"`
}

// Approach is one step of a chain: a named way that becomes an Option when the options of the handlers do not cover it.
type Approach struct {
	ID            string     `yaml:"id" json:"id"`
	Label         string     `yaml:"label" json:"label"`
	Priority      int        `yaml:"priority" json:"priority"` // 1 first
	Confidence    float64    `yaml:"confidence" json:"confidence"`
	EstIterations int        `yaml:"est_iterations" json:"est_iterations"`
	Executor      Executor   `yaml:"executor" json:"executor"`
	Proposal      bool       `yaml:"proposal" json:"proposal,omitempty"` // never by itself
	Covers        []Strategy `yaml:"covers" json:"covers,omitempty"`     // an option with one of these strategies is this approach
	Option        *Option    `yaml:"option" json:"option,omitempty"`     // what it becomes where no handler gave one
	Hint          string     `yaml:"hint" json:"hint,omitempty"`         // for a role's prompt
	RequiresTools []string   `yaml:"requires_tools" json:"requires_tools,omitempty"`
	Origin        Origin     `yaml:"-" json:"origin"` // of this approach, which need not be the chain's
}

// Catalog is all of it, loaded and checked. It does not change afterwards, and is shared: nobody may write to it.
type Catalog struct {
	Categories []Category
	Chains     map[string]Chain // by category
	Handlers   []Handler        // recipes' first, then families', infra, bootstrap, guards; inside a layer by priority, then file order
	Recipes    []Recipe
	Projects   []ProjectRecipe
	Managers   []Manager
	Names      Names
	Overlaid   bool // files of the user or of the repository are in it
}
