// Package recovery judges what a tester proposes. It reads the proposal (recovery.json), reads the policy (the recovery
// section of config.json), and decides: Decide is a pure function from policy, command and facts to a verdict with its
// rule and its reason.
//
// Three rules hold the package together:
//
//   - A command runs without an operator only if its bytes are those of an entry of auto_approve (or if nobody is asked
//     at all: on_unknown "allow"). Neither side is trimmed, folded or normalised.
//   - Analysis, which parses the command as bash would, can turn "auto" into "human" and say why; it never grants
//     anything. What it does not understand it calls opaque.
//   - Whatever goes wrong inside (an odd policy, a panic) is a question for the operator.
//
// Nothing here runs a command, and a command is never printed back from its parsed form: what is executed are the bytes
// that were judged.
//
// require_human is a tripwire, not a wall: a program can be reached in more ways than any list of patterns names. The
// wall is auto_approve, and the sandbox below it.
package recovery

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/action"
)

// Decide judges a command. It is pure and total: the same arguments give the same verdict, whatever they are, and it
// never panics.
//
// The order of the rules, the first that applies decides:
//
//  1. no command, NUL, not UTF-8, too long and not listed    -> invalid
//  2. a working directory that leads nowhere or out          -> invalid
//  3. listed, but privileged without allow_privileged        -> human
//  4. listed, and named by an entry of require_human without
//     '*', or the same text stands there                     -> human
//  5. listed, and strict_require_human has a pattern for it  -> human
//  6. listed: auto, unless a pinned input has changed        -> human
//  7. a pattern of require_human                             -> human
//  8. on_unknown: escalate -> human, deny -> deny; allow -> auto, unless it is
//     privileged, touches superloop's own files, may run what nobody sees while
//     there are patterns, or allow was not accepted here     -> human
//  9. anything else                                          -> human
//
// Limit comes after it, and can only make the verdict stricter.
func Decide(p *Policy, c Command, f Facts) (v Verdict) {
	v = Verdict{Decision: action.Human, Rule: RuleInternal, Entry: -1, Pattern: -1}
	defer func() {
		if e := recover(); e != nil {
			v.Decision, v.Rule = action.Human, RuleInternal
			v.Reason = "the decision failed (" + shown(fmt.Sprint(e)) + "), so an operator decides"
		}
	}()
	if p == nil {
		v.Reason = "there is no policy, so an operator decides"
		return v
	}
	v.PolicyDigest = p.Digest
	if rule, reason := p.unusable(c); rule != "" {
		v.Decision, v.Rule, v.Reason = action.Invalid, rule, reason
		return v
	}
	d := decision{Policy: p, Command: c, facts: f, a: Analyse(c.Text), out: &v}
	v.Analysis = d.a
	if i, ok := p.Listed(c.Text); ok {
		v.Entry = i
		d.listed(i)
	} else {
		d.unlisted()
	}
	return v
}

// unusable says why a text cannot be a command at all.
func (p *Policy) unusable(c Command) (rule, reason string) {
	switch {
	case len(c.Text) > MaxEntry:
		return RuleTooLong, fmt.Sprintf("the command has %d bytes; at most %d are judged", len(c.Text), MaxCommand)
	case strings.TrimSpace(c.Text) == "":
		return RuleBlank, "the command is blank"
	case strings.IndexByte(c.Text, 0) >= 0:
		return RuleNUL, "the command holds a NUL character, where bash would cut it"
	case !utf8.ValidString(c.Text):
		return RuleEncoding, "the command is not UTF-8 text"
	}
	if _, ok := p.Listed(c.Text); !ok && len(c.Text) > MaxCommand {
		return RuleTooLong, fmt.Sprintf("the command has %d bytes and is not listed; at most %d are judged", len(c.Text), MaxCommand)
	}
	if c.DirProblem != "" {
		return RuleWorkingDir, text.Display(c.DirProblem)
	}
	return "", ""
}

// shown is foreign text in a reason: short, and safe.
func shown(s string) string { return text.Display(clip(s)) }

// decision is one run of Decide.
type decision struct {
	*Policy
	Command
	facts Facts
	a     *Analysis
	out   *Verdict
}

func (d *decision) say(what action.Decision, rule, part, format string, args ...any) {
	d.out.Decision, d.out.Rule, d.out.Part = what, rule, part
	d.out.Reason = fmt.Sprintf(format, args...)
}

