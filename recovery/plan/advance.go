package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/recovery/action"
)

// Kind says what a move does.
type Kind string

// These are the kinds of moves. remedyOf begins the goal of a level that must fix the failure of an option.
const (
	remedyOf = "option/"

	Run    Kind = "run"    // run Command, if the policy permits it
	Retry  Kind = "retry"  // wait, then run the goal's command again
	Verify Kind = "verify" // run the goal's command again, to see whether the remedy has helped
	Stop   Kind = "stop"   // the chain has ended; see Status and Why
	Held   Kind = "held"   // a move was begun and its outcome is not known: an operator decides
)

// Move is the next action of a chain's walker.
type Move struct {
	Kind   Kind   `json:"kind"`
	Depth  int    `json:"depth,omitempty"`
	Option string `json:"option,omitempty"` // the key of the option
	ID     string `json:"id,omitempty"`     // the id of the option
	action.Draft
	WaitMS int64 `json:"wait_ms,omitempty"`
	Picked bool  `json:"picked,omitempty"` // Picked: an operator has chosen the option
	// Above says that the command is that of the option on the level above, which runs once more.
	Above bool `json:"above,omitempty"`
}

// Turn is a change of the stack of levels on the way to a move, for events.
type Turn struct {
	Pushed bool   `json:"pushed"`
	Depth  int    `json:"depth"`
	Goal   string `json:"goal"`
	Label  string `json:"label,omitempty"`
	Option string `json:"option,omitempty"` // the option that the level serves
	Status string `json:"status"`
}

// Advance brings the chain to its next move and returns the move. A second call without a change in between returns the
// same move and changes nothing.
func (c *Chain) Advance(now time.Time) (Move, []Turn) {
	var turns []Turn
	for {
		switch {
		case c.Status != Open:
			return Move{Kind: Stop}, turns
		case c.Running != nil:
			m := *c.Running
			m.Kind = Held
			return m, turns
		case c.Verifying:
			return Move{Kind: Verify, Depth: 1, Draft: action.Draft{Command: c.Goal.Command, WorkingDir: c.Goal.Dir}}, turns
		}
		l := c.level()
		if l.Chosen == "" && !c.choose(l) {
			c.UpdatedAt = now
			turns = append(turns, c.giveUp(l)...)
			continue
		}
		o, _ := l.Option(l.Chosen)
		// Another option of the chain may have provided a need in the meantime.
		l.Needs = slices.DeleteFunc(l.Needs, func(n Need) bool { return slices.Contains(c.Reached, n.Goal) })
		if len(l.Needs) > 0 {
			c.UpdatedAt = now
			turns = append(turns, c.push(l, l.Needs[0])...)
			continue
		}
		if l.Due.IsZero() && !c.announce(l, o, now) {
			continue
		}
		return c.move(l, o, now), turns
	}
}

// announce sets the time at which the chosen option is due. It returns false if a bound of the chain forbids the
// option.
func (c *Chain) announce(l *Level, o Choice, now time.Time) bool {
	c.UpdatedAt = now
	if why := c.over(now); why != "" {
		c.end(Exhausted, why)
		return false
	}
	wait := time.Duration(0)
	if len(o.WaitsMS) > 0 {
		wait = time.Duration(o.WaitsMS[min(c.tries(o.Key), len(o.WaitsMS)-1)]) * time.Millisecond
		if !c.Until.IsZero() && now.Add(wait).After(c.Until) {
			c.fail(l, fmt.Sprintf("waiting %s is longer than the time that is left", wait))
			return false
		}
	}
	l.Due = now.Add(wait)
	return true
}

func (c *Chain) move(l *Level, o Choice, now time.Time) Move {
	m := Move{Kind: Run, Depth: l.Depth, Option: o.Key, ID: o.ID, Draft: o.Draft, Picked: l.Picked}
	if len(o.WaitsMS) == 0 {
		return m
	}
	m.WaitMS = max(0, l.Due.Sub(now).Milliseconds())
	m.Kind, m.Command, m.WorkingDir = Retry, c.Goal.Command, c.Goal.Dir
	if up, ok := c.above(); ok {
		m.Kind, m.Above, m.Draft = Run, true, up.Draft
	}
	return m
}

// above returns the option whose failure or need the deepest level serves.
func (c *Chain) above() (Choice, bool) {
	if len(c.Levels) < 2 {
		return Choice{}, false
	}
	up := c.Levels[len(c.Levels)-2]
	return up.Option(up.Chosen)
}

// over says which bound of the chain is reached, or "".
func (c *Chain) over(now time.Time) string {
	switch {
	case c.Attempts >= c.Limit:
		return fmt.Sprintf("%d commands were tried, which is the bound", c.Attempts)
	case !c.Until.IsZero() && now.After(c.Until):
		return "its time was over at " + c.Until.UTC().Format(time.RFC3339)
	}
	return ""
}

// tries returns how often an option that waits was begun.
func (c *Chain) tries(key string) int {
	return len(slices.DeleteFunc(slices.Clone(c.Tried), func(k string) bool { return k != key }))
}

// choose takes the first option that superloop may try without an operator. If an operator has picked the option that
// the level serves a need of, choose takes any option that can run.
func (c *Chain) choose(l *Level) bool {
	picked := l.Picked && !l.Remedy
	for _, o := range l.Options {
		if c.fresh(*l, o) && (o.ByItself || picked) {
			c.take(l, o)
			l.Picked = picked
			return true
		}
	}
	return false
}

