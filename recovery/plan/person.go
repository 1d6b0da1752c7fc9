package plan

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Lost: an operator has looked at what was begun and has no outcome, and it is not to be waited for any more. A remedy
// counts as failed; whether the goal's command passes is to be seen again. See Again.
func (c *Chain) Lost(text string, now time.Time) {
	m := c.Running
	if m == nil || c.Status != Open {
		return
	}
	c.UpdatedAt, c.Running = now, nil
	if l := c.level(); m.Kind != Verify && l.Chosen != "" {
		c.fail(l, text)
	}
}

// Again: an operator has looked at what was begun and has no outcome, and it is to be begun once more, as if it had not
// been; it opens as much room as Pick does.
func (c *Chain) Again(now time.Time) error {
	m := c.Running
	if m == nil || c.Status != Open {
		return errors.New("nothing was begun that has no outcome")
	}
	verifying := c.Verifying
	c.Running = nil
	if l := c.level(); m.Kind != Verify {
		if slices.Contains(c.Reached, remedyOf+m.Option) {
			l.Again = true
		} else {
			for i, k := range slices.Backward(c.Tried) {
				if k == m.Option {
					c.Tried = slices.Delete(c.Tried, i, i+1)
					break
				}
			}
		}
		l.Picked = true
	}
	c.reopen(now)
	c.Verifying = verifying
	return nil
}

// Pick has an operator choose an option by key or id, on the level of that depth: one that is dealt with, or one that was
// left and is still known. Depth 0 is wherever there is one of that name, the deepest level first. With it is chosen
// what it needs, and what it is a remedy for. Deeper levels are left. It opens a chain that was exhausted, with room
// for DefaultAttempts more commands and DefaultTime.
func (c *Chain) Pick(depth int, name string, now time.Time) error {
	if err := c.takes(); err != nil {
		return err
	}
	path, o, err := c.find(depth, name)
	if err != nil {
		return err
	}
	l := path[len(path)-1]
	switch {
	case o.Availability == impossible:
		return fmt.Errorf("%s is impossible here: %s", o.ID, o.Reason)
	case !l.runnable(o):
		return fmt.Errorf("%s has no command: %s", o.ID, o.Instructions)
	case slices.ContainsFunc(path[:l.Depth-1], func(up Level) bool { return up.Chosen == o.Key }):
		return fmt.Errorf("%s is what level %d waits for: a circle", o.ID, slices.IndexFunc(path, func(up Level) bool { return up.Chosen == o.Key })+1)
	}
	keep := 0
	for keep < min(len(path), len(c.Levels)) && path[keep].Goal == c.Levels[keep].Goal && path[keep].For == c.Levels[keep].For {
		keep++
	}
	c.leaveBelow(keep)
	c.Levels = path
	c.Left = slices.DeleteFunc(c.Left, func(left Level) bool {
		return slices.ContainsFunc(path, func(l Level) bool { return l.Depth == left.Depth && l.Goal == left.Goal && l.For == left.For })
	})
	p := c.level()
	c.forget(o)
	for _, up := range path[:len(path)-1] { // it was not begun, only given up
		if !up.Again {
			c.Tried = slices.DeleteFunc(c.Tried, func(k string) bool { return k == up.Chosen })
		}
	}
	c.take(p, o)
	p.Picked = true
	c.reopen(now)
	return nil
}

// takes says why the chain does not take an operator's word now.
func (c *Chain) takes() error {
	switch {
	case c.Status == Done || c.Status == Cancelled:
		return fmt.Errorf("the chain is %s", c.Status)
	case c.Running != nil:
		return fmt.Errorf("%s is running, or was when its supervisor ended", c.Running.Command)
	}
	return nil
}

// find gives the levels down to the one with the option.
func (c *Chain) find(depth int, name string) ([]Level, Choice, error) {
	for n := len(c.Levels); n > 0; n-- {
		if o, ok := c.Levels[n-1].Option(name); ok && (depth <= 0 || depth == n) {
			return cloneLevels(c.Levels[:n]), o, nil
		}
	}
	for _, l := range slices.Backward(c.Left) {
		o, ok := l.Option(name)
		if !ok || depth > 0 && depth != l.Depth {
			continue
		}
		if path, ok := c.restore(l); ok {
			return path, o, nil
		}
	}
	deepest := len(c.Levels)
	for _, l := range c.Left {
		deepest = max(deepest, l.Depth)
	}
	switch {
	case depth > deepest:
		return nil, Choice{}, fmt.Errorf("there is no level %d, the deepest is %d", depth, deepest)
	case depth <= 0:
		return nil, Choice{}, fmt.Errorf("no level has an option %q", name)
	}
	return nil, Choice{}, fmt.Errorf("level %d has no option %q", depth, name)
}

