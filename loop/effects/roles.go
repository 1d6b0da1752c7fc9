package effects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/roles"
	"github.com/superloop/superloop/roles/agent"
)

// RoleFiles are the files of one attempt of a role: what it was told, what it printed, and its last message.
type RoleFiles struct{ Prompt, Log, Last string }

// RoleFiles are those of an attempt in an iteration.
func (h *Host) RoleFiles(iteration int, role string, attempt int) RoleFiles {
	base := filepath.Join(h.Paths.Logs(iteration), role)
	if attempt > 1 {
		base = fmt.Sprintf("%s.attempt-%d", base, attempt)
	}
	return RoleFiles{Prompt: base + ".prompt.md", Log: base + ".log", Last: base + ".last-message.md"}
}

// Proposals are the recovery commands that roles propose, as RunRole needs them.
type Proposals interface {
	// Sweep sets aside, before a role starts, what must not be taken for its proposal. It gives the state that follows.
	Sweep(e loop.Effect, s loop.State) (loop.State, error)
	// Lies reports whether there is a proposal to take.
	Lies(s loop.State) bool
}

// RoleFailures are what is known of why roles fail, as RunRole needs it.
type RoleFailures interface {
	// CheckEnvironment looks at the environment before a role that is due for it; nil:
	// nothing keeps the role from its work.
	CheckEnvironment(ctx context.Context, e loop.Effect, s loop.State) loop.Fact
	// ClassifyRole records what rules say of the log of a role whose process failed and whose adapter does not know
	// why. It gives that, or nil, and how many microseconds it has taken.
	ClassifyRole(ctx context.Context, e loop.Effect, s loop.State, f loop.RoleEnded, log string) (*failures.Classified, int64)
	// Overrule notes that a role has done its work although a check said that it could not.
	Overrule(ctx context.Context, s loop.State, f loop.RoleEnded)
	// Facts are what is known of the environment.
	Facts(ctx context.Context, s loop.State) failures.Facts
}

// Roles performs RunRole.
type Roles struct {
	*Host
	Journal   Journal
	Runners   *Runners
	Turns     *Turns
	Prompts   *Prompts
	Snapshots *Snapshots
	Tree      WorkTree
	Proposals Proposals
	Failures  RoleFailures
}

