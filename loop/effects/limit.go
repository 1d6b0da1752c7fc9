package effects

import (
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/roles/agent"
	"github.com/superloop/superloop/roles/agent/class"
	"github.com/superloop/superloop/roles/agent/cooldown"
)

// leastWait is the shortest wait for a limit: a reset time that is just over,
// or a clock that is a little off, must not become a storm of requests.
const leastWait = time.Second

// coolingDown reports whether the account that the role of e draws on is known to be
// limited, by whichever loop of this machine met that.
func (r *Runners) coolingDown(e loop.Effect, s loop.State, role config.Role, account agent.Account) (loop.Fact, bool) {
	c, ok, err := r.Cooldowns.Get(account)
	if err != nil {
		r.Log.Warn("what is known of limits cannot be read; the runner will tell", zap.Error(err))
	}
	if !ok {
		return nil, false
	}
	until := r.later(s, c.Until)
	return loop.Limited{Of: loop.To(e), Role: role.Name, Runner: role.Runner, Class: string(c.Class), Source: loop.SourceShared, By: c.By,
		LimitFact: loop.LimitFact{Provider: account.Provider, Account: account.ID, Kind: c.Kind, Text: c.Text, Until: until, Strikes: c.Strikes, SharedUntil: c.Until.UTC().Truncate(time.Millisecond)}}, true
}

// later is a little after a time, another little for every loop, so that they do not all come back in the same instant.
func (r *Runners) later(s loop.State, at time.Time) time.Time {
	now := r.Now(s)
	wait := max(at.Sub(now), leastWait)
	return now.Add(cooldown.Jitter(wait, r.Random)).Truncate(time.Millisecond)
}

// meetLimit works out until when to wait for a limit that a run has met, and tells the other loops.
func (r *Runners) meetLimit(s loop.State, account agent.Account, l agent.Learned) loop.LimitFact {
	known, _, err := r.Cooldowns.Get(account)
	if err != nil {
		r.Log.Warn("what is known of limits cannot be read", zap.Error(err))
	}
	c := cooldown.Cooldown{Account: account, Class: l.Class, Text: l.ErrorText, SetAt: r.Now(s),
		Strikes: known.Strikes + 1, By: r.LoopID + " in " + r.Paths.Repo}
	c.Until = c.SetAt.Add(cooldown.Backoff(c.Class, c.Strikes))
	f := loop.LimitFact{Provider: account.Provider, Account: account.ID, Strikes: c.Strikes}
	if l.Limit != nil {
		c.Kind = l.Limit.Kind
		if c.Text == "" {
			c.Text = l.Limit.Text
		}
		if l.Limit.ResetsAt.After(c.SetAt) {
			f.ResetsAt = l.Limit.ResetsAt.UTC()
			c.Until, c.Told = f.ResetsAt, true
		}
	}
	f.Kind, f.Text, f.Until = c.Kind, c.Text, r.later(s, c.Until)
	if err := r.Cooldowns.Set(c); err != nil {
		r.Log.Warn("other loops could not be told of the limit", zap.Error(err))
		return f
	}
	f.SharedUntil = c.Until.UTC().Truncate(time.Millisecond)
	return f
}

// works forgets what was known of an account's limits.
func (r *Runners) works(account agent.Account) {
	if err := r.Cooldowns.Succeeded(account); err != nil {
		r.Log.Warn("what was known of limits could not be forgotten", zap.Error(err))
	}
}

// loginFix is what a human types, or does, so that the runner works again.
func loginFix(name string, runner config.Runner, failure class.Class) string {
	login := agent.For(agent.CLI{Command: runner.Command, Adapter: runner.Adapter}).Profile().Login
	if failure == class.Billing {
		return "add credit to the account of runner " + name
	}
	if login == "" {
		return fmt.Sprintf("log in with %s, or set its key", runner.Command[0])
	}
	return login
}