func (d *decision) listed(entry int) {
	if d.a.Privileged != "" && !d.Settings.AllowPrivileged {
		d.say(action.Human, RulePrivileged, d.a.Privileged, "it is listed, but it runs with other rights (%s), and allow_privileged is not set", shown(d.a.Privileged))
		return
	}
	if i := slices.Index(d.Settings.RequireHuman, d.Text); i >= 0 {
		d.out.Pattern = i
		d.say(action.Human, RuleConflict, d.Text, "it stands in auto_approve and, in the same words, in require_human")
		return
	}
	for i := range d.patterns {
		pat := &d.patterns[i]
		if !pat.literal && !d.Settings.StrictRequireHuman {
			continue
		}
		part, fit := d.hit(pat)
		switch {
		case fit == sure && pat.literal:
			d.out.Pattern = i
			d.say(action.Human, RuleConflict, part, "it stands in auto_approve, but require_human names it, or a part of it, literally: \"%s\"", shown(pat.text))
			return
		case fit != no && d.Settings.StrictRequireHuman:
			d.out.Pattern = i
			d.say(action.Human, RuleHuman, part, "it stands in auto_approve, but the pattern \"%s\" of require_human fits it, and strict_require_human is set", shown(pat.text))
			return
		}
	}
	if d.facts.Changed != "" && d.Settings.Guard != GuardOff {
		d.say(action.Human, RuleGuard, "", "it is listed, but what it reads is not what it was: %s", text.Display(d.facts.Changed))
		return
	}
	if !d.confined() {
		return
	}
	d.say(action.Auto, RuleAutoApprove, "", "it stands in auto_approve, byte for byte (entry %d)", entry+1)
}

// confined says no when the policy wants a sandbox and there is none.
func (d *decision) confined() bool {
	if d.Settings.Sandbox.Required && !d.facts.Confined {
		d.say(action.Human, RuleSandbox, "", "sandbox.required is set, and commands are not confined here")
		return false
	}
	return true
}

func (d *decision) unlisted() {
	for i := range d.patterns {
		pat := &d.patterns[i]
		part, fit := d.hit(pat)
		if fit == no {
			continue
		}
		d.out.Pattern = i
		switch {
		case pat.all:
			d.say(action.Human, RuleHuman, part, "it is not listed in auto_approve, and require_human has \"%s\", which is everything", shown(pat.text))
		case fit == maybe:
			d.say(action.Human, RuleHuman, part, "the pattern \"%s\" of require_human may fit it: what bash puts into it is not known", shown(pat.text))
		default:
			d.say(action.Human, RuleHuman, part, "the pattern \"%s\" of require_human fits it", shown(pat.text))
		}
		return
	}
	switch d.Settings.OnUnknown {
	case UnknownEscalate:
		d.say(action.Human, RuleUnknown, "", "no list names it, and on_unknown is escalate")
	case UnknownDeny:
		d.say(action.Deny, RuleUnknown, "", "no list names it, and on_unknown is deny")
	case UnknownAllow:
		d.allow()
	default:
		d.say(action.Human, RuleInternal, "", "no list names it, and on_unknown is \"%s\", which is none of escalate, deny and allow", shown(d.Settings.OnUnknown))
	}
}

// allow is on_unknown "allow": everything that is not asked for above runs, if it can be seen what that is.
func (d *decision) allow() {
	switch {
	case d.a.Privileged != "":
		d.say(action.Human, RulePrivileged, d.a.Privileged, "it is not listed, and it runs with other rights: %s", shown(d.a.Privileged))
	case d.a.State != "":
		d.say(action.Human, RuleState, d.a.State, "it is not listed, and it touches superloop's own files: %s", shown(d.a.State))
	case len(d.a.Opaque) > 0 && len(d.patterns) > 0:
		o := d.a.Opaque[0]
		d.say(action.Human, RuleOpaque, o.Part, "it is not listed, and what it runs cannot be compared with require_human: %s", o.Why)
	case !d.facts.LooseOK:
		d.say(action.Human, RuleLoose, "", "no list names it, and on_unknown is allow, but nothing confines commands here and nobody has accepted that")
	case d.confined():
		d.say(action.Auto, RuleUnknown, "", "no list names it, and on_unknown is allow")
	}
}

