package catalog

import (
	"cmp"
	"slices"
)

// Layer says how particular a handler is. The classifier prefers the more particular one of two matching handlers.
type Layer string

const (
	LayerRecipe    Layer = "recipe"        // failures of one tool; the handlers stand in its recipe
	LayerMethod    Layer = "method_family" // failures of one way of installing, building or fetching: npm, apt, cc
	LayerInfra     Layer = "infra"         // failures of any command: disk, network, memory, permissions
	LayerBootstrap Layer = "bootstrap"     // failures of the basic tools: a shell, a package manager
	LayerGuard     Layer = "guard"         // failures of the code; the handlers have a Guard and no options
)

// Rank orders layers: 3 for recipe, 2 for method family, 1 for infra, 0 for bootstrap, -1 for anything else.
func (l Layer) Rank() int {
	return slices.Index([]Layer{LayerBootstrap, LayerInfra, LayerMethod, LayerRecipe}, l)
}

// Guard says what a match of a handler means for the matches of the other handlers. A handler with a guard recognises a
// failure of the code, and has no options.
type Guard string

const (
	GuardNone   Guard = ""
	GuardStrong Guard = "strong" // only a change of the code helps: vetoes every handler but recipes' and dominators
	GuardWeak   Guard = "weak"   // the code failed, perhaps because of the environment: no remedy runs without an operator
)

// Handler recognises one failure and lists its remedies.
type Handler struct {
	ID          string `yaml:"id" json:"id"`                             // unique in the catalog, such as npm_eresolve
	Label       string `yaml:"label" json:"label"`                       // a few words for an operator
	Description string `yaml:"description" json:"description,omitempty"` // one sentence that says what happened
	Category    string `yaml:"category" json:"category"`                 // the id or an alias of a category
	// Persistence overrides the persistence of the category: transient, environment, permanent, code, usage, unknown.
	Persistence string `yaml:"persistence" json:"persistence,omitempty"`
	Guard       Guard  `yaml:"guard" json:"guard,omitempty"` // only in a file with layer: guard, and required there
	// Dominates says that this failure causes other failures, as a full disk makes npm fail. If the handler matches, it
	// is the cause, and the other matches are consequences.
	Dominates bool `yaml:"dominates" json:"dominates,omitempty"`
	// Priority orders the handlers of a layer, the highest first. Handlers of equal priority keep the order of the
	// file.
	Priority int `yaml:"priority" json:"priority,omitempty"`
	// Confidence is the confidence of a match, 0 to 1. 0 means the default for the layer and the kind of match.
	Confidence float64  `yaml:"confidence" json:"confidence,omitempty"`
	Match      Match    `yaml:"match" json:"match"`               // the conditions for a match
	Probes     []string `yaml:"probes" json:"probes,omitempty"`   // names of probes to make after a match, see recovery/classify
	Options    []Option `yaml:"options" json:"options,omitempty"` // the remedies

	Examples        []Example `yaml:"examples" json:"-"`         // real outputs that the handler matches
	CounterExamples []Example `yaml:"counter_examples" json:"-"` // real outputs that look alike and that it does not match

	// Load sets the fields below.
	Layer  Layer  `yaml:"-" json:"layer"`
	Family string `yaml:"-" json:"family,omitempty"` // for LayerMethod the family, such as "npm"; for LayerRecipe the recipe's id
	Origin Origin `yaml:"-" json:"origin"`
}

