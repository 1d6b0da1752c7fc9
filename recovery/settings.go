package recovery

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/superloop/superloop/recovery/action"
)

// Values of settings.
const (
	UnknownEscalate = "escalate"
	UnknownDeny     = "deny"
	UnknownAllow    = "allow"

	CooldownEscalate = "escalate"
	CooldownWait     = "wait"

	GuardScripts = "scripts"
	GuardStrict  = "strict"
	GuardOff     = "off"

	NetworkFull = "full"
	NetworkNone = "none"
)

// DefaultTimeout is how long a command may run that asks for nothing.
const DefaultTimeout = 120 * time.Second

// Settings are the keys of the recovery section with every default filled in.
type Settings struct {
	Enabled bool `json:"enabled"` // false when there is no section at all
	// Remediation has rules look at failing tests before an agent does, and run what they know and the policy lets run.
	Remediation bool `json:"first_aid"`
	// AutoApprove are the commands that run without an operator, byte for byte.
	AutoApprove  []string `json:"auto_approve"`
	RequireHuman []string `json:"require_human"` // the patterns that always need an operator
	// OnUnknown is escalate, deny or allow; anything else is taken as escalate.
	OnUnknown       string `json:"on_unknown"`
	MaxAuto         int    `json:"max_auto_recoveries_per_run"` // bounds the automatic recoveries of one run
	CooldownSeconds int    `json:"cooldown_seconds"`            // the least time between two of them
	OnCooldown      string `json:"on_cooldown"`
	// StrictRequireHuman lets every pattern win over a listing.
	StrictRequireHuman bool `json:"strict_require_human"`
	// AllowPrivileged lets a listed command use sudo and its kin.
	AllowPrivileged   bool `json:"allow_privileged"`
	MaxTimeoutSeconds int  `json:"max_timeout_seconds"` // bounds what a proposal may ask for
	// Guard says what of a listed command's inputs may not change: scripts, strict or off.
	Guard          string   `json:"guard"`
	Sandbox        Sandbox  `json:"sandbox"`
	Network        string   `json:"network"` // full or none; see NetworkOf
	EnvPassthrough []string `json:"env_passthrough"`
	// Entries holds what is special about single commands of AutoApprove.
	Entries map[string]EntrySettings `json:"entries"`
	Tests   []PolicyTest             `json:"tests"` // the policy's own tests
}

// Sandbox is what confines recovery commands.
type Sandbox struct {
	Required bool `json:"required"` // without a sandbox nothing runs automatically
	// Caches are directories outside the repository that can be written: absolute, or beginning with "~/".
	Caches []string `json:"caches"`
}

// EntrySettings is what is special about one entry of auto_approve.
type EntrySettings struct {
	Network string `json:"network"` // full or none; "" is what the section says
}

// PolicyTest is a command and the verdict that the policy must give.
type PolicyTest struct {
	Command    string          `json:"command"`
	WorkingDir string          `json:"working_dir,omitempty"`
	Expect     action.Decision `json:"expect"`
}

// Defaults are the settings of a section that is there but empty.
func Defaults() Settings {
	return Settings{
		Enabled: true, Remediation: true, AutoApprove: []string{}, RequireHuman: []string{"*"}, OnUnknown: UnknownEscalate,
		MaxAuto: 3, CooldownSeconds: 60, OnCooldown: CooldownEscalate, MaxTimeoutSeconds: 900,
		Guard: GuardScripts, Network: NetworkFull, EnvPassthrough: []string{}, Entries: map[string]EntrySettings{},
		Sandbox: Sandbox{Caches: []string{}}, Tests: []PolicyTest{},
	}
}

// Cooldown is the least time between two automatic recoveries.
func (s Settings) Cooldown() time.Duration { return time.Duration(s.CooldownSeconds) * time.Second }

// MaxTimeout bounds what a proposal may ask for.
func (s Settings) MaxTimeout() time.Duration { return time.Duration(s.MaxTimeoutSeconds) * time.Second }

// NetworkOf is the network that a command runs with: full or none.
func (s Settings) NetworkOf(command string) string {
	if n := s.Entries[command].Network; n != "" && slices.Contains(s.AutoApprove, command) {
		return n
	}
	return s.Network
}

// digest is the SHA-256, in hex, of the settings as canonical JSON: every default written out, keys sorted, no white
// space, nothing escaped that need not be.
func (s Settings) digest() (string, error) {
	first, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("writing the policy: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(first))
	dec.UseNumber()
	var plain any
	if err := dec.Decode(&plain); err != nil {
		return "", fmt.Errorf("reading the policy back: %w", err)
	}
	// A key that came later and is at its default is left out, so that a digest outlives the release that brought the
	// key.
	if m, ok := plain.(map[string]any); ok && s.Remediation {
		delete(m, "first_aid")
	}
	var canonical bytes.Buffer
	enc := json.NewEncoder(&canonical)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(plain); err != nil { // a map is written with its keys sorted
		return "", fmt.Errorf("writing the policy: %w", err)
	}
	sum := sha256.Sum256(bytes.TrimSuffix(canonical.Bytes(), []byte("\n")))
	return hex.EncodeToString(sum[:]), nil
}
