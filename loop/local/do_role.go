package local

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/superloop/superloop/loop"

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
func (d *driver) runRole(shutdown context.Context, e loop.Effect) (loop.Fact, error) {
	if err := d.recoveries.Sweep(e, d.state); err != nil {
		return nil, err
	}
	if fact := d.checkGround(shutdown, e); fact != nil {
		return fact, nil
	}
	role, unfit := d.choose(d.roleConfig(e.Role), e)
	runner := d.o.Config.Runners[role.Runner]
	who, _ := d.agentOf(choiceOf(role))
	files := d.roleFiles(e.Role, e.Attempt)
	req := d.request(e, role, runner, files)
	account := agent.AccountOf(req, d.host.Env())
	if fact, ok := d.coolingDown(role, account); ok {
		return fact, nil
	}
	if unfit.Until.After(d.host.Now(d.state)) {
		return loop.Limited{Of: loop.To(e), Role: role.Name, Runner: role.Runner, Class: loop.ReasonNobodyFit, Source: loop.SourceShared,
			LimitFact: loop.LimitFact{Provider: unfit.Provider, Text: unfit.Why, Until: unfit.Until}}, nil
	}
	if err := d.host.Dir("logs", filepath.Dir(files.log)); err != nil {
		return nil, err
	}
	if err := d.writePrompt(shutdown, e, files); err != nil {
		return nil, err
	}
	// An old last message must not be taken for this attempt's.
	if err := d.o.Disk.Remove("last-message", files.last); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, d.host.Full(err)
	}
	stamp := roles.StampOf(d.paths.Loop, e.Role)
	start := loop.RoleStarted{Of: loop.To(e), Role: e.Role, Runner: role.Runner, Model: role.Model, Attempt: e.Attempt, Reason: e.Reason,
		PromptFile: d.paths.Rel(files.prompt), LogFile: d.paths.Rel(files.log), LastMessage: d.paths.Rel(files.last),
		SessionID: req.SessionID}
	if req.Resume != nil {
		start.SessionID, start.Resumed = req.Resume.ID, true
	}
	err := d.step(start)
	if err != nil {
		return nil, err
	}
	log, err := d.host.File("log", files.log)
	if err != nil {
		return nil, d.host.Full(err)
	}
	timeout, capped := capTimeout(role.Timeout, e.LimitMS)
	d.began(who)
	was := d.lookBefore(shutdown, role)
	started := d.host.Now(d.state)
	var res agent.Result
	var runErr error
	if err := d.underKill(shutdown, func(kill context.Context, hurry <-chan struct{}) {
		res, runErr = agent.Run(kill, d.agents, req, agent.Options{
			Environ: d.host.Env(), Timeout: timeout, Inactivity: role.Inactivity, Grace: roleGrace,
			Hurry: hurry, Log: log, LogLimit: logLimit,
			WriteFile: func(path, text string) error { return d.host.Create("agent-file", path, text) },
			Redact:    agent.Secrets(d.host.Env(), runner.Env), Progress: d.host.Says(e.Role)})
	}); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	ended := time.Now()
	if err := log.Close(); err != nil && res.Proc.LogErr == nil {
		res.Proc.LogErr = err
	}
	f := d.roleOutcome(e, role, res, runErr, timeout)
	if f.Outcome == loop.OutcomeTimeout && capped {
		f.Category = loop.ReasonMaxWallTime
	}
	if err := d.learn(&f, role, account, res); err != nil {
		return nil, err
	}
	f.LogFile, f.LastFile = d.paths.Rel(files.log), d.paths.Rel(files.last)
	if out := roles.Check(d.paths.Loop, e.Role, stamp); out.File != "" {
		f.OutputFile, f.Output = out.File, string(out.Status)
	}
	f.Proposal = d.recoveries.Lies(d.state)
	ground, took := d.classifyRole(shutdown, e, f, files.log)
	d.detect(shutdown, &f, role, who, was, ended, ground, took)
	if f.Outcome == loop.OutcomeOK {
		d.keepSnapshot()
		d.overrule(shutdown, f)
	}
	if err := d.keepLastMessage(files.last, res); err != nil {
		return nil, err
	}
	return f, d.addUsage(f, started)
}

// request is the turn that the effect asks for.
func (d *driver) request(e loop.Effect, role config.Role, runner config.Runner, files roleFiles) agent.Request {
	req := agent.Request{
		CLI:  cliOf(runner),
		Fast: d.o.Fast, PromptPath: files.prompt, LastMessageFile: files.last,
		WorkDir: d.repo.Top, Repo: d.paths.Repo, LoopDir: d.paths.Loop,
		Loop: d.o.LoopID, RunID: d.state.RunID, Role: e.Role, Iteration: d.state.Iteration, Attempt: e.Attempt,
		Model: role.Model, Thinking: role.Thinking, Permissions: role.Permissions, MaxCostUSD: e.MaxCostUSD,
	}
	if last := d.state.Sessions[e.Role]; role.Resume && last.ID != "" && last.Runner == role.Runner {
		req.Resume = &agent.Session{ID: last.ID, Totals: totalsOf(last.Totals)}
	} else if agent.For(req.CLI).Profile().ChoosesSession {
		req.SessionID = newUUID()
	}
	return req
}

// newUUID is a random one (version 4), the form that the CLIs take for the id
// of a session.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // crypto/rand does not fail on any system that Go runs on
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
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