// Match holds the conditions under which a handler matches a failure. Every condition that is given must hold.
//
// Patterns are RE2 expressions. The classifier removes terminal control codes and a trailing carriage return, and then
// tries a pattern on one line at a time, so ^ and $ are the ends of the line. It ignores case, unless the pattern says
// (?-i). Named groups are captures: they fill the placeholders of options.
type Match struct {
	Any []string `yaml:"any" json:"any,omitempty"` // patterns, of which at least one matches some line
	All []string `yaml:"all" json:"all,omitempty"` // patterns, of which each matches some line
	Not []string `yaml:"not" json:"not,omitempty"` // patterns, of which none matches any line

	ExitCodes []int    `yaml:"exit_codes" json:"exit_codes,omitempty"` // the command ended with one of these exit codes, not by a signal
	Signals   []string `yaml:"signals" json:"signals,omitempty"`       // one of these signals ended the command: SIGKILL
	Facts     []Fact   `yaml:"facts" json:"facts,omitempty"`           // at least one of these facts holds
	Streams   []string `yaml:"streams" json:"streams,omitempty"`       // any and all look only at these streams: stdout, stderr; empty means both
	// Commands restricts the handler to commands that call one of these programs, or a program with these first words:
	// "npm", "npm ci", "git worktree".
	Commands []string `yaml:"commands" json:"commands,omitempty"`
}

// Fact is a property of a command's end that is known without its text of output.
type Fact string

const (
	FactTimedOut   Fact = "timed_out"   // the command's time limit ended it
	FactOOM        Fact = "oom"         // the kernel killed the command or a child of it because memory ran out
	FactNotStarted Fact = "not_started" // the program does not exist or is not executable
	FactNoOutput   Fact = "no_output"   // the command wrote nothing to either stream
)

// Example is the real output of a tool, with the command and its end.
type Example struct {
	Tool     string `yaml:"tool" json:"tool,omitempty"`           // name and version of the tool: "npm 10.9.2"
	Command  string `yaml:"command" json:"command"`               // the command line that was run
	ExitCode int    `yaml:"exit_code" json:"exit_code"`           // 0 if a signal ended the command
	Signal   string `yaml:"signal" json:"signal,omitempty"`       // the signal that ended the command: SIGKILL
	TimedOut bool   `yaml:"timed_out" json:"timed_out,omitempty"` // the command's time limit ended it
	OOM      bool   `yaml:"oom" json:"oom,omitempty"`             // the kernel killed the command because memory ran out
	Stdout   string `yaml:"stdout" json:"stdout,omitempty"`       // the lines that matter, literally
	Stderr   string `yaml:"stderr" json:"stderr,omitempty"`       // the lines that matter, literally
}

func (h *Handler) fillDefaults() {
	h.Label = cmp.Or(h.Label, h.ID)
	for i := range h.Options {
		h.Options[i].fillDefaults()
	}
}

// Strategy is the mechanism of a remedy.
type Strategy string

// The strategies, each with the fields of an Option that it needs.
const (
	InstallDep           Strategy = "install_dep"             // Dep
	InstallDepThenSwitch Strategy = "install_dep_then_switch" // Dep, SwitchTo
	InstallPackages      Strategy = "install_packages"        // Packages, PackageGroup or DynamicPackages
	SwitchMethod         Strategy = "switch_method"           // Method, or Prefer
	RetryWithModifier    Strategy = "retry_with_modifier"     // Modifier
	AddRepo              Strategy = "add_repo"                // RepoSetup, unless the handler's recipe has one
	UpgradeDep           Strategy = "upgrade_dep"             // Dep, MinVersion if known
	EnvFix               Strategy = "env_fix"                 // Commands, or Project
	Manual               Strategy = "manual"                  // Instructions
	CleanupRetry         Strategy = "cleanup_retry"           // Commands, or Project
	Retry                Strategy = "retry"                   // no field: superloop runs the failed command once more
)

// Executor says who can carry an option out. In the order of options it counts before availability, confidence and
// risk.
type Executor string

// The executors.
const (
	ByWrapper Executor = "wrapper" // superloop itself, if the policy allows the command
	ByRole    Executor = "role"    // an agent: the option is a hint in its next prompt
	ByRunner  Executor = "runner"  // another runner takes the work over
	ByHuman   Executor = "human"   // an operator
)

// Risk says how much harm an option may do if it is the wrong remedy.
type Risk string

