// Package recovery judges the command that a tester proposes. The package reads the proposal (recovery.json) and the
// policy (the recovery section of config.json). Decide is a pure function from policy, command and facts to a verdict
// with its rule and its reason.
//
// Three rules hold the package together:
//
//   - A command runs without an operator only if its bytes are those of an entry of auto_approve, or if on_unknown is
//     "allow" and nothing else demands an operator. Neither the command nor the entry is trimmed, folded or normalised.
//   - Analyse parses the command as bash would. The analysis can turn "auto" into "human" and say why. It never grants
//     anything. A construct that Analyse does not understand is called opaque.
//   - Any internal failure (a faulty policy, a panic) becomes a question to the operator.
//
// This package runs no command. superloop executes the bytes that Decide judged, never a command that was printed back
// from its parsed form.
//
// require_human only catches the usual spellings, because a command can reach a program in more ways than any list of
// patterns names. The protection comes from auto_approve, and from the sandbox in which commands run.
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

// Decide judges a command. Decide is pure and total: the same arguments always give the same verdict, any arguments are
// allowed, and Decide never panics.
//
// The first of these rules that applies decides ("listed" means: an entry of auto_approve):
//
//  1. no command, NUL, not UTF-8, too long and not listed    -> invalid
//  2. the working directory is none of the repository       -> invalid
//  3. listed, but privileged without allow_privileged        -> human
//  4. listed, and named by an entry of require_human without
//     '*', or require_human has the same text                -> human
//  5. listed, and a pattern of require_human fits, and
//     strict_require_human is set                            -> human
//  6. listed, and a pinned input has changed, or the policy
//     requires a sandbox and there is none, or its proposer
//     is less sure than ask_below_confidence                 -> human
//     listed otherwise                                       -> auto
//  7. a pattern of require_human fits                        -> human
//  8. on_unknown: escalate -> human, deny -> deny, allow -> auto. With allow the
//     verdict is human if the command is privileged, if it touches superloop's own
//     files, if it is opaque or runs a program of the repository and there are
//     patterns, if allow was not accepted here, if a required sandbox is missing, or if the proposer is too
//     unsure.
//  9. anything else                                          -> human
//
// The caller passes the verdict to Limit, which can only make it stricter.
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

// Listed returns the index of a command in auto_approve. Listed compares bytes. A nil Policy lists nothing.
func (p *Policy) Listed(command string) (int, bool) {
	if p == nil {
		return 0, false
	}
	i, ok := p.listed[command]
	return i, ok
}

// unusable returns the rule and the reason why a text cannot be a command at all, or two empty strings.
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

// shown prepares foreign text for a reason: shortened, and safe to print.
func shown(s string) string { return text.Display(clip(s)) }

// decision holds the arguments and the result of one call of Decide.
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
	if !d.confined() || !d.certain() {
		return
	}
	d.say(action.Auto, RuleAutoApprove, "", "it stands in auto_approve, byte for byte (entry %d)", entry+1)
}

// confined returns false, and sets verdict human, when the policy requires a sandbox and commands are not confined.
func (d *decision) confined() bool {
	if d.Settings.Sandbox.Required && !d.facts.Confined {
		d.say(action.Human, RuleSandbox, "", "sandbox.required is set, and commands are not confined here")
		return false
	}
	return true
}

