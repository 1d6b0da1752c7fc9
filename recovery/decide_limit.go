package recovery

import (
	"fmt"
	"time"

	"github.com/superloop/superloop/recovery/action"
)

// Budget is what a run has spent so far. It must be kept where an agent cannot reset it.
type Budget struct {
	Used     int       // counts the automatic recoveries that this run has begun
	Last     time.Time // when the last one began; zero: none did
	Rejected int       // counts how often people have refused this very proposal in this run
	// Waits: the cooldown is waited out whatever the policy says of it. Waiting is
	// stricter than running, and asking a person helps nobody who has only to wait.
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
