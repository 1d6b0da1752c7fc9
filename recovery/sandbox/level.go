package sandbox

import (
	"slices"

	"github.com/superloop/superloop/internal/proc"
)

// Level names what confined a command; see the package comment for what each promises.
type Level string

// The levels, the weakest first.
const (
	None          Level = "none"
	Landlock      Level = "landlock"
	Mount         Level = "mount"
	LandlockMount Level = "landlock+mount"
)

// Levels are all levels, the weakest first.
func Levels() []Level { return []Level{None, Landlock, Mount, LandlockMount} }

// Meets reports whether l is at least as much as required. Nothing meets a level that does not exist, so that a
// mistyped one refuses; "" requires nothing.
func (l Level) Meets(required Level) bool {
	if required == "" {
		return true
	}
	need := slices.Index(Levels(), required)
	return need >= 0 && slices.Index(Levels(), l) >= need
}

// levelOf is the level that two mechanisms give.
func levelOf(landlock, mount bool) Level {
	switch {
	case landlock && mount:
		return LandlockMount
	case mount:
		return Mount
	case landlock:
		return Landlock
	}
	return None
}

// Sandbox says what held a command, or would hold one.
type Sandbox struct {
	Level Level `json:"level"`
	// LandlockABI is the version of the kernel's Landlock, whether it was used or not; 0 is none.
	LandlockABI int  `json:"landlock_abi"`
	MountNS     bool `json:"mountns"` // the namespaces that were made for the command
	UserNS      bool `json:"userns"`
	NetNS       bool `json:"netns"`
	// Tree is what held its tree of processes together; Cgroup is true if that was a cgroup.
	Tree   proc.Level `json:"tree"`
	Cgroup bool       `json:"cgroup"`
	Notes  []string   `json:"notes,omitempty"` // say what could not be had, and why
}

// Mechanism is something that an operator may switch off: a command that brings a sandbox of its own (bubblewrap,
// rootless podman) does not start under Landlock.
type Mechanism string

// The mechanisms.
const (
	UseLandlock Mechanism = "landlock"
	UseMount    Mechanism = "mount" // the mount namespace
	UseUserNS   Mechanism = "user"  // the user namespace, which an ordinary user needs for the others
)