// The risks. Only options of low and medium risk can ever run without an operator.
const (
	RiskLow      Risk = "low"
	RiskMedium   Risk = "medium"
	RiskHigh     Risk = "high"
	RiskCritical Risk = "critical"
)

// Option is one remedy for a failure. Package recovery/remedy turns it into commands for the system at hand.
//
// Arguments may hold placeholders in braces: {name} for a named group of the handler's match, {dir} and {command} for
// the directory and the words of the failed command. A captured text fills a placeholder only if it looks like a plain
// name, so that an output cannot make up a command.
type Option struct {
	ID          string   `yaml:"id" json:"id"`
	Label       string   `yaml:"label" json:"label"`
	Description string   `yaml:"description" json:"description,omitempty"`
	Icon        string   `yaml:"icon" json:"icon,omitempty"`
	Recommended bool     `yaml:"recommended" json:"recommended,omitempty"` // true for exactly one option of a handler
	Strategy    Strategy `yaml:"strategy" json:"strategy"`
	Executor    Executor `yaml:"executor" json:"executor,omitempty"` // default: human for manual, else wrapper
	Risk        Risk     `yaml:"risk" json:"risk,omitempty"`         // default low
	Confidence  float64  `yaml:"confidence" json:"confidence,omitempty"`

	Dep             string                `yaml:"dep" json:"dep,omitempty"`             // the id of a recipe
	SwitchTo        string                `yaml:"switch_to" json:"switch_to,omitempty"` // the method to use after the install of Dep
	Method          string                `yaml:"method" json:"method,omitempty"`
	Prefer          []string              `yaml:"prefer" json:"prefer,omitempty"` // methods, the best first
	MinVersion      string                `yaml:"min_version" json:"min_version,omitempty"`
	Packages        map[string][]string   `yaml:"packages" json:"packages,omitempty"`                 // names of packages, by distribution family
	PackageGroup    string                `yaml:"package_group" json:"package_group,omitempty"`       // a name in the table groups of packages.yaml
	DynamicPackages string                `yaml:"dynamic_packages" json:"dynamic_packages,omitempty"` // lib, header, pkgconfig, cmake, soname: superloop looks the capture of that name up in packages.yaml; tool: it takes the packages of the captured program's recipe
	Modifier        Modifier              `yaml:"modifier" json:"modifier,omitzero"`
	Commands        [][]string            `yaml:"commands" json:"commands,omitempty"`     // lists of arguments, never a shell's text; each runs only if the one before succeeded
	Sudo            bool                  `yaml:"sudo" json:"sudo,omitempty"`             // Commands need the rights of the superuser
	Project         string                `yaml:"project" json:"project,omitempty"`       // an action of the project recipe that the lock file chooses: install, install_loose, clean_install, fetch, build, clean_build
	RepoSetup       map[string][][]string `yaml:"repo_setup" json:"repo_setup,omitempty"` // commands that add a package source, by package manager

	// When holds, by the names of probes, the findings that the option requires: a value ("stale") or an answer (yes,
	// no, unknown). Without these findings the option is left out. With them it comes before the recommended option.
	When           map[string]string `yaml:"when" json:"when,omitempty"`
	Requires       []string          `yaml:"requires" json:"requires,omitempty"`               // conditions of the system that must hold, see Conditions
	RequiresBinary []string          `yaml:"requires_binary" json:"requires_binary,omitempty"` // programs that must all be on PATH
	Frees          []string          `yaml:"frees" json:"frees,omitempty"`                     // directories that the option empties; on another file system than the full one it helps nothing
	ArchExclude    []string          `yaml:"arch_exclude" json:"arch_exclude,omitempty"`       // GOARCH names of architectures on which the option does not work

	Instructions string `yaml:"instructions" json:"instructions,omitempty"`
	Expect       string `yaml:"expect" json:"expect,omitempty"` // one sentence about the state after the remedy
}

