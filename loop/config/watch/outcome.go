package watch

import (
	"time"

	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/config/trust"
)

// Kind says what a look at the file came to.
type Kind string

// The kinds. Each is given once for what it is about, not at every look.
const (
	// Unchanged: nothing of what is in force changed, and there is nothing new to
	// say of the file.
	Unchanged Kind = "unchanged"
	// Reloaded: another configuration is in force.
	Reloaded Kind = "reloaded"
	// Rejected: the file is wrong; what was in force is in force.
	Rejected Kind = "rejected"
	// Held: the file loosens something that nobody has trusted. That is not in
	// force; everything else of the file is.
	Held Kind = "held"
)

// Codes of problems that only a running loop has.
const (
	CodeRunning = "running_loop" // a loop that runs, and what it stands on, cannot change
	CodeTrust   = "trust"        // what is trusted cannot be told, kept or put in force
)

// Outcome is what a look at the file came to. Nothing in it shows a secret.
type Outcome struct {
	Kind Kind
	// Config is what is in force from now on; never nil.
	Config *config.Config
	// Changes are those of what is in force, by Reloaded and Held, sorted by path.
	Changes []config.Change
	// Diff is the difference between the pin and the file, by Held, and by
	// Reloaded when a loosening was taken because the agents cannot have made it.
	Diff trust.Diff
	// Digest is that of the file's trusted part: what `superloop config trust
	// --digest` wants. "" when the file was Rejected.
	Digest string
	// Problems are why the file was Rejected, in the order of the file.
	Problems []config.Problem
	// Warnings are about the pin and not about the file; with any Kind.
	Warnings []config.Problem
	// Again, unless 0: the file is not whole, as if it were being written; look
	// again after that time. Watch sends by then.
	Again time.Duration
}
