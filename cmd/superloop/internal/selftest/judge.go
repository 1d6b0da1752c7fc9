package selftest

import (
	"fmt"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/testkit/mockapi"
	"github.com/superloop/superloop/roles/agent"
	"github.com/superloop/superloop/roles/agent/class"
)

// expect compares text, and a difference has that status.
func expect(what, want, got string, otherwise Status) Check {
	c := Check{What: what, Status: OK, Expected: want, Seen: got}
	if want != got {
		c.Status = otherwise
	}
	return c
}

// holds is a check of a fact.
func holds(what string, ok bool, otherwise Status, want, got string) Check {
	c := Check{What: what, Status: OK, Expected: want, Seen: got}
	if !ok {
		c.Status = otherwise
	}
	return c
}

// succeeded: the run counts as done, with this last message.
func succeeded(s Seen, message string) []Check {
	r := s.Result
	seen := s.ending()
	if !r.OK() {
		seen += ", and does not count as done"
		if r.Class != class.None {
			seen += fmt.Sprintf(" (%s: %s)", r.Class, r.ErrorText)
		}
	}
	list := []Check{
		holds("outcome", s.Err == nil && r.OK(), Failed, "counts as done", seen),
		expect("final message", message, r.FinalMessage, Failed),
		holds("stream", r.Structured, Differs, "read as events", map[bool]string{true: "read as events", false: "read as plain text"}[r.Structured]),
	}
	if text := s.problems(); text != "" {
		list = append(list, holds("requests", false, Failed, "answered as planned", text))
	}
	return list
}

// refused: the run counts as failed, of that class.
func refused(s Seen, want class.Class) []Check {
	r := s.Result
	row := Check{What: "class", Status: Failed, Expected: string(want), Seen: named(r.Class)}
	switch {
	case r.Class == want:
		row.Status = OK
	case want.Waits() && r.Class.Waits(), want.NeedsPerson() && r.Class.NeedsPerson():
		row.Status = Differs // the loop does nearly the same
	}
	if r.ErrorText != "" {
		row.Seen += ": " + r.ErrorText
	}
	ended := r.Proc.Ended == proc.Exited || r.Cut != ""
	return []Check{
		holds("outcome", s.Err == nil && !r.OK(), Failed, "counts as failed", s.ending()),
		row,
		holds("end", ended, Differs, "ends by itself, or is hopeless by its own words", s.ending()),
		nothingUsed(s),
	}
}

func named(c class.Class) string {
	if c == class.None {
		return "none"
	}
	return string(c)
}

// nothingUsed: no tokens are counted where none were told.
func nothingUsed(s Seen) Check {
	n, known := s.Result.Usage.Total()
	got := "none"
	if known && n > 0 {
		got = usageText(s.Result.Usage)
	}
	return expect("usage", "none", got, Failed)
}

// used compares the usage with what the mock told, to the token.
func used(s Seen, t Traits) Check {
	main, side := s.told()
	want, other := main, plus(main, side)
	if t.CountsSide {
		want, other = other, want
	}
	c := Check{What: "usage", Status: Failed, Expected: toldText(want), Seen: usageText(s.Result.Usage)}
	switch {
	case equal(s.Result.Usage, want):
		c.Status = OK
	case equal(s.Result.Usage, other):
		c.Status = Differs
		c.Seen += map[bool]string{true: " (without the requests on the side)", false: " (with the requests on the side)"}[t.CountsSide]
	case s.Result.Usage == agent.Usage{}:
		c.Status = Differs
	}
	return c
}

func plus(a, b mockapi.Usage) mockapi.Usage {
	return mockapi.Usage{Input: a.Input + b.Input, CacheRead: a.CacheRead + b.CacheRead, CacheWrite: a.CacheWrite + b.CacheWrite,
		Output: a.Output + b.Output, Reasoning: a.Reasoning + b.Reasoning}
}