// hit compares a pattern with each part of the command and with the whole text, and gives the part that fits best.
func (d *decision) hit(pat *pattern) (part string, best match) {
	if pat.all {
		return d.Text, sure
	}
	for i := range d.a.Parts {
		fit := pat.of(&d.a.Parts[i])
		if fit > best {
			part, best = d.a.Parts[i].Text, fit
		}
		if best == sure {
			return part, best
		}
	}
	if pat.onText(d.Text, false) == sure {
		return d.Text, sure
	}
	return part, best
}

// Budget is what a run has spent so far. It must be kept where an agent cannot reset it.
type Budget struct {
	Used     int       // counts the automatic recoveries that this run has begun
	Last     time.Time // when the last one began; zero: none did
	Rejected int       // counts how often people have refused this very proposal in this run
	// Waits: the cooldown is waited out whatever the policy says of it. Waiting is stricter than running, and asking an
	// operator helps nobody who has only to wait.
	Waits bool
}

// Limit applies what does not depend on the command: the master switch, the budget, the cooldown, and the patience of
// people. It can only make a verdict stricter: auto becomes human (or auto with a NotBefore), human becomes deny.
func Limit(p *Policy, v Verdict, b Budget, now time.Time) Verdict {
	stricter := func(to action.Decision, rule, format string, args ...any) Verdict {
		v.Decision, v.Rule, v.NotBefore = to, rule, time.Time{}
		v.Reason = fmt.Sprintf(format, args...) + "; else: " + v.Reason
		return v
	}
	switch {
	case v.Decision == action.Human && b.Rejected >= 2:
		return stricter(action.Deny, RuleRejected, "people have refused this proposal %d times in this run", b.Rejected)
	case v.Decision != action.Auto:
		return v
	case p == nil:
		return stricter(action.Human, RuleInternal, "there is no policy")
	case !p.Settings.Enabled:
		return stricter(action.Human, RuleDisabled, "recovery is not enabled in the config")
	case b.Used >= p.Settings.MaxAuto:
		return stricter(action.Human, RuleBudget, "this run has used its %d automatic recoveries", p.Settings.MaxAuto)
	}
	rest := p.Settings.Cooldown()
	if b.Last.IsZero() || rest <= 0 {
		return v
	}
	// A clock that was set back must not make the wait longer than the cooldown.
	if since := now.Sub(b.Last); since > 0 {
		rest -= since
	}
	switch {
	case rest <= 0:
		return v
	case b.Waits || p.Settings.OnCooldown == CooldownWait:
		v.NotBefore = now.Add(rest)
		return v
	}
	return stricter(action.Human, RuleCooldown, "the last automatic recovery began less than %d seconds ago", p.Settings.CooldownSeconds)
}

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
	Text       string // what bash would get, byte for byte
	WorkingDir string // WorkingDir is the directory that was asked for; "" is ".". It is only shown.
	// DirProblem says why WorkingDir is no directory inside the repository (see workdir.Root); "" where it is one.
	DirProblem string
}

// Facts are what the decision needs to know of the world. The zero value knows nothing and is the strictest.
type Facts struct {
	// LooseOK: a command that no list names may run by on_unknown "allow", since commands are confined here or an
	// operator has accepted that they are not.
	LooseOK  bool
	Confined bool // commands run in a sandbox (for sandbox.required)
	// Changed says what of the command's pinned inputs is not as it was trusted; "" when nothing is.
	Changed string
}

// Verdict is what Decide says.
type Verdict struct {
	Decision action.Decision `json:"verdict"`
	Rule     string          `json:"rule"`
	// Reason is one sentence for an operator, in printable ASCII: what it quotes went through text.Display.
	Reason string `json:"reason"`
	// Part is the part of the command that the rule is about, or "". It is foreign text: show it by text.Display.
	Part    string `json:"part"`
	Entry   int    `json:"entry"`   // the place of the command in auto_approve, -1 if it is not listed
	Pattern int    `json:"pattern"` // the place of the pattern in require_human that decided, or -1
	// NotBefore is when an automatic recovery may begin (on_cooldown "wait"); zero: at once.
	NotBefore    time.Time `json:"not_before,omitzero"`
	PolicyDigest string    `json:"policy_digest"` // the digest of the policy that decided
	// Analysis is what was understood of the command; nil when it was not read.
	Analysis *Analysis `json:"analysis,omitempty"`
}
