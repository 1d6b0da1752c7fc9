package permit

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/schemas"
)

// The modes.
const (
	Off     = "off"     // agents are not asked about their tools; their CLI's own rules hold
	Observe = "observe" // each use of a tool is judged and recorded, and runs as if nobody had looked
	Enforce = "enforce" // each use of a tool is judged, and the verdict holds
)

// The values of OnUnknown. There is no "allow": what nobody has granted never runs by itself.
const (
	UnknownEscalate = "escalate"
	UnknownDeny     = "deny"
)

// Settings is the section `permissions` of a configuration with every default filled in.
type Settings struct {
	Mode string `json:"mode,omitempty"` // Off, Observe or Enforce; "" is Off
	// AutoApprove are commands that run without a question, compared byte for byte. Those of recovery.auto_approve count
	// too.
	AutoApprove []string `json:"auto_approve,omitempty"`
	// Programs are the first words of simple commands that run without a question: "go", "git status".
	Programs []string `json:"auto_approve_programs,omitempty"`
	// Deny and RequireHuman are patterns like those of recovery.require_human, which counts too.
	Deny         []string `json:"deny,omitempty"`
	RequireHuman []string `json:"require_human,omitempty"`
	OnUnknown    string   `json:"on_unknown,omitempty"` // UnknownEscalate or UnknownDeny; "" is UnknownEscalate
	Paths        Paths    `json:"paths,omitzero"`
	// Hosts are names from which agents may load; "*.example.com" stands for every name below example.com.
	Hosts []string `json:"hosts,omitempty"`
	Tools []string `json:"tools,omitempty"` // MCP tools that agents may use, by their exact names
	// Wait is how long an agent is held for the answer of an operator; 0 refuses at once and leaves the question open.
	Wait time.Duration `json:"wait"`
	// MaxOpen is how many different requests of a loop may wait for an operator at a time.
	MaxOpen int `json:"max_open"`
}

// Paths are places besides those that superloop knows. A place is a path of the work tree, or begins with "/" or "~/": it
// stands for itself and all below. A place without a slash is the name of a file anywhere, with the wildcards of
// path.Match.
type Paths struct {
	Deny   []string `json:"deny,omitempty"`   // agents do not write there
	Secret []string `json:"secret,omitempty"` // agents do not read there
}

// The defaults of Wait and MaxOpen.
const (
	DefaultWait    = 5 * time.Minute
	DefaultMaxOpen = 3
)

// Defaults returns the settings of a section that is empty.
func Defaults() Settings {
	return Settings{Mode: Off, OnUnknown: UnknownEscalate, Wait: DefaultWait, MaxOpen: DefaultMaxOpen}
}

// On reports whether agents are asked about their tools at all.
func (s Settings) On() bool { return s.Mode == Observe || s.Mode == Enforce }

// Policy is a section `permissions`, together with the recovery policy of the loop, in the form that Judge uses. It does
// not change after Compile has returned it. Several goroutines may use it.
type Policy struct {
	Settings Settings
	Digest   string // the SHA-256, in hex, of what decides: the settings, and the digest of the recovery policy

	listed   *recovery.Policy // what runs, and what asks
	denied   *recovery.Policy // what does not run
	programs [][]string
}

