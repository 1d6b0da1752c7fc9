// Package failures performs the effects that the machine asks for when something has failed. It diagnoses what has
// failed, analyses why, and checks whether a tool that was installed as a remedy works. It also makes the environment
// checks before a role.
package failures

import (
	"context"
	"fmt"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/effects"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/recovery/learn"
	"github.com/superloop/superloop/roles/agent/cooldown"
)

// Performer performs Diagnose, Analyse and CheckTool. One goroutine at a time may use it.
type Performer struct {
	*effects.Host
	Journal   effects.Journal
	Rules     *Rules
	Cooldowns *cooldown.Store
	Policies  func() []*recovery.Policy // the policies in force; the first is the policy of the iteration
	// Past returns a function that says how options did in this repository before, against failures with a signature.
	// nil means that nothing is known.
	Past       func(signature string) func(option string) learn.Past
	Candidates func(s loop.State, role string) []failures.Candidate // all agents for a role, and how fit each is now
	// Environment returns the environment of the last success, zero if there is none, and the current environment.
	Environment func(s loop.State) (was, now failures.Snapshot)
	// Ask runs an agent that is not a role of the loop, to its end. It returns the fact of the run, and the agent's
	// last message. The message is valid only if the outcome is OutcomeOK. Ask also appends the run to usage.jsonl, and
	// shares with other loops what the run reports about its account.
	Ask       func(ctx context.Context, s loop.State, q effects.AgentQuestion) (loop.RoleEnded, string, error)
	Processes ProcessTable
}

// ProcessTable lists and ends processes.
type ProcessTable struct {
	Dir string // "/proc", or a directory like it; if there is none, superloop sees no processes
	// Sweep ends the processes whose environment holds an entry (proc.Sweep), and returns their process ids.
	Sweep func(marker string) []int
}

// Perform performs Diagnose, Analyse or CheckTool.
func (f *Performer) Perform(ctx context.Context, e loop.Effect, s loop.State) (loop.Fact, error) {
	switch e.Kind {
	case loop.Diagnose:
		return f.diagnose(ctx, e, s)
	case loop.Analyse:
		return f.analyse(ctx, e, s)
	case loop.CheckTool:
		return f.checkTool(ctx, e, s)
	}
	return nil, fmt.Errorf("performing %s: this performer has only diagnose, analyse and check_tool", e.Kind)
}
