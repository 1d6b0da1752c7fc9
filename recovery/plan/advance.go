package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/recovery/action"
)

// Kind is what a move is.
type Kind string

// The kinds of moves.
const (
	Run    Kind = "run"    // run Command, through the gate
	Retry  Kind = "retry"  // wait, then run the goal's command again
	Verify Kind = "verify" // run the goal's command again: did the remedy help?
	Stop   Kind = "stop"   // the chain has ended; see Status and Why
	Held   Kind = "held"   // something was begun and its outcome is not known: an operator decides
)

// Move is what is to be done next.
type Move struct {
	Kind   Kind   `json:"kind"`
	Depth  int    `json:"depth,omitempty"`
	Option string `json:"option,omitempty"` // its key
	ID     string `json:"id,omitempty"`     // and its id
	action.Draft
	WaitMS int64 `json:"wait_ms,omitempty"`
	Picked bool  `json:"picked,omitempty"` // Picked: an operator has chosen it
	// Above: the command is that of the option on the level above, once more.
	Above bool `json:"above,omitempty"`
}

// Turn is something that happened to the stack on the way to a move, for events.
type Turn struct {
	Pushed bool   `json:"pushed"`
	Depth  int    `json:"depth"`
	Goal   string `json:"goal"`
	Label  string `json:"label,omitempty"`
	Option string `json:"option,omitempty"` // whose need it is
	Status string `json:"status"`
}

// Advance brings the chain to where something is to be done, and says what. It changes nothing when it is asked twice.
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
		// A sibling may have got it in the meantime.
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

// announce says when the chosen option is due, if the bounds let it be at all.
func (c *Chain) announce(l *Level, o Choice, now time.Time) bool {
	c.UpdatedAt = now
	if why := c.over(now); why != "" {
		c.end(Exhausted, why)
		return false
	}
	due := now
	if len(o.WaitsMS) > 0 {
		wait := time.Duration(o.WaitsMS[min(c.tries(o.Key), len(o.WaitsMS)-1)]) * time.Millisecond
		due = now.Add(wait)
		if !c.Until.IsZero() && due.After(c.Until) {
			c.fail(l, fmt.Sprintf("waiting %s is longer than the time that is left", wait))
			return false
		}
	}
	l.Due = due
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
		m.Confidence = o.Confidence // what the rule is sure of is the waiting
	}
	return m
}

// above is the option whose failure the level is about.
func (c *Chain) above() (Choice, bool) {
	if len(c.Levels) < 2 {
		return Choice{}, false
	}
	up := c.Levels[len(c.Levels)-2]
	return up.Option(up.Chosen)
}

// over says which bound is reached.
func (c *Chain) over(now time.Time) string {
	switch {
	case c.Attempts >= c.Limit:
		return fmt.Sprintf("%d commands were tried, which is the bound", c.Attempts)
	case !c.Until.IsZero() && now.After(c.Until):
		return "its time was over at " + c.Until.UTC().Format(time.RFC3339)
	}
	return ""
}

// tries counts how often a retrying option was begun.
func (c *Chain) tries(key string) int {
	return len(slices.DeleteFunc(slices.Clone(c.Tried), func(k string) bool { return k != key }))
}

// choose takes the first option that may be tried without an operator; where an operator has picked what the level is for,
// those that need one as well.
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
		!slices.ContainsFunc(c.Levels, func(l Level) bool { return l.Chosen == o.Key }) // it cannot be its own remedy
}

// giveUp leaves a level that has nothing left.
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

// blame notes down what went wrong with an option.
func (c *Chain) blame(depth int, o Choice, command, text string) {
	if n := len(text) - maxText; n > 0 {
		text = strings.ToValidUTF8("..."+text[n+3:], "")
	}
	c.Errors = append(c.Errors, Error{Depth: depth, Option: o.ID, Key: o.Key, Command: command, Text: text})
}

// push goes one level deeper for what the chosen option needs, or ends the option when that may not be.
func (c *Chain) push(l *Level, n Need) []Turn {
	if why := c.refuses(n.Goal); why != "" {
		c.fail(l, fmt.Sprintf("it needs %s, and %s", n.Label, why))
		return nil
	}
	return c.deeper(Level{Goal: n.Goal, Label: n.Label, For: l.Chosen, Picked: l.Picked,
		Failure: Failure{Category: "dependency", Why: n.Label + " is missing"}, Options: n.Options})
}

// deeper adds a level.
func (c *Chain) deeper(l Level) []Turn {
	l.Depth = len(c.Levels) + 1
	c.Levels = append(c.Levels, l)
	c.Crumbs = append(c.Crumbs, Crumb{Depth: l.Depth, Goal: l.Goal, Label: l.Label, Status: "executing"})
	return []Turn{{Pushed: true, Depth: l.Depth, Goal: l.Goal, Label: l.Label, Option: l.For, Status: "executing"}}
}

// refuses says why there can be no level for a goal.
func (c *Chain) refuses(goal string) string {
	if i := slices.IndexFunc(c.Levels, func(l Level) bool { return l.Goal == goal }); i >= 0 {
		return fmt.Sprintf("that is what level %d is already about (%s): a circle", i+1, c.Levels[i].Label)
	}
	if len(c.Levels) >= MaxDepth {
		return fmt.Sprintf("that would be level %d: %d is the most", len(c.Levels)+1, MaxDepth)
	}
	return ""
}