// Compile makes a policy. of is the recovery policy of the loop, or nil if it has none. The pointers of problems begin at
// the section `permissions`.
func Compile(s Settings, of *recovery.Policy) (*Policy, []schemas.Problem) {
	p := &Policy{Settings: s}
	var problems []schemas.Problem
	wrong := func(code, ptr, format string, args ...any) {
		problems = append(problems, schemas.Problem{Code: code, Pointer: ptr, Message: fmt.Sprintf(format, args...)})
	}
	if s.Mode != "" && s.Mode != Off && !s.On() {
		wrong(schemas.CodeNotAllowed, "/mode", "the mode is %q; allowed: off, observe, enforce", s.Mode)
	}
	if s.OnUnknown != "" && s.OnUnknown != UnknownEscalate && s.OnUnknown != UnknownDeny {
		wrong(schemas.CodeNotAllowed, "/on_unknown", "it is %q; allowed: escalate, deny", s.OnUnknown)
	}
	for i, text := range s.Programs {
		words, why := programWords(text)
		if why != "" {
			wrong(schemas.CodeBadFormat, fmt.Sprintf("/auto_approve_programs/%d", i), "%s; allowed: the first words of a command, such as \"go\" or \"git status\"", why)
			continue
		}
		p.programs = append(p.programs, words)
	}
	for key, list := range map[string][]string{"deny": s.Paths.Deny, "secret": s.Paths.Secret} {
		for i, place := range list {
			if _, err := path.Match(place, "x"); place == "" || !strings.Contains(place, "/") && err != nil {
				wrong(schemas.CodeBadFormat, fmt.Sprintf("/paths/%s/%d", key, i), "it is no place; allowed: a path, or the name of a file with *, ? and [...]")
			}
		}
	}
	base := recovery.Settings{AutoApprove: slices.Clone(s.AutoApprove), OnUnknown: recovery.UnknownEscalate, RequireHuman: slices.Clone(s.RequireHuman), AskBelow: action.Low, Guard: recovery.GuardOff}
	if of != nil {
		base.AllowPrivileged, base.StrictRequireHuman = of.Settings.AllowPrivileged, of.Settings.StrictRequireHuman
		base.AutoApprove = append(base.AutoApprove, of.Settings.AutoApprove...)
		for _, pattern := range of.Settings.RequireHuman {
			if strings.Trim(pattern, "* ") != "" { // "*" only says that what is not listed asks; on_unknown says so here
				base.RequireHuman = append(base.RequireHuman, pattern)
			}
		}
		p.Digest = of.Digest
	}
	var found []schemas.Problem
	p.listed, found = recovery.Compile(base)
	problems = append(problems, own(found, len(s.AutoApprove), len(s.RequireHuman))...)
	p.denied, found = recovery.Compile(recovery.Settings{OnUnknown: recovery.UnknownDeny, RequireHuman: s.Deny})
	for _, f := range found {
		f.Pointer = strings.Replace(f.Pointer, "/require_human/", "/deny/", 1)
		problems = append(problems, f)
	}
	if len(problems) > 0 {
		return nil, schemas.Sort(problems)
	}
	data, err := json.Marshal(s)
	if err != nil {
		return nil, []schemas.Problem{{Code: schemas.CodeWrongType, Message: err.Error()}}
	}
	p.Digest = fmt.Sprintf("%x", sha256.Sum256(bytes.Join([][]byte{data, []byte(p.Digest)}, []byte{0})))
	return p, nil
}

// own leaves out problems of entries that come from the recovery policy, which has been checked where it stands.
func own(found []schemas.Problem, listed, patterns int) (out []schemas.Problem) {
	for _, f := range found {
		var i int
		if _, err := fmt.Sscanf(f.Pointer, "/auto_approve/%d", &i); err == nil && i >= listed {
			continue
		}
		if _, err := fmt.Sscanf(f.Pointer, "/require_human/%d", &i); err == nil && i >= patterns {
			continue
		}
		out = append(out, f)
	}
	return out
}

// programWords splits an entry of Programs. why says what is wrong with it, or is "".
func programWords(text string) (words []string, why string) {
	words = strings.Fields(text)
	switch {
	case len(words) == 0:
		return nil, "the entry is blank"
	case strings.ContainsAny(text, "*?[]{}~$`'\"\\|&;<>()#!\n"):
		return nil, fmt.Sprintf("the entry %q has characters that a shell treats in its own way", text)
	case words[0][0] == '-' || strings.Contains(words[0], "="):
		return nil, fmt.Sprintf("the entry %q does not begin with a program", text)
	}
	return words, ""
}
