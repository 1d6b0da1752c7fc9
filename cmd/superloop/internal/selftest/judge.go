package selftest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/testkit/mockapi"
	"github.com/superloop/superloop/recovery/permit"
	"github.com/superloop/superloop/roles/agent"
	"github.com/superloop/superloop/roles/agent/class"
)

// Seen holds all observations of one case.
type Seen struct {
	Result      agent.Result
	Err         error         // why superloop could not make the run
	Wall, Bound time.Duration // the duration of the run; its limit, including the end of its processes

	Calls    []mockapi.Record // the requests with the usage that the mock reported
	ResetsAt time.Time        // the end of the limit that the mock reported
	Session  string           // the session id that superloop gave the run; "" if the CLI chooses one
	// Written is the content of the file that the model asked for; "" if there is none. ToolOutput is the output of a
	// tool as the model received it.
	Written, ToolOutput string
	ToolRan             bool // the shell command of the kill case had begun

	// Blind is true if this system has no process table to look at. Otherwise Left lists the processes of the run that
	// still existed after it, and Bare those that had the key among their arguments.
	Blind      bool
	Left, Bare []string
	// Of a case in which the CLI asks before it uses tools: what it asked, the text files that it left in Work, whether one
	// was there before the answer, and what the model was told of a refusal.
	Asked []permit.Request
	Files []string
	Work  string
	Early bool
	Told  string
	// Leaks are the places in which the key could be read although superloop removes it: log, message, error, progress.
	Leaks []string
}

// ending says in a few words how the process ended.
func (s Seen) ending() string {
	p := s.Result.Proc
	by := map[proc.Reason]string{proc.NotStarted: fmt.Sprintf("not started: %v", p.Err), proc.Inactive: "ended by superloop, as silent",
		proc.TimedOut: "ended by superloop, out of time", proc.Killed: "killed", proc.Lost: "lost with the spawner process"}[p.Ended]
	switch {
	case s.Err != nil:
		return s.Err.Error()
	case p.Ended == proc.NotStarted:
	case s.Result.Cut == agent.CutHopeless:
		return "ended by superloop, as hopeless"
	case s.Result.Cut == agent.CutFinished:
		return "ended by superloop, after its last event"
	}
	if by == "" && p.Signal != "" {
		by = "ended by " + p.Signal
	}
	return cmp.Or(by, fmt.Sprintf("exit code %d", p.Code))
}

// expect compares two texts. If they differ, the check gets the status otherwise.
func expect(what, want, got string, otherwise Status) Check {
	return holds(what, want == got, otherwise, want, got)
}

// holds makes a check of a condition. If ok is false, the check gets the status otherwise.
func holds(what string, ok bool, otherwise Status, want, got string) Check {
	c := Check{What: what, Status: OK, Expected: want, Seen: got}
	if !ok {
		c.Status = otherwise
	}
	return c
}

// succeeded checks that the run counts as done and that its final message is message.
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
	var problems []string // requests that the mock could not answer as scripted
	for _, r := range s.Calls {
		if r.Error != "" {
			problems = append(problems, fmt.Sprintf("request %d: %s", r.N, r.Error))
		}
	}
	if len(problems) > 0 {
		list = append(list, holds("requests", false, Failed, "answered as planned", strings.Join(problems, "; ")))
	}
	return list
}

// refused checks that the run counts as failed, with the class want.
func refused(s Seen, want class.Class) []Check {
	r := s.Result
	otherwise := Failed
	if want.Waits() && r.Class.Waits() || want.NeedsPerson() && r.Class.NeedsPerson() {
		otherwise = Differs // for classes of the same group the loop does nearly the same
	}
	got := cmp.Or(string(r.Class), "none")
	if r.ErrorText != "" {
		got += ": " + r.ErrorText
	}
	return []Check{
		holds("outcome", s.Err == nil && !r.OK(), Failed, "counts as failed", s.ending()),
		holds("class", r.Class == want, otherwise, string(want), got),
		holds("end", r.Proc.Ended == proc.Exited || r.Cut != "", Differs, "ends by itself, or is hopeless by its own words", s.ending()),
		nothingUsed(s),
	}
}

// nothingUsed checks that superloop counted no tokens, because the mock reported none.
func nothingUsed(s Seen) Check {
	got := "none"
	if n, known := s.Result.Usage.Total(); known && n > 0 {
		got = usageText(s.Result.Usage)
	}
	return expect("usage", "none", got, Failed)
}

