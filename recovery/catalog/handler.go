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

	LayerGuard Layer = "guard" // stands beside the others: its handlers have a Guard and no options
)

// Rank orders layers: 3 for recipe, 2 for method family, 1 for infra, 0 for bootstrap, -1 for anything else.
func (l Layer) Rank() int {
	return slices.Index([]Layer{LayerBootstrap, LayerInfra, LayerMethod, LayerRecipe}, l)
}

// Guard says what the match of a handler means for all the others. A handler with a guard has no options: it
// recognises code failures, not cures.
type Guard string

const (
	GuardNone   Guard = ""
	GuardStrong Guard = "strong" // only a change of the code can cure it: vetoes every handler but recipes' and dominators
	GuardWeak   Guard = "weak"   // something of the code failed, perhaps because of the environment: nothing runs by itself
)

// Handler recognises one failure and lists what cures it.
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
	Options    []Option `yaml:"options" json:"options,omitempty"` // what cures it

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
	SourceUser       = "user"       // the person's own directory of configuration
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
