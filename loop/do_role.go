package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/roles"
	"github.com/superloop/superloop/roles/agent"
)

// logLimit caps what one role run leaves in its log.
const logLimit = 64 << 20

// roleGrace is what a process tree gets between TERM and KILL at its deadline:
// some agent CLIs take ten seconds to leave.
const roleGrace = 15 * time.Second

// leaveGrace is the same when the supervisor itself has to leave: it has to be
// gone within five seconds.
const leaveGrace = 3 * time.Second

// roleFiles are the files of one attempt.
type roleFiles struct{ prompt, log, last string }

func (d *driver) roleFiles(role string, attempt int) roleFiles {
	base := filepath.Join(d.paths.Logs(d.state.Iteration), role)
	if attempt > 1 {
		base = fmt.Sprintf("%s.attempt-%d", base, attempt)
	}
	return roleFiles{prompt: base + ".prompt.md", log: base + ".log", last: base + ".last-message.md"}
}

func (d *driver) roleConfig(name string) config.Role {
	for _, r := range d.loop.Roles {
		if r.Name == name {
			return r
		}
	}
	return config.Role{Name: name}
}

// runRole renders the prompt, records the start, runs the agent to its end and
// reports how it ended and what it left.
func (d *driver) runRole(shutdown context.Context, e Effect) (Fact, error) {
	role := d.roleConfig(e.Role)
	runner := d.o.Config.Runners[role.Runner]
	files := d.roleFiles(e.Role, e.Attempt)
	if err := d.o.Disk.MkdirAll("logs", filepath.Dir(files.log), 0o755); err != nil {
		return nil, d.full(err)
	}
	if err := d.writePrompt(shutdown, e, files); err != nil {
		return nil, err
	}
	// An old last message must not be taken for this attempt's.
	if err := d.o.Disk.Remove("last-message", files.last); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, d.full(err)
	}
	stamp := roles.StampOf(d.paths.Loop, e.Role)
	err := d.step(RoleStarted{Role: e.Role, Runner: role.Runner, Model: role.Model, Attempt: e.Attempt, Reason: e.Reason,
		PromptFile: d.paths.Rel(files.prompt), LogFile: d.paths.Rel(files.log), LastMessage: d.paths.Rel(files.last)})
	if err != nil {
		return nil, err
	}
	log, err := d.o.Disk.Create("log", files.log, 0o644)
	if err != nil {
		return nil, d.full(err)
	}
	timeout, capped := capTimeout(role.Timeout, e.LimitMS)
	req := agent.Request{
		CLI: agent.CLI{Command: runner.Command, Args: runner.Args, FastArgs: runner.FastArgs,
			PromptMode: runner.PromptMode, Env: runner.Env},
		Fast: d.o.Fast, PromptPath: files.prompt, LastMessageFile: files.last,
		WorkDir: d.repo.Top, Repo: d.paths.Repo, LoopDir: d.paths.Loop,
		Loop: d.o.LoopID, RunID: d.state.RunID, Role: e.Role, Iteration: d.state.Iteration, Attempt: e.Attempt,
		Model: role.Model, Thinking: role.Thinking,
	}
	started := d.now()
	var res agent.Result
	var runErr error
	if err := d.underKill(shutdown, func(kill context.Context, hurry <-chan struct{}) {
		res, runErr = agent.Run(kill, d.spawner, req, agent.Options{
			Environ: environ(d.o), Timeout: timeout, Inactivity: role.Inactivity, Grace: roleGrace,
			Hurry: hurry, Log: log, LogLimit: logLimit, Progress: d.said(e.Role)})
	}); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	if err := log.Close(); err != nil && res.Proc.LogErr == nil {
		res.Proc.LogErr = err
	}
	f := d.roleOutcome(e, role, res, runErr, timeout)
	if f.Outcome == OutcomeTimeout && capped {
		f.Category = ReasonMaxWallTime
	}
	f.LogFile, f.LastFile = d.paths.Rel(files.log), d.paths.Rel(files.last)
	if out := roles.Check(d.paths.Loop, e.Role, stamp); out.File != "" {
		f.OutputFile, f.Output = out.File, string(out.Status)
	}
	if err := d.keepLastMessage(files.last, res); err != nil {
		return nil, err
	}
	return f, d.addUsage(f, started)
}

// capTimeout is the smaller of a role's own bound and what the loop has left.
func capTimeout(own time.Duration, leftMS int64) (_ time.Duration, capped bool) {
	left := ms(leftMS)
	if leftMS > 0 && (own == 0 || left < own) {
		return left, true
	}
	return own, false
}

func (d *driver) said(who string) func(string) {
	if d.o.Observer == nil {
		return nil
	}
	return func(line string) { d.o.Observer.Said(who, line) }
}

