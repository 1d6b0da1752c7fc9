package escalation

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
)

// Type is the kind of a question.
type Type string

// The types; titles holds their questions.
const (
	RecoveryApproval     Type = "recovery_approval_required"
	RecoveryFailed       Type = "recovery_failed"
	RoleFailure          Type = "role_failure"
	PolicyChange         Type = "policy_change"
	RunnerUnavailable    Type = "runner_unavailable" // no login, no credit, or not installed
	RemediationExhausted Type = "remediation_exhausted"
	CompletionApproval   Type = "completion_approval"
	ToolPermission       Type = "tool_permission" // an agent asks to use a tool; see Tool
)

// DefaultPatience is the time until a question expires, unless its asker sets another one.
const DefaultPatience = 24 * time.Hour

// Question holds everything that an answer is bound to. It never changes after it was asked.
type Question struct {
	// ID is 128 random bits in hex. If the asker sets it (NewID), it may open the question again. If it is "", Open
	// sets it.
	ID        string `json:"id"`
	Loop      string `json:"loop"`
	Run       string `json:"run"`
	Iteration int    `json:"iteration"`
	Type      Type   `json:"type"`
	Repo      string `json:"repo"` // the repository's root, absolute
	// Reason says in one sentence why an operator is needed. Rule is the rule that requires the operator, for programs.
	Reason string `json:"reason"`
	Rule   string `json:"rule,omitempty"`
	// Errors are the earlier failures, the oldest first. Details is further information, in lines. Agents and programs
	// may have written both.
	Errors  []string `json:"errors,omitempty"`
	Details string   `json:"details,omitempty"`
	Command *Command `json:"command,omitempty"` // the command that would run; nil for a question without one
	Tool    *Tool    `json:"tool,omitempty"`    // what an agent asks for; for a ToolPermission only
	Options []Option `json:"options,omitempty"` // the known ways to go on, the proposed one first
	// Manual is a complete command line with which the operator repairs the cause ("claude /login"). It is for a
	// question without a command.
	Manual string `json:"manual,omitempty"`
	// Created and Expires are UTC, in milliseconds. If they are zero, Open sets them to the present time and to
	// DefaultPatience after Created.
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
}

// Binding holds the values that must be unchanged when an approved command begins.
type Binding struct {
	Dev uint64 `json:"dev"` // device and inode of the working directory (recovery.Dir)
	Ino uint64 `json:"ino"`
	// PolicyDigest is the digest of the policy that judged the command. InputsDigest is the digest of its pinned inputs
	// (inputs.Digest), or "".
	PolicyDigest string `json:"policy_digest"`
	InputsDigest string `json:"inputs_digest,omitempty"`
}

// Drift returns a phrase for each value that has changed since the question was asked. If it returns none, the approved
// command may begin.
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

// Command is a command that waits for an operator's approval, with its diagnosis. It does not embed an action.Action,
// whose text is a string: JSON would replace bytes that are not UTF-8, and the operator would approve another command.
type Command struct {
	// Text is the exact bytes that bash gets. SHA256 is their digest in hex, which Open fills in.
	Text       []byte `json:"command_b64"`
	SHA256     string `json:"sha256"`
	WorkingDir string `json:"working_dir"` // relative to the repository, as the proposal has it
	Binding
	TimeoutMS int64  `json:"timeout_ms"`
	Network   string `json:"network,omitempty"` // "full" or "none"
	// Source says who proposes the command: tester, superloop or human. Role is the role that wrote the proposal.
	Source string `json:"source"`
	Role   string `json:"role,omitempty"`
	// The fields from Category to Fallback are copies of those in the proposal (recovery.json).
	Category        string   `json:"category,omitempty"`
	Severity        string   `json:"severity,omitempty"`
	ErrorPattern    string   `json:"error_pattern,omitempty"`
	RootCause       string   `json:"root_cause,omitempty"`
	Evidence        []string `json:"evidence,omitempty"`
	ExpectedOutcome string   `json:"expected_outcome,omitempty"`
	Confidence      string   `json:"confidence,omitempty"`
	// ProposedAt is zero for a command of superloop. Fallback is nil if the proposal has none, or if it is the command.
	ProposedAt time.Time      `json:"proposed_at,omitzero"`
	Fallback   *action.Action `json:"fallback,omitempty"`
	// Judge sets Hits, the patterns of require_human that match, and Near, the most similar entry of auto_approve.
	Hits []Hit `json:"hits,omitempty"`
	Near *Near `json:"near,omitempty"`
	// GuardDiff shows how the pinned inputs of the command differ from the trusted ones (inputs.Diff).
	GuardDiff string `json:"guard_diff,omitempty"`
}

