package selftest

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/internal/testkit/mockapi"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/roles/agent/class"
)

const done = "The work is done.\n\n<promise>SELFTEST</promise>"

const written = "one line\nand another\n"

// place is where a case happens.
type place struct {
	work string
	// nap is how many seconds the command to be killed sleeps: a number that no other process has as an argument.
	nap      string
	resetsAt time.Time
}

func (p place) file() string    { return filepath.Join(p.work, "written.txt") }
func (p place) started() string { return filepath.Join(p.work, "started") }

// scenario is one case before it is driven.
type scenario struct {
	name         string
	script       func(p place, t Traits) mockapi.Script // what the model does
	subscription bool                                   // claude is logged in with a subscription's token
	silence      time.Duration                          // the bound of silence; 0 is that of the CLI's start
	brief        bool                                   // the run is ended soon where the CLI would try for minutes
	kill         bool                                   // the run is killed once its command has begun
	judge        func(s Seen, t Traits) []Check         // is pure
}

const (
	work    = 45 * time.Second // what a run may take beyond its start
	briefly = 25 * time.Second // the same for a run that is ended before its CLI gives up
	grace   = 15 * time.Second // what the processes get between TERM and KILL, as in a loop
)

// scenarios are the cases, the most important first.
func scenarios() []scenario {
	// always is a model that gives one reply to everything.
	always := func(r mockapi.Reply) func(place, Traits) mockapi.Script {
		return func(place, Traits) mockapi.Script { return mockapi.Always(r) }
	}
	return []scenario{
		{
			name: "success",
			script: func(place, Traits) mockapi.Script {
				return mockapi.Sequence(mockapi.Reply{Thinking: "There is not much to do here.", Text: done})
			},
			judge: func(s Seen, t Traits) []Check {
				return append(succeeded(s, done), used(s, t), paid(s, t), remembered(s))
			},
		},
		{name: "tools", script: useTools, judge: judgeTools},
		{
			name: "refused key (401)", script: always(mockapi.Reply{Status: 401}),
			judge: func(s Seen, _ Traits) []Check { return refused(s, class.Auth) },
		},
		{
			name: "limit (429)", subscription: true, silence: 25 * time.Second, judge: judgeLimit,
			script: func(p place, t Traits) mockapi.Script { return mockapi.Always(mockapi.Limit(t.API, p.resetsAt)) },
		},
		{
			name: "overload (529 or 503)", brief: true, judge: judgeOverload,
			script: func(_ place, t Traits) mockapi.Script { return mockapi.Always(mockapi.Reply{Status: t.Overload}) },
		},
		{
			name: "hang", silence: 12 * time.Second, script: always(mockapi.Reply{Hang: mockapi.HangBeforeHeaders}),
			judge: func(s Seen, _ Traits) []Check {
				asked := map[bool]string{true: "the model was asked", false: "the model was never asked"}
				return append(ended(s, proc.Inactive, "ended by superloop, as silent"),
					expect("request", asked[true], asked[len(s.Calls) > 0], Differs), nothingUsed(s))
			},
		},
		{
			name: "kill", kill: true, script: sleep,
			judge: func(s Seen, _ Traits) []Check {
				begun := map[bool]string{true: "had begun", false: "never began"}
				return append(ended(s, proc.Killed, "killed"), expect("command", begun[true], begun[s.ToolRan], Failed))
			},
		},
		{name: "secrets", script: tellSecrets, judge: judgeSecrets},
	}
}

// useTools writes a file by a tool, reads it by a command, and ends when that has come back.
func useTools(p place, _ Traits) mockapi.Script {
	return func(c mockapi.Call) mockapi.Reply {
		switch {
		case c.Side:
			return mockapi.Reply{Text: c.SmallTalk()}
		case c.Turn == 1:
			return mockapi.Reply{Text: "I write the file.", Tools: []mockapi.Tool{{Write: &mockapi.File{Path: p.file(), Content: written}}}}
		case c.Turn == 2:
			return mockapi.Reply{Tools: []mockapi.Tool{{Shell: "cat " + text.Word(p.file())}}}
		}
		return mockapi.Reply{Text: done}
	}
}

