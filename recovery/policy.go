package recovery

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/internal/workdir"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/schemas"
)

// Policy is a recovery section in the form that Decide uses. A Policy does not change after Compile or ReadPolicy, its
// only makers, has returned it. Several goroutines may use it.
type Policy struct {
	Settings Settings // Settings are the settings that the policy was made of. They are shared, so they are read-only.
	Digest   string   // the SHA-256, in hex, of the settings as canonical JSON

	listed    map[string]int // maps a command to its index in AutoApprove
	patterns  []pattern
	canonical []byte            // the settings; see JSON
	origin    map[string]string // maps a key to the JSON pointer of the section that set it
}

// Section is a recovery section of a config, as JSON with its place.
type Section struct {
	Raw     json.RawMessage // the JSON of the section; nil when the section is absent
	Pointer string          // the JSON pointer of the section: "/recovery", "/loops/2/recovery"
}

// ReadPolicy makes a policy of the given sections. The caller passes the general section first: the section of the
// config, then the section of the loop. A later section wins key by key: a key in it replaces the earlier value, and a
// list is replaced as a whole. Only objects (sandbox, entries) are merged key by key, so that a loop cannot lose
// sandbox.required by accident. The tests of an earlier section are dropped: they apply only to the policy of the
// section that holds them.
//
// The problems have the JSON pointer into the config, but no line. If there is a problem, ReadPolicy returns no policy.
// If no section is present, recovery is not enabled.
func ReadPolicy(sections ...Section) (*Policy, []schemas.Problem) {
	merged, origin, present := map[string]json.RawMessage{}, map[string]string{}, false
	for _, s := range sections {
		if s.Raw == nil {
			continue
		}
		raw, problems := checkSection(s)
		if len(problems) > 0 {
			return nil, problems
		}
		var keys map[string]json.RawMessage
		if err := text.Decode(raw, &keys); err != nil {
			return nil, []schemas.Problem{{Pointer: s.Pointer, Code: schemas.CodeSyntax, Message: err.Error()}}
		}
		present = true
		delete(merged, "tests")
		for k, raw := range keys {
			merged[k], origin[k] = mergeJSON(merged[k], raw), s.Pointer
		}
	}
	settings := Defaults()
	settings.Enabled = present
	whole, err := json.Marshal(merged)
	if err == nil {
		err = text.Decode(whole, &settings)
	}
	if err != nil {
		return nil, []schemas.Problem{{Pointer: "/recovery", Code: schemas.CodeWrongType, Message: err.Error()}}
	}
	return compile(settings, origin)
}

// checkSection applies the schema of the config to one section. It returns the section with every number in plain form.
func checkSection(s Section) (json.RawMessage, []schemas.Problem) {
	const head = `{"runners":{"r":{"command":["r"]}},"loops":[],"recovery":`
	doc, problems := schemas.Read(schemas.Config, slices.Concat([]byte(head), s.Raw, []byte("}")))
	for i := range problems {
		p := &problems[i]
		p.Pointer = s.Pointer + strings.TrimPrefix(p.Pointer, "/recovery")
		p.Line, p.Column = 0, 0
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return doc.Raw("/recovery", nil), nil
}

// mergeJSON merges over into under. Objects are merged key by key; any other value of over replaces the value of under.
func mergeJSON(under, over json.RawMessage) json.RawMessage {
	var a, b map[string]json.RawMessage
	if json.Unmarshal(under, &a) != nil || json.Unmarshal(over, &b) != nil || a == nil || b == nil {
		return over
	}
	for k, v := range b {
		a[k] = mergeJSON(a[k], v)
	}
	out, err := json.Marshal(a)
	if err != nil {
		return over
	}
	return out
}

// Compile makes a policy of settings that come from no config. The pointers of problems begin at the section.
func Compile(s Settings) (*Policy, []schemas.Problem) { return compile(s, nil) }

func compile(s Settings, origin map[string]string) (*Policy, []schemas.Problem) {
	p := &Policy{Settings: s, listed: make(map[string]int, len(s.AutoApprove)), origin: origin}
	var problems []schemas.Problem
	wrong := func(code, ptr, format string, args ...any) {
		problems = append(problems, schemas.Problem{Code: code, Pointer: ptr, Message: fmt.Sprintf(format, args...)})
	}
	for i, entry := range s.AutoApprove {
		ptr := p.Pointer("auto_approve", i)
		switch {
		case strings.TrimSpace(entry) == "":
			wrong(schemas.CodeBadFormat, ptr, "the entry is blank; allowed: a command")
		case len(entry) > MaxEntry:
			wrong(schemas.CodeOutOfRange, ptr, "the entry has %d bytes; allowed: at most %d", len(entry), MaxEntry)
		case !utf8.ValidString(entry) || strings.ContainsRune(entry, 0):
			wrong(schemas.CodeEncoding, ptr, "the entry is not text that bash can get (UTF-8 without NUL)")
		}
		if _, twice := p.listed[entry]; !twice {
			p.listed[entry] = i
		}
	}
	for i, text := range s.RequireHuman {
		pat, ok := newPattern(text)
		if !ok {
			wrong(schemas.CodeBadFormat, p.Pointer("require_human", i), "the pattern is blank; allowed: words, * matches any text")
		}
		p.patterns = append(p.patterns, pat)
	}
	if len(problems) > 0 {
		return nil, schemas.Sort(problems)
	}
	var err error
	if p.canonical, p.Digest, err = s.canonical(); err != nil {
		return nil, []schemas.Problem{{Code: schemas.CodeWrongType, Pointer: p.Pointer("enabled"), Message: err.Error()}}
	}
	return p, nil
}

// Pointer returns the JSON pointer of a setting, or of a value below it, in the section that set the value.
func (p *Policy) Pointer(key string, below ...any) string {
	var b strings.Builder
	switch section, ok := p.origin[key]; {
	case ok:
		b.WriteString(section)
	case p.origin != nil:
		b.WriteString("/recovery") // for a default: the place where an operator would set it
	}
	b.WriteString("/" + key)
	for _, t := range below {
		b.WriteByte('/')
		b.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(fmt.Sprint(t)))
	}
	return b.String()
}

