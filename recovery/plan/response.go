package plan

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// FormatVersion is the version of chain.schema.json.
const FormatVersion = 1

// response is the JSON form of a chain, for programs: see chain.schema.json.
type response struct {
	Version  int               `json:"version"`
	OK       bool              `json:"ok"`
	ID       string            `json:"chain_id"`
	Status   Status            `json:"status"`
	Why      string            `json:"why,omitempty"`
	Goal     Goal              `json:"original_goal"`
	ExitCode int               `json:"exit_code"` // ExitCode, Stderr, Failure and Options are those of the deepest level
	Stderr   string            `json:"stderr"`
	Failure  shownFailure      `json:"failure"`
	Options  []Shown           `json:"options"`          // mostOptions at most
	More     []Shown           `json:"more,omitempty"`   // the options after these, and those that are impossible
	Stack    []shownLevel      `json:"escalation_stack"` // the deepest level first
	Left     []shownLevel      `json:"left,omitempty"`
	Running  *Move             `json:"running,omitempty"`
	Place    shownPlace        `json:"chain"`
	Crumbs   []Crumb           `json:"breadcrumbs"`
	Visited  map[string]string `json:"visited"`
	Tried    []string          `json:"tried"`
	Errors   []Error           `json:"errors"`
	Fallback []shownAction     `json:"fallback_actions"`
	MaxDepth int               `json:"max_depth"`
	Budget   shownBudget       `json:"budget"`
	Created  time.Time         `json:"created_at"`
	Updated  time.Time         `json:"updated_at"`
	State    *Chain            `json:"state,omitempty"` // the chain itself; only in files
}

type shownFailure struct {
	ID          string `json:"failure_id"`
	Category    string `json:"category"`
	Label       string `json:"label"`
	Description string `json:"description,omitempty"`
	Why         string `json:"why,omitempty"`
	Layer       string `json:"matched_layer,omitempty"`
	Method      string `json:"matched_method,omitempty"`
	Signature   string `json:"signature,omitempty"`
}

type shownLevel struct {
	Depth   int        `json:"depth"`
	Failure string     `json:"failure_id"`
	Goal    string     `json:"goal"`
	Label   string     `json:"label"`
	For     string     `json:"for,omitempty"`
	Chosen  *string    `json:"chosen_option"`
	Plan    *shownPlan `json:"plan"`
	Status  string     `json:"status"`
	Options []Shown    `json:"options"`
}

// shownPlan describes what a level does. A level that waits for a deeper level has none.
type shownPlan struct {
	Command    string `json:"command"`
	WorkingDir string `json:"working_dir,omitempty"`
	TimeoutMS  int64  `json:"timeout_ms,omitempty"`
}

// Shown is the JSON form of an option. It does not embed a Draft, because the published form of an option has no timeout_ms.
type Shown struct {
	ID           string   `json:"id"`
	Key          string   `json:"key"`
	Label        string   `json:"label"`
	Description  string   `json:"description,omitempty"`
	Icon         string   `json:"icon,omitempty"`
	Recommended  bool     `json:"recommended"`
	Strategy     string   `json:"strategy"`
	Availability string   `json:"availability"`
	LockReason   string   `json:"lock_reason,omitempty"`
	UnlockDeps   []string `json:"unlock_deps,omitempty"`
	UnlockSteps  int      `json:"unlock_step_count,omitempty"`
	Steps        int      `json:"step_count,omitempty"`
	Impossible   string   `json:"impossible_reason,omitempty"`
	Risk         string   `json:"risk,omitempty"`
	Confidence   string   `json:"confidence,omitempty"`
	Executor     string   `json:"executor"`
	Command      string   `json:"command,omitempty"`
	WorkingDir   string   `json:"working_dir,omitempty"`
	WaitsMS      []int64  `json:"waits_ms,omitempty"`
	Expected     string   `json:"expected_outcome,omitempty"`
	Instructions string   `json:"instructions,omitempty"`
	ByItself     bool     `json:"by_itself"`
	Withheld     string   `json:"withheld,omitempty"`
	Experience   string   `json:"experience,omitempty"`
	Tried        string   `json:"tried,omitempty"` // succeeded, failed, skipped
}

type shownPlace struct {
	ID       string  `json:"chain_id"`
	Goal     string  `json:"original_goal"`
	Depth    int     `json:"depth"` // 0 is the level of the first failure
	MaxDepth int     `json:"max_depth"`
	Crumbs   []Crumb `json:"breadcrumbs"` // without the crumb of the goal itself
}

type shownAction struct {
	ID    string `json:"id"`
	Label string `json:"label"`
}

type shownBudget struct {
	Attempts int       `json:"attempts"`
	Max      int       `json:"max_attempts"`
	Until    time.Time `json:"until,omitzero"`
}

// Response returns the chain as one JSON object, in ASCII, with everything that a screen needs: the failure, the
// options of each level, the stack with the deepest level first, the crumbs, all errors, and the actions that are
// always possible. The object is valid against chain.schema.json.
func Response(c Chain) ([]byte, error) { return marshal(c, nil) }

// Record returns Response with the chain itself in it: the content of a chain's file.
func Record(c Chain) ([]byte, error) { return marshal(c, &c) }