// Modifier says how superloop changes a failed command when it runs the command again.
type Modifier struct {
	Wait     []int    `yaml:"wait_seconds" json:"wait_seconds,omitempty"` // seconds to wait before each try
	Args     []string `yaml:"args" json:"args,omitempty"`                 // arguments to add: at the end, or before a "--"
	DropArgs []string `yaml:"drop_args" json:"drop_args,omitempty"`       // the first of these arguments that the command has is left out
	// Alters lists the calls to which Args and DropArgs apply: a program, then the words that must directly follow it
	// ("pip install"). "." says that no operand follows, "!x" that no argument matches the glob x. Every other command
	// gets no such remedy.
	Alters       []string          `yaml:"alters" json:"alters,omitempty"`
	Env          map[string]string `yaml:"env" json:"env,omitempty"`
	LessParallel bool              `yaml:"less_parallel" json:"less_parallel,omitempty"` // one job at a time: a switch of the build tool, or variables that build tools read
	ExtendTime   float64           `yaml:"extend_time" json:"extend_time,omitempty"`     // factor on the time limit, 1 to 10
	Sudo         bool              `yaml:"sudo" json:"sudo,omitempty"`
	Ask          string            `yaml:"ask" json:"ask,omitempty"` // what an operator must enter first: password, token
}

// Conditions lists the conditions of a system that Option.Requires and RecipeNeeds.Conditions may name.
var Conditions = [...]string{
	"sudo", "root", "not_root", "systemd", "writable_rootfs", "network", "container", "not_container", "glibc", "musl", "linux", "darwin", "localized",
}

func (o *Option) fillDefaults() {
	executor := ByWrapper
	if o.Strategy == Manual {
		executor = ByHuman
	}
	o.Executor, o.Risk = cmp.Or(o.Executor, executor), cmp.Or(o.Risk, RiskLow)
}

// Recipe says how superloop installs one tool, and how it checks that the tool works.
type Recipe struct {
	ID       string `yaml:"id" json:"id"`
	Label    string `yaml:"label" json:"label"`
	CLI      string `yaml:"cli" json:"cli,omitempty"` // the name of the program; default: the id
	Category string `yaml:"category" json:"category"` // core, build, node, python, go, rust, ruby, php, java, cloud, service
	Risk     Risk   `yaml:"risk" json:"risk,omitempty"`

	// Packages holds the names of the tool's packages, by package manager (apt, dnf, apk, pacman, zypper, brew, snap,
	// ...). The command line to install them is that of the Manager.
	Packages map[string][]string `yaml:"packages" json:"packages,omitempty"`
	// Install holds command lines by method, for methods that are no package managers (npm, pip, pipx, cargo, go, gem,
	// curl_pipe_bash, github_release, source, ...).
	Install map[string][][]string `yaml:"install" json:"install,omitempty"`
	// InstallVia names, by method, the method family whose handlers know its failures, if that is not the method
	// itself.
	InstallVia map[string]string     `yaml:"install_via" json:"install_via,omitempty"`
	Prefer     []string              `yaml:"prefer" json:"prefer,omitempty"` // the methods of this recipe to try first, the best first
	NeedsSudo  map[string]bool       `yaml:"needs_sudo" json:"needs_sudo,omitempty"`
	RepoSetup  map[string][][]string `yaml:"repo_setup" json:"repo_setup,omitempty"` // commands to run before the install, by method
	Update     map[string][][]string `yaml:"update" json:"update,omitempty"`         // commands that install a newer version, by method
	PostEnv    string                `yaml:"post_env" json:"post_env,omitempty"`     // a directory that PATH must contain after the install

	Requires RecipeNeeds `yaml:"requires" json:"requires,omitzero"`
	Verify   Verify      `yaml:"verify" json:"verify,omitzero"`
	Health   Verify      `yaml:"health" json:"health,omitzero"` // checks whether a service is up; superloop never starts the service

	OnFailure []Handler `yaml:"on_failure" json:"on_failure,omitempty"` // handlers for failures of this tool's install: LayerRecipe
	Origin    Origin    `yaml:"-" json:"origin"`
}

