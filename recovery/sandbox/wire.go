package sandbox

import (
	"fmt"
	"time"

	"github.com/superloop/superloop/internal/text"
)

// The order goes to the shim as one JSON value on descriptor 3, the report comes back on descriptor 4: one JSON value
// before bash is executed, and a second one if that fails. Both pipes end with the exec.

const (
	// ShimArg is the hidden first argument that makes our binary the shim. main (and TestMain of every package whose
	// tests run recoveries) looks for it before anything else and calls ShimMain.
	ShimArg = "__exec"

	orderFD  = 3
	reportFD = 4

	maxOrder   = 16 << 20
	maxReport  = 64 << 10 // what a pipe holds: the shim must not wait for its reader
	reportWait = 2 * time.Second
	maxNote    = 400 // bytes
	maxNotes   = 40
)

// bytesOf is for paths and texts: JSON would replace what is not UTF-8.
type bytesOf []byte

// order is what the shim is to do.
type order struct {
	Command bytesOf   `json:"command"`
	Shell   bytesOf   `json:"shell"`
	Env     []bytesOf `json:"env"`

	Repo   bytesOf `json:"repo"`
	Dir    bytesOf `json:"dir"`
	RepoID FileID  `json:"repo_id"`
	DirID  FileID  `json:"dir_id"`

	Writable  []bytesOf `json:"writable"`
	Protected []bytesOf `json:"protected"`
	Hidden    []bytesOf `json:"hidden"`

	Required Level `json:"required,omitempty"`
	// Landlock is false if it is not to be used. Mount: the shim was started in a
	// mount namespace of its own, to be furnished.
	Landlock bool `json:"landlock"`
	Mount    bool `json:"mount"`
	Probe    bool `json:"probe,omitempty"` // everything is tried on harmless places, and nothing executed

	// Agent is not nil if what agents see is to be prepared, and no recovery run. Nothing above counts then.
	Agent *agentOrder `json:"agent,omitempty"`
}

// Kinds of failure.
const (
	badPlace = "place" // the working directory is another one than was decided on
	tooWeak  = "level" // Required is not met
	noMount  = "mount" // the mount namespace cannot be furnished; without one it may work
	broken   = "setup"
)

// report is what the shim did.
type report struct {
	Level       Level    `json:"level"`
	LandlockABI int      `json:"landlock_abi"`
	Notes       []string `json:"notes,omitempty"`
	// Failure is why nothing was executed, one of the kinds, "" if it is about to be; Text says it for the user.
	Failure string `json:"failure,omitempty"`
	Text    string `json:"text,omitempty"`
}

func (r *report) note(format string, args ...any) {
	if len(r.Notes) < maxNotes {
		r.Notes = append(r.Notes, clip(fmt.Sprintf(format, args...)))
	}
}

func (r *report) fail(kind string, err error) { r.Failure, r.Text = kind, clip(err.Error()) }

func clip(s string) string { return text.Cut(s, maxNote) }

func convert[To, From ~string | ~[]byte](in []From) []To {
	out := make([]To, 0, len(in))
	for _, s := range in {
		out = append(out, To(s))
	}
	return out
}
