// Package failures performs what the machine asks for when something has failed: it finds out what, why, and whether
// what was installed against it works. It also makes the environment checks before a role.
package failures

import (
	"context"
	"fmt"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/effects"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/roles/agent/cooldown"
)

// Performer performs Diagnose, Analyse and CheckTool. It is used by one goroutine at a time.
type Performer struct {
	*effects.Host
	Journal   effects.Journal
	Rules     *Rules
	Cooldowns *cooldown.Store
	Policies  func() []*recovery.Policy // those in force, that of the iteration first
	// Score orders the options against failures with a signature by what has helped here before; nil if nothing is
	// known.
	Score      func(signature string) func(option string) float64
	Candidates func(s loop.State, role string) []failures.Candidate // all who may do a role, and how fit each is now
	// Environment is the environment of the last success, zero if there is none, and the one of now.
	Environment func(s loop.State) (was, now failures.Snapshot)
	// Ask runs an agent that is none of the loop's roles to its end. It gives how the run has ended, and the last
	// message, which is only valid if the outcome is OutcomeOK. The run is then in usage.jsonl, and what it told of its
	// account is shared with other loops.
	Ask       func(ctx context.Context, s loop.State, q effects.AgentQuestion) (loop.RoleEnded, string, error)
	Processes ProcessTable
}

// ProcessTable is where processes are seen and ended.
type ProcessTable struct {
	Dir string // "/proc", or a directory like it. Without one nothing can be seen.
	// Sweep ends the processes with an entry in their environment (proc.Sweep), and gives their numbers.
	Sweep func(marker string) []int
}

// Perform performs one effect.
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