// NewCommand makes the Command of a question from an action.
func NewCommand(a action.Action) Command {
	return Command{Text: []byte(a.Command), WorkingDir: a.WorkingDir, TimeoutMS: a.TimeoutMS, ExpectedOutcome: a.Expected, Confidence: a.Confidence}
}

// Action returns the command as superloop executes it.
func (c *Command) Action() action.Action {
	return action.Draft{Command: string(c.Text), WorkingDir: c.WorkingDir, TimeoutMS: c.TimeoutMS, Expected: c.ExpectedOutcome, Confidence: c.Confidence}.Action()
}

// Timeout returns the bound of the command's run time.
func (c *Command) Timeout() time.Duration { return time.Duration(c.TimeoutMS) * time.Millisecond }

// Option is one way in which the loop can go on.
type Option struct {
	ID      string `json:"id"`
	Label   string `json:"label,omitempty"`
	Command string `json:"command,omitempty"`
}

// NewID returns a new id for a question: 128 random bits in hex.
func NewID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // crypto/rand does not fail on any system that Go runs on
	return hex.EncodeToString(b[:])
}

// Digest returns the SHA-256, in hex, of the question as JSON with sorted keys and no white space. Since the question
// holds its random id, nobody can prepare another question whose digest begins with the same digits.
func (q Question) Digest() (string, error) {
	data, err := marshal(q)
	var sorted any // json writes the keys of a map in order
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err == nil {
		err = text.Reason(dec.Decode(&sorted))
	}
	if err == nil {
		data, err = marshal(sorted)
	}
	if err != nil {
		return "", fmt.Errorf("working out the digest of a question: %w", err)
	}
	return sum(data), nil
}

