package effects

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/recovery/permit"
	"github.com/superloop/superloop/roles"
	"github.com/superloop/superloop/roles/agent"
	"github.com/superloop/superloop/roles/agent/price"
)

const logLimit = 64 << 20 // logLimit caps the log of one run of an agent, in bytes

// turnGrace is the time between TERM and KILL for a process tree whose deadline has passed. Some agent CLIs need ten
// seconds to exit.
const turnGrace = 15 * time.Second

// Turns runs an agent CLI for one turn, as a role or as the diagnostician, and learns from the output of the CLI.
type Turns struct {
	*Host
	Runners *Runners
	Permits *Permits
}

// Run runs the agent until it ends or ctx ends it. The role's Timeout and Inactivity bound the run. An error means that
// the run says nothing about the agent, see agent.Run.
func (t *Turns) Run(ctx context.Context, s loop.State, req agent.Request, role config.Role, log io.Writer) (agent.Result, *requests, error) {
	var counts *requests
	var ask permit.Ask
	var hold time.Duration
	if req.Asked = t.Settings().Config.Asked(role.Runner); req.Asked != "" {
		session, err := t.Permits.begin(s, role, req)
		if err != nil {
			return agent.Result{}, nil, err
		}
		ask, hold, counts = session.ask, session.hold(), &session.counts
	}
	res, err := agent.Run(ctx, t.Runner, req, agent.Options{
		Ask: ask, Hold: hold,
		Environ: t.Env(), Timeout: role.Timeout, Inactivity: role.Inactivity, Grace: turnGrace,
		Hurry: Hurry(ctx), Log: log, LogLimit: logLimit,
		WriteFile: func(path, text string) error { return t.Create("agent-file", path, text) },
		Redact:    agent.Secrets(t.Env(), req.CLI.Env), Progress: t.Says(req.Role)})
	return res, counts, err
}

// Outcome turns the result of a run into a fact. runErr is the error of Run.
func Outcome(e loop.Effect, role config.Role, res agent.Result, runErr error) loop.RoleEnded {
	p := res.Proc
	f := loop.RoleEnded{Of: loop.To(e), Role: e.Role, Runner: role.Runner, Model: role.Model, Attempt: e.Attempt, ExitCode: p.Code,
		Signal: p.Signal, DurationMS: p.Duration.Milliseconds(), LogDropped: p.LogDropped, LeftBehind: p.LeftBehind,
		SessionID: res.SessionID, Class: string(res.Class), Error: res.ErrorText, Denied: res.Denied, Cut: res.Cut, HeldMS: res.Held.Milliseconds()}
	switch p.Ended {
	case proc.TimedOut:
		f.Outcome, f.TimeoutMS = loop.OutcomeTimeout, role.Timeout.Milliseconds()
	case proc.Inactive:
		f.Outcome, f.TimeoutMS = loop.OutcomeInactive, role.Inactivity.Milliseconds()
	case proc.NotStarted:
		f.Outcome = loop.OutcomeNotStarted
	case proc.Killed, proc.Exited:
		switch {
		case p.Ended == proc.Killed && res.Cut == "":
			f.Outcome = loop.OutcomeInterrupted
		case res.OK():
			f.Outcome = loop.OutcomeOK
		case p.Ended == proc.Killed || p.Signal == "" && p.Code == 0:
			f.Outcome = loop.OutcomeError
		case p.Signal != "":
			f.Outcome = loop.OutcomeSignal
		default:
			f.Outcome = loop.OutcomeExit
		}
	default:
		f.Outcome = loop.OutcomeLost
	}
	switch {
	case p.Err != nil:
		f.Error = p.Err.Error()
	case runErr != nil:
		f.Error = runErr.Error()
		// superloop could not even make the command. The configuration is wrong, and another attempt would fail in the
		// same way.
		if p.Ended == "" {
			f.Outcome, f.ExitCode = loop.OutcomeNotStarted, -1
		}
	case f.Error != "": // the error text of the CLI counts
	case p.LogErr != nil:
		f.Error = "the log is not whole: " + p.LogErr.Error()
	case res.MessageProblem != "":
		f.Error = res.MessageProblem
	}
	switch f.Outcome {
	case loop.OutcomeOK, loop.OutcomeInterrupted:
		// The stream may report a failure although the turn succeeded in the end or was interrupted. That failure
		// decides nothing.
		f.Class = ""
	default:
		f.Category = cmp.Or(f.Class, f.Outcome)
	}
	return f
}

