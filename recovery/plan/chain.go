// Package plan is the state of fixing one failed command: a stack of levels, since a remedy can itself need a remedy.
//
//	goal: npm test fails (level 1: missing dependency)
//	   chosen: npm ci, which fails too (level 2: the cache is damaged)
//	      chosen: npm cache verify, succeeds: back to level 1
//	   npm ci again, succeeds: the goal's command runs again, and passes: done
//
// Three levels at most, no option twice, no level whose goal is that of an unfinished one above it, a bound on attempts
// and on time. Whoever walks the chain asks Advance for the next move, carries it out, and says what came of it: Begin
// before, then Succeeded, Failed, Skipped or Verified. There is no clock and no I/O in it: a Chain is a plain value
// that is written down before and after each move, so that a killed walker finds its place, and what was begun and has
// no outcome is never begun again by itself.
//
// An operator may Pick an option on any level, Retry a level, Cancel, and answer for what has no outcome with Lost or
// Again. Describe and Response show a chain.
//
// A loop walks a chain within its own state. Outside of one, package walk does, with files as the truth. remedy.Choices
// makes the options of a plan into those of a level.
package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/recovery/action"
)

// Status is where a chain, or one of its levels, stands.
type Status string

// Bounds, the availabilities of package remedy, and the statuses.
const (
	MaxDepth        = 3 // levels that there may be
	DefaultAttempts = 6 // of a chain that sets no bound itself
	DefaultTime     = 10 * time.Minute

	maxLeft = 6
	maxText = 4096 // bytes of an error's text, its end
	maxID   = 100  // bytes of an id

	locked     = "locked"
	impossible = "impossible"

	Open      Status = "open"      // something may still be tried
	Done      Status = "done"      // the goal is reached
	Exhausted Status = "exhausted" // nothing is left that may be tried without an operator
	Cancelled Status = "cancelled" // an operator has ended it
)

