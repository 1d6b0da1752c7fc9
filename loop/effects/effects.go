package effects

import (
	"context"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/worktree"
	"github.com/superloop/superloop/roles/agent"
)

// Performer performs the effects of one family. A nil fact without an error means that there is no outcome: ctx has
// ended, and the effect is performed again by whoever takes the loop up. An error is a failure of the supervisor, not
// of what was to be done.
type Performer interface {
	Perform(ctx context.Context, e loop.Effect, s loop.State) (loop.Fact, error)
}

// Journal is how a performer writes while it performs.
type Journal interface {
	// Fact puts a fact through the machine that is not the outcome of the effect
	// (role_start, recovery_executing), and gives the state that follows. The fact is
	// in the journal, and on the disk where loop.Synced says so, when it returns.
	Fact(f loop.Fact) (loop.State, error)
	// Record writes a line that is no input of the machine.
	Record(event string, fields any) error
}

// Settings are the configuration in force: that with which the iteration began.
// Next is a newer one that counts from the next iteration on, or Config itself.
type Settings struct {
	Config *config.Config
	Loop   config.Loop
	Next   *config.Config
}

// Host is what the performers of one loop share: where the loop is, and the ways
// to the world. It does not change while the loop runs, but for what Settings gives.
type Host struct {
	LoopID string
	Paths  layout.Paths
	// Repo is where the work is done: the repository, or the loop's own work tree.
	Repo *worktree.Repo
	Disk durable.Disk
	// Runner starts what agents can have written: them, and the tests.
	Runner agent.Runner
	// Environ is the supervisor's environment; nil is os.Environ().
	Environ []string
	// Fast uses each runner's fast_args.
	Fast     bool
	Settings func() Settings
	// Clock is time.Now but in tests; Random gives numbers in [0,1) for jitter.
	Clock  func() time.Time
	Random func() float64
	// Said is told of the last line that a role, the tests or the validation printed; nil is nobody.
	Said func(who, line string)
	Log  *zap.Logger
}

// Env is the environment that agents, tests and commands start from.
func (h *Host) Env() []string {
	if h.Environ != nil {
		return h.Environ
	}
	return os.Environ()
}

// Now is the time of the next event in a state: UTC, milliseconds as the journal
// keeps them, and never before the last one, whatever the clock does.
func (h *Host) Now(s loop.State) time.Time {
	at := h.Clock().UTC().Truncate(time.Millisecond)
	if at.Before(s.UpdatedAt) {
		at = s.UpdatedAt
	}
	return at
}

// Says is where the lines of somebody go; nil if nobody wants them.
func (h *Host) Says(who string) func(string) {
	if h.Said == nil {
		return nil
	}
	return func(line string) { h.Said(who, line) }
}

// Mark is the variable in the environment of everything that a run starts.
func Mark(runID string) string { return "SUPERLOOP_MARK=" + runID }

type hurryKey struct{}

// WithHurry gives a context a channel whose close ends running processes at once,
// instead of after the grace that they have when ctx ends.
func WithHurry(ctx context.Context, hurry <-chan struct{}) context.Context {
	return context.WithValue(ctx, hurryKey{}, hurry)
}

// Hurry is that channel, nil without one.
func Hurry(ctx context.Context) <-chan struct{} {
	hurry, _ := ctx.Value(hurryKey{}).(<-chan struct{})
	return hurry
}