// RecipeNeeds lists the tools, packages and conditions that an install requires.
type RecipeNeeds struct {
	Binaries    map[string][]string `yaml:"binaries" json:"binaries,omitempty"` // recipe ids of the tools by method; "*" stands for all methods
	Packages    map[string][]string `yaml:"packages" json:"packages,omitempty"` // names of packages by distribution family
	Conditions  []string            `yaml:"conditions" json:"conditions,omitempty"`
	ArchExclude []string            `yaml:"arch_exclude" json:"arch_exclude,omitempty"`
}

// Verify says how superloop checks that a tool works.
type Verify struct {
	Command  string `yaml:"command" json:"command,omitempty"` // default: CLI --version
	Mode     string `yaml:"mode" json:"mode,omitempty"`       // version: only the exit code counts; output: the output must match Pattern, too. Default: output with a Pattern, else version
	Pattern  string `yaml:"pattern" json:"pattern,omitempty"` // an RE2 expression; case is ignored
	ExitCode int    `yaml:"exit_code" json:"exit_code,omitempty"`
	Reason   string `yaml:"reason" json:"reason,omitempty"`
	// Origin is default, generated or user. superloop never replaces the check that a user wrote.
	Origin string `yaml:"-" json:"origin,omitempty"`
}

// ProjectRecipe says how the project's own package manager installs and builds what the project declares. superloop
// chooses the project recipe whose lock file exists.
type ProjectRecipe struct {
	ID        string                `yaml:"id" json:"id"`
	Label     string                `yaml:"label" json:"label"`
	Method    string                `yaml:"method" json:"method"`         // the method family of the project's failures: npm
	LockFiles []string              `yaml:"lock_files" json:"lock_files"` // one of these files selects the recipe
	Manifests []string              `yaml:"manifests" json:"manifests"`   // at least one of these files must exist
	Produces  []string              `yaml:"produces" json:"produces"`     // directories that the actions can make again: node_modules
	Actions   map[string][][]string `yaml:"actions" json:"actions"`       // commands by action: install, install_loose, clean_install, fetch, build, clean_build
	Requires  []string              `yaml:"requires" json:"requires"`     // recipe ids of the tools that the actions call
	Priority  int                   `yaml:"priority" json:"priority,omitempty"`
	Origin    Origin                `yaml:"-" json:"origin"`
}

// Manager is one package manager of a system.
type Manager struct {
	ID       string     `yaml:"id" json:"id"`
	Families []string   `yaml:"families" json:"families"` // distribution families that come with this manager
	CLI      string     `yaml:"cli" json:"cli"`
	Sudo     bool       `yaml:"sudo" json:"sudo"`
	Native   bool       `yaml:"native" json:"native"`   // true: a system without this manager cannot get it; false: superloop can install it
	Install  []string   `yaml:"install" json:"install"` // the command line; superloop appends the packages
	Refresh  [][]string `yaml:"refresh" json:"refresh,omitempty"`
	Clean    [][]string `yaml:"clean" json:"clean,omitempty"`
	Origin   Origin     `yaml:"-" json:"origin"`
}

// Names holds tables of package names: by the name that a build asks for, then by distribution family.
type Names struct {
	Groups     map[string]map[string][]string `yaml:"groups" json:"groups"`         // groups of packages: build_tools
	Libs       map[string]map[string][]string `yaml:"libs" json:"libs"`             // libraries: ssl for -lssl
	Headers    map[string]map[string][]string `yaml:"headers" json:"headers"`       // C headers: openssl/ssl.h
	PkgConfigs map[string]map[string][]string `yaml:"pkgconfigs" json:"pkgconfigs"` // names of pkg-config files: openssl for openssl.pc
	CMakes     map[string]map[string][]string `yaml:"cmakes" json:"cmakes"`         // names that CMake's find_package takes
	Sonames    map[string]map[string][]string `yaml:"sonames" json:"sonames"`       // shared libraries: libssl.so.3
	Programs   map[string]map[string][]string `yaml:"programs" json:"programs"`     // programs: rspec; by ProgramMethods, too

	// Origins holds the origins of the names that an overlay added or changed, by kind and name: "libs/ssl". See
	// Catalog.NameOrigin.
	Origins map[string]Origin `yaml:"-" json:"origins,omitempty"`
}

