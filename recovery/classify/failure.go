package classify

import (
	"context"
	"io"
	"time"

	"github.com/superloop/superloop/recovery/catalog"
)

// Where a failed command came from.
const (
	SourceTest     = "test_command"
	SourceRecovery = "recovery_command"
	SourceRole     = "role_process"
	SourceVerify   = "verify"
	SourceGate     = "gate"
	SourceCheck    = "checklist"
	SourceCommand  = "command"
)

// The categories that the classifier itself names. All others are the catalog's.
const (
	CategoryUnknown = "unknown"
	CategoryCode    = "code_bug"
)

// Exit is how a command ended. These are facts, known without its output.
type Exit struct {
	Code       int           // meaningless if Signal is given
	Signal     string        // "SIGKILL"; an exit code of 137 is not a signal
	TimedOut   bool          // its own time limit ended it
	OOM        bool          // the kernel killed it, or a child of it, for memory
	NotStarted bool          // no such program, or not executable
	KilledByUs bool          // superloop ended it: a stop, not a failure of its own
	Duration   time.Duration // from start to end
}

// OK reports whether nothing failed.
func (e Exit) OK() bool {
	return e.Code == 0 && e.Signal == "" && !e.TimedOut && !e.OOM && !e.NotStarted
}

// Input is one failed command. Nothing in it is changed.
type Input struct {
	Source string
	// Command and Argv are what was run; Argv wins where both are given. A shell's text is split for the programs that
	// it calls.
	Command string
	Argv    []string
	Dir     string // absolute; "" is unknown
	// Tool is a recipe's id and Method a method family, where an install was attempted; else both are worked out of the
	// command, never of the output.
	Tool, Method string
	Exit         Exit
	// Stdout and Stderr are read to their ends; nil is empty. With Merged, Stdout carries both.
	Stdout, Stderr io.Reader
	Merged         bool
	Probes         Prober // nil: none are made
}

// Failure is the verdict on one failed command.
type Failure struct {
	Source string `json:"source,omitempty"`
	// Category is of the catalog's closed list, Area that of a proposal, Persistence says whether it goes by itself,
	// Severity is blocking or degraded.
	Category    string `json:"category"`
	Area        string `json:"area,omitempty"`
	Persistence string `json:"persistence"`
	Severity    string `json:"severity"`
	Infra       bool   `json:"infra"` // the environment is to blame
	Code        bool   `json:"code"`  // only a change of the code can fix it
	Weak        bool   `json:"weak"`  // the code may be to blame as well: propose at most
	// Handler is the primary match's id, "" if nothing matched; Layer its layer, and Confidence 0 to 1 how sure the
	// verdict is.
	Handler    string        `json:"handler,omitempty"`
	Layer      catalog.Layer `json:"layer,omitempty"`
	Confidence float64       `json:"confidence"`

	Matches  []Match            `json:"-"` // all, in order of the cascade; the first is the primary
	Evidence []Evidence         `json:"evidence,omitempty"`
	Captures map[string]string  `json:"captures,omitempty"` // of the primary
	Findings map[string]Finding `json:"findings,omitempty"` // the probes' answers, by name

	Signature string `json:"signature"` // the same for the same failure in another run
	Why       string `json:"why"`       // one sentence for an operator

	Exit    Exit     `json:"exit"`
	Command string   `json:"command,omitempty"`
	Argv    []string `json:"argv,omitempty"`
	Dir     string   `json:"dir,omitempty"`
	Tool    string   `json:"tool,omitempty"`
	Method  string   `json:"method,omitempty"`

	Bytes      int64         `json:"bytes"`
	Lines      int64         `json:"lines"`
	Incomplete bool          `json:"incomplete,omitempty"` // a budget was spent, or a stream broke off: something may have been missed
	Took       time.Duration `json:"took"`
}

// Match is one handler that recognised the failure.
type Match struct {
	Handler  *catalog.Handler
	Stream   string // stdout, stderr; "" if a fact alone matched
	Line     int64  // from 1; 0 if a fact alone matched
	Text     string // the line, cleaned
	Captures map[string]string
	Vetoed   bool // true: a strong guard or a probe speaks against it, its options must not be offered
}

// Evidence is a line that speaks for the verdict.
type Evidence struct {
	Stream   string `json:"stream"`
	Line     int64  `json:"line"`
	Text     string `json:"text"` // at most 400 bytes, printable, secrets removed
	File     string `json:"file,omitempty"`
	FileLine int    `json:"file_line,omitempty"`
}

// Answer is what a probe found out.
type Answer string

// The answers. Unknown never counts as either.
const (
	Yes     Answer = "yes"
	No      Answer = "no"
	Unknown Answer = "unknown"
)

// Finding is the answer of one probe.
type Finding struct {
	Name   string `json:"name"`
	Holds  Answer `json:"holds"`
	Value  string `json:"value,omitempty"`  // a machine's word: a path, a pid, a package
	Detail string `json:"detail,omitempty"` // an operator's sentence
}

// Prober looks at the system, cheaply and without changing it. What it cannot find out is Unknown, never an error.
type Prober interface {
	Probe(ctx context.Context, name string, captures map[string]string, in *Input) Finding
}