// Blocking reports whether the loop waits for the answer. Otherwise the loop continues without it.
func (q Question) Blocking() bool {
	return q.Type != PolicyChange && (q.Command == nil || q.Command.Severity != "degraded")
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

// marshal writes v as JSON in one line. It does not escape < > &.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// Hit is a pattern of require_human that matches a command.
type Hit struct {
	Pattern string `json:"pattern"`
	Part    string `json:"part,omitempty"` // the matching part of the command; "" is all of it
}

// Near is the entry of auto_approve that is most similar to a command.
type Near struct {
	Entry int    `json:"entry"` // the entry's index in auto_approve
	Text  string `json:"text"`
}

// Judge records how the policy judges the command, for the operator: the matching patterns, the nearest entry and the
// policy's digest.
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
	var whole []Hit // "*" matches everything, so patterns that match a part of the command come first
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

// fits reports whether a pattern matches the command. It asks recovery.Decide with a policy that has only this pattern.
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

// Bounds of a record's texts, in bytes, and of its lists, in entries. superloop must be able to ask a question whatever
// an agent wrote. So it cuts longer foreign text in the middle and marks the cut. It never cuts the command itself.
const (
	maxList    = 20       // errors, evidence, hits
	maxLine    = 1 << 10  // one error, one piece of evidence or one pattern
	maxOptions = 8        // options
	maxText    = 4 << 10  // a reason, a note, an option's command
	maxName    = 256      // an operator, a rule, a role
	maxDiff    = 32 << 10 // the difference of the inputs; the details
	maxPath    = 4096
	maxRecord  = 4 << 20 // the bytes that are read of a record's file; all the others together, escaped, are fewer
)

// Complete fills in the fields that the asker left empty and shortens foreign text to its bounds. Open completes every
// question. An asker that needs the digest earlier calls Complete itself; calling it twice changes nothing.
func (q Question) Complete(now time.Time) Question {
	if q.ID == "" {
		q.ID = NewID()
	}
	if q.Created.IsZero() {
		q.Created = now
	}
	q.Created = stamp(q.Created)
	if q.Expires.IsZero() {
		q.Expires = q.Created.Add(DefaultPatience)
	}
	q.Expires = stamp(q.Expires)
	q.Reason, q.Rule, q.Manual = cut(q.Reason, maxText), cut(q.Rule, maxName), plain(q.Manual)
	q.Errors, q.Details = cutAll(q.Errors), cut(q.Details, maxDiff)
	q.Options = each(q.Options, maxOptions, func(o Option) Option {
		return Option{cut(o.ID, maxName), cut(o.Label, maxLine), cut(o.Command, maxText)}
	})
	q.Tool = q.Tool.complete()
	if q.Command == nil {
		return q
	}
	c := *q.Command
	c.Text = slices.Clone(c.Text)
	c.SHA256 = sum(c.Text)
	for _, s := range []*string{&c.Network, &c.Source, &c.Role, &c.Category, &c.Severity, &c.Confidence} {
		*s = cut(*s, maxName)
	}
	for _, s := range []*string{&c.ErrorPattern, &c.RootCause, &c.ExpectedOutcome} {
		*s = cut(*s, maxText)
	}
	c.Evidence, c.GuardDiff = cutAll(c.Evidence), cut(c.GuardDiff, maxDiff)
	c.Hits = each(c.Hits, maxList, func(h Hit) Hit { return Hit{cut(h.Pattern, maxLine), cut(h.Part, maxLine)} })
	if c.Near != nil {
		c.Near = &Near{c.Near.Entry, plain(c.Near.Text)}
	}
	q.Command = &c
	return q
}

// each applies f to the first most entries and returns the results in a new list; nil for no entries.
func each[T any](list []T, most int, f func(T) T) (out []T) {
	for _, x := range list[:min(len(list), most)] {
		out = append(out, f(x))
	}
	return out
}

// check returns an error if the question cannot be asked.
func (q Question) check() error {
	switch {
	case !isHex(q.ID, 32):
		return fmt.Errorf("its id is %q, not 32 hexadecimal digits", q.ID)
	case !loopID(q.Loop):
		return fmt.Errorf("its loop is %q, which is no loop's id", q.Loop)
	case !storable(q.Run, maxName):
		return errors.New("it does not name its run")
	case q.Iteration < 0:
		return fmt.Errorf("its iteration is %d", q.Iteration)
	case titles[q.Type] == "":
		return fmt.Errorf("its type is %q, which is none", q.Type)
	case !filepath.IsAbs(q.Repo) || !storable(q.Repo, maxPath):
		return fmt.Errorf("its repository is %q, not an absolute path in UTF-8", q.Repo)
	case strings.TrimSpace(q.Reason) == "":
		return errors.New("it gives no reason")
	case q.Created.Year() < 1970 || q.Created.Year() > 9999 || q.Expires.Year() > 9999:
		return errors.New("its times are none")
	case !q.Expires.After(q.Created):
		return errors.New("it expires before it is asked")
	case len(q.Manual) > recovery.MaxEntry:
		return fmt.Errorf("its manual command has %d bytes, at most %d are taken", len(q.Manual), recovery.MaxEntry)
	case (q.Type == ToolPermission) != (q.Tool != nil) || !q.Tool.whole():
		return errors.New("a question about a tool, and no other, says all of the tool")
	case q.Type == RecoveryApproval && q.Command == nil:
		return errors.New("it asks for the approval of a command and has none")
	case q.Command == nil:
		return nil
	}
	c := q.Command
	if err := runnable(c.Text); err != nil {
		return err
	}
	switch {
	case c.SHA256 != sum(c.Text):
		return errors.New("the digest of its command is another one's")
	case !storable(c.WorkingDir, maxPath):
		return fmt.Errorf("its working directory is %q", c.WorkingDir)
	case c.TimeoutMS <= 0:
		return errors.New("its command has no timeout")
	case c.Source == "":
		return errors.New("it does not say who proposes the command")
	}
	return nil
}

// runnable returns an error if the bytes cannot be a command at all.
func runnable(command []byte) error {
	switch s := string(command); {
	case len(s) > recovery.MaxEntry:
		return fmt.Errorf("the command has %d bytes; at most %d can be approved", len(s), recovery.MaxEntry)
	case strings.TrimSpace(s) == "":
		return errors.New("the command is blank")
	case strings.IndexByte(s, 0) >= 0:
		return errors.New("the command holds a NUL character, where bash would cut it")
	case !utf8.ValidString(s):
		return errors.New("the command is not UTF-8 text")
	}
	return nil
}

func cutAll(list []string) []string {
	if more := len(list) - maxList + 1; more > 1 {
		list = append(slices.Clone(list[:maxList-1]), fmt.Sprintf("... and %d more", more))
	}
	return each(list, maxList, func(s string) string { return cut(s, maxLine) })
}

// cut shortens s to at most most bytes: it keeps the beginning and the end, with a note about the bytes left out.
func cut(s string, most int) string {
	if s = plain(s); len(s) <= most {
		return s
	}
	room := most - 40 // the rest is for the note
	head, tail := text.Head(s, room*2/3), text.Tail(s, room-room*2/3)
	return fmt.Sprintf("%s ... (%d bytes are left out) ... %s", head, len(s)-len(head)-len(tail), tail)
}

// plain returns s as valid UTF-8 without NUL, which every reader of JSON can hold.
func plain(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
}

// storable reports whether s is not empty, is plain, and has at most most bytes.
func storable(s string, most int) bool { return s != "" && len(s) <= most && plain(s) == s }

// stamp returns the time in the form that a record holds: UTC, in milliseconds.
func stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

func isHex(s string, n int) bool { return len(s) == n && strings.Trim(s, "0123456789abcdef") == "" }

// loopID reports whether s is a valid loop id under the schema of the configuration.
func loopID(s string) bool {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
	return s != "" && len(s) <= 64 && s[0] != '.' && strings.Trim(s, letters+".") == ""
}