func marshal(c Chain, state *Chain) ([]byte, error) {
	if len(c.Levels) == 0 {
		return nil, fmt.Errorf("writing down chain %q: it has no levels", c.ID)
	}
	deepest := *c.level()
	r := response{Version: FormatVersion, OK: c.Status == Done, ID: c.ID, Status: c.Status, Why: c.Why, Goal: c.Goal,
		ExitCode: deepest.Failure.ExitCode, Stderr: deepest.Failure.Stderr, Failure: shownFailure{ID: deepest.Failure.Handler, Category: deepest.Failure.Category,
			Label: cmp.Or(deepest.Failure.Label, deepest.Failure.Why), Description: deepest.Failure.Description, Why: deepest.Failure.Why,
			Layer: deepest.Failure.Layer, Method: deepest.Failure.Method, Signature: deepest.Failure.Signature},
		Running: c.Running, Crumbs: append([]Crumb{}, c.Crumbs...), Visited: map[string]string{},
		Tried: append([]string{}, c.Tried...), Errors: append([]Error{}, c.Errors...),
		Fallback: []shownAction{{"retry", "Try this level again"}, {"skip", "Leave this option out"}, {"cancel", "Give up"}},
		MaxDepth: MaxDepth, Budget: shownBudget{c.Attempts, c.Limit, c.Until}, Created: c.CreatedAt, Updated: c.UpdatedAt, State: state}
	r.Options, r.More = folded(c.shown(deepest))
	r.Place = shownPlace{ID: c.ID, Goal: c.Goal.Command, Depth: len(c.Levels) - 1, MaxDepth: MaxDepth, Crumbs: []Crumb{}}
	for _, k := range c.Crumbs {
		r.Visited[k.Goal] = k.Status
		if k.Depth > 1 {
			r.Place.Crumbs = append(r.Place.Crumbs, k)
		}
	}
	for i, l := range slices.Backward(c.Levels) {
		r.Stack = append(r.Stack, c.shownLevel(l, c.levelStatus(i)))
	}
	for _, l := range c.Left {
		r.Left = append(r.Left, c.shownLevel(l, "failed"))
	}
	data, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("writing down chain %s: %w", c.ID, err)
	}
	return ascii(data), nil
}

// mostOptions bounds the options of the deepest level that stand before the others.
const mostOptions = 4

// folded parts options: the first mostOptions that are possible, and the others.
func folded(all []Shown) (first, more []Shown) {
	first = []Shown{}
	for _, o := range all {
		if len(first) < mostOptions && o.Availability != impossible {
			first = append(first, o)
		} else {
			more = append(more, o)
		}
	}
	return first, more
}

// levelStatus returns the status of level i, in the words of the schema.
func (c *Chain) levelStatus(i int) string {
	switch {
	case c.Status == Done:
		return "done"
	case c.Status != Open:
		return "failed"
	case i == len(c.Levels)-1 && (c.Running != nil || c.Verifying || c.Levels[i].Chosen != ""):
		return "executing"
	}
	return "pending"
}

func (c *Chain) shownLevel(l Level, status string) shownLevel {
	s := shownLevel{Depth: l.Depth, Failure: l.Failure.Handler, Goal: l.Goal, Label: l.Label, For: l.For, Status: status, Options: c.shown(l)}
	if o, ok := l.Option(l.Chosen); ok && l.Chosen != "" {
		s.Chosen = &o.ID
		if status != "pending" && o.Command != "" {
			s.Plan = &shownPlan{o.Command, o.WorkingDir, o.TimeoutMS}
		}
	}
	return s
}

func (c *Chain) shown(l Level) []Shown {
	out := []Shown{}
	for i, o := range l.Options {
		s := Shown{ID: o.ID, Key: o.Key, Label: o.Label, Description: o.Description, Icon: o.Icon, Steps: o.Steps, Recommended: i == 0 && o.Availability != impossible, Strategy: o.Strategy,
			Availability: o.Availability, Risk: o.Risk, Confidence: o.Confidence, Executor: o.Executor, Command: o.Command, WorkingDir: o.WorkingDir,
			WaitsMS: o.WaitsMS, Expected: o.Expected, Instructions: o.Instructions, ByItself: o.ByItself, Withheld: o.Withheld, Experience: o.Experience, Tried: c.result(o)}
		switch o.Availability {
		case locked:
			s.LockReason, s.UnlockSteps = o.Reason, max(o.UnlockSteps, len(o.Needs))
			for _, n := range o.Needs {
				s.UnlockDeps = append(s.UnlockDeps, n.Goal)
			}
		case impossible:
			s.Impossible = o.Reason
		}
		out = append(out, s)
	}
	return out
}

// Show returns the JSON form of options that stand outside of a chain.
func Show(options []Choice) []Shown { return new(Chain).shown(Level{Options: options}) }

// result says how an option ended, or "" if it was not tried.
func (c *Chain) result(o Choice) string {
	switch {
	case slices.Contains(c.Out, o.Key):
		return "skipped"
	case slices.Contains(c.Worked, o.Key):
		return "succeeded"
	case slices.Contains(c.Tried, o.Key):
		return "failed"
	}
	return ""
}

// ascii escapes JSON so that a terminal shows all of it as plain text. ascii replaces NUL, which strict readers refuse,
// by U+FFFD. All other values stay the same.
func ascii(data []byte) []byte {
	var b strings.Builder
	b.Grow(len(data) + len(data)/16)
	for i, size := 0, 0; i < len(data); i += size {
		var r rune
		r, size = utf8.DecodeRune(data[i:])
		switch {
		case bytes.HasPrefix(data[i:], []byte(`\u0000`)):
			b.WriteString(`\ufffd`)
			size = 6
		case r == '\\':
			size = 2
			b.Write(data[i : i+size])
		case r > 0xffff:
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
		case r > '~':
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteByte(data[i])
		}
	}
	return []byte(b.String())
}