// Perform renders the prompt, records the start, runs the agent to its end and reports how it ended and what it left.
// The fact is loop.RoleEnded, or why the role was not started: loop.Limited, or what CheckEnvironment found.
func (r *Roles) Perform(ctx context.Context, e loop.Effect, s loop.State) (loop.Fact, error) {
	if e.Kind != loop.RunRole {
		return nil, fmt.Errorf("performing %s: it is no role", e.Kind)
	}
	s, err := r.Proposals.Sweep(e, s)
	if err != nil {
		return nil, err
	}
	if fact := r.Failures.CheckEnvironment(ctx, e, s); fact != nil {
		return fact, nil
	}
	set := r.Settings()
	role, unfit := r.Runners.choose(e, s, RoleOf(set.Loop, e.Role))
	who, _ := AgentOf(set.Config, config.Choice{Runner: role.Runner, Model: role.Model}, r.Env())
	files := r.RoleFiles(s.Iteration, e.Role, e.Attempt)
	req := r.request(e, s, role, set.Config.Runners[role.Runner], files)
	account := agent.AccountOf(req, r.Env())
	if fact, ok := r.Runners.coolingDown(e, s, role, account); ok {
		return fact, nil
	}
	if unfit.Until.After(r.Now(s)) {
		return loop.Limited{Of: loop.To(e), Role: role.Name, Runner: role.Runner, Class: loop.ReasonNobodyFit, Source: loop.SourceShared,
			LimitFact: loop.LimitFact{Provider: unfit.Provider, Text: unfit.Why, Until: unfit.Until}}, nil
	}
	if err := r.Prompts.Make(ctx, e, s, files); err != nil {
		return nil, err
	}
	// An old last message must not be taken for this attempt's.
	if err := r.Disk.Remove("last-message", files.Last); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, r.Full(err)
	}
	stamp := roles.StampOf(r.Paths.Loop, e.Role)
	if s, err = r.Journal.Fact(r.startOf(e, role, req, files)); err != nil {
		return nil, err
	}
	log, err := r.File("log", files.Log)
	if err != nil {
		return nil, r.Full(err)
	}
	var capped bool
	role.Timeout, capped = capTimeout(role.Timeout, e.LimitMS)
	r.Runners.began(s, who)
	x := run{role: role, who: who, tree: r.treeBefore(ctx, s, role)}
	started := r.Now(s)
	res, runErr := r.Turns.Run(ctx, req, role, log)
	x.ended = r.Clock()
	if err := log.Close(); err != nil && res.Proc.LogErr == nil {
		res.Proc.LogErr = err
	}
	f := Outcome(e, role, res, runErr)
	if f.Outcome == loop.OutcomeTimeout && capped {
		f.Category = loop.ReasonMaxWallTime
	}
	if err := r.Turns.Learn(s, &f, role, account, res); err != nil {
		return nil, err
	}
	f.LogFile, f.LastFile = r.Paths.Rel(files.Log), r.Paths.Rel(files.Last)
	if out := roles.Check(r.Paths.Loop, e.Role, stamp); out.File != "" {
		f.OutputFile, f.Output = out.File, string(out.Status)
	}
	f.Proposal = r.Proposals.Lies(s)
	x.known, x.classifyUS = r.Failures.ClassifyRole(ctx, e, s, f, files.Log)
	r.detect(ctx, s, &f, x)
	if f.Outcome == loop.OutcomeOK {
		r.Snapshots.Keep(s)
		r.Failures.Overrule(ctx, s, f)
	}
	if err := r.Turns.KeepLastMessage(files.Last, res); err != nil {
		return nil, err
	}
	return f, Usage{r.Host}.Turn(s, f, started)
}

// startOf is the fact that the role is started.
func (r *Roles) startOf(e loop.Effect, role config.Role, req agent.Request, files RoleFiles) loop.RoleStarted {
	f := loop.RoleStarted{Of: loop.To(e), Role: e.Role, Runner: role.Runner, Model: role.Model, Attempt: e.Attempt, Reason: e.Reason,
		PromptFile: r.Paths.Rel(files.Prompt), LogFile: r.Paths.Rel(files.Log), LastMessage: r.Paths.Rel(files.Last),
		SessionID: req.SessionID}
	if req.Resume != nil {
		f.SessionID, f.Resumed = req.Resume.ID, true
	}
	return f
}

// request is the turn that the effect asks for.
func (r *Roles) request(e loop.Effect, s loop.State, role config.Role, runner config.Runner, files RoleFiles) agent.Request {
	req := agent.Request{
		CLI:  CLIOf(runner),
		Fast: r.Fast, PromptPath: files.Prompt, LastMessageFile: files.Last,
		WorkDir: r.Repo.Top, Repo: r.Paths.Repo, LoopDir: r.Paths.Loop,
		Loop: r.LoopID, RunID: s.RunID, Role: e.Role, Iteration: s.Iteration, Attempt: e.Attempt,
		Model: role.Model, Thinking: role.Thinking, Permissions: role.Permissions, MaxCostUSD: e.MaxCostUSD,
	}
	if last := s.Sessions[e.Role]; role.Resume && last.ID != "" && last.Runner == role.Runner {
		req.Resume = &agent.Session{ID: last.ID, Totals: totalsOf(last.Totals)}
	} else if agent.For(req.CLI).Profile().ChoosesSession {
		req.SessionID = agent.NewSessionID()
	}
	return req
}

// totalsOf reads a session's counters back; nil when there are none. The machine
// keeps them as they were told, because only an adapter knows what they mean.
func totalsOf(told json.RawMessage) *agent.Totals {
	if len(told) == 0 {
		return nil
	}
	var t agent.Totals
	if json.Unmarshal(told, &t) != nil {
		return nil // written by hand: then the session's counters are taken as they come
	}
	return &t
}
