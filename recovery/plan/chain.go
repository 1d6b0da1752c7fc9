// Package plan holds the state of the remediation of one failed command: a chain. A chain is a stack of levels, since a
// remedy can itself need a remedy.
//
//	goal: npm test fails (level 1: missing dependency)
//	   chosen: npm ci, which fails too (level 2: the cache is damaged)
//	      chosen: npm cache verify, succeeds: back to level 1
//	   npm ci again, succeeds: the goal's command runs again, and passes: done
//
// A chain has at most three levels, and bounds on its attempts and its time. It tries no option twice. No level has the
// goal of an unfinished level above it.
//
// The walker of a chain (a loop, or package walk) calls Advance for the next move and carries the move out. The walker
// calls Begin before the command starts, and afterwards Succeeded, Failed, Skipped or Verified. Package plan has no
// clock and does no I/O: a Chain is a plain value. The walker saves the value before and after each move, so that after
// a kill the next walker goes on at the same place. A move that was begun and has no outcome is never begun again by
// itself.
//
// An operator may Pick an option on any level, Retry a level or Cancel the chain. For a move without an outcome the
// operator decides by Lost or Again. Describe and Response show a chain.
//
// A loop keeps its chain in its own state. Outside of a loop package walk keeps chains in files. remedy.Choices turns
// the options of package remedy into the options of a level.
package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/recovery/action"
)

// Status is the state of a chain.
type Status string

// These constants bound chains, and name the availabilities of package remedy and the statuses.
const (
	MaxDepth        = 3                // the maximum number of levels
	DefaultAttempts = 6                // attempts of a chain that sets no bound
	DefaultTime     = 10 * time.Minute // for a chain that sets no bound

	// MaxStderr bounds Failure.Stderr, in bytes.
	MaxStderr = 4096

	maxLeft = 6
	maxText = 4096 // bytes of an error's text; a longer text is cut at its beginning
	maxID   = 100  // bytes of an id

	locked     = "locked"
	impossible = "impossible"

	Open      Status = "open"      // superloop may still try something
	Done      Status = "done"      // the goal's command passes
	Exhausted Status = "exhausted" // no option is left that superloop may try without an operator
	Cancelled Status = "cancelled" // an operator has ended it
)