// Has reports whether a section of the config sets the key.
func (p *Policy) Has(key string) bool { _, ok := p.origin[key]; return ok }

// clip shortens text for a message.
func clip(s string) string { return text.Cut(s, 123) }

// TestResult is the result of one of the policy's own tests.
type TestResult struct {
	Test    PolicyTest `json:"test"`
	Pointer string     `json:"pointer"`
	OK      bool       `json:"ok"`
	Verdict Verdict    `json:"verdict"`
}

// RunTests judges every test of the policy. It looks up nothing and runs nothing. It judges a working directory by its
// path alone. It assumes that no input has changed, that commands are confined, and that the budget is unused.
func (p *Policy) RunTests() []TestResult {
	out := make([]TestResult, 0, len(p.Settings.Tests))
	for i, t := range p.Settings.Tests {
		v := Decide(p, Command{Text: t.Command, WorkingDir: t.WorkingDir, DirProblem: lexicalProblem(t.WorkingDir)},
			Facts{LooseOK: true, Confined: true})
		out = append(out, TestResult{Test: t, Pointer: p.Pointer("tests", i), OK: v.Decision == t.Expect, Verdict: v})
	}
	return out
}

// CheckTests returns a problem for each test that fails. superloop refuses a config whose policy fails its own tests.
func (p *Policy) CheckTests() []schemas.Problem {
	var problems []schemas.Problem
	for _, r := range p.RunTests() {
		if !r.OK {
			problems = append(problems, schemas.Problem{
				Pointer: r.Pointer, Code: "policy_test", Found: string(r.Verdict.Decision), Allowed: string(r.Test.Expect),
				Message: fmt.Sprintf("the policy's own test fails: %s is %s, not %s: %s", quoted(r.Test.Command), r.Verdict.Decision, r.Test.Expect, r.Verdict.Reason),
			})
		}
	}
	return problems
}

// lexicalProblem judges a working directory by its path, without looking at the file system.
func lexicalProblem(dir string) string {
	clean, why := path.Clean(dir), workdir.Impossible(dir)
	switch {
	case why != "":
	case path.IsAbs(dir):
		why = "is absolute; a test has paths below the repository"
	case clean == ".." || strings.HasPrefix(clean, "../"):
		why = "leads out of the repository"
	default:
		why = workdir.Forbidden(dir)
	}
	if why == "" {
		return ""
	}
	return (&workdir.Error{Dir: dir, Why: why}).Error()
}

// Near is the entry of auto_approve that is most similar to a command.
type Near struct {
	Entry int    `json:"entry"` // its index in auto_approve
	Text  string `json:"text"`
	At    int    `json:"at"`    // the offset of the first byte in which the two differ
	Edits int    `json:"edits"` // how many bytes differ (edit distance); estimated for long texts
}

// Nearest finds the entry that an operator may confuse with the command, or that the author of the proposal may have
// meant. ok is false when no entry is similar. The result is for display: similarity grants nothing.
func (p *Policy) Nearest(command string) (near Near, ok bool) {
	const most = 300 // bytes that Nearest compares; the rest counts by its length
	near.Edits = 1 << 30
	for i, entry := range p.Settings.AutoApprove {
		if entry == command {
			return Near{Entry: i, Text: entry, At: len(entry)}, true
		}
		short, long := min(len(entry), len(command)), max(len(entry), len(command))
		if long-short >= near.Edits {
			continue
		}
		d := edits(entry[:min(most, len(entry))], command[:min(most, len(command))]) + max(0, long-most) - max(0, short-most)
		if d < near.Edits {
			near = Near{Entry: i, Text: entry, Edits: d}
			for near.At < short && entry[near.At] == command[near.At] {
				near.At++
			}
			for near.At > 0 && near.At < len(entry) && !utf8.RuneStart(entry[near.At]) {
				near.At--
			}
		}
	}
	// A command that differs in more than half of its bytes counts as another command.
	return near, near.Edits <= max(len(near.Text), 4)/2 || near.At == len(near.Text) && near.At > 0
}