// certain returns false, and sets verdict human, when the proposer of the command is less sure than the policy wants.
func (d *decision) certain() bool {
	if action.Below(d.Confidence, d.Settings.AskBelow) {
		d.say(action.Human, RuleConfidence, "", "whoever proposes it is unsure (confidence %s), and ask_below_confidence is %s", d.Confidence, d.Settings.AskBelow)
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

// allow applies on_unknown "allow" to a command that no list names: the command runs if the analysis shows what it
// runs.
func (d *decision) allow() {
	switch {
	case d.a.Privileged != "":
		d.say(action.Human, RulePrivileged, d.a.Privileged, "it is not listed, and it runs with other rights: %s", shown(d.a.Privileged))
	case d.a.State != "":
		d.say(action.Human, RuleState, d.a.State, "it is not listed, and it touches superloop's own files: %s", shown(d.a.State))
	case len(d.a.Opaque) > 0 && len(d.patterns) > 0:
		o := d.a.Opaque[0]
		d.say(action.Human, RuleOpaque, o.Part, "it is not listed, and what it runs cannot be compared with require_human: %s", o.Why)
	case len(d.a.Own) > 0 && len(d.patterns) > 0:
		o := d.a.Own[0]
		d.say(action.Human, RuleOpaque, o.Part, "it is not listed, and nobody can compare a program of the repository with require_human: %s", o.Why)
	case !d.facts.LooseOK:
		d.say(action.Human, RuleLoose, "", "no list names it, and on_unknown is allow, but nothing confines commands here and nobody has accepted that")
	case d.confined() && d.certain():
		d.say(action.Auto, RuleUnknown, "", "no list names it, and on_unknown is allow")
	}
}

// hit compares a pattern with each part of the command and with the whole text. hit returns the part that fits best.
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

// Budget holds what a run has spent so far. The caller must keep it where an agent cannot reset it.
type Budget struct {
	Used     int       // counts the automatic recoveries that this run has begun
	Last     time.Time // the time at which the last automatic recovery began; zero if none did
	Rejected int       // counts how often operators have rejected this proposal in this run
	// Waits makes Limit wait for the end of the cooldown, whatever on_cooldown says. Waiting is stricter than running,
	// and a question to an operator would not help here.
	Waits bool
}

// Limit applies the limits that do not depend on the command: whether recovery is enabled, the budget, the cooldown,
// and the number of rejections by operators. Limit can only make a verdict stricter: auto becomes human (or auto with a
// NotBefore), human becomes deny.
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

// These names of rules say which rule made a verdict. Programs read them; people read Verdict.Reason.
const (
	RuleBlank       = "blank"          // invalid: the text is blank
	RuleNUL         = "nul"            // invalid: bash would cut the command at the NUL
	RuleEncoding    = "encoding"       // invalid: not UTF-8
	RuleTooLong     = "too_long"       // invalid: longer than MaxCommand and not listed
	RuleWorkingDir  = "working_dir"    // invalid: the working directory is not a directory of the repository
	RulePrivileged  = "privileged"     // human: the command uses sudo or a similar program
	RuleConflict    = "conflict"       // human: listed, but require_human names the command literally
	RuleAutoApprove = "auto_approve"   // auto: listed
	RuleGuard       = "guard"          // human: listed, but a pinned input of the command has changed
	RuleHuman       = "require_human"  // human: a pattern of require_human fits
	RuleUnknown     = "on_unknown"     // human, deny or auto: no list names the command
	RuleOpaque      = "opaque"         // human: on_unknown is allow, but the analysis cannot tell what the command runs
	RuleState       = "wrapper_state"  // human: on_unknown is allow, but the command touches superloop's own files
	RuleLoose       = "loose"          // human: on_unknown is allow where nothing confines commands
	RuleInternal    = "internal"       // human: there is no policy, the policy is faulty, or the decision failed
	RuleDisabled    = "disabled"       // human: recovery is not enabled
	RuleSandbox     = "sandbox"        // human: sandbox.required is set, and commands are not confined
	RuleConfidence  = "confidence"     // human: the proposer is less sure than ask_below_confidence
	RuleBudget      = "budget"         // human: max_auto_recoveries_per_run is used up
	RuleCooldown    = "cooldown"       // human: the last automatic recovery began too recently
	RuleRejected    = "rejected_twice" // deny: operators have rejected the proposal twice in this run
)

// These constants bound the sizes of commands, in bytes.
const (
	MaxCommand = 8 << 10  // the longest command that Decide judges unless the command is listed
	MaxEntry   = 64 << 10 // the longest entry of auto_approve
)

// Command is the command that Decide judges.
type Command struct {
	Text       string // the bytes that bash would get
	WorkingDir string // WorkingDir is the requested directory; "" is ".". Decide only shows it.
	// DirProblem says why WorkingDir is not a directory inside the repository (see workdir.Root), or is "".
	DirProblem string
	Confidence string // how sure the proposer is: high, medium, low; "" when nobody has said it
}

// Facts are the facts about the world that Decide needs. The zero value knows nothing and gives the strictest verdicts.
type Facts struct {
	// LooseOK permits on_unknown "allow" to run a command that no list names. It is true when commands are confined
	// here, or when an operator has accepted that they are not.
	LooseOK  bool
	Confined bool // commands run in a sandbox (sandbox.required asks for this)
	// Changed names the pinned input of the command that has changed since an operator trusted it, or is "".
	Changed string
}

// Verdict is the result of Decide.
type Verdict struct {
	Decision action.Decision `json:"verdict"`
	Rule     string          `json:"rule"`
	// Reason is one sentence for an operator, in printable ASCII. Quoted text in it went through text.Display.
	Reason string `json:"reason"`
	// Part is the part of the command that the rule is about, or "". It is foreign text, to be shown through
	// text.Display.
	Part    string `json:"part"`
	Entry   int    `json:"entry"`   // the index of the command in auto_approve, -1 if it is not listed
	Pattern int    `json:"pattern"` // the index of the pattern in require_human that decided, or -1
	// NotBefore is the earliest start of an automatic recovery (on_cooldown "wait"); zero permits an immediate start.
	NotBefore    time.Time `json:"not_before,omitzero"`
	PolicyDigest string    `json:"policy_digest"` // the digest of the policy that decided
	// Analysis is the analysis of the command; nil when Decide did not analyse it, such as an invalid command.
	Analysis *Analysis `json:"analysis,omitempty"`
}
