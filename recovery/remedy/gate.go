package remedy

import (
	"slices"

	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/catalog"
)

// What happens with a plan.
const (
	GateAuto    = "auto"    // an option runs now
	GateRetry   = "retry"   // the failed command runs again, by itself
	GatePropose = "propose" // a command is put before an operator
	GateHuman   = "human"   // an operator is asked, and there is no command to put before them
	GateNone    = "none"    // nothing: the loop goes on, and what helps is what an agent changes
)

// Gate says what would happen with a plan under a policy, and with which option; for human and none the option may be
// nil. It looks at nothing but its arguments: the input guard, the sandbox, the budget and the cool-down come
// afterwards and can only make it stricter. A nil policy lists nothing.
//
// A plain retry needs no listing, since it runs what the loop runs anyway, and it comes before all that changes
// something; the cheapest remedy first. A chain's general approach does not run while what a handler recommends was not
// tried: it knows the failure better.
func Gate(p *Plan, policy *recovery.Policy) (string, *Option) {
	if p.Failure.Code {
		return GateNone, nil
	}
	if o := p.retry(); o != nil && !p.Options[0].pressing {
		return GateRetry, o
	}
	personFirst := len(p.Options) > 0 && p.Options[0].Recommended && p.Options[0].Executor == catalog.ByHuman
	particular := len(p.Options) > 0 && p.Options[0].Recommended && p.Options[0].From.Kind == FromHandler
	var propose *Option
	for i := range p.Options {
		o := &p.Options[i]
		if o.Executor != catalog.ByWrapper || o.Availability == Impossible || o.Plain() || o.Command == "" {
			continue
		}
		v := decide(policy, o)
		free := ByItselfUnlocked(*o, p.Failure)
		free = free && (o.From.Kind != FromChain || o.Recommended || !particular && !p.advised)
		switch {
		case free && v.Decision == action.Auto && !(personFirst && o.proposal == nil):
			return GateAuto, o
		case v.Decision == action.Deny || v.Decision == action.Invalid || o.Demoted != "":
		case propose == nil:
			propose = o
		}
	}
	switch {
	case personFirst:
		return GateHuman, &p.Options[0]
	case p.advised, propose == nil && !p.category.Infra && len(p.Hints) > 0:
		return GateNone, nil // an agent can do something about it, and is told so
	case propose != nil:
		return GatePropose, propose
	}
	for i := range p.Options {
		if o := &p.Options[i]; o.Executor == catalog.ByHuman {
			return GateHuman, o
		}
	}
	return GateHuman, nil
}

// decide judges what an option would run: its command or, where that needs others first, each of them and its own, of
// which the strictest verdict counts.
func decide(policy *recovery.Policy, o *Option) recovery.Verdict {
	texts := []string{o.Command}
	if own := o.OwnCommand(); o.Availability == Locked && own != "" {
		texts = texts[:0]
		for _, need := range o.UnlockPreview {
			if need.GoalKey != o.GoalKey { // to have that is what the option itself is for
				texts = append(texts, need.Command)
			}
		}
		texts = append(texts, own)
	}
	rank := []action.Decision{action.Auto, action.Human, action.Deny, action.Invalid}
	var worst recovery.Verdict
	for i, text := range texts {
		v := recovery.Decide(policy, recovery.Command{Text: text, WorkingDir: o.WorkingDir}, recovery.Facts{Confined: true, LooseOK: true})
		if i == 0 || slices.Index(rank, v.Decision) > slices.Index(rank, worst.Decision) {
			worst = v
		}
	}
	return worst
}

// retry is the plain retry that may happen by itself: of what goes by itself, or of what nobody knows, as often as the
// category says.
func (p *Plan) retry() *Option {
	f := &p.Failure
	if len(p.category.Retry) == 0 || f.Persistence != "transient" && f.Category != "unknown" {
		return nil
	}
	for i := range p.Options {
		o := &p.Options[i]
		if ok, _ := ByItself(*o, *f); ok && o.Plain() {
			return o
		}
	}
	return nil
}