// roleOutcome is the fact that a run's result is.
func (d *driver) roleOutcome(e Effect, role config.Role, res agent.Result, runErr error, timeout time.Duration) RoleEnded {
	p := res.Proc
	f := RoleEnded{Role: e.Role, Runner: role.Runner, Model: role.Model, Attempt: e.Attempt, ExitCode: p.Code,
		Signal: p.Signal, DurationMS: p.Duration.Milliseconds(), LogDropped: p.LogDropped, LeftBehind: p.LeftBehind,
		SessionID: res.SessionID, CostUSD: res.CostUSD}
	switch p.Ended {
	case proc.TimedOut:
		f.Outcome, f.TimeoutMS = OutcomeTimeout, timeout.Milliseconds()
	case proc.Inactive:
		f.Outcome, f.TimeoutMS = OutcomeInactive, role.Inactivity.Milliseconds()
	case proc.Killed:
		f.Outcome = OutcomeInterrupted
	case proc.NotStarted:
		f.Outcome = OutcomeNotStarted
	case proc.Exited:
		switch {
		case p.Signal != "":
			f.Outcome = OutcomeSignal
		case p.Code != 0:
			f.Outcome = OutcomeExit
		default:
			f.Outcome = OutcomeOK
		}
	default:
		f.Outcome = OutcomeLost
	}
	switch {
	case p.Err != nil:
		f.Error = p.Err.Error()
	case runErr != nil:
		f.Error = runErr.Error()
		// The command could not even be made: the configuration is wrong, and
		// trying again would not mend it.
		if p.Ended == "" {
			f.Outcome, f.ExitCode = OutcomeNotStarted, -1
		}
	case p.LogErr != nil:
		f.Error = "the log is not whole: " + p.LogErr.Error()
	case res.MessageProblem != "":
		f.Error = res.MessageProblem
	}
	if f.Outcome != OutcomeOK {
		f.Category = f.Outcome
	}
	if u, err := json.Marshal(usageOf(res.Usage)); err == nil && string(u) != "{}" {
		f.Usage = u
	}
	return f
}

// keepLastMessage writes down the message that counts where the agent did not
// do so itself, so that the gate, people and a later start read the same.
func (d *driver) keepLastMessage(path string, res agent.Result) error {
	if res.From == roles.FromFile || res.FinalMessage == "" {
		return nil
	}
	if res.MessageProblem != "" {
		// The agent left a pipe, a link or a folder in its place: out of the way.
		if err := d.o.Disk.Rename("last-message", path, path+".foreign"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return d.full(err)
		}
	}
	return d.create("last-message", path, res.FinalMessage)
}

type usage struct {
	Input      *int64 `json:"input_tokens,omitempty"`
	Output     *int64 `json:"output_tokens,omitempty"`
	CacheRead  *int64 `json:"cache_read_input_tokens,omitempty"`
	CacheWrite *int64 `json:"cache_creation_input_tokens,omitempty"`
	Reasoning  *int64 `json:"reasoning_output_tokens,omitempty"`
}

func usageOf(u agent.Usage) usage {
	return usage{u.Input, u.Output, u.CacheRead, u.CacheWrite, u.Reasoning}
}

// addUsage appends the run to usage.jsonl: what a role cost, in the original's
// shape. Tokens and cost are null where the runner does not tell them.
func (d *driver) addUsage(f RoleEnded, started time.Time) error {
	line, err := json.Marshal(struct {
		Timestamp  time.Time       `json:"timestamp"`
		RunID      string          `json:"run_id"`
		LoopID     string          `json:"loop_id"`
		Iteration  int             `json:"iteration"`
		Role       string          `json:"role"`
		Attempt    int             `json:"attempt"`
		DurationMS int64           `json:"duration_ms"`
		Runner     string          `json:"runner"`
		Model      *string         `json:"model"`
		Outcome    string          `json:"outcome"`
		CostUSD    *float64        `json:"cost_usd"`
		SessionID  *string         `json:"session_id"`
		Usage      json.RawMessage `json:"usage"`
	}{started, d.state.RunID, d.o.LoopID, d.state.Iteration, f.Role, f.Attempt, f.DurationMS, f.Runner,
		orNull(f.Model), f.Outcome, f.CostUSD, orNull(f.SessionID), orJSONNull(f.Usage)})
	if err != nil {
		return err
	}
	w, err := d.o.Disk.OpenAppend("usage", d.paths.File("usage.jsonl"), 0o644)
	if err == nil {
		err = w.Append(append(line, '\n'))
		if cerr := w.Close(); err == nil {
			err = cerr
		}
	}
	if err != nil {
		return d.full(err)
	}
	return nil
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func orJSONNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}
