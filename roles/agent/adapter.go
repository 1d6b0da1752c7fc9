package agent

import (
	"path/filepath"
	"time"

	"github.com/superloop/superloop/internal/proc"
)

// Adapter is what superloop knows about one CLI. It holds no state; each run
// has its own Stream.
type Adapter interface {
	// Name is one lower-case word, for events and messages.
	Name() string
	// Matches tells the CLI by its program: the last element of Command[0].
	// A wrapper (npx, env, a shell) is not looked through.
	Matches(program string) bool
	// Command makes the complete command from a checked Request. environ is
	// the supervisor's environment.
	Command(req Request, environ []string) (Command, error)
	// Stream reads the output of one run of that command.
	Stream(req Request) Stream
}

// Stream reads what one process prints. Its methods are never called at the
// same time, and Finish once, last.
type Stream interface {
	// Stdout and Stderr take the bytes as they come, cut anywhere, and keep no
	// reference to p. They must not block: the process waits for them.
	Stdout(p []byte)
	Stderr(p []byte)
	// LastLine is what the agent said last, fit for one line of a screen (see
	// Result.LastLine); "" while it has said nothing.
	LastLine() string
	// Finish gives what was learned, with the way the process ended.
	Finish(end proc.Result) Learned
}

// Learned is what a CLI's own output tells. The zero value is "nothing": the
// generic adapter never knows more.
type Learned struct {
	// FinalMessage is the agent's final answer; "" when the stream has none.
	FinalMessage string
	SessionID    string
	Usage        Usage
	// CostUSD of this run alone, not of the session; nil is unknown, which is
	// not 0.
	CostUSD *float64
	// StopReason is the CLI's own word for why it stopped.
	StopReason string
	// Limit is set when the provider refused for a limit of rate or quota.
	Limit *Limit
	// ErrorClass is the adapter's word for what went wrong, and ErrorText the
	// CLI's; both "" when the stream shows no error.
	ErrorClass, ErrorText string
}

// Usage counts tokens of one run; nil is unknown. Input excludes what was read
// from or written to a cache; Output includes reasoning where the CLI counts
// it so.
type Usage struct {
	Input, Output, CacheRead, CacheWrite, Reasoning *int64
}

// Limit is a refusal that time will lift.
type Limit struct {
	Text string
	// ResetsAt is zero when the CLI does not tell.
	ResetsAt time.Time
}

// Adapters returns all adapters, the most particular first. The last one
// matches every program.
func Adapters() []Adapter {
	return []Adapter{claude{}, codex{}, generic{}}
}

// ForCommand returns the first adapter of Adapters that knows the program.
func ForCommand(program string) Adapter {
	base := filepath.Base(program)
	for _, a := range Adapters() {
		if a.Matches(base) {
			return a
		}
	}
	return generic{}
}