// The origins of a verify section.
const (
	VerifyDefault   = "default"   // an embedded recipe has it
	VerifyGenerated = "generated" // the recipe has none: superloop calls the program with --version
	VerifyUser      = "user"      // an overlay has it: superloop never replaces it
)

// The modes of a verify section.
const (
	ModeVersion = "version" // the exit code decides
	ModeOutput  = "output"  // the exit code decides, and the output must match the pattern
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

// Category is one entry in the closed list of kinds of failures.
type Category struct {
	ID          string   `yaml:"id" json:"id"`
	Label       string   `yaml:"label" json:"label"`
	Description string   `yaml:"description" json:"description"`
	Area        string   `yaml:"area" json:"area"` // the area of a proposal: dependency, config, environment, permissions, network; also code, none
	Persistence string   `yaml:"persistence" json:"persistence"`
	Infra       bool     `yaml:"infra" json:"infra"`               // true: the environment is to blame; false for code_bug and for failures that a role must repair
	Retry       []int    `yaml:"retry" json:"retry,omitempty"`     // seconds to wait before each plain retry that superloop may make without an operator
	Aliases     []string `yaml:"aliases" json:"aliases,omitempty"` // other names of the category that are accepted as input
}

// Chain is the order of approaches for a category. Its last approach is always to ask an operator, which is not listed.
type Chain struct {
	Category   string     `yaml:"category" json:"category"`
	Approaches []Approach `yaml:"approaches" json:"approaches"`
	Origin     Origin     `yaml:"-" json:"origin"`
}

// Approach is one entry of a chain. It becomes an Option if no option of a handler covers it.
type Approach struct {
	ID            string     `yaml:"id" json:"id"`
	Label         string     `yaml:"label" json:"label"`
	Priority      int        `yaml:"priority" json:"priority"` // the order in the chain: 1 is tried first
	Confidence    float64    `yaml:"confidence" json:"confidence"`
	EstIterations int        `yaml:"est_iterations" json:"est_iterations"`
	Executor      Executor   `yaml:"executor" json:"executor"`
	Proposal      bool       `yaml:"proposal" json:"proposal,omitempty"`             // true: an operator always decides about this approach
	Covers        []Strategy `yaml:"covers" json:"covers,omitempty"`                 // a handler's option with one of these strategies replaces this approach
	Option        *Option    `yaml:"option" json:"option,omitempty"`                 // the option that the approach becomes if no handler's option covers it
	Hint          string     `yaml:"hint" json:"hint,omitempty"`                     // a sentence for a role's prompt
	RequiresTools []string   `yaml:"requires_tools" json:"requires_tools,omitempty"` // programs that must all be on PATH
	Origin        Origin     `yaml:"-" json:"origin"`                                // the origin of this approach; that of the chain may be another
}

// Catalog is the whole catalog, loaded and checked. Several packages share it, so no caller may change it.
type Catalog struct {
	Categories []Category
	Chains     map[string]Chain // by category
	Handlers   []Handler        // those of recipes first, then of families, infra, bootstrap, guards; in a layer by priority, then in the order of the files
	Recipes    []Recipe
	Projects   []ProjectRecipe
	Managers   []Manager
	Names      Names
	// Held says why an operator decides about every command of the catalog: a part of an overlay is lost, and nobody
	// can say what it forbids. It is "" if nothing of that kind is lost.
	Held string
}