// Learn adds to the fact what the run reports about cost, limits and sessions. It shares what the run reports about the
// account with the other loops of this machine.
func (t *Turns) Learn(s loop.State, f *loop.RoleEnded, role config.Role, account agent.Account, res agent.Result) error {
	if res.Model != "" {
		f.Model = res.Model
	}
	if u := loop.Usage(res.Usage); u != (loop.Usage{}) {
		f.Usage = &u
	}
	if err := t.price(s, f, account, res); err != nil {
		return err
	}
	if res.Totals != nil {
		raw, err := json.Marshal(res.Totals)
		if err != nil {
			return fmt.Errorf("keeping the session's counters: %w", err)
		}
		f.SessionTotals = raw
	}
	switch {
	case f.Outcome == loop.OutcomeOK:
		t.Runners.works(account)
	case f.Outcome == loop.OutcomeInterrupted:
	case res.Class.Waits():
		limit := t.Runners.meetLimit(s, account, res.Learned)
		f.Limit = &limit
	case res.Class.NeedsPerson():
		f.Fix = loginFix(role.Runner, t.Settings().Config.Runners[role.Runner], res.Class)
	}
	return nil
}

// price sets the cost of the run. The cost comes from the CLI, or else from the table of prices, or else it stays
// unknown.
func (t *Turns) price(s loop.State, f *loop.RoleEnded, account agent.Account, res agent.Result) error {
	if res.CostUSD != nil {
		f.CostUSD, f.CostSource = res.CostUSD, "runner"
		return nil
	}
	if f.Usage == nil {
		return nil // a run without counted tokens has no price, and the table of prices stays unread
	}
	table, err := price.Embedded()
	if err != nil {
		return err
	}
	own := map[string]price.Rate{}
	for model, r := range t.Settings().Config.Prices {
		own[model] = price.Rate(r)
	}
	// A run consists of many requests, and only the sum of their tokens is known. Some models have a higher rate for
	// long requests. price takes the lower rate and says so in CostSource, because the sum does not tell how long each
	// request was.
	low, high, ok := table.With(own).Range(account.Provider, f.Model, res.Usage, t.Now(s))
	if ok {
		f.CostUSD, f.CostSource = &low, "prices of "+table.Date()
		if low < high {
			f.CostSource += ", lowest tier"
		}
	}
	return nil
}

// KeepLastMessage writes the last message to its file if the agent did not do so, so that the gate, the operator and a
// later run read the same message.
func (t *Turns) KeepLastMessage(path string, res agent.Result) error {
	if res.From == roles.FromFile || res.FinalMessage == "" {
		return nil
	}
	return t.Create("last-message", path, res.FinalMessage)
}

// AgentQuestion is a task for an agent that is not a role of the loop.
type AgentQuestion struct {
	Role       config.Role // names the agent's runner, model, permissions and time limit
	Prompt     string
	Files      RoleFiles // absolute
	MaxCostUSD float64   // caps the cost of the agent's run if its runner supports a cap; 0 means no cap
}

// Ask runs an agent that is not a role of the loop. It returns the fact of the run, and the agent's last message if the
// outcome is OutcomeOK.
func (t *Turns) Ask(ctx context.Context, s loop.State, q AgentQuestion) (loop.RoleEnded, string, error) {
	role := q.Role
	req := t.agentRequest(s, role, t.Settings().Config.Runners[role.Runner], 1, q.Files, q.MaxCostUSD)
	if err := t.Create("prompt", q.Files.Prompt, q.Prompt); err != nil {
		return loop.RoleEnded{}, "", err
	}
	log, err := t.File("log", q.Files.Log)
	if err != nil {
		return loop.RoleEnded{}, "", err
	}
	started := t.Now(s)
	res, asked, runErr := t.Run(ctx, s, req, role, log)
	if err := log.Close(); err != nil {
		return loop.RoleEnded{}, "", t.Full(err)
	}
	out := Outcome(loop.Effect{Role: role.Name, Attempt: 1}, role, res, runErr)
	asked.tell(&out)
	err = t.Learn(s, &out, role, agent.AccountOf(req, t.Env()), res)
	if err == nil {
		err = Usage{t.Host}.Turn(s, out, started)
	}
	if err != nil || out.Outcome != loop.OutcomeOK {
		return out, "", err
	}
	return out, res.FinalMessage, t.KeepLastMessage(q.Files.Last, res)
}
