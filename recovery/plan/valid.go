package plan

import (
	"fmt"
	"slices"
	"strings"
)

// Check says what is wrong with a chain that was read from somewhere; what passes can be walked.
func (c Chain) Check() error {
	switch {
	case !IsID(c.ID):
		return fmt.Errorf("chain_id %q is no id", c.ID)
	case !slices.Contains([]Status{Open, Done, Exhausted, Cancelled}, c.Status):
		return fmt.Errorf("status %q is none", c.Status)
	case len(c.Levels) == 0 || len(c.Levels) > MaxDepth:
		return fmt.Errorf("it has %d levels: 1 to %d is what there may be", len(c.Levels), MaxDepth)
	case c.Goal.Command == "":
		return fmt.Errorf("original_goal has no command")
	case c.Limit <= 0 || c.Attempts < 0:
		return fmt.Errorf("%d of %d attempts is no count", c.Attempts, c.Limit)
	}
	for i, l := range c.Levels {
		if l.Depth != i+1 {
			return fmt.Errorf("level %d says that it is level %d", i+1, l.Depth)
		}
		if _, ok := l.Option(l.Chosen); l.Chosen != "" && !ok {
			return fmt.Errorf("level %d has chosen %q, which is none of its options", l.Depth, l.Chosen)
		}
		if i > 0 && (l.For == "" || l.For != c.Levels[i-1].Chosen) {
			return fmt.Errorf("level %d is for %q, and level %d deals with %q", l.Depth, l.For, i, c.Levels[i-1].Chosen)
		}
		if slices.ContainsFunc(c.Levels[:i], func(up Level) bool { return up.Goal == l.Goal }) {
			return fmt.Errorf("level %d is a circle: %s", l.Depth, l.Goal)
		}
	}
	for _, l := range c.Left {
		if l.Depth < 2 || l.Depth > MaxDepth {
			return fmt.Errorf("a level %d was left, which cannot be", l.Depth)
		}
	}
	if m := c.Running; m != nil && m.Kind != Verify && (m.Option == "" || m.Option != c.level().Chosen) {
		return fmt.Errorf("%q is running, and level %d deals with %q", m.Option, len(c.Levels), c.level().Chosen)
	}
	return nil
}

// maxID is how long an id may be.
const maxID = 100

// IsID reports whether a name can be that of a chain, and so of its file.
func IsID(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return s != "" && len(s) <= maxID && strings.Trim(s, letters+"._-") == "" && strings.Contains(letters, s[:1]) &&
		!strings.Contains(s, "..") && !strings.HasSuffix(s, ".")
}
