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
	// ID is 128 random bits in hex. An asker that makes it (NewID) may open the question again. "": Open makes it.
	ID        string `json:"id"`
	Loop      string `json:"loop"`
	Run       string `json:"run"`
	Iteration int    `json:"iteration"`
	Type      Type   `json:"type"`
	Repo      string `json:"repo"` // the repository's root, absolute
	// Reason says in one sentence why an operator is needed; Rule is the rule that says so, for programs.
	Reason string `json:"reason"`
	Rule   string `json:"rule,omitempty"`
	// Errors are what went wrong before, the oldest first; Details is what else to see, in lines. Both may be foreign.
	Errors  []string `json:"errors,omitempty"`
	Details string   `json:"details,omitempty"`
	Command *Command `json:"command,omitempty"` // what would run; nil for a question without one
	Options []Option `json:"options,omitempty"` // the known ways to go on, the proposed one first
	// Manual is a complete command line that repairs it by hand ("claude /login"), for a question without a command.
	Manual string `json:"manual,omitempty"`
	// Created and Expires are UTC, in milliseconds. Zero: Open's own time, and DefaultPatience after Created.
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
}

// Binding is what must still be so when an approved command begins.
type Binding struct {
	Dev uint64 `json:"dev"` // Dev and Ino are those of the working directory (recovery.Dir).
	Ino uint64 `json:"ino"`
	// PolicyDigest is that of the policy that judged; InputsDigest that of the watched inputs (guard.Digest), or "".
	PolicyDigest string `json:"policy_digest"`
	InputsDigest string `json:"inputs_digest,omitempty"`
}

// Drift says what has changed since the question was asked, a phrase each; none: what was approved may begin.
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
	// Judge sets Hits, the patterns of require_human that fit, and Near, the entry of auto_approve that is most like it.
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

// Judge records, for the operator, what a policy says of the command: its patterns that fit, nearest entry and digest.
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

// Bounds of what a record holds, in bytes and entries. A question must be asked whatever an agent wrote. So longer
// foreign text is cut in its middle, and says so. The command itself is never cut.
const (
	maxList    = 20       // errors, evidence, hits
	maxLine    = 1 << 10  // one of them
	maxOptions = 8        // options
	maxText    = 4 << 10  // a reason, a note, an option's command
	maxName    = 256      // an operator, a rule, a role
	maxDiff    = 32 << 10 // the difference of the inputs, details
	maxPath    = 4096
	maxRecord  = 4 << 20 // what is read of a record's file; all of the above, escaped, is less
)

// Complete fills in what the asker left open and brings foreign text within its bounds. Open completes every question.
// An asker that needs the digest earlier completes the question itself: doing it twice changes nothing.
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

// each is a new list of the first most entries, each through f; nil for none.
func each[T any](list []T, most int, f func(T) T) (out []T) {
	for _, x := range list[:min(len(list), most)] {
		out = append(out, f(x))
	}
	return out
}

// check says what makes a question one that cannot be asked.
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

// runnable says why bytes cannot be a command at all, whoever wants them.
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

// cut is s in at most most bytes: its beginning, how much is missing, its end.
func cut(s string, most int) string {
	if s = plain(s); len(s) <= most {
		return s
	}
	room := most - 40 // the rest is for the note
	head, tail := text.Head(s, room*2/3), text.Tail(s, room-room*2/3)
	return fmt.Sprintf("%s ... (%d bytes are left out) ... %s", head, len(s)-len(head)-len(tail), tail)
}

// plain is s as every reader of JSON can hold it: UTF-8, without NUL.
func plain(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
}

// storable reports whether s is not empty, plain, and has at most most bytes.
func storable(s string, most int) bool { return s != "" && len(s) <= most && plain(s) == s }

// stamp is a time as it stands in a record.
func stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

func isHex(s string, n int) bool { return len(s) == n && strings.Trim(s, "0123456789abcdef") == "" }

// loopID reports whether s is the id of a loop, as the config's schema has it.
func loopID(s string) bool {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
	return s != "" && len(s) <= 64 && s[0] != '.' && strings.Trim(s, letters+".") == ""
}
