package plan

import (
	"slices"
	"time"
)

// remedyOf begins the goal of a level that is to fix what an option failed of.
const remedyOf = "option/"

// Begin notes down that a move is being carried out; it is to be on the disk before the command is started.
func (c *Chain) Begin(m Move, now time.Time) {
	c.UpdatedAt, c.Running = now, &m
	if m.Kind == Verify {
		return
	}
	c.Attempts++
	l := c.level()
	l.Due = time.Time{}
	if m.Kind == Run && l.Again && slices.Contains(c.Tried, m.Option) {
		l.Again = false
		return // the second time is no other option
	}
	c.Tried = append(c.Tried, m.Option)
}

// Succeeded: the command that was begun did what it was to do. Whether that helps the goal is known when the goal's own
// command has run again.
func (c *Chain) Succeeded(now time.Time) []Turn {
	if c.Status != Open || c.Running != nil && c.Running.Kind == Verify {
		return nil
	}
	again := c.Running != nil && c.Running.Above
	c.UpdatedAt, c.Running = now, nil
	l := *c.level()
	if l.Chosen != "" && !slices.Contains(c.Worked, l.Chosen) {
		c.Worked = append(c.Worked, l.Chosen)
	}
	if l.Depth == 1 {
		c.Verifying = true
		return nil
	}
	c.crumb(l, "done")
	c.Reached = append(c.Reached, l.Goal)
	c.Left = slices.DeleteFunc(c.Left, func(left Level) bool { return left.Goal == l.Goal })
	c.Levels = c.Levels[:len(c.Levels)-1]
	turns := []Turn{{Depth: l.Depth, Goal: l.Goal, Label: l.Label, Status: "done"}}
	if up := c.level(); again { // what is above has succeeded with it
		up.Again = false
		turns = append(turns, c.Succeeded(now)...)
	}
	return turns
}

// Failed: the command that was begun has failed, of f, for which there are options. What it failed of is fixed first
// where that may be; else the next option of its level is due.
func (c *Chain) Failed(text string, f Failure, options []Choice, now time.Time) []Turn {
	m := c.Running
	l := c.level()
	if m == nil || c.Status != Open || l.Chosen == "" || m.Kind == Verify {
		return nil
	}
	c.UpdatedAt, c.Running = now, nil
	o, _ := l.Option(l.Chosen)
	if len(o.WaitsMS) > 0 {
		c.waited(l, o, m.Command, text, f, options)
		return nil
	}
	goal := remedyOf + o.Key
	below := Level{Goal: goal, Label: o.Command, For: o.Key, Remedy: true, Depth: l.Depth + 1, Failure: f, Options: options}
	fresh := slices.ContainsFunc(options, func(n Choice) bool { return c.fresh(below, n) })
	if !fresh || slices.Contains(c.Reached, goal) {
		c.fail(l, text)
		return nil
	}
	if why := c.refuses(goal); why != "" {
		c.fail(l, text+" (what may fix that is not tried: "+why+")")
		return nil
	}
	c.blame(l.Depth, o, o.Command, text)
	l.Again = true
	return c.deeper(below)
}

// waited is what came of a command that ran once more: the same failure is waited for again, as often as the option
// says; another one is a step forward.
func (c *Chain) waited(l *Level, o Choice, command, text string, f Failure, options []Choice) {
	same := l.Failure.same(f)
	if l.Chosen != "" {
		c.blame(l.Depth, o, command, text)
	}
	if same && len(o.WaitsMS) > c.tries(o.Key) {
		return // it is due again, after a longer wait
	}
	c.take(l, Choice{})
	if !same {
		l.Failure, l.Options = f, options
	}
}

func (f Failure) same(g Failure) bool { return f.Signature == g.Signature && f.Handler == g.Handler }

// Skipped: the gate does not let the chosen option run by itself.
func (c *Chain) Skipped(why string, now time.Time) {
	l := c.level()
	if c.Status != Open || c.Running != nil || c.Verifying || l.Chosen == "" {
		return
	}
	c.UpdatedAt = now
	c.fail(l, "not run: "+why)
}

// Verified: the goal's command ran again. If it failed, f is what of and options what might fix that: the same failure
// has the next option, another one is a step forward, with options of its own.
func (c *Chain) Verified(ok bool, f Failure, options []Choice, now time.Time) {
	if c.Status != Open {
		return
	}
	c.UpdatedAt, c.Running, c.Verifying = now, nil, false
	c.leaveBelow(1)
	l := c.level()
	if ok {
		c.end(Done, "")
		return
	}
	text := "it did not help: the same failure"
	if !l.Failure.same(f) {
		text = "the command fails of something else now: " + f.Why
	}
	o, _ := l.Option(l.Chosen)
	c.waited(l, o, o.Command, text, f, options)
}
