package plan

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Lost records that an operator has given up waiting for the outcome of the running move. A remedy counts as failed. If
// the move was to verify a remedy, the chain verifies it again. See Again.
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

// Again lets the running move begin once more, as if it had not been begun. An operator decides so after a look at what
// the move has done. Again extends the bounds of the chain as Pick does.
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

// Pick lets an operator choose an option by key or id. The option is on a present level of the given depth, or on a
// level in Left. Depth 0 stands for any level; the deepest level with such an option wins. Pick also chooses the
// options above that the option's level serves, and gives the option's needs another chance. The chain leaves deeper
// levels. An exhausted chain becomes open again, with DefaultAttempts more commands and DefaultTime.
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
	for _, up := range path[:len(path)-1] { // the option above was not begun, only given up
		if !up.Again {
			c.Tried = slices.DeleteFunc(c.Tried, func(k string) bool { return k == up.Chosen })
		}
	}
	c.take(p, o)
	p.Picked = true
	c.reopen(now)
	return nil
}

// takes returns an error if the chain does not accept a decision of an operator now.
func (c *Chain) takes() error {
	switch {
	case c.Status == Done || c.Status == Cancelled:
		return fmt.Errorf("the chain is %s", c.Status)
	case c.Running != nil:
		return fmt.Errorf("%s is running, or was when its supervisor ended", c.Running.Command)
	}
	return nil
}

// find returns the levels down to the one that has the option, and the option.
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

// restore returns the levels down to l, which the chain has left. Each level has chosen the option that the next level
// serves. ok is false if that is no longer possible.
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

// forget removes the traces of earlier tries of an option, and of the options that provide its needs.
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
	c.Tried, c.Worked, c.Out = slices.DeleteFunc(c.Tried, gone), slices.DeleteFunc(c.Worked, gone), slices.DeleteFunc(c.Out, gone)
	c.Reached = slices.DeleteFunc(c.Reached, func(goal string) bool {
		return slices.ContainsFunc(keys, func(k string) bool { return goal == remedyOf+k })
	})
}

// reopen opens the chain again at its present levels, with new bounds.
func (c *Chain) reopen(now time.Time) {
	c.Status, c.Why, c.Verifying = Open, "", false
	c.Limit, c.Until = max(c.Limit, c.Attempts+DefaultAttempts), now.Add(DefaultTime)
	c.UpdatedAt = now
	for _, l := range c.Levels {
		c.crumb(l, "executing")
	}
}

// Retry lets an operator try a level once more; depth 0 stands for the deepest level. The options that have failed
// there and below become fresh again. The chain leaves deeper levels. An exhausted chain becomes open again, as by
// Pick.
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
		if e.Depth >= depth && !slices.Contains(c.Worked, e.Key) && !slices.Contains(c.Out, e.Key) {
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

// Skip lets an operator leave an option out, by key or id. depth is the option's level; 0 stands for the deepest. The
// name "" stands for the option that the level deals with, or else for its first one that can be chosen. Pick may still
// choose it. The chain leaves deeper levels. An exhausted chain becomes open again, as by Pick.
func (c *Chain) Skip(depth int, name string, now time.Time) error {
	if err := c.takes(); err != nil {
		return err
	}
	if depth <= 0 {
		depth = len(c.Levels)
	}
	if depth > len(c.Levels) {
		return fmt.Errorf("there is no level %d, the deepest is %d", depth, len(c.Levels))
	}
	l := &c.Levels[depth-1]
	open := func(o Choice) bool {
		return o.Availability != impossible && l.runnable(o) && !slices.Contains(c.Out, o.Key) && !slices.Contains(c.Worked, o.Key)
	}
	i := slices.IndexFunc(l.Options, func(o Choice) bool {
		return open(o) && (name != "" && (o.Key == name || o.ID == name) || name == "" && (l.Chosen == o.Key || l.Chosen == ""))
	})
	if i < 0 && name != "" {
		return fmt.Errorf("level %d has no option %q that could be left out", depth, name)
	}
	if i < 0 {
		return fmt.Errorf("level %d has no option left", depth)
	}
	o := l.Options[i]
	c.leaveBelow(depth)
	c.Out = append(c.Out, o.Key)
	if !slices.Contains(c.Tried, o.Key) {
		c.Tried = append(c.Tried, o.Key)
	}
	c.blame(depth, o, o.Command, "an operator left it out")
	if l = c.level(); l.Chosen == o.Key {
		c.take(l, Choice{})
	}
	c.reopen(now)
	return nil
}

// Cancel ends the chain.
func (c *Chain) Cancel(by string, now time.Time) {
	if c.Status == Open || c.Status == Exhausted {
		c.end(Cancelled, "cancelled by "+by)
		c.UpdatedAt = now
	}
}