// Chain is the remedy of one failed command.
type Chain struct {
	ID     string  `json:"chain_id"`
	Goal   Goal    `json:"original_goal"`
	Levels []Level `json:"levels"` // the present ones, the outermost first
	// Left are the latest levels that were left without success, the newest last: an operator may still choose there.
	Left []Level `json:"left,omitempty"`
	// Reached are the goals of levels that were left successfully: who needs one of them again has it.
	Reached []string `json:"reached,omitempty"`
	// Tried are the keys of options that were begun, or left out, on any level.
	Tried []string `json:"tried,omitempty"`
	// Worked are the keys of options whose command succeeded, whether that helped or not.
	Worked []string `json:"worked,omitempty"`
	Status Status   `json:"status"`
	Why    string   `json:"why,omitempty"` // of an end
	// Attempts counts the commands that were begun, but for verifying. Limit bounds them, Until the time of the last.
	Attempts int       `json:"attempts"`
	Limit    int       `json:"max_attempts"`
	Until    time.Time `json:"until,omitzero"`
	Running  *Move     `json:"running,omitempty"` // what was begun and has no outcome yet
	// Verifying: a remedy has succeeded, and whether it helped is not known yet.
	Verifying bool      `json:"verifying,omitempty"`
	Errors    []Error   `json:"errors,omitempty"`      // those of all levels, in order
	Crumbs    []Crumb   `json:"breadcrumbs,omitempty"` // Crumbs are the levels that there were, in order.
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Goal is the command that is to succeed.
type Goal struct {
	Command string `json:"command"`
	Dir     string `json:"working_dir,omitempty"`
	Key     string `json:"key"`
	Source  string `json:"source,omitempty"` // what ran it: test_command, command
}

// Failure is what a level is about.
type Failure struct {
	Category  string `json:"category"`
	Handler   string `json:"handler,omitempty"`
	Signature string `json:"signature,omitempty"`
	Why       string `json:"why,omitempty"`
}

// Level is one goal that is not reached, and what might reach it.
type Level struct {
	Depth int    `json:"depth"` // 1 is the outermost
	Goal  string `json:"goal"`
	// For is the key of the option above that the level is there for. Remedy: that option has failed, and of what it
	// failed is to be fixed; else it needs Goal.
	For     string   `json:"for,omitempty"`
	Remedy  bool     `json:"cure,omitempty"`
	Label   string   `json:"label"`
	Failure Failure  `json:"failure"`
	Options []Choice `json:"options"`
	// Chosen is the key of the option that is dealt with, "" when the next one is to be chosen.
	Chosen string `json:"chosen,omitempty"`
	Needs  []Need `json:"needs,omitempty"` // what the chosen option still needs, the next one first
	// Again: the chosen option failed, what it failed of was fixed on the level below, so it is due once more.
	Again  bool `json:"again,omitempty"`
	Picked bool `json:"picked,omitempty"` // Picked: it is an operator who has chosen it
	// Due is when the chosen option's command may begin; zero before Advance has said so. What was due in time is not
	// withdrawn when it is begun late.
	Due time.Time `json:"due,omitzero"`
}

// Choice is one option of a level.
type Choice struct {
	Key          string `json:"key"`
	ID           string `json:"id"`
	Label        string `json:"label"`
	Strategy     string `json:"strategy"`
	Availability string `json:"availability"`     // ready, locked, impossible
	Reason       string `json:"reason,omitempty"` // why locked or impossible
	action.Draft
	Executor     string  `json:"executor"`
	Risk         string  `json:"risk,omitempty"`
	WaitsMS      []int64 `json:"waits_ms,omitempty"` // before each try of the goal's own command; then there is no Command
	Needs        []Need  `json:"needs,omitempty"`    // of a locked one
	Handler      string  `json:"handler,omitempty"`
	Dep          string  `json:"dep,omitempty"` // the recipe that it installs or renews
	Instructions string  `json:"instructions,omitempty"`
	// ByItself: the engine may carry it out without an operator, if the policy lets it; Withheld says why not.
	ByItself bool   `json:"by_itself"`
	Withheld string `json:"withheld,omitempty"`
}

// Need is what must be there before a locked option can run, and the ways to get it here.
type Need struct {
	Goal    string   `json:"goal"` // tool/pipx
	Label   string   `json:"label"`
	Options []Choice `json:"options"`
}

// Crumb is one level of the way, for people.
type Crumb struct {
	Depth  int    `json:"depth"`
	Goal   string `json:"goal"`
	Label  string `json:"label"`
	Status string `json:"status"` // executing, done, failed, skipped
}

// Error is what went wrong on a level.
type Error struct {
	Depth   int    `json:"depth"`
	Option  string `json:"option"`
	Key     string `json:"key,omitempty"` // of the option
	Command string `json:"command,omitempty"`
	Text    string `json:"text"`
}

// New opens a chain for a failed command with what might fix it. limit and patience are bounds, 0 for the defaults.
func New(id string, goal Goal, f Failure, options []Choice, limit int, patience time.Duration, now time.Time) Chain {
	if limit <= 0 {
		limit = DefaultAttempts
	}
	if patience <= 0 {
		patience = DefaultTime
	}
	return Chain{ID: id, Goal: goal, Status: Open, Limit: limit, Until: now.Add(patience), CreatedAt: now, UpdatedAt: now,
		Levels: []Level{{Depth: 1, Goal: goal.Key, Label: goal.Command, Failure: f, Options: options}},
		Crumbs: []Crumb{{Depth: 1, Goal: goal.Key, Label: goal.Command, Status: "executing"}}}
}

// Clone is a copy that shares nothing that changes.
func (c Chain) Clone() Chain {
	c.Levels, c.Left = cloneLevels(c.Levels), cloneLevels(c.Left)
	c.Reached, c.Tried, c.Worked = slices.Clone(c.Reached), slices.Clone(c.Tried), slices.Clone(c.Worked)
	c.Errors, c.Crumbs = slices.Clone(c.Errors), slices.Clone(c.Crumbs)
	if c.Running != nil {
		m := *c.Running
		c.Running = &m
	}
	return c
}

func cloneLevels(in []Level) []Level {
	out := slices.Clone(in)
	for i := range out {
		out[i].Needs = slices.Clone(out[i].Needs)
	}
	return out
}

// Depth is that of the level that is dealt with.
func (c Chain) Depth() int { return len(c.Levels) }

// level is the deepest one.
func (c *Chain) level() *Level { return &c.Levels[len(c.Levels)-1] }

// Option finds an option of a level by its key or, if that is no key, by its id.
func (l Level) Option(name string) (Choice, bool) {
	i := slices.IndexFunc(l.Options, func(o Choice) bool { return o.Key == name })
	if i < 0 {
		i = slices.IndexFunc(l.Options, func(o Choice) bool { return o.ID == name })
	}
	if i < 0 {
		return Choice{}, false
	}
	return l.Options[i], true
}

// runnable reports whether there is something to run in an option of the level. Waiting is for what has failed; what
// was never there does not come of it.
func (l Level) runnable(o Choice) bool {
	return o.Command != "" || len(o.WaitsMS) > 0 && (l.Depth == 1 || l.Remedy)
}

// take has the level deal with an option, or with none.
func (c *Chain) take(l *Level, o Choice) {
	l.Chosen, l.Needs, l.Again, l.Picked, l.Due = o.Key, nil, false, false, time.Time{}
	if o.Availability == locked {
		l.Needs = slices.DeleteFunc(slices.Clone(o.Needs), func(n Need) bool { return slices.Contains(c.Reached, n.Goal) })
	}
}

func (c *Chain) end(s Status, why string) {
	c.Status, c.Why, c.Running, c.Verifying = s, why, nil, false
	for i := range c.Levels {
		c.crumb(c.Levels[i], map[Status]string{Done: "done"}[s])
	}
}

// leave keeps a level that is left without success.
func (c *Chain) leave(l Level, status string) {
	c.crumb(l, status)
	c.take(&l, Choice{})
	c.Left = slices.DeleteFunc(c.Left, func(old Level) bool { return old.Depth == l.Depth && old.Goal == l.Goal && old.For == l.For })
	c.Left = append(c.Left, l)
	c.Left = slices.Delete(c.Left, 0, max(0, len(c.Left)-maxLeft))
}

// leaveBelow leaves the levels that are deeper than depth.
func (c *Chain) leaveBelow(depth int) {
	for len(c.Levels) > depth {
		l := *c.level()
		c.Levels = c.Levels[:len(c.Levels)-1]
		c.leave(l, "skipped")
	}
}

// crumb marks the last crumb of a level.
func (c *Chain) crumb(l Level, status string) {
	status = cmp.Or(status, "failed")
	for i, k := range slices.Backward(c.Crumbs) {
		if k.Goal == l.Goal && k.Depth == l.Depth {
			c.Crumbs[i].Status = status
			return
		}
	}
	c.Crumbs = append(c.Crumbs, Crumb{Depth: l.Depth, Goal: l.Goal, Label: l.Label, Status: status})
}

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

// IsID reports whether a name can be that of a chain, and so of its file.
func IsID(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return s != "" && len(s) <= maxID && strings.Trim(s, letters+"._-") == "" && strings.Contains(letters, s[:1]) &&
		!strings.Contains(s, "..") && !strings.HasSuffix(s, ".")
}