// equal: each kind is told and right; one of which there is nothing, and the
// reasoning, need not be told.
func equal(got agent.Usage, want mockapi.Usage) bool {
	if got.Input == nil || got.Output == nil {
		return false
	}
	for _, k := range []struct {
		got  *int64
		want int64
	}{{got.Input, want.Input}, {got.CacheRead, want.CacheRead}, {got.CacheWrite, want.CacheWrite}, {got.Output, want.Output}} {
		if k.got == nil && k.want != 0 || k.got != nil && *k.got != k.want {
			return false
		}
	}
	return got.Reasoning == nil || *got.Reasoning == want.Reasoning
}

func toldText(u mockapi.Usage) string {
	return usageText(agent.Usage{Input: &u.Input, CacheRead: &u.CacheRead, CacheWrite: &u.CacheWrite, Output: &u.Output, Reasoning: &u.Reasoning})
}

func usageText(u agent.Usage) string {
	var list []string
	for _, k := range []struct {
		name string
		n    *int64
	}{{"input", u.Input}, {"cache read", u.CacheRead}, {"cache write", u.CacheWrite}, {"output", u.Output}, {"reasoning", u.Reasoning}} {
		if k.n != nil {
			list = append(list, fmt.Sprintf("%s %d", k.name, *k.n))
		}
	}
	if len(list) == 0 {
		return "not told"
	}
	return strings.Join(list, ", ")
}

// paid: the cost is told where the CLI is known to tell it.
func paid(s Seen, t Traits) Check {
	got := "not told"
	if s.Result.CostUSD != nil {
		got = "told"
	}
	c := expect("cost", map[bool]string{true: "told", false: "not told"}[t.TellsCost], got, Differs)
	if cost := s.Result.CostUSD; cost != nil {
		c.Seen = fmt.Sprintf("%.6f USD", *cost)
		if *cost <= 0 && t.TellsCost {
			c.Status = Differs
		}
	}
	return c
}

// remembered: the session can be resumed.
func remembered(s Seen) Check {
	got := s.Result.SessionID
	if s.Session != "" {
		return expect("session", s.Session, orNone(got), Failed)
	}
	return holds("session", got != "", Differs, "told", orNone(got))
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

// resetDrift is how far a reset time may be off: some CLIs tell the minute.
const resetDrift = 2 * time.Minute

// resets: the time at which the limit ends is known and right.
func resets(s Seen, t Traits) Check {
	limit := s.Result.Limit
	c := Check{What: "reset", Status: OK, Expected: s.ResetsAt.UTC().Format(time.RFC3339), Seen: "not told"}
	if !t.TellsReset {
		c.Expected = "not told, or " + c.Expected
	}
	if limit == nil || limit.ResetsAt.IsZero() {
		if t.TellsReset {
			c.Status = Differs
		}
		return c
	}
	c.Seen = limit.ResetsAt.UTC().Format(time.RFC3339)
	if off := limit.ResetsAt.Sub(s.ResetsAt).Abs(); off > resetDrift {
		c.Status = Failed
	}
	return c
}

// ended: superloop ended the run, and that is what it says.
func ended(s Seen, how proc.Reason, want string) []Check {
	return []Check{
		holds("outcome", s.Err == nil && !s.Result.OK(), Failed, "does not count as done", s.ending()),
		holds("end", s.Result.Proc.Ended == how, Failed, want, s.ending()),
	}
}

// asked: the CLI was not ended before it asked its model.
func asked(s Seen) Check {
	return holds("request", len(s.Calls) > 0, Differs, "the model was asked", map[bool]string{true: "the model was asked", false: "the model was never asked"}[len(s.Calls) > 0])
}

// tidy: the run kept its bound, nothing of it is left, and the key is nowhere.
func tidy(s Seen) []Check {
	leaks := "nowhere"
	if len(s.Leaks) > 0 {
		leaks = "in the " + strings.Join(s.Leaks, ", ")
	}
	left := "none"
	switch {
	case s.Blind:
		left = "not looked for: there is no process table here"
	case len(s.Left) > 0:
		left = strings.Join(s.Left, ", ")
	}
	return []Check{
		expect("key in output", "nowhere", leaks, Failed),
		holds("processes", len(s.Left) == 0, Failed, "none left", left),
		holds("time", s.Wall <= s.Bound, Failed, "at most "+s.Bound.Round(time.Second).String(), s.Wall.Round(100*time.Millisecond).String()),
	}
}
