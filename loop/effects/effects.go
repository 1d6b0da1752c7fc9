// Package effects performs what the machine asks for: one performer per family of effects, each a small type with the
// ports that it needs.
//
// A performer takes an effect and the state that issued it, acts, and gives the fact that came of it. It holds no state
// of the loop, so another process can take its place between two effects. What it keeps in memory is a cache of the
// disk.
//
// An engine (loop/local) chooses the performer by the effect's kind, and puts its fact through the machine.
package effects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// Performer performs the effects of one family. A nil fact without an error means that there is no outcome, because ctx
// has ended: the effect is performed again. An error is a failure of the supervisor, not of what was to be done.
type Performer interface {
	Perform(ctx context.Context, e loop.Effect, s loop.State) (loop.Fact, error)
}

// Journal is how a performer writes while it performs.
type Journal interface {
	// Fact puts a fact through the machine that is no outcome (role_start), and gives the state that follows. When it
	// returns, the fact is in the journal, and on the disk where loop.Synced says so.
	Fact(f loop.Fact) (loop.State, error)
	Record(event string, fields any) error // Record writes a line that is no input of the machine
}

// Settings are the configuration in force: that with which the iteration began. Next is a newer one that counts from
// the next iteration on, or Config itself.
type Settings struct {
	Config *config.Config
	Loop   config.Loop
	Next   *config.Config
}

// Host is what the performers of one loop share: where the loop is, and the ways to the world. It does not change while
// the loop runs, but for what Settings gives.
type Host struct {
	LoopID   string
	Paths    layout.Paths
	Repo     *worktree.Repo // where the work is done: the repository, or the loop's own work tree
	Disk     durable.Disk
	Runner   agent.Runner // Runner starts what agents can have written: them, and the tests
	Environ  []string     // the supervisor's environment; nil is os.Environ()
	Fast     bool         // Fast uses each runner's fast_args
	Settings func() Settings
	Clock    func() time.Time // time.Now but in tests
	Random   func() float64   // gives numbers in [0,1) for jitter
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

// Now is the time of the next event in a state: UTC, milliseconds as the journal keeps them, and never before the last
// one, whatever the clock does.
func (h *Host) Now(s loop.State) time.Time {
	at := h.Clock().UTC().Truncate(time.Millisecond)
	if at.Before(s.UpdatedAt) {
		at = s.UpdatedAt
	}
	return at
}

// Warn logs an error that does not stop the loop, with what it means; nil is none.
func (h *Host) Warn(what string, err error) {
	if err != nil {
		h.Log.Warn(what, zap.Error(err))
	}
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

// WithHurry gives a context a channel whose close ends running processes at once, instead of after the grace that they
// have when ctx ends.
func WithHurry(ctx context.Context, hurry <-chan struct{}) context.Context {
	return context.WithValue(ctx, hurryKey{}, hurry)
}

// Hurry is that channel, nil without one.
func Hurry(ctx context.Context) <-chan struct{} {
	hurry, _ := ctx.Value(hurryKey{}).(<-chan struct{})
	return hurry
}

// Request says which role of which run an agent has, or a command, and where it works.
func (h *Host) Request(s loop.State, role string, attempt int) agent.Request {
	return agent.Request{WorkDir: h.Repo.Top, Repo: h.Paths.Repo, LoopDir: h.Paths.Loop, Loop: h.LoopID, RunID: s.RunID, Role: role,
		Iteration: s.Iteration, Attempt: attempt}
}

// agentRequest is that of a run of an agent, by a role's runner and with its rights.
func (h *Host) agentRequest(s loop.State, role config.Role, runner config.Runner, attempt int, files RoleFiles, maxCostUSD float64) agent.Request {
	req := h.Request(s, role.Name, attempt)
	req.CLI, req.Fast, req.PromptPath, req.LastMessageFile = CLIOf(runner), h.Fast, files.Prompt, files.Last
	req.Model, req.Thinking, req.Permissions, req.MaxCostUSD = role.Model, role.Thinking, role.Permissions, maxCostUSD
	return req
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func isError[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// capTimeout is the smaller of an own bound and what the loop has left.
func capTimeout(own time.Duration, leftMS int64) (_ time.Duration, capped bool) {
	left := ms(leftMS)
	if leftMS > 0 && (own == 0 || left < own) {
		return left, true
	}
	return own, false
}

const usageFile = "usage.jsonl" // what every run of an agent, and every recovery, has cost: one line of JSON each

// Usage appends to usage.jsonl.
type Usage struct{ *Host }

// Turn appends the line of one run of an agent, in the original's shape. Tokens and cost are null where the runner does
// not tell them.
func (u Usage) Turn(s loop.State, f loop.RoleEnded, started time.Time) error {
	return u.add(struct {
		Timestamp  time.Time   `json:"timestamp"`
		RunID      string      `json:"run_id"`
		LoopID     string      `json:"loop_id"`
		Iteration  int         `json:"iteration"`
		Role       string      `json:"role"`
		Attempt    int         `json:"attempt"`
		DurationMS int64       `json:"duration_ms"`
		Runner     string      `json:"runner"`
		Model      loop.OrNull `json:"model"`
		Outcome    string      `json:"outcome"`
		CostUSD    *float64    `json:"cost_usd"`
		CostSource string      `json:"cost_source,omitempty"`
		SessionID  loop.OrNull `json:"session_id"`
		Usage      *loop.Usage `json:"usage"`
	}{started, s.RunID, u.LoopID, s.Iteration, f.Role, f.Attempt, f.DurationMS, f.Runner,
		loop.OrNull(f.Model), f.Outcome, f.CostUSD, f.CostSource, loop.OrNull(f.SessionID), f.Usage})
}

func (u Usage) add(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("making a line of %s: %w", usageFile, err)
	}
	return u.Append("usage", usageFile, append(line, '\n'))
}

// Recovery appends the line of a recovery that the loop has just left, if the fact that led from one state to the other
// has ended one.
func (u Usage) Recovery(before, after loop.State, fact loop.Fact) error {
	if r, left := loop.RecoveryUsageOf(before, after, fact); left {
		return u.add(r)
	}
	return nil
}
