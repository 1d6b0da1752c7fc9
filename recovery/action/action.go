// Package action holds the command that superloop may execute, from the rule that proposes the command to the operator
// who is asked about it. Every package that passes a command on passes an Action, so a new fact about commands is one
// more field here.
//
// A Draft is an action that nobody has picked yet. Its JSON has no digest and leaves out empty fields. Only
// Draft.Action and Action.With make an Action, so the digest of an Action always belongs to its command and directory.
package action

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"time"
)

// Action is a command that superloop may execute.
type Action struct {
	Command    string `json:"command"`
	WorkingDir string `json:"working_dir"` // WorkingDir is relative to the repository, in the spelling of whoever proposed the command.
	TimeoutMS  int64  `json:"timeout_ms"`
	Expected   string `json:"expected_outcome,omitempty"` // Expected describes what success looks like.
	Confidence string `json:"confidence,omitempty"`       // high, medium, low
	Digest     string `json:"attempt_digest"`             // Digest is the result of function Digest for Command and WorkingDir.
}

// The words for how sure the proposer of a command is, from the least to the most.
const (
	Low    = "low"
	Medium = "medium"
	High   = "high"
)

// Below reports whether a confidence is lower than another. A word that is none of the three, such as "", is below
// nothing, and nothing is below it.
func Below(confidence, least string) bool {
	rank := map[string]int{Low: 1, Medium: 2, High: 3}
	return rank[confidence] > 0 && rank[confidence] < rank[least]
}

// Done is a command that superloop has executed, and that the tests have confirmed afterwards.
type Done struct {
	N          int       `json:"n"` // the recovery
	Command    string    `json:"command"`
	WorkingDir string    `json:"working_dir"`
	At         time.Time `json:"at"`            // when the tests confirmed it
	Why        string    `json:"why,omitempty"` // what the tests showed
}

// Facts are what a verdict on an action was told about the world, as the journal keeps them. nil means that nobody looked:
// the policy did not ask for it, or it could not be found out.
type Facts struct {
	Confined *bool `json:"confined,omitempty"` // commands run in a sandbox
	Loose    *bool `json:"loose,omitempty"`    // on_unknown "allow" may run what no list names
	// Changed names the pinned input that has changed since an operator trusted it; it points to "" if none has.
	Changed    *string `json:"changed,omitempty"`
	DirProblem string  `json:"dir_problem,omitempty"` // why working_dir is not usable, or ""
}

// Draft is a command that nobody has picked for execution yet.
type Draft struct {
	Command    string `json:"command,omitempty"`
	WorkingDir string `json:"working_dir,omitempty"`
	TimeoutMS  int64  `json:"timeout_ms,omitempty"`
	Confidence string `json:"confidence,omitempty"` // high, medium, low
	Expected   string `json:"expected_outcome,omitempty"`
}

// Action returns the draft as an Action, with its digest.
func (d Draft) Action() Action {
	return Action{Command: d.Command, WorkingDir: d.WorkingDir, TimeoutMS: d.TimeoutMS, Expected: d.Expected, Confidence: d.Confidence,
		Digest: Digest(d.Command, d.WorkingDir)}
}

// With returns the action with another command in the same directory, and the digest of the two.
func (a Action) With(command string) Action {
	a.Command, a.Digest = command, Digest(command, a.WorkingDir)
	return a
}

// Timeout returns the time that the command may run.
func (a Action) Timeout() time.Duration { return time.Duration(a.TimeoutMS) * time.Millisecond }

// Digest returns the SHA-256, in hex, of a command and the directory in which the command is to run. Other facts about
// the command do not change the digest. Two spellings of the same directory ("./a", "a/") give the same digest.
func Digest(command, workingDir string) string {
	sum := sha256.Sum256([]byte(command + "\x00" + path.Clean(workingDir)))
	return hex.EncodeToString(sum[:])
}

// Decision says what may happen with an action.
type Decision string

// These are the decisions, from the loosest to the strictest.
const (
	Auto    Decision = "auto"    // superloop runs the command without an operator
	Human   Decision = "human"   // superloop asks an operator
	Deny    Decision = "deny"    // superloop does not run the command and asks nobody
	Invalid Decision = "invalid" // the text is not a command, or the working directory is not usable
)
