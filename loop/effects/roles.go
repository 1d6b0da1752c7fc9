package effects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/recovery/classify"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/roles"
	"github.com/superloop/superloop/roles/agent"
	"github.com/superloop/superloop/roles/agent/class"
)

// RoleFiles holds the paths of the files of one attempt of a role: its prompt, its log, and its last message.
type RoleFiles struct{ Prompt, Log, Last string }

// RoleFiles returns the paths of the files of an attempt of a role in an iteration.
func (h *Host) RoleFiles(iteration int, role string, attempt int) RoleFiles {
	base := filepath.Join(h.Paths.Logs(iteration), role)
	if attempt > 1 {
		base = fmt.Sprintf("%s.attempt-%d", base, attempt)
	}
	return RoleFiles{Prompt: base + ".prompt.md", Log: base + ".log", Last: base + ".last-message.md"}
}

// Proposals gives Roles access to the recovery proposals that roles leave behind.
type Proposals interface {
	// Sweep runs before a role starts. It sets aside files that could be mistaken for the role's proposal, and returns
	// the state that follows.
	Sweep(e loop.Effect, s loop.State) (loop.State, error)
	Lies(s loop.State) bool // Lies reports whether a proposal lies in the loop's directory
}

// RoleFailures gives Roles access to the performer of failures, which finds out why roles fail.
type RoleFailures interface {
	// CheckEnvironment makes the environment checks before a role for which they are due. It returns nil if no check
	// keeps the runner from the role.
	CheckEnvironment(ctx context.Context, e loop.Effect, s loop.State, runner string) loop.Fact
	// ClassifyRole classifies the log of a role by rules, if the role's process failed and its adapter does not know
	// why. It records the classification in the journal and returns it, or nil, with the time that it took, in
	// microseconds.
	ClassifyRole(ctx context.Context, e loop.Effect, s loop.State, f loop.RoleEnded, log string) (*failures.Classified, int64)
	// Overrule notes that a role succeeded although an environment check fails.
	Overrule(ctx context.Context, s loop.State, f loop.RoleEnded)
	Facts(ctx context.Context, s loop.State) failures.Facts // Facts returns the facts that are known of the environment
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

// Perform renders the prompt, records the start, runs the agent to its end, and reports how the agent ended and which
// files it left. The fact is loop.RoleEnded. If the role was not started, the fact is loop.Limited or the result of
// CheckEnvironment.
func (r *Roles) Perform(ctx context.Context, e loop.Effect, s loop.State) (loop.Fact, error) {
	if e.Kind != loop.RunRole {
		return nil, fmt.Errorf("performing %s: it is no role", e.Kind)
	}
	s, err := r.Proposals.Sweep(e, s)
	if err != nil {
		return nil, err
	}
	set := r.Settings()
	role, unfit := r.Runners.choose(e, s, RoleOf(set.Loop, e.Role))
	if fact := r.Failures.CheckEnvironment(ctx, e, s, role.Runner); fact != nil {
		return fact, nil
	}
	who, _ := AgentOf(set.Config, config.Choice{Runner: role.Runner, Model: role.Model}, r.Env())
	files := r.RoleFiles(s.Iteration, e.Role, e.Attempt)
	req := r.request(e, s, role, set.Config.Runners[role.Runner], files)
	account := agent.AccountOf(req, r.Env())
	if r.Admit != nil {
		leave, err := r.Admit(ctx, account)
		if err != nil || leave == nil {
			return nil, err
		}
		defer leave()
	}
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
	// The old last message must not be mistaken for the last message of this attempt.
	if err := r.clear("last-message", files.Last); err != nil {
		return nil, err
	}
	if err := r.Disk.Remove("last-message", files.Last); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, r.Full(err)
	}
	if file, ok := roles.Deliverable(e.Role); ok {
		if err := r.Disk.Clear("report", r.Paths.File(file)); err != nil {
			return nil, r.Full(err)
		}
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
	x := run{role: role, who: who}
	if role.Name == roles.Implementer && slices.Contains(r.insists(), config.InsistChange) {
		x.tree = r.treeNow(ctx, s)
	}
	started := r.Now(s)
	res, asked, runErr := r.Turns.Run(ctx, s, req, role, log)
	x.ended = r.Clock()
	if err := log.Close(); err != nil && res.Proc.LogErr == nil {
		res.Proc.LogErr = err
	}
	f := Outcome(e, role, res, runErr)
	asked.tell(&f)
	if f.Outcome == loop.OutcomeTimeout && capped {
		f.Category = loop.ReasonMaxWallTime
	}
	if err := r.Turns.Learn(s, &f, role, account, res); err != nil {
		return nil, err
	}
	f.LogFile, f.LastFile = r.Paths.Rel(files.Log), r.Paths.Rel(files.Last)
	if out := roles.Check(r.Paths.Loop, e.Role, stamp); out.File != "" && !r.Settings().Loop.PromptOnly { // it keeps notes, and owes no report
		f.OutputFile, f.Output = out.File, string(out.Status)
		if out.Status == roles.Fresh {
			f.Digest = ReportDigest(r.Paths.File(out.File))
		}
	}
	f.Proposal = r.Proposals.Lies(s)
	x.known, x.classifyUS = r.Failures.ClassifyRole(ctx, e, s, f, files.Log)
	if lost := r.Repo.Lost(); lost != nil && f.Outcome != loop.OutcomeInterrupted {
		f.Outcome, f.Class, f.Error, f.Fix = loop.OutcomeError, string(class.Repository), lost.Error(), lost.Fix
	} else {
		r.detect(ctx, s, &f, x)
	}
	if f.Outcome == loop.OutcomeOK {
		r.Snapshots.Keep(s)
		r.Failures.Overrule(ctx, s, f)
	}
	if err := r.Turns.KeepLastMessage(files.Last, res); err != nil {
		return nil, err
	}
	return f, Usage{r.Host}.Turn(s, f, started)
}

func (r *Roles) startOf(e loop.Effect, role config.Role, req agent.Request, files RoleFiles) loop.RoleStarted {
	f := loop.RoleStarted{Of: loop.To(e), Role: e.Role, Runner: role.Runner, Model: role.Model, Attempt: e.Attempt, Reason: e.Reason,
		PromptFile: r.Paths.Rel(files.Prompt), LogFile: r.Paths.Rel(files.Log), LastMessage: r.Paths.Rel(files.Last),
		SessionID: req.SessionID}
	if req.Resume != nil {
		f.SessionID, f.Resumed = req.Resume.ID, true
	}
	return f
}

func (r *Roles) request(e loop.Effect, s loop.State, role config.Role, runner config.Runner, files RoleFiles) agent.Request {
	req := r.agentRequest(s, role, runner, e.Attempt, files, e.MaxCostUSD)
	if last := s.Sessions[e.Role]; role.Resume && last.ID != "" && last.Runner == role.Runner {
		req.Resume = &agent.Session{ID: last.ID, Totals: totalsOf(last.Totals)}
	} else if agent.For(req.CLI).Profile().ChoosesSession {
		req.SessionID = agent.NewSessionID()
	}
	return req
}

// totalsOf decodes a session's counters, and returns nil if there are none. The machine keeps the counters as JSON,
// because only an adapter knows what they mean.
func totalsOf(told json.RawMessage) *agent.Totals {
	if len(told) == 0 {
		return nil
	}
	var t agent.Totals
	if json.Unmarshal(told, &t) != nil {
		return nil // somebody edited them by hand: the adapter then takes the session's counters as they are
	}
	return &t
}

// insists returns the conditions that a turn must meet besides its end without an error. A turn that does not meet them
// has failed.
func (r *Roles) insists() []string {
	if list := r.Settings().Loop.Respond.Insist; list != nil {
		return list
	}
	return []string{config.InsistReport}
}

// treeNow returns the signature of the work tree, or "" if git cannot tell it.
func (r *Roles) treeNow(ctx context.Context, s loop.State) string {
	sig, err := r.Tree.Look(ctx, s)
	r.Warn("whether the role changes anything cannot be told", err)
	return sig
}

// run holds what is known of a role's run besides its fact.
type run struct {
	role       config.Role
	who        failures.Agent
	tree       string               // signature of the work tree before a role that must change a file, else ""
	ended      time.Time            // when the process had ended
	known      *failures.Classified // the classification of its output by rules
	classifyUS int64                // time of the classification, in microseconds
}

// detect decides whether a run has failed and how, and puts the failure into the fact of the run.
func (r *Roles) detect(ctx context.Context, s loop.State, f *loop.RoleEnded, x run) {
	must := r.insists()
	asked := func(what string) bool {
		return slices.Contains(must, what) && f.Outcome == loop.OutcomeOK && !f.Proposal
	}
	o := failures.RoleOutcome{Task: r.Task(f.Role), Agent: x.who, RunID: s.RunID, Iteration: s.Iteration, Attempt: f.Attempt,
		Outcome: f.Outcome, ExitCode: f.ExitCode, Signal: f.Signal, Class: f.Class, Error: f.Error, DurationMS: f.DurationMS,
		Output: f.Output, MustReport: asked(config.InsistReport) && f.OutputFile != "", Classified: x.known, At: r.Now(s)}
	if f.Limit != nil {
		o.Until = f.Limit.Until
	}
	if asked(config.InsistDifference) && f.Output == string(roles.Fresh) {
		o.MustDiffer, o.Digest, o.LastDigest = true, f.Digest, s.LastRoles[f.Role].Digest
	}
	if asked(config.InsistChange) && x.tree != "" {
		o.MustChange, o.TreeBefore, o.Tree = true, x.tree, r.treeNow(ctx, s)
	}
	ev, failed := failures.Detect(o, classify.Signature)
	if failed && f.Outcome == loop.OutcomeOK {
		if o.MustReport && f.Output != string(roles.Fresh) && r.Settings().Loop.Respond.Insist == nil {
			ev.Why += " (" + f.OutputFile + `); "respond": {"insist": []} asks for none`
		}
		f.Outcome, f.Error, f.Category = loop.OutcomeUnfit, ev.Why, string(ev.Kind)
	}
	if s.Plan.Respond == nil {
		return // the machine only runs the role again
	}
	if failed {
		f.Failure = &loop.FailureFact{Event: ev, ClassifyUS: x.classifyUS}
	}
	tripped, alerts := r.Runners.end(s, x.who, f)
	f.Alerts = alerts
	if !failed {
		return
	}
	r.whyEverywhere(ctx, s, f)
	f.Failure.Tripped, f.Failure.Candidates = tripped, r.Runners.Candidates(s, f.Role)
	begun := r.Clock()
	l := failures.New(o.Task, x.who, s.Plan.Respond.Limits, o.At)
	if have := s.Response.Policy; have != nil && have.Phase == failures.Working {
		l = *have
	}
	// This call only measures how long the decision takes. The machine takes the decision itself, and it has no clock.
	_, _ = failures.Next(l, ev, f.Failure.Candidates, o.At)
	now := r.Clock()
	f.Failure.RespondUS = now.Sub(begun).Microseconds()
	f.Failure.DetectMS = now.Sub(x.ended).Milliseconds()
}

// whyEverywhere looks, by rules, for the cause of failures that affect more than this role, and puts the cause into
// their alerts.
func (r *Roles) whyEverywhere(ctx context.Context, s loop.State, f *loop.RoleEnded) {
	if !slices.ContainsFunc(f.Alerts, func(a failures.Alert) bool { return a.Analyse }) {
		return
	}
	e := f.Failure.Event
	h := s.Response.History.Clone()
	h.Add(e, failures.StepNone)
	rc := failures.Analyse(failures.Case{RunID: s.RunID, Iteration: s.Iteration, Task: e.Task, History: h.Of(e.Task), Facts: r.Failures.Facts(ctx, s)}, e.At)
	if rc.Type == failures.CauseUnknown {
		return // an alert is for operators, so a guess may stand in it
	}
	for i := range f.Alerts {
		if f.Alerts[i].Analyse {
			f.Alerts[i].Cause = rc.Possibly()
		}
	}
}
