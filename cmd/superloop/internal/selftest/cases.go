package selftest

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/internal/testkit/mockapi"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/roles/agent/class"
)

// done is the last message that the model gives.
const done = "The work is done.\n\n<promise>SELFTEST</promise>"

// written is what the model asks to be written.
const written = "one line\nand another\n"

// place is where a case happens.
type place struct {
	work string
	// nap is how long the command sleeps that is to be killed, in seconds: a
	// number that no other process has among its arguments.
	nap      string
	resetsAt time.Time
}

func (p place) file() string    { return filepath.Join(p.work, "written.txt") }
func (p place) started() string { return filepath.Join(p.work, "started") }

// scenario is one case before it is driven.
type scenario struct {
	name string
	// script is what the model does.
	script func(p place, t Traits) mockapi.Script
	// subscription: claude is logged in with a subscription's token.
	subscription bool
	// silence is the bound of silence; 0 is that of the CLI's start.
	silence time.Duration
	// brief: the run is ended soon, since the CLI would try for minutes.
	brief func(t Traits) bool
	// kill: the run is killed once its command has begun.
	kill bool
	// judge is pure.
	judge func(s Seen, t Traits) []Check
}

// work is the time beyond its start that a run may take.
const work = 45 * time.Second

// briefly is the same for a run that is ended before its CLI gives up.
const briefly = 25 * time.Second

// leastSilence is the bound of silence for a CLI that starts at once.
const leastSilence = 12 * time.Second

// grace is what the processes get between TERM and KILL, as in a loop.
const grace = 15 * time.Second

// scenarios are the cases, the most important first.
func scenarios() []scenario {
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
		{
			name:   "tools",
			script: useTools,
			judge: func(s Seen, t Traits) []Check {
				return append(succeeded(s, done), expect("file", written, s.Written, Failed),
					expect("command", "its output came back", cameBack(s.ToolOutput), Failed), used(s, t), paid(s, t), remembered(s))
			},
		},
		{
			name: "refused key (401)",
			script: func(place, Traits) mockapi.Script {
				return mockapi.Always(mockapi.Reply{Status: 401})
			},
			judge: func(s Seen, _ Traits) []Check { return refused(s, class.Auth) },
		},
		{
			name:         "limit (429)",
			subscription: true,
			silence:      25 * time.Second,
			script: func(p place, t Traits) mockapi.Script {
				return mockapi.Always(mockapi.Limit(t.API, p.resetsAt))
			},
			judge: judgeLimit,
		},
		{
			name: "overload (529 or 503)",
			script: func(_ place, t Traits) mockapi.Script {
				return mockapi.Always(mockapi.Reply{Status: t.Overload})
			},
			brief: func(t Traits) bool { return t.RetriesLong },
			judge: judgeOverload,
		},
		{
			name:    "hang",
			silence: leastSilence,
			script: func(place, Traits) mockapi.Script {
				return mockapi.Always(mockapi.Reply{Hang: mockapi.HangBeforeHeaders})
			},
			judge: func(s Seen, _ Traits) []Check {
				return append(ended(s, proc.Inactive, "ended by superloop, as silent"), asked(s), nothingUsed(s))
			},
		},
		{
			name:   "kill",
			kill:   true,
			script: sleep,
			judge: func(s Seen, _ Traits) []Check {
				begun := holds("command", s.ToolRan, Failed, "had begun", map[bool]string{true: "had begun", false: "never began"}[s.ToolRan])
				return append(ended(s, proc.Killed, "killed"), begun)
			},
		},
		{
			name:   "secrets",
			script: tellSecrets,
			judge:  judgeSecrets,
		},
	}
}

// useTools writes a file by a tool, reads it by a command, and ends when that
// has come back.
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

func judgeLimit(s Seen, t Traits) []Check {
	if t.SleepsOnLimit && s.Result.Proc.Ended == proc.Inactive {
		// It is known to be like that: the bound of silence has to do.
		failure := s.Result.Class
		return append(ended(s, proc.Inactive, "ended by superloop, as silent"), nothingUsed(s),
			holds("class", failure == class.None || failure == class.Limit, Failed, "none, since it tells nothing, or rate_limited", named(failure)),
			resets(s, t))
	}
	return append(refused(s, class.Limit), resets(s, t))
}

func judgeOverload(s Seen, t Traits) []Check {
	list := refused(s, class.Overloaded)
	if t.RetriesLong && s.Result.Proc.Ended == proc.TimedOut {
		for i := range list {
			if list[i].What == "end" {
				list[i] = holds("end", true, Failed, "may go on trying until it is ended", s.ending())
			}
		}
	}
	return list
}

func judgeSecrets(s Seen, _ Traits) []Check {
	bare := "none"
	switch {
	case s.Blind:
		bare = "not looked for: there is no process table here"
	case len(s.Bare) > 0:
		bare = "seen with " + joined(s.Bare)
	}
	return []Check{
		holds("outcome", s.Err == nil && s.Result.OK(), Failed, "counts as done", s.ending()),
		expect("final message", fmt.Sprintf(toldKey, redact.Mark), s.Result.FinalMessage, Failed),
		holds("key among arguments", len(s.Bare) == 0, Failed, "none", bare),
	}
}

func cameBack(output string) string {
	if containsLines(output, written) {
		return "its output came back"
	}
	return "came back: " + orNone(output)
}
