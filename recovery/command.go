package recovery

import (
	"time"

	"github.com/superloop/superloop/recovery/action"
)

// Rules: which rule made a verdict. For programs; people read Reason.
const (
	RuleBlank       = "blank"          // invalid: no command
	RuleNUL         = "nul"            // invalid: bash would cut the command there
	RuleEncoding    = "encoding"       // invalid: not UTF-8
	RuleTooLong     = "too_long"       // invalid: over MaxCommand and not listed
	RuleWorkingDir  = "working_dir"    // invalid: it does not lead to a directory of the repository
	RulePrivileged  = "privileged"     // human: sudo and its kin
	RuleConflict    = "conflict"       // human: listed, and named literally by require_human
	RuleAutoApprove = "auto_approve"   // auto: listed
	RuleGuard       = "guard"          // human: listed, but what it reads has changed
	RuleHuman       = "require_human"  // human: a pattern
	RuleUnknown     = "on_unknown"     // human, deny or auto: no list names it
	RuleOpaque      = "opaque"         // human: on_unknown is allow, but nobody can tell what it runs
	RuleState       = "wrapper_state"  // human: on_unknown is allow, but it touches superloop's own files
	RuleLoose       = "loose"          // human: on_unknown is allow where nothing confines commands
	RuleInternal    = "internal"       // human: the policy is none, or the decision failed
	RuleDisabled    = "disabled"       // human: recovery is not enabled
	RuleSandbox     = "sandbox"        // human: sandbox.required, and there is none
	RuleBudget      = "budget"         // human: max_auto_recoveries_per_run is used up
	RuleCooldown    = "cooldown"       // human: too soon after the last one
	RuleRejected    = "rejected_twice" // deny: people have refused it twice in this run
)

// Sizes of commands, in bytes.
const (
	MaxCommand = 8 << 10  // the longest command that is judged unless it is listed
	MaxEntry   = 64 << 10 // the longest entry of auto_approve
)

// Command is what is to be judged.
type Command struct {
	Text string // what bash would get, byte for byte
	// WorkingDir is the directory that was asked for; "" is ".". It is only shown.
	WorkingDir string
	// DirProblem says why WorkingDir does not lead to a directory inside the repository (see workdir.Root); "" means
	// that it does.
	DirProblem string
}

// Facts are what the decision needs to know of the world. The zero value knows nothing and is the strictest.
type Facts struct {
	// LooseOK: a command that no list names may run by on_unknown "allow", since commands are confined here or an
	// operator has accepted that they are not.
	LooseOK  bool
	Confined bool // commands run in a sandbox (for sandbox.required)
	// Changed is what the comparison of the pinned inputs found: what the command reads and what of it is not as it was
	// trusted; "" when nothing is.
	Changed string
}

// Verdict is what Decide says.
type Verdict struct {
	Decision action.Decision `json:"verdict"`
	Rule     string          `json:"rule"`
	// Reason is one sentence for an operator. It is printable ASCII: what it quotes of the command is written as by
	// text.Display.
	Reason string `json:"reason"`
	// Part is the part of the command that the rule is about, or "". It is the command's own text: show it by
	// text.Display.
	Part    string `json:"part"`
	Entry   int    `json:"entry"`   // the place of the command in auto_approve, -1 if it is not listed
	Pattern int    `json:"pattern"` // the place of the pattern in require_human that decided, or -1
	// NotBefore is when an automatic recovery may begin (on_cooldown "wait"); zero: at once.
	NotBefore    time.Time `json:"not_before,omitzero"`
	PolicyDigest string    `json:"policy_digest"` // the digest of the policy that decided
	// Analysis is what was understood of the command; nil when it was not read.
	Analysis *Analysis `json:"analysis,omitempty"`
}
