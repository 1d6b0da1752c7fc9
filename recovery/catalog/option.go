package catalog

import "cmp"

// Strategy is the mechanism of a cure.
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

// The risks. Only low and medium ones can ever run without a person.
const (
	RiskLow      Risk = "low"
	RiskMedium   Risk = "medium"
	RiskHigh     Risk = "high"
	RiskCritical Risk = "critical"
)

// Option is one way to cure a failure, before it is worked out for a system.
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
	// Commands run in order, each only if the one before succeeded; each is a list of arguments, never a shell's
	// text.
	Commands  [][]string            `yaml:"commands" json:"commands,omitempty"`
	Sudo      bool                  `yaml:"sudo" json:"sudo,omitempty"`             // Commands need the superuser
	Project   string                `yaml:"project" json:"project,omitempty"`       // an action of the project recipe that the lock file chooses: install, clean_install, fetch, build, clean_build
	RepoSetup map[string][][]string `yaml:"repo_setup" json:"repo_setup,omitempty"` // by package manager

	// When says what probes must have found for the option to be one at all: the finding's value ("stale") or its
	// answer (yes, no, unknown), by the probe's name. Where it holds, the option stands before the recommended one:
	// it knows more.
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
	Ask          string            `yaml:"ask" json:"ask,omitempty"` // what a person must give first: password, token
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
