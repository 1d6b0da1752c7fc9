package catalog

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

// Chain is the order of approaches for a category. Asking a person comes last, always, and is not listed.
type Chain struct {
	Category   string     `yaml:"category" json:"category"`
	Approaches []Approach `yaml:"approaches" json:"approaches"`
	Origin     Origin     `yaml:"-" json:"origin"`
}

// Approach is one step of a chain: a named way that becomes an Option when the options of the handlers do not cover
// it.
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
}