// fresh reports whether an option of a level could be begun for the first time.
func (c *Chain) fresh(l Level, o Choice) bool {
	return o.Availability != impossible && l.runnable(o) && !slices.Contains(c.Tried, o.Key) &&
		!slices.ContainsFunc(c.Levels, func(l Level) bool { return l.Chosen == o.Key }) // an option cannot be its own remedy
}

// giveUp leaves a level that has no option left.
func (c *Chain) giveUp(l *Level) []Turn {
	if l.Depth == 1 {
		c.end(Exhausted, "nothing is left that may be tried without an operator")
		return nil
	}
	left := *l
	c.Levels = c.Levels[:len(c.Levels)-1]
	c.leave(left, "failed")
	text := "what it needs is not to be had: " + left.Label
	if left.Remedy {
		text = "what it failed of could not be fixed"
	}
	c.fail(c.level(), text)
	return []Turn{{Depth: left.Depth, Goal: left.Goal, Label: left.Label, Status: "failed"}}
}

// fail ends the chosen option of a level.
func (c *Chain) fail(l *Level, text string) {
	o, _ := l.Option(l.Chosen)
	c.blame(l.Depth, o, o.Command, text)
	if !slices.Contains(c.Tried, o.Key) {
		c.Tried = append(c.Tried, o.Key)
	}
	c.take(l, Choice{})
}

// blame records what went wrong with an option.
func (c *Chain) blame(depth int, o Choice, command, text string) {
	if n := len(text) - maxText; n > 0 {
		text = strings.ToValidUTF8("..."+text[n+3:], "")
	}
	c.Errors = append(c.Errors, Error{Depth: depth, Option: o.ID, Key: o.Key, Command: command, Text: text})
}

// push opens a level for a need of the chosen option. If no level may be opened, push ends the option.
func (c *Chain) push(l *Level, n Need) []Turn {
	if why := c.refuses(n.Goal); why != "" {
		c.fail(l, fmt.Sprintf("it needs %s, and %s", n.Label, why))
		return nil
	}
	return c.deeper(Level{Goal: n.Goal, Label: n.Label, For: l.Chosen, Picked: l.Picked,
		Failure: Failure{Category: "dependency", Why: n.Label + " is missing"}, Options: n.Options})
}

// deeper adds a level to the stack.
func (c *Chain) deeper(l Level) []Turn {
	l.Depth = len(c.Levels) + 1
	c.Levels = append(c.Levels, l)
	c.Crumbs = append(c.Crumbs, Crumb{Depth: l.Depth, Goal: l.Goal, Label: l.Label, Status: "executing"})
	return []Turn{{Pushed: true, Depth: l.Depth, Goal: l.Goal, Label: l.Label, Option: l.For, Status: "executing"}}
}

// refuses says why there can be no level for a goal, or "".
func (c *Chain) refuses(goal string) string {
	if i := slices.IndexFunc(c.Levels, func(l Level) bool { return l.Goal == goal }); i >= 0 {
		return fmt.Sprintf("that is what level %d is already about (%s): a circle", i+1, c.Levels[i].Label)
	}
	if len(c.Levels) >= MaxDepth {
		return fmt.Sprintf("that would be level %d: %d is the most", len(c.Levels)+1, MaxDepth)
	}
	return ""
}

// Begin records that the walker is carrying out a move. The walker must save the chain after Begin, before it starts
// the command.
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
		return // the second run of the same option is not another option
	}
	c.Tried = append(c.Tried, m.Option)
}

// Succeeded records that the command of the running move has succeeded. Whether it helped is known only after the
// goal's command has run again.
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
	if o, _ := l.Option(l.Chosen); l.Depth == 1 && o.Reaches && o.Command != "" {
		c.end(Done, "another way: "+o.Label)
		return nil
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
	if up := c.level(); again { // the command of the option above has succeeded, too
		up.Again = false
		turns = append(turns, c.Succeeded(now)...)
	}
	return turns
}

// Failed records that the command of the running move has failed with failure f. options are the remedies for f. If the
// chain may open a level for f, it fixes f first. Otherwise the next option of the present level follows.
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

// waited records that a command has run once more and failed. After the same failure the option waits again, as often
// as WaitsMS says. A different failure is progress: it replaces the failure of the level, with its own options.
func (c *Chain) waited(l *Level, o Choice, command, text string, f Failure, options []Choice) {
	same := l.Failure.same(f)
	if l.Chosen != "" {
		c.blame(l.Depth, o, command, text)
	}
	if same && len(o.WaitsMS) > c.tries(o.Key) {
		return // the option is due again, after the next wait
	}
	c.take(l, Choice{})
	if !same {
		l.Failure, l.Options = f, options
	}
}

func (f Failure) same(g Failure) bool { return f.Signature == g.Signature && f.Handler == g.Handler }

// Skipped records that the policy does not let the chosen option run by itself.
func (c *Chain) Skipped(why string, now time.Time) {
	l := c.level()
	if c.Status != Open || c.Running != nil || c.Verifying || l.Chosen == "" {
		return
	}
	c.UpdatedAt = now
	c.fail(l, "not run: "+why)
}

// Verified records the result of running the goal's command again. If the command has failed, f is its failure and
// options are the remedies for f. After the same failure the next option of the level follows. A different failure is
// progress, and brings its own options.
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
