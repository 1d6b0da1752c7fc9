// Package action holds a command that may be executed, from the rule that knows it to the operator who is asked about it.
// Every package that passes a command on passes an Action, so a new fact about commands is one more field here.
//
// A Draft is an action among others that nobody has picked yet. It is written down without a digest, and what is empty
// is left out. Only Draft.Action and With make an Action, so its digest is always that of its command and directory.
package action

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"time"
)

// Action is a command that may be executed.
type Action struct {
	Command    string `json:"command"`
	WorkingDir string `json:"working_dir"` // WorkingDir is relative to the repository, as it was written.
	TimeoutMS  int64  `json:"timeout_ms"`
	Expected   string `json:"expected_outcome,omitempty"` // Expected is what success looks like.
	Confidence string `json:"confidence,omitempty"`       // high, medium, low
	Digest     string `json:"attempt_digest"`             // Digest is that of command and directory, see Digest.
}

// Draft is an Action that nobody has picked yet.
type Draft struct {
	Command    string `json:"command,omitempty"`
	WorkingDir string `json:"working_dir,omitempty"`
	TimeoutMS  int64  `json:"timeout_ms,omitempty"`
	Confidence string `json:"confidence,omitempty"` // high, medium, low
	Expected   string `json:"expected_outcome,omitempty"`
}

// Action is the draft with its digest.
func (d Draft) Action() Action {
	return Action{Command: d.Command, WorkingDir: d.WorkingDir, TimeoutMS: d.TimeoutMS, Expected: d.Expected, Confidence: d.Confidence,
		Digest: Digest(d.Command, d.WorkingDir)}
}

// With is the action with another command in the same place.
func (a Action) With(command string) Action {
	a.Command, a.Digest = command, Digest(command, a.WorkingDir)
	return a
}

// Timeout is how long the command may run.
func (a Action) Timeout() time.Duration { return time.Duration(a.TimeoutMS) * time.Millisecond }

// Digest is the SHA-256, in hex, of a command and where it is to run: the same command in the same place has the same
// one, whatever is said about it. Ways to write the same directory ("./a", "a/") count as one.
func Digest(command, workingDir string) string {
	sum := sha256.Sum256([]byte(command + "\x00" + path.Clean(workingDir)))
	return hex.EncodeToString(sum[:])
}

// Decision is what may happen with an action.
type Decision string

// The decisions, from the loosest to the strictest.
const (
	Auto    Decision = "auto"    // it runs without an operator
	Human   Decision = "human"   // an operator is asked
	Deny    Decision = "deny"    // it does not run, and nobody is asked
	Invalid Decision = "invalid" // it is no command, or its directory is none
)
