package escalation

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
)

// Type is what is asked.
type Type string

// The types; titles has their questions.
const (
	RecoveryApproval     Type = "recovery_approval_required"
	RecoveryFailed       Type = "recovery_failed"
	RoleFailure          Type = "role_failure"
	PolicyChange         Type = "policy_change"
	RunnerUnavailable    Type = "runner_unavailable" // login, money, not installed
	RemediationExhausted Type = "remediation_exhausted"
	CompletionApproval   Type = "completion_approval"
)

// DefaultPatience is how long a question waits for an answer unless its asker says otherwise.
const DefaultPatience = 24 * time.Hour

// Question is what an answer is bound to. It never changes once it is asked.
type Question struct {
	// ID is 128 random bits in hex. The asker may make it (NewID) and record it before it opens the question: opening
	// it again is then harmless. "": Open makes it.
	ID        string `json:"id"`
	Loop      string `json:"loop"`
	Run       string `json:"run"`
	Iteration int    `json:"iteration"`
	Type      Type   `json:"type"`
	Repo      string `json:"repo"` // the repository's root, absolute
	// Reason says in one sentence why an operator is needed; Rule is the rule that says so, for programs.
	Reason string `json:"reason"`
	Rule   string `json:"rule,omitempty"`
	// Errors are what went wrong before, the oldest first; Details is what an operator should see besides, in lines.
	// Both may hold foreign text.
	Errors  []string `json:"errors,omitempty"`
	Details string   `json:"details,omitempty"`
	Command *Command `json:"command,omitempty"` // what would run; nil for a question without one
	Options []Option `json:"options,omitempty"` // the known ways to go on, the proposed one first
	// Manual is a complete command line that repairs it by hand ("claude /login"), for a question without a command.
	Manual string `json:"manual,omitempty"`
	// Created and Expires are UTC, in milliseconds. Zero: Open fills in its own time, and DefaultPatience after
	// Created.
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
}

// Binding is what must still be so when an approved command begins.
type Binding struct {
	Dev uint64 `json:"dev"` // Dev and Ino are those of the working directory (recovery.Dir).
	Ino uint64 `json:"ino"`
	// PolicyDigest is that of the policy that judged; InputsDigest that of the pinned inputs (guard.Digest), "" if they
	// are not watched.
	PolicyDigest string `json:"policy_digest"`
	InputsDigest string `json:"inputs_digest,omitempty"`
}

// Drift says what is no longer as it was when the question was asked, one phrase each; none: what was approved may
// begin.
func (b Binding) Drift(now Binding) (out []string) {
	if b.Dev != now.Dev || b.Ino != now.Ino {
		out = append(out, "the working directory is another one")
	}
	if b.PolicyDigest != now.PolicyDigest {
		out = append(out, "the policy has changed")
	}
	if b.InputsDigest != now.InputsDigest {
		out = append(out, "what the command reads has changed")
	}
	return out
}

// Command is a command that waits for an operator, with what is known of it. It does not embed an action.Action, whose
// text is a string: JSON would replace bytes that are not UTF-8, and the operator would approve another command.
type Command struct {
	// Text is what bash would get, byte for byte; SHA256, in hex, is its digest, which Open fills in.
	Text       []byte `json:"command_b64"`
	SHA256     string `json:"sha256"`
	WorkingDir string `json:"working_dir"` // relative to the repository, as it was written
	Binding
	TimeoutMS int64  `json:"timeout_ms"`
	Network   string `json:"network,omitempty"` // "full" or "none"
	// Source is who proposes it: tester, superloop or human. Role is the role that wrote it down.
	Source string `json:"source"`
	Role   string `json:"role,omitempty"`
	// Category to Confidence are those of the proposal (recovery.json).
	Category        string   `json:"category,omitempty"`
	Severity        string   `json:"severity,omitempty"`
	ErrorPattern    string   `json:"error_pattern,omitempty"`
	RootCause       string   `json:"root_cause,omitempty"`
	Evidence        []string `json:"evidence,omitempty"`
	ExpectedOutcome string   `json:"expected_outcome,omitempty"`
	Confidence      string   `json:"confidence,omitempty"`
	// Judge sets Hits, the patterns of require_human that fit the command, and Near, the entry of auto_approve that is
	// most like it.
	Hits []Hit `json:"hits,omitempty"`
	Near *Near `json:"near,omitempty"`
	// GuardDiff shows what of its pinned inputs is not as it was trusted (guard.Diff).
	GuardDiff string `json:"guard_diff,omitempty"`
}