// edits returns the Levenshtein distance of a and b in bytes.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// These are the values of settings, and the default of a timeout.
const (
	UnknownEscalate  = "escalate"
	UnknownDeny      = "deny"
	UnknownAllow     = "allow"
	CooldownEscalate = "escalate"
	CooldownWait     = "wait"
	GuardScripts     = "scripts"
	GuardStrict      = "strict"
	GuardOff         = "off"
	NetworkFull      = "full"
	NetworkNone      = "none"

	DefaultTimeout = 120 * time.Second // for a command that sets no timeout
)

// Settings are the keys of the recovery section with every default filled in.
type Settings struct {
	Enabled bool `json:"enabled"` // false when the config has no recovery section
	// Remediation permits superloop to look for the cause of failing tests by rules, before an agent runs, and to run
	// the remedies that the policy permits.
	Remediation bool `json:"first_aid"`
	// AutoApprove are the commands that run without an operator. superloop compares them byte for byte.
	AutoApprove  []string `json:"auto_approve"`
	RequireHuman []string `json:"require_human"` // the patterns of commands that need an operator
	// OnUnknown is escalate, deny or allow. Decide treats any other value as escalate.
	OnUnknown       string `json:"on_unknown"`
	MaxAuto         int    `json:"max_auto_recoveries_per_run"` // the maximum number of automatic recoveries in one run
	CooldownSeconds int    `json:"cooldown_seconds"`            // the minimum time between two automatic recoveries
	OnCooldown      string `json:"on_cooldown"`
	// AskBelow asks an operator about a listed command whose proposer is less sure than this: low (never), medium or high.
	AskBelow string `json:"ask_below_confidence"`
	// StrictRequireHuman lets every pattern of require_human win over an entry of auto_approve.
	StrictRequireHuman bool `json:"strict_require_human"`
	// AllowPrivileged lets a listed command use sudo and similar programs.
	AllowPrivileged   bool `json:"allow_privileged"`
	MaxTimeoutSeconds int  `json:"max_timeout_seconds"` // the longest timeout that a proposal may ask for
	// Guard says which inputs of a listed command may not change: scripts, strict or off.
	Guard          string   `json:"guard"`
	Sandbox        Sandbox  `json:"sandbox"`
	Network        string   `json:"network"` // full or none; see NetworkOf
	EnvPassthrough []string `json:"env_passthrough"`
	// Entries holds settings of single commands of AutoApprove.
	Entries map[string]EntrySettings `json:"entries"`
	Tests   []PolicyTest             `json:"tests"` // the policy's own tests
}

// Sandbox holds the settings of the sandbox in which recovery commands run.
type Sandbox struct {
	Required bool `json:"required"` // without a sandbox no command runs automatically
	// Caches are directories outside of the repository that commands may write: absolute, or beginning with "~/".
	Caches []string `json:"caches"`
}

// EntrySettings holds the settings of one entry of auto_approve.
type EntrySettings struct {
	Network string `json:"network"` // full or none; "" stands for the network setting of the section
}

// PolicyTest is a command with the verdict that the policy must give.
type PolicyTest struct {
	Command    string          `json:"command"`
	WorkingDir string          `json:"working_dir,omitempty"`
	Expect     action.Decision `json:"expect"`
}

// Defaults returns the settings of a section that is present but empty.
func Defaults() Settings {
	return Settings{
		Enabled: true, Remediation: true, AutoApprove: []string{}, RequireHuman: []string{"*"}, OnUnknown: UnknownEscalate,
		MaxAuto: 3, CooldownSeconds: 60, OnCooldown: CooldownEscalate, AskBelow: action.Medium, MaxTimeoutSeconds: 900,
		Guard: GuardScripts, Network: NetworkFull, EnvPassthrough: []string{}, Entries: map[string]EntrySettings{},
		Sandbox: Sandbox{Caches: []string{}}, Tests: []PolicyTest{},
	}
}

// Cooldown returns the minimum time between two automatic recoveries.
func (s Settings) Cooldown() time.Duration { return time.Duration(s.CooldownSeconds) * time.Second }

// MaxTimeout returns the longest timeout that a proposal may ask for.
func (s Settings) MaxTimeout() time.Duration { return time.Duration(s.MaxTimeoutSeconds) * time.Second }

// NetworkOf returns the network setting with which a command runs: full or none.
func (s Settings) NetworkOf(command string) string {
	if n := s.Entries[command].Network; n != "" && slices.Contains(s.AutoApprove, command) {
		return n
	}
	return s.Network
}
