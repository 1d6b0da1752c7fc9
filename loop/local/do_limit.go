package local

import (
	"context"
	"fmt"
	"time"

	"github.com/superloop/superloop/loop/control"

	"github.com/superloop/superloop/loop"

	"go.uber.org/zap"

	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/recovery/respond"
	"github.com/superloop/superloop/roles/agent"
	"github.com/superloop/superloop/roles/agent/class"
	"github.com/superloop/superloop/roles/agent/cooldown"
)

// leastWait is the shortest wait for a limit: a reset time that is just over,
// or a clock that is a little off, must not become a storm of requests.
const leastWait = time.Second

// coolingDown reports whether the account that the pending role draws on is
// known to be limited, by whichever loop of this machine met that.
func (d *driver) coolingDown(role config.Role, account agent.Account) (loop.Fact, bool) {
	c, ok, err := d.cooldowns.Get(account)
	if err != nil {
		d.log.Warn("what is known of limits cannot be read; the runner will tell", zap.Error(err))
	}
	if !ok {
		return nil, false
	}
	until := d.later(c.Until)
	return loop.Limited{Of: d.to(), Role: role.Name, Runner: role.Runner, Class: string(c.Class), Source: loop.SourceShared, By: c.By,
		LimitFact: loop.LimitFact{Provider: account.Provider, Account: account.ID, Kind: c.Kind, Text: c.Text, Until: until, Strikes: c.Strikes}}, true
}

// later is a little after a time, another little for every loop, so that they
// do not all come back in the same instant.
func (d *driver) later(at time.Time) time.Time {
	now := d.host.Now(d.state)
	wait := max(at.Sub(now), leastWait)
	return now.Add(cooldown.Jitter(wait, d.o.Random)).Truncate(time.Millisecond)
}

// meetLimit works out until when to wait for a limit that a run has met, and
// tells the other loops.
func (d *driver) meetLimit(account agent.Account, l agent.Learned) loop.LimitFact {
	known, _, err := d.cooldowns.Get(account)
	if err != nil {
		d.log.Warn("what is known of limits cannot be read", zap.Error(err))
	}
	c := cooldown.Cooldown{Account: account, Class: l.Class, Text: l.ErrorText, SetAt: d.host.Now(d.state),
		Strikes: known.Strikes + 1, By: d.o.LoopID + " in " + d.paths.Repo}
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
	f.Kind, f.Text, f.Until = c.Kind, c.Text, d.later(c.Until)
	if err := d.cooldowns.Set(c); err != nil {
		d.log.Warn("other loops could not be told of the limit", zap.Error(err))
	}
	return f
}

// accountWorks forgets what was known of limits.
func (d *driver) accountWorks(account agent.Account) {
	if err := d.cooldowns.Succeeded(account); err != nil {
		d.log.Warn("what was known of limits could not be forgotten", zap.Error(err))
	}
}

// loginFix is what a person types so that the role's runner works again.
func (d *driver) loginFix(role config.Role, failure class.Class) string {
	runner := d.o.Config.Runners[role.Runner]
	login := agent.For(agent.CLI{Command: runner.Command, Adapter: runner.Adapter}).Profile().Login
	if failure == class.Billing {
		return "add credit to the account of runner " + role.Runner
	}
	if login == "" {
		return fmt.Sprintf("log in with %s, or set its key", runner.Command[0])
	}
	return login
}

// wait sleeps until the effect's time, or until somebody wants something: a
// kick ends it, and so does the news that the limit it waits for is gone.
func (d *driver) wait(shutdown context.Context, e loop.Effect) (loop.Fact, error) {
	if in, ok := d.kick(); ok {
		d.intents[in.ID] = true
		if l := d.state.Limit; l != nil {
			if err := d.cooldowns.Clear(agent.Account{Provider: l.Provider, ID: l.Account}); err != nil {
				return nil, d.host.Full(err)
			}
		}
		if e.Role != "" {
			d.believed(e.Role)
		}
		return d.waited(e, loop.WaitOver{ID: e.ID, Reason: "kicked", By: in.By, IntentID: in.ID}), nil
	}
	if d.limitGone() {
		return d.waited(e, loop.WaitOver{ID: e.ID, Reason: "cleared"}), nil
	}
	if err := d.flushViews(); err != nil {
		return nil, err
	}
	timer := time.NewTimer(e.Until.Sub(d.host.Now(d.state)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return d.waited(e, loop.WaitOver{ID: e.ID}), nil
	case <-shutdown.Done():
	case <-d.look:
	case <-d.newConfig:
	}
	return nil, nil
}

// waited adds who can take the role now, where one waits for somebody.
func (d *driver) waited(e loop.Effect, f loop.WaitOver) loop.Fact {
	if l := d.state.Response.Ladder; l != nil && l.Phase == respond.Waiting && e.Role != "" {
		f.Candidates = d.candidates(d.roleConfig(e.Role))
	}
	return f
}

// limitGone reports whether the limit that the loop waits for was lifted before
// its time: by a kick of another loop, or because another one's run worked where
// the time was only a guess. The shared memory is only believed when it held the
// limit before.
func (d *driver) limitGone() bool {
	l := d.state.Limit
	if l == nil {
		d.cooling = time.Time{}
		return false
	}
	c, ok, err := d.cooldowns.Get(agent.Account{Provider: l.Provider, ID: l.Account})
	if ok || err != nil {
		d.cooling = c.Until
		return false
	}
	return d.host.Now(d.state).Before(d.cooling)
}

// kick is a person's wish not to wait.
func (d *driver) kick() (control.Intent, bool) {
	ins, _, _ := control.Submitted(d.paths) // takeIntents has reported what cannot be read
	for _, in := range ins {
		if d.kicks(in) {
			return in, true
		}
	}
	return control.Intent{}, false
}

// kicks reports whether in ends what the loop waits for.
func (d *driver) kicks(in control.Intent) bool {
	p := d.state.Pending
	return in.Kind == control.IntentKick && in.RunID == d.state.RunID && !d.intents[in.ID] &&
		p != nil && loop.Check(d.state, loop.Decision{Kind: loop.DecideRetryNow, RunID: in.RunID}) == nil
}
