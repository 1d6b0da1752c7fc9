package catalog

import "cmp"

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