// NewCommand is the question's form of an action.
func NewCommand(a action.Action) Command {
	return Command{Text: []byte(a.Command), WorkingDir: a.WorkingDir, TimeoutMS: a.TimeoutMS, ExpectedOutcome: a.Expected, Confidence: a.Confidence}
}

// Action is the command as it is executed.
func (c *Command) Action() action.Action {
	return action.Draft{Command: string(c.Text), WorkingDir: c.WorkingDir, TimeoutMS: c.TimeoutMS, Expected: c.ExpectedOutcome, Confidence: c.Confidence}.Action()
}

// Timeout is how long it may run.
func (c *Command) Timeout() time.Duration { return time.Duration(c.TimeoutMS) * time.Millisecond }

// Option is one way to go on.
type Option struct {
	ID      string `json:"id"`
	Label   string `json:"label,omitempty"`
	Command string `json:"command,omitempty"`
}

// NewID makes the id of a question: 128 random bits in hex.
func NewID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // crypto/rand does not fail on any system that Go runs on
	return hex.EncodeToString(b[:])
}

// Digest is the SHA-256, in hex, of the question as JSON with sorted keys and no white space. Since the question holds
// its random id, nobody can make another one whose digest begins in the same way.
func (q Question) Digest() (string, error) {
	data, err := marshal(q)
	var sorted any // json writes the keys of a map in order
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err == nil {
		err = dec.Decode(&sorted)
	}
	if err == nil {
		data, err = marshal(sorted)
	}
	if err != nil {
		return "", fmt.Errorf("working out the digest of a question: %w", err)
	}
	return sum(data), nil
}

// Blocking reports whether the loop stands still until there is an answer. Else it works on with something missing.
func (q Question) Blocking() bool {
	return q.Type != PolicyChange && (q.Command == nil || q.Command.Severity != "degraded")
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

// marshal writes v as JSON in one line, with < > & as they are.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// Hit is a pattern of require_human that fits a command.
type Hit struct {
	Pattern string `json:"pattern"`
	Part    string `json:"part,omitempty"` // of the command; "" is all of it
}

// Near is the entry of auto_approve that is most like a command.
type Near struct {
	Entry int    `json:"entry"` // its place
	Text  string `json:"text"`
}

// Judge records what a policy says of the command, for the operator who decides: the patterns that fit it and the
// nearest entry, and the policy's digest. It decides nothing.
func (c *Command) Judge(p *recovery.Policy) {
	c.Hits, c.Near, c.PolicyDigest = nil, nil, ""
	if p == nil {
		return
	}
	command := string(c.Text)
	c.PolicyDigest = p.Digest
	if near, ok := p.Nearest(command); ok {
		c.Near = &Near{Entry: near.Entry, Text: near.Text}
	}
	var whole []Hit // a pattern that names a part tells more than "*", so these come last
	for i, pattern := range p.Settings.RequireHuman {
		if slices.Contains(p.Settings.RequireHuman[:i], pattern) || len(c.Hits)+len(whole) == maxList {
			continue
		}
		switch part, fits := fits(pattern, command); {
		case fits && (part == command || part == ""):
			whole = append(whole, Hit{Pattern: pattern})
		case fits:
			c.Hits = append(c.Hits, Hit{pattern, part})
		}
	}
	c.Hits = append(c.Hits, whole...)
}

// fits asks recovery whether a pattern fits, by a policy that has only that.
func fits(pattern, command string) (part string, ok bool) {
	s := recovery.Defaults()
	s.AutoApprove, s.RequireHuman, s.OnUnknown = nil, []string{pattern}, recovery.UnknownDeny
	p, problems := recovery.Compile(s)
	if len(problems) > 0 {
		return "", false
	}
	v := recovery.Decide(p, recovery.Command{Text: command}, recovery.Facts{})
	return v.Part, v.Rule == recovery.RuleHuman
}
