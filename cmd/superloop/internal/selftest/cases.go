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
	"github.com/superloop/superloop/recovery/permit"
	"github.com/superloop/superloop/roles/agent/class"
)

const done = "The work is done.\n\n<promise>SELFTEST</promise>"

const written = "one line\nand another\n"

// place holds the directory and the values of one case.
type place struct {
	work string
	// nap is the number of seconds that the command of the kill case sleeps. No other process has this number as an
	// argument.
	nap      string
	resetsAt time.Time
}

func (p place) file() string    { return filepath.Join(p.work, "written.txt") }
func (p place) started() string { return filepath.Join(p.work, "started") }

// scenario describes one case.
type scenario struct {
	name         string
	script       func(p place, t Traits) mockapi.Script // returns the script of the model's replies
	subscription bool                                   // claude gets the token of a subscription instead of an API key
	silence      time.Duration                          // superloop ends the run after this silence; 0: never
	brief        bool                                   // the run of a CLI that retries for minutes is ended early
	kill         bool                                   // the run is killed once its shell command has begun
	judge        func(s Seen, t Traits) []Check         // judges the outcome; pure
	asked        string                                 // the mode in which the CLI asks before it uses tools; "": it does not
	answer       permit.Answer                          // to each use of a tool
	hold         time.Duration                          // how long it is held before the answer
}

const (
	work    = 45 * time.Second // the time that a run may take in addition to the CLI's start
	briefly = 25 * time.Second // the same for a run that superloop ends before the CLI gives up
	grace   = 15 * time.Second // the time between SIGTERM and SIGKILL
)

// scenarios returns the cases, the most important first.
func scenarios() []scenario {
	// always scripts a model that gives the same reply to every request.
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

// useTools scripts a model that writes a file by a tool, reads it by a shell command, and ends when the output of the
// command has come back.
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

// sleep scripts a model that starts a command that would outlive the test. The judge of the kill case checks that
// superloop ends it.
func sleep(p place, _ Traits) mockapi.Script {
	return mockapi.Sequence(
		mockapi.Reply{Text: "This takes a while.", Tools: []mockapi.Tool{{Shell: "echo begun > " + text.Word(p.started()) + "; sleep " + p.nap}}},
		mockapi.Reply{Hang: mockapi.HangBeforeHeaders})
}

// toldKey is the format of the message in which the agent tells its key.
const toldKey = "The key is %s, if I may say so."

// tellSecrets scripts a model that makes the agent print its environment and tell its own key.
func tellSecrets(place, Traits) mockapi.Script {
	return mockapi.Sequence(
		mockapi.Reply{Text: "I look at the environment.", Tools: []mockapi.Tool{{Shell: "env"}}},
		mockapi.Reply{Text: fmt.Sprintf(toldKey, mockapi.Key)})
}

func judgeTools(s Seen, t Traits) []Check {
	cameBack, rest, ok := "its output came back", s.ToolOutput, true
	for line := range strings.Lines(written) { // CLIs put text of their own around the output of a tool
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
		// This CLI is known to sleep at a limit, and this release of it tells nothing of that.
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

// Traits are the known differences between the CLIs (docs/agents.md).
type Traits struct {
	API           mockapi.API   // the API in which the CLI speaks to the mock
	TellsCost     bool          // the stream reports the cost of the run
	TellsReset    bool          // the stream says when a limit ends
	SleepsOnLimit bool          // at a limit the CLI waits for hours; in a release without the log that tells of it, only the bound of silence ends the run
	RetriesLong   bool          // when its provider is busy, the CLI retries for minutes and reports each retry
	CountsSide    bool          // the reported usage includes the side requests
	Overload      int           // the HTTP status with which its provider says that it is busy
	Start         time.Duration // longest time to the first model request on a busy machine, without output
}

// TraitsOf returns the traits of a CLI that mockapi.Environment knows.
func TraitsOf(cli string) Traits {
	return map[string]Traits{
		"claude":   {API: mockapi.Anthropic, TellsCost: true, TellsReset: true, Overload: 529, Start: 20 * time.Second},
		"codex":    {API: mockapi.OpenAI, TellsReset: true, Overload: 503, Start: 20 * time.Second},
		"gemini":   {API: mockapi.Gemini, CountsSide: true, RetriesLong: true, Overload: 503, Start: 60 * time.Second},
		"opencode": {API: mockapi.Anthropic, TellsCost: true, SleepsOnLimit: true, Overload: 529, Start: 90 * time.Second},
		"qwen":     {API: mockapi.Anthropic, RetriesLong: true, Overload: 529, Start: 60 * time.Second},
		"copilot":  {API: mockapi.Anthropic, Overload: 529, Start: 30 * time.Second},
		"pi":       {API: mockapi.Anthropic, TellsCost: true, SleepsOnLimit: true, Overload: 529, Start: 30 * time.Second},
	}[cli]
}
