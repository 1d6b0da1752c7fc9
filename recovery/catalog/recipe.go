package catalog

// Recipe says how one tool gets onto a system, and how to see that it works.
type Recipe struct {
	ID       string `yaml:"id" json:"id"`
	Label    string `yaml:"label" json:"label"`
	CLI      string `yaml:"cli" json:"cli,omitempty"` // the program; default the id
	Category string `yaml:"category" json:"category"` // core, build, node, python, go, rust, ruby, php, java, cloud, service
	Risk     Risk   `yaml:"risk" json:"risk,omitempty"`

	// Packages names it in the system's package managers, by manager (apt, dnf, apk, pacman, zypper, brew, snap,
	// ...); the command line is the manager's.
	Packages map[string][]string `yaml:"packages" json:"packages,omitempty"`
	// Install are the command lines of any other method (npm, pip, pipx, cargo, go, gem, curl_pipe_bash,
	// github_release, source, ...).
	Install map[string][][]string `yaml:"install" json:"install,omitempty"`
	// InstallVia names the method family whose handlers know a method's failures, where that is not the method
	// itself.
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
