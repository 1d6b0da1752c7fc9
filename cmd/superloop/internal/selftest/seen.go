package selftest

import (
	"fmt"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/testkit/mockapi"
	"github.com/superloop/superloop/roles/agent"
)

// Seen is all that a case has shown.
type Seen struct {
	Result agent.Result
	// Err says why the run could not be made.
	Err error
	// Wall is the time of the run, Bound what it may take at most with all that
	// ends it.
	Wall, Bound time.Duration

	// Calls are the mock's records, the truth about usage.
	Calls []mockapi.Record
	// Session is the id that the run was given; "" if the CLI chooses one.
	Session string
	// Written is the file that the model asked for; "" if there is none.
	// ToolOutput is what came back of a command.
	Written, ToolOutput string
	// ToolRan: the command that was to be killed had begun.
	ToolRan bool

	// Blind: this system has no process table to look at. Otherwise Left are
	// processes of the run that were still there after it, and Bare those that
	// had the key among their arguments.
	Blind      bool
	Left, Bare []string
	// Leaks are the places where the key could be read although superloop takes
	// it out: log, message, error, progress.
	Leaks []string
	// ResetsAt is when the limit ends, as the mock told it.
	ResetsAt time.Time
}

// told sums what the mock told, and what of it was on the side.
func (s Seen) told() (main, side mockapi.Usage) {
	var m, o []mockapi.Record
	for _, r := range s.Calls {
		if r.Side {
			o = append(o, r)
		} else {
			m = append(m, r)
		}
	}
	main, _ = mockapi.Total(m)
	side, _ = mockapi.Total(o)
	return main, side
}

// problems are requests that the mock could not answer as it was to.
func (s Seen) problems() string {
	var list []string
	for _, r := range s.Calls {
		if r.Error != "" {
			list = append(list, fmt.Sprintf("request %d: %s", r.N, r.Error))
		}
	}
	return strings.Join(list, "; ")
}

// ending is how the process ended, in a few words.
func (s Seen) ending() string {
	p := s.Result.Proc
	switch {
	case s.Err != nil:
		return s.Err.Error()
	case p.Ended == proc.NotStarted:
		return fmt.Sprintf("not started: %v", p.Err)
	case s.Result.Cut == agent.CutHopeless:
		return "ended by superloop, as hopeless"
	case s.Result.Cut == agent.CutFinished:
		return "ended by superloop, after its last event"
	case p.Ended == proc.Inactive:
		return "ended by superloop, as silent"
	case p.Ended == proc.TimedOut:
		return "ended by superloop, out of time"
	case p.Ended == proc.Killed:
		return "killed"
	case p.Ended == proc.Lost:
		return "lost with the spawner process"
	case p.Signal != "":
		return "ended by " + p.Signal
	}
	return fmt.Sprintf("exit code %d", p.Code)
}