// restore gives the levels down to one that was left, each dealing with what the next one is for, if it still can.
func (c *Chain) restore(l Level) (path []Level, ok bool) {
	if l.Depth > len(c.Levels)+1 || !slices.ContainsFunc(c.Levels[l.Depth-2].Options, func(o Choice) bool { return o.Key == l.For }) {
		for i := len(c.Left) - 1; i >= 0 && path == nil; i-- {
			up := c.Left[i]
			if up.Depth == l.Depth-1 && up.Depth > 1 && slices.ContainsFunc(up.Options, func(o Choice) bool { return o.Key == l.For }) {
				path, _ = c.restore(up)
			}
		}
	} else {
		path = cloneLevels(c.Levels[:l.Depth-1])
	}
	if path == nil || slices.ContainsFunc(path, func(up Level) bool { return up.Goal == l.Goal }) {
		return nil, false
	}
	up := &path[len(path)-1]
	o, _ := up.Option(l.For)
	if slices.ContainsFunc(path[:len(path)-1], func(u Level) bool { return u.Chosen == o.Key }) {
		return nil, false
	}
	c.take(up, o)
	up.Picked, up.Again = true, l.Remedy
	if l.Remedy {
		up.Needs = nil
	}
	return append(path, l), true
}

// forget makes an option, and what it needs, as if it had never been tried.
func (c *Chain) forget(o Choice) {
	keys := []string{o.Key}
	for _, n := range o.Needs {
		if slices.Contains(c.Reached, n.Goal) {
			continue
		}
		for _, d := range n.Options {
			keys = append(keys, d.Key)
		}
	}
	gone := func(k string) bool { return slices.Contains(keys, k) }
	c.Tried, c.Worked = slices.DeleteFunc(c.Tried, gone), slices.DeleteFunc(c.Worked, gone)
	c.Reached = slices.DeleteFunc(c.Reached, func(goal string) bool {
		return slices.ContainsFunc(keys, func(k string) bool { return goal == remedyOf+k })
	})
}

// reopen has the chain go on where its levels are.
func (c *Chain) reopen(now time.Time) {
	c.Status, c.Why, c.Verifying = Open, "", false
	c.Limit, c.Until = max(c.Limit, c.Attempts+DefaultAttempts), now.Add(DefaultTime)
	c.UpdatedAt = now
	for _, l := range c.Levels {
		c.crumb(l, "executing")
	}
}

// Retry has an operator try a level once more, 0 the deepest: what was tried there and below it is fresh again, but for
// what has succeeded. Deeper levels are left. It opens a chain that was exhausted, as Pick does.
func (c *Chain) Retry(depth int, now time.Time) error {
	if err := c.takes(); err != nil {
		return err
	}
	if depth <= 0 {
		depth = len(c.Levels)
	}
	if depth > len(c.Levels) {
		return fmt.Errorf("there is no level %d, the deepest is %d", depth, len(c.Levels))
	}
	next := c.Clone()
	next.leaveBelow(depth)
	again := map[string]bool{}
	for _, e := range c.Errors {
		if e.Depth >= depth && !slices.Contains(c.Worked, e.Key) {
			again[e.Key] = true
		}
	}
	next.Tried = slices.DeleteFunc(next.Tried, func(k string) bool { return again[k] })
	l := next.level()
	next.take(l, Choice{})
	if !slices.ContainsFunc(l.Options, func(o Choice) bool { return o.ByItself && next.fresh(*l, o) }) {
		return fmt.Errorf("level %d has nothing that superloop may try again by itself: choose one of its options", depth)
	}
	next.reopen(now)
	*c = next
	return nil
}

// Cancel ends the chain.
func (c *Chain) Cancel(by string, now time.Time) {
	if c.Status == Open || c.Status == Exhausted {
		c.end(Cancelled, "cancelled by "+by)
		c.UpdatedAt = now
	}
}