// used compares the usage that superloop counted with the usage that the mock reported. They must agree to the token.
func used(s Seen, t Traits) Check {
	main := slices.DeleteFunc(slices.Clone(s.Calls), func(r mockapi.Record) bool { return r.Side })
	alone, _ := mockapi.Total(main)
	all, _ := mockapi.Total(s.Calls)
	want, other, but := alone, all, " (with the requests on the side)"
	if t.CountsSide {
		want, other, but = all, alone, " (without the requests on the side)"
	}
	got := s.Result.Usage
	c := Check{What: "usage", Status: Failed, Expected: usageText(counted(want)), Seen: usageText(got)}
	switch {
	case equal(got, counted(want)):
		c.Status = OK
	case equal(got, counted(other)):
		c.Status, c.Seen = Differs, c.Seen+but
	case got == agent.Usage{}:
		c.Status = Differs
	}
	return c
}

// kinds returns the counts of a usage and their names.
func kinds(u agent.Usage) ([5]*int64, [5]string) {
	return [5]*int64{u.Input, u.CacheRead, u.CacheWrite, u.Output, u.Reasoning}, [5]string{"input", "cache read", "cache write", "output", "reasoning"}
}

// equal reports whether got agrees with want in each kind of token. got must report input and output. It may leave out
// the reasoning, and a kind whose count in want is 0.
func equal(got, want agent.Usage) bool {
	if got.Input == nil || got.Output == nil {
		return false
	}
	g, name := kinds(got)
	w, _ := kinds(want)
	for i := range g {
		if g[i] == nil && *w[i] != 0 && name[i] != "reasoning" || g[i] != nil && *g[i] != *w[i] {
			return false
		}
	}
	return true
}

// counted converts a usage of the mock into the usage that a CLI would report if it reported everything.
func counted(u mockapi.Usage) agent.Usage {
	return agent.Usage{Input: &u.Input, CacheRead: &u.CacheRead, CacheWrite: &u.CacheWrite, Output: &u.Output, Reasoning: &u.Reasoning}
}

func usageText(u agent.Usage) string {
	var list []string
	counts, name := kinds(u)
	for i, n := range counts {
		if n != nil {
			list = append(list, fmt.Sprintf("%s %d", name[i], *n))
		}
	}
	return cmp.Or(strings.Join(list, ", "), "not told")
}

// paid checks that the CLI reports a cost if it is known to do so, and none otherwise.
func paid(s Seen, t Traits) Check {
	told, cost := map[bool]string{true: "told", false: "not told"}, s.Result.CostUSD
	if cost == nil {
		return expect("cost", told[t.TellsCost], told[false], Differs)
	}
	return holds("cost", t.TellsCost && *cost > 0, Differs, told[t.TellsCost], fmt.Sprintf("%.6f USD", *cost))
}

// remembered checks that superloop knows the id of the session, so that it can resume the session.
func remembered(s Seen) Check {
	got := cmp.Or(s.Result.SessionID, "none")
	if s.Session != "" {
		return expect("session", s.Session, got, Failed)
	}
	return holds("session", s.Result.SessionID != "", Differs, "told", got)
}

// resetDrift is how far a reset time may be off. Some CLIs report only the minute.
const resetDrift = 2 * time.Minute

// resets checks that superloop knows the time at which the limit ends, and that the time is right.
func resets(s Seen, t Traits) Check {
	want, limit := s.ResetsAt.UTC().Format(time.RFC3339), s.Result.Limit
	if !t.TellsReset {
		want = "not told, or " + want
	}
	if limit == nil || limit.ResetsAt.IsZero() {
		return holds("reset", !t.TellsReset, Differs, want, "not told")
	}
	return holds("reset", limit.ResetsAt.Sub(s.ResetsAt).Abs() <= resetDrift, Failed, want, limit.ResetsAt.UTC().Format(time.RFC3339))
}

// ended checks that superloop ended the run for the reason how, and that the run does not count as done.
func ended(s Seen, how proc.Reason, want string) []Check {
	return []Check{
		holds("outcome", s.Err == nil && !s.Result.OK(), Failed, "does not count as done", s.ending()),
		holds("end", s.Result.Proc.Ended == how, Failed, want, s.ending()),
	}
}

// tidy checks that the run kept its time bound, that no process of it is left, and that the key is in no output.
func tidy(s Seen) []Check {
	leaks := "nowhere"
	if len(s.Leaks) > 0 {
		leaks = "in the " + strings.Join(s.Leaks, ", ")
	}
	return []Check{
		expect("key in output", "nowhere", leaks, Failed),
		holds("processes", len(s.Left) == 0, Failed, "none left", s.processes("", s.Left)),
		holds("time", s.Wall <= s.Bound, Failed, "at most "+s.Bound.Round(time.Second).String(), s.Wall.Round(100*time.Millisecond).String()),
	}
}

// processes lists the processes that were found, or says that this system has no process table.
func (s Seen) processes(how string, list []string) string {
	switch {
	case s.Blind:
		return "not looked for: there is no process table here"
	case len(list) == 0:
		return "none"
	}
	return how + strings.Join(list, ", ")
}
