package selftest

import (
	"time"

	"github.com/superloop/superloop/internal/testkit/mockapi"
)

// Traits are what is known to differ from CLI to CLI (docs/agents.md).
type Traits struct {
	// API is the one that it speaks to the mock.
	API mockapi.API
	// TellsCost: the stream has the cost of the run.
	TellsCost bool
	// TellsReset: the stream says when a limit ends.
	TellsReset bool
	// SleepsOnLimit: told to wait for hours, it waits in silence. Nothing but the
	// bound of silence ends that.
	SleepsOnLimit bool
	// RetriesLong: it tries for minutes when its provider is busy, and says so
	// as it goes.
	RetriesLong bool
	// CountsSide: the usage has the requests on the side in it.
	CountsSide bool
	// Overload is the status with which its provider says that it is busy.
	Overload int
	// Start is how long it may take on a busy machine to ask its model for the
	// first time; it prints nothing before.
	Start time.Duration
}

// TraitsOf are the traits of a CLI that mockapi.Environment knows.
func TraitsOf(cli string) Traits {
	switch cli {
	case "claude":
		return Traits{API: mockapi.Anthropic, TellsCost: true, TellsReset: true, Overload: 529, Start: 20 * time.Second}
	case "codex":
		return Traits{API: mockapi.OpenAI, TellsReset: true, Overload: 503, Start: 20 * time.Second}
	case "gemini":
		return Traits{API: mockapi.Gemini, CountsSide: true, RetriesLong: true, Overload: 503, Start: 60 * time.Second}
	}
	return Traits{API: mockapi.Anthropic, TellsCost: true, SleepsOnLimit: true, Overload: 529, Start: 90 * time.Second}
}