// Chain is the remediation plan of one failed command.
type Chain struct {
	ID     string  `json:"chain_id"`
	Goal   Goal    `json:"original_goal"`
	Levels []Level `json:"levels"` // the present levels, the outermost first
	// Left are levels that the chain has left without success, the latest maxLeft, the newest last. An operator may
	// still choose one of their options.
	Left []Level `json:"left,omitempty"`
	// Reached are the goals of levels that have succeeded. An option that needs such a goal has it.
	Reached []string `json:"reached,omitempty"`
	// Tried are the keys of options that were begun or skipped, on any level.
	Tried []string `json:"tried,omitempty"`
	// Worked are the keys of options whose command succeeded, whether it helped or not.
	Worked []string `json:"worked,omitempty"`
	// Out are the keys of options that an operator has left out.
	Out    []string `json:"left_out,omitempty"`
	Status Status   `json:"status"`
	Why    string   `json:"why,omitempty"` // why the chain has ended
	// Attempts counts the commands that were begun, except runs that verify a remedy. Limit bounds Attempts. Until is
	// the latest time at which a command may become due.
	Attempts int       `json:"attempts"`
	Limit    int       `json:"max_attempts"`
	Until    time.Time `json:"until,omitzero"`
	Running  *Move     `json:"running,omitempty"` // the move that was begun and has no outcome yet
	// Verifying says that a remedy has succeeded, and that it is not known yet whether it helped.
	Verifying bool      `json:"verifying,omitempty"`
	Errors    []Error   `json:"errors,omitempty"`      // the errors of all levels, in order
	Crumbs    []Crumb   `json:"breadcrumbs,omitempty"` // Crumbs are all levels that the chain has had, in order.
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Goal is the command that must succeed.
type Goal struct {
	Command string `json:"command"`
	Dir     string `json:"working_dir,omitempty"`
	Key     string `json:"key"`
	Source  string `json:"source,omitempty"` // the origin of the command: test_command, command
}

// Failure is the failure that a level must fix.
type Failure struct {
	Category  string `json:"category"`
	Handler   string `json:"handler,omitempty"`
	Signature string `json:"signature,omitempty"`
	Why       string `json:"why,omitempty"`
	// Label and Description are those of the handler. Layer and Method say where the handler stands.
	Label       string `json:"label,omitempty"`
	Description string `json:"description,omitempty"`
	Layer       string `json:"layer,omitempty"`
	Method      string `json:"method,omitempty"`
	ExitCode    int    `json:"exit_code,omitempty"`
	Stderr      string `json:"stderr,omitempty"` // the end of it, at most MaxStderr bytes, with secrets masked
}

// Level is one goal that is not reached yet, with the options that may reach it.
type Level struct {
	Depth int    `json:"depth"` // 1 is the outermost
	Goal  string `json:"goal"`
	// For is the key of the option above that this level serves. If Remedy is set, that option has failed, and this
	// level fixes its failure. Otherwise that option needs Goal.
	For     string   `json:"for,omitempty"`
	Remedy  bool     `json:"cure,omitempty"`
	Label   string   `json:"label"`
	Failure Failure  `json:"failure"`
	Options []Choice `json:"options"`
	// Chosen is the key of the option that the chain is trying, or "" if Advance must choose the next one.
	Chosen string `json:"chosen,omitempty"`
	Needs  []Need `json:"needs,omitempty"` // the needs of the chosen option that are still missing, the next one first
	// Again says that the chosen option has failed and that the level below fixes its failure, so that the option may
	// run a second time.
	Again  bool `json:"again,omitempty"`
	Picked bool `json:"picked,omitempty"` // Picked: an operator has chosen the option
	// Due is the earliest start of the chosen option's command; zero until Advance has set it. A command whose Due is
	// not after Chain.Until may begin after Chain.Until.
	Due time.Time `json:"due,omitzero"`
}

// Choice is one option of a level.
type Choice struct {
	Key          string `json:"key"`
	ID           string `json:"id"`
	Label        string `json:"label"`
	Strategy     string `json:"strategy"`
	Availability string `json:"availability"`     // ready, locked, impossible
	Reason       string `json:"reason,omitempty"` // why the option is locked or impossible
	action.Draft
	Executor    string  `json:"executor"`
	Risk        string  `json:"risk,omitempty"`
	WaitsMS     []int64 `json:"waits_ms,omitempty"` // the wait before each new run of the goal's command; such an option has no Command
	Needs       []Need  `json:"needs,omitempty"`    // the needs of a locked option
	Handler     string  `json:"handler,omitempty"`
	Description string  `json:"description,omitempty"`
	Icon        string  `json:"icon,omitempty"`
	Steps       int     `json:"step_count,omitempty"`        // commands of the option itself
	UnlockSteps int     `json:"unlock_step_count,omitempty"` // commands that install what it needs first
	// Reaches says that the option reaches the goal another way, so that its success ends the chain: the goal's command
	// would still fail. pipx install ruff does so for pip install ruff.
	Reaches      bool   `json:"reaches_goal,omitempty"`
	Dep          string `json:"dep,omitempty"` // the recipe of the dependency that the option installs or renews
	Instructions string `json:"instructions,omitempty"`
	// ByItself says that superloop may carry out the option without an operator, if the policy permits it. Withheld
	// says why not.
	ByItself bool   `json:"by_itself"`
	Withheld string `json:"withheld,omitempty"`
	// Experience says how the option did in this repository before, "" if nothing is known.
	Experience string `json:"experience,omitempty"`
}

// Need is something that a locked option requires before it can run, with the options that provide it here.
type Need struct {
	Goal    string   `json:"goal"` // for example tool/pipx
	Label   string   `json:"label"`
	Options []Choice `json:"options"`
}

// Crumb describes one level that the chain has had, for display.
type Crumb struct {
	Depth  int    `json:"depth"`
	Goal   string `json:"goal"`
	Label  string `json:"label"`
	Status string `json:"status"` // executing, done, failed, skipped
}

// Error says what went wrong with an option.
type Error struct {
	Depth   int    `json:"depth"`
	Option  string `json:"option"`
	Key     string `json:"key,omitempty"` // the key of the option
	Command string `json:"command,omitempty"`
	Text    string `json:"text"`
}

// New opens a chain for a failed command with the options that may fix the failure. limit and patience bound the number
// of attempts and the time; 0 stands for the defaults.
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

// Clone returns a copy that shares no mutable data with c.
func (c Chain) Clone() Chain {
	c.Levels, c.Left = cloneLevels(c.Levels), cloneLevels(c.Left)
	c.Reached, c.Tried, c.Worked = slices.Clone(c.Reached), slices.Clone(c.Tried), slices.Clone(c.Worked)
	c.Out = slices.Clone(c.Out)
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

// Depth returns the depth of the deepest level.
func (c Chain) Depth() int { return len(c.Levels) }

// level returns the deepest level.
func (c *Chain) level() *Level { return &c.Levels[len(c.Levels)-1] }

// Option finds an option of a level by its key or, if no key is equal to name, by its id.
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

// runnable reports whether superloop can run something for an option of the level. An option that waits can help only
// where a command has failed. It cannot provide a need that never existed.
func (l Level) runnable(o Choice) bool {
	return o.Command != "" || len(o.WaitsMS) > 0 && (l.Depth == 1 || l.Remedy)
}

// take makes o the chosen option of the level. The zero Choice stands for none.
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

// leave adds a level that the chain leaves without success to Left.
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

// crumb sets the status of the last crumb of a level. The status "" stands for "failed".
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

// Check returns an error that says what is wrong with a chain that was read from a file. A chain that passes can be
// walked.
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

// IsID reports whether s can be the id of a chain, and so the name of its file.
func IsID(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return s != "" && len(s) <= maxID && strings.Trim(s, letters+"._-") == "" && strings.Contains(letters, s[:1]) &&
		!strings.Contains(s, "..") && !strings.HasSuffix(s, ".")
}
