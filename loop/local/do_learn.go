package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/superloop/superloop/loop"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/roles"
	"github.com/superloop/superloop/roles/agent"
	"github.com/superloop/superloop/roles/agent/price"
)

// roleOutcome is the fact that a run's result is.
func (d *driver) roleOutcome(e loop.Effect, role config.Role, res agent.Result, runErr error, timeout time.Duration) loop.RoleEnded {
	p := res.Proc
	f := loop.RoleEnded{Of: loop.To(e), Role: e.Role, Runner: role.Runner, Model: role.Model, Attempt: e.Attempt, ExitCode: p.Code,
		Signal: p.Signal, DurationMS: p.Duration.Milliseconds(), LogDropped: p.LogDropped, LeftBehind: p.LeftBehind,
		SessionID: res.SessionID, Class: string(res.Class), Error: res.ErrorText, Denied: res.Denied, Cut: res.Cut}
	switch p.Ended {
	case proc.TimedOut:
		f.Outcome, f.TimeoutMS = loop.OutcomeTimeout, timeout.Milliseconds()
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
		// The command could not even be made: the configuration is wrong, and
		// trying again would not mend it.
		if p.Ended == "" {
			f.Outcome, f.ExitCode = loop.OutcomeNotStarted, -1
		}
	case f.Error != "": // the CLI's own word
	case p.LogErr != nil:
		f.Error = "the log is not whole: " + p.LogErr.Error()
	case res.MessageProblem != "":
		f.Error = res.MessageProblem
	}
	switch f.Outcome {
	case loop.OutcomeOK, loop.OutcomeInterrupted:
		// What the stream tells of a turn that went well in the end, or that was
		// broken off, decides nothing.
		f.Class = ""
	default:
		f.Category = f.Outcome
		if f.Class != "" {
			f.Category = f.Class
		}
	}
	return f
}

// learn adds what the run tells about money, limits and sessions, and shares
// what it tells about the account with the other loops of this machine.
func (d *driver) learn(f *loop.RoleEnded, role config.Role, account agent.Account, res agent.Result) error {
	if res.Model != "" {
		f.Model = res.Model
	}
	if u := loop.Usage(res.Usage); u != (loop.Usage{}) {
		f.Usage = &u
	}
	if err := d.price(f, account, res); err != nil {
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
		d.accountWorks(account)
	case f.Outcome == loop.OutcomeInterrupted:
	case res.Class.Waits():
		limit := d.meetLimit(account, res.Learned)
		f.Limit = &limit
	case res.Class.NeedsPerson():
		f.Fix = d.loginFix(role, res.Class)
	}
	return nil
}

// price is what the run cost: as the CLI says, else by the table, else unknown.
func (d *driver) price(f *loop.RoleEnded, account agent.Account, res agent.Result) error {
	if res.CostUSD != nil {
		f.CostUSD, f.CostSource = res.CostUSD, "runner"
		return nil
	}
	if d.prices == nil {
		table, err := price.Embedded()
		if err != nil {
			return fmt.Errorf("reading the built-in prices: %w", err)
		}
		own := map[string]price.Rate{}
		for model, r := range d.o.Config.Prices {
			own[model] = price.Rate(r)
		}
		d.prices = table.With(own)
	}
	// A run is many requests, and only their sum is known. Where a model has a
	// dearer rate for long requests, the lower one is taken and said: a run's sum
	// says nothing about the length of its requests.
	low, high, ok := d.prices.Range(account.Provider, f.Model, res.Usage, d.host.Now(d.state))
	if ok {
		f.CostUSD, f.CostSource = &low, "prices of "+d.prices.Date()
		if low < high {
			f.CostSource += ", lowest tier"
		}
	}
	return nil
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
			return d.host.Full(err)
		}
	}
	return d.host.Create("last-message", path, res.FinalMessage)
}

// addUsage appends the run to usage.jsonl: what a role cost, in the original's
// shape. Tokens and cost are null where the runner does not tell them.
func (d *driver) addUsage(f loop.RoleEnded, started time.Time) error {
	line, err := json.Marshal(struct {
		Timestamp  time.Time   `json:"timestamp"`
		RunID      string      `json:"run_id"`
		LoopID     string      `json:"loop_id"`
		Iteration  int         `json:"iteration"`
		Role       string      `json:"role"`
		Attempt    int         `json:"attempt"`
		DurationMS int64       `json:"duration_ms"`
		Runner     string      `json:"runner"`
		Model      *string     `json:"model"`
		Outcome    string      `json:"outcome"`
		CostUSD    *float64    `json:"cost_usd"`
		CostSource string      `json:"cost_source,omitempty"`
		SessionID  *string     `json:"session_id"`
		Usage      *loop.Usage `json:"usage"`
	}{started, d.state.RunID, d.o.LoopID, d.state.Iteration, f.Role, f.Attempt, f.DurationMS, f.Runner,
		orNull(f.Model), f.Outcome, f.CostUSD, f.CostSource, orNull(f.SessionID), f.Usage})
	if err != nil {
		return err
	}
	return d.appendUsage(append(line, '\n'))
}

func (d *driver) appendUsage(line []byte) error {
	w, err := d.o.Disk.OpenAppend("usage", d.paths.File("usage.jsonl"), 0o644)
	if err == nil {
		err = w.Append(line)
		if cerr := w.Close(); err == nil {
			err = cerr
		}
	}
	if err != nil {
		return d.host.Full(err)
	}
	return nil
}