// sleep begins a command that would outlive the test.
func sleep(p place, _ Traits) mockapi.Script {
	return mockapi.Sequence(
		mockapi.Reply{Text: "This takes a while.", Tools: []mockapi.Tool{{Shell: "echo begun > " + text.Word(p.started()) + "; sleep " + p.nap}}},
		mockapi.Reply{Hang: mockapi.HangBeforeHeaders})
}

// toldKey is what the agent says of its key.
const toldKey = "The key is %s, if I may say so."

// tellSecrets has the agent print its environment and say its own key.
func tellSecrets(place, Traits) mockapi.Script {
	return mockapi.Sequence(
		mockapi.Reply{Text: "I look at the environment.", Tools: []mockapi.Tool{{Shell: "env"}}},
		mockapi.Reply{Text: fmt.Sprintf(toldKey, mockapi.Key)})
}

func judgeTools(s Seen, t Traits) []Check {
	cameBack, rest, ok := "its output came back", s.ToolOutput, true
	for line := range strings.Lines(written) { // CLIs put words of their own around what a tool has said
		var found bool
		_, rest, found = strings.Cut(rest, strings.TrimSpace(line))
		ok = ok && found
	}
	got := cameBack
	if !ok {
		got = "came back: " + cmp.Or(s.ToolOutput, "none")
	}
	return append(succeeded(s, done), expect("file", written, s.Written, Failed),
		expect("command", cameBack, got, Failed), used(s, t), paid(s, t), remembered(s))
}

func judgeLimit(s Seen, t Traits) []Check {
	if t.SleepsOnLimit && s.Result.Proc.Ended == proc.Inactive {
		// It is known to be like that: the bound of silence has to do.
		failure := s.Result.Class
		return append(ended(s, proc.Inactive, "ended by superloop, as silent"), nothingUsed(s),
			holds("class", failure == class.None || failure == class.Limit, Failed, "none, since it tells nothing, or rate_limited", cmp.Or(string(failure), "none")),
			resets(s, t))
	}
	return append(refused(s, class.Limit), resets(s, t))
}

func judgeOverload(s Seen, t Traits) []Check {
	list := refused(s, class.Overloaded)
	for i := range list {
		if list[i].What == "end" && t.RetriesLong && s.Result.Proc.Ended == proc.TimedOut {
			list[i] = holds("end", true, Failed, "may go on trying until it is ended", s.ending())
		}
	}
	return list
}

func judgeSecrets(s Seen, _ Traits) []Check {
	return []Check{
		holds("outcome", s.Err == nil && s.Result.OK(), Failed, "counts as done", s.ending()),
		expect("final message", fmt.Sprintf(toldKey, redact.Mark), s.Result.FinalMessage, Failed),
		holds("key among arguments", len(s.Bare) == 0, Failed, "none", s.processes("seen with ", s.Bare)),
	}
}

// Traits are what is known to differ from CLI to CLI (docs/agents.md).
type Traits struct {
	API           mockapi.API   // that it speaks to the mock
	TellsCost     bool          // the stream has the cost of the run
	TellsReset    bool          // the stream says when a limit ends
	SleepsOnLimit bool          // it waits for hours in silence; only the bound of silence ends that
	RetriesLong   bool          // it tries for minutes when its provider is busy, and says so as it goes
	CountsSide    bool          // the usage has the requests on the side in it
	Overload      int           // the status with which its provider says that it is busy
	Start         time.Duration // that it may take on a busy machine to ask its model first; it prints nothing before
}

// TraitsOf are the traits of a CLI that mockapi.Environment knows.
func TraitsOf(cli string) Traits {
	return map[string]Traits{
		"claude":   {API: mockapi.Anthropic, TellsCost: true, TellsReset: true, Overload: 529, Start: 20 * time.Second},
		"codex":    {API: mockapi.OpenAI, TellsReset: true, Overload: 503, Start: 20 * time.Second},
		"gemini":   {API: mockapi.Gemini, CountsSide: true, RetriesLong: true, Overload: 503, Start: 60 * time.Second},
		"opencode": {API: mockapi.Anthropic, TellsCost: true, SleepsOnLimit: true, Overload: 529, Start: 90 * time.Second},
	}[cli]
}
