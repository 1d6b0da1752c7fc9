// Package effects performs the effects that the machine asks for. One performer serves each family of effects. A
// performer is a small type with the ports that it needs.
//
// A performer takes an effect and the state that issued it, acts, and returns the fact that came of it. A performer
// holds no state of the loop, so another process can take its place between two effects. The data that a performer
// keeps in memory is a cache of files on the disk.
//
// An engine (loop/local) chooses the performer by the kind of the effect, and passes the fact to the machine.
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
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/worktree"
	"github.com/superloop/superloop/roles/agent"
)

// Performer performs the effects of one family. A nil fact without an error means that ctx has ended before the effect
// had an outcome. The engine then starts the effect again. An error is a failure of the supervisor, not a failure of
// the work that the effect asked for.
type Performer interface {
	Perform(ctx context.Context, e loop.Effect, s loop.State) (loop.Fact, error)
}

// Journal lets a performer write to the journal while it performs an effect.
type Journal interface {
	// Fact passes a fact to the machine that is not the outcome of an effect (role_start), and returns the state that
	// follows. When Fact returns, the journal holds the fact. Where loop.Synced says so, the fact has been flushed to
	// the disk.
	Fact(f loop.Fact) (loop.State, error)
	Record(event string, fields any) error // Record writes a line that is not an input of the machine
}

// Settings holds the configuration that is in force: the one with which the iteration began. Next is a newer
// configuration that counts from the next iteration on. Without a newer one, Next equals Config.
type Settings struct {
	Config *config.Config
	Loop   config.Loop
	Next   *config.Config
}

// Host holds the values that the performers of one loop share: the paths of the loop, and the ports to the disk, the
// processes and the clock. A Host does not change while the loop runs. Only the result of Settings does.
type Host struct {
	LoopID   string
	Paths    layout.Paths
	Repo     *worktree.Repo // the work tree in which the agents work: the repository, or the loop's own work tree
	Disk     durable.Disk
	Runner   agent.Runner // Runner starts the agents, and the tests, which agents can have written
	Environ  []string     // the supervisor's environment; nil is os.Environ()
	Fast     bool         // Fast uses each runner's fast_args
	Settings func() Settings
	Clock    func() time.Time // the current time: time.Now, but a fake clock in tests
	Random   func() float64   // returns random numbers in [0,1) for jitter
	// Sift chooses what is kept of an output that is larger than its file may be; nil: its ends alone.
	Sift proc.Sift
	// Said receives the last line that a role, the tests or the validation printed. nil means that nobody listens.
	Said func(who, line string)
	Log  *zap.Logger
	// Admit is asked before a role starts; nil admits all.
	Admit Admit
	// Moved is told what was in the way of a file and was moved aside. nil means that nobody listens.
	Moved func(path, to string)
}

// Admit waits until one more role may use an account, and returns the function that gives the place back. A nil function
// means that the role is not to start now. An error means that ctx has ended first.
type Admit func(ctx context.Context, account agent.Account) (leave func(), err error)

// Env returns the environment from which agents, tests and commands start.
func (h *Host) Env() []string {
	if h.Environ != nil {
		return h.Environ
	}
	return os.Environ()
}

// Now returns the time for the next event of a state: in UTC, in whole milliseconds as the journal keeps them, and
// never earlier than the last event, even if the clock goes backwards.
func (h *Host) Now(s loop.State) time.Time {
	at := h.Clock().UTC().Truncate(time.Millisecond)
	if at.Before(s.UpdatedAt) {
		at = s.UpdatedAt
	}
	return at
}

// typed returns a command line of superloop about the repository. It can be pasted in any directory.
func (h *Host) typed(verb, more string) string {
	return "superloop " + verb + " --repo " + text.Paste(h.Paths.Repo) + more
}

// Warn logs an error that does not stop the loop, with a text that says what the error means. It ignores a nil error.
func (h *Host) Warn(what string, err error) {
	if err != nil {
		h.Log.Warn(what, zap.Error(err))
	}
}

// Says returns a function that passes each line of a role, or of the tests or the validation, to Said. It returns nil
// if nobody listens.
func (h *Host) Says(who string) func(string) {
	if h.Said == nil {
		return nil
	}
	return func(line string) { h.Said(who, line) }
}

// Mark returns the environment variable that all processes of a run carry.
func Mark(runID string) string { return "SUPERLOOP_MARK=" + runID }

type hurryKey struct{}

// WithHurry adds a channel to a context. When the channel is closed, running processes end at once, without the grace
// period that they have when ctx ends.
func WithHurry(ctx context.Context, hurry <-chan struct{}) context.Context {
	return context.WithValue(ctx, hurryKey{}, hurry)
}

// Hurry returns the channel that WithHurry added to the context, or nil if there is none.
func Hurry(ctx context.Context) <-chan struct{} {
	hurry, _ := ctx.Value(hurryKey{}).(<-chan struct{})
	return hurry
}

// lingerTime is how long a Linger goes on.
const lingerTime = 3 * time.Second

// Linger returns a context for short work that belongs to the fact which the supervisor records before it leaves. It
// ends three seconds after ctx, or when the hurry of ctx begins, so that work which turns out to be long, such as hashing
// large files, keeps no supervisor from leaving. The caller calls stop when the work is done.
func Linger(ctx context.Context) (lingers context.Context, stop func()) {
	lingers, stop = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		select {
		case <-lingers.Done():
			return
		case <-ctx.Done():
		}
		select {
		case <-lingers.Done():
		case <-Hurry(ctx):
		case <-time.After(lingerTime):
		}
		stop()
	}()
	return lingers, stop
}

// Request describes the run of an agent or of a command: its role, its run, its iteration and its directories.
func (h *Host) Request(s loop.State, role string, attempt int) agent.Request {
	return agent.Request{WorkDir: h.Repo.Top, Repo: h.Paths.Repo, LoopDir: h.Paths.Loop, Loop: h.LoopID, RunID: s.RunID, Role: role,
		Iteration: s.Iteration, Attempt: attempt}
}

// agentRequest describes the run of an agent: the request of the role, with the role's runner, model and permissions.
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

// capTimeout returns the smaller of two bounds: the own bound of a process, and the time that the loop has left. 0
// means no bound.
func capTimeout(own time.Duration, leftMS int64) (_ time.Duration, capped bool) {
	left := ms(leftMS)
	if leftMS > 0 && (own == 0 || left < own) {
		return left, true
	}
	return own, false
}

const usageFile = "usage.jsonl" // one line of JSON for the cost of each run of an agent and of each recovery

// Usage appends lines to usage.jsonl.
type Usage struct{ *Host }

// Turn appends the line of one run of an agent, with the fields of the original (docs/from-the-original.md). Tokens and
// cost are null if the runner does not report them.
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

// Recovery appends the line of a recovery if the fact, which led from before to after, has ended that recovery.
func (u Usage) Recovery(before, after loop.State, fact loop.Fact) error {
	if r, left := loop.RecoveryUsageOf(before, after, fact); left {
		return u.add(r)
	}
	return nil
}
