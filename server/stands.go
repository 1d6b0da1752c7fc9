package server

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/layout"
)

// Standing is where a loop stands, as its state.json says it.
type Standing struct {
	RunID         string            `json:"run_id,omitempty"`
	Branch        string            `json:"branch,omitempty" doc:"that the work tree has checked out; missing: none, or not known"`
	Reason        string            `json:"reason,omitempty" doc:"why it has this status"`
	Detail        string            `json:"detail,omitempty"`
	StatusSince   *time.Time        `json:"status_since,omitempty"`
	Step          loop.EffectKind   `json:"step,omitempty" doc:"what runs now, or is waited for"`
	Runner        string            `json:"runner,omitempty" doc:"who performs the role that runs"`
	Model         string            `json:"model,omitempty"`
	Attempt       int               `json:"attempt,omitempty"`
	SaidAt        *time.Time        `json:"said_at,omitempty" doc:"when the role that runs has printed something last"`
	MaxIterations int               `json:"max_iterations,omitempty" doc:"missing: no bound"`
	Gates         map[string]string `json:"gates,omitempty" doc:"of this iteration, or of the last one while this one has none"`
	UnknownCost   int               `json:"unknown_cost,omitempty" doc:"how many runs of roles have a cost that is not known"`
	Tokens        int64             `json:"tokens,omitempty"`
	BudgetUSD     float64           `json:"budget_usd,omitempty" doc:"told while a role runs; missing: no bound, or no role runs"`
	Question      string            `json:"question,omitempty" doc:"the id of the question that it asks"`
	SubStatus     string            `json:"sub_status,omitempty" enum:"awaiting_permission" doc:"of a loop that runs: its agent is held until a person answers"`
	Hold          *escalation.Hold  `json:"hold,omitempty" doc:"what the agent is held for"`
	Limit         *LimitRow         `json:"limit,omitempty" doc:"the limit that it waits for"`
}

// LimitRow is a limit of an account.
type LimitRow struct {
	Provider string    `json:"provider"`
	Account  string    `json:"account,omitempty"`
	Class    string    `json:"class"`
	Text     string    `json:"text,omitempty"`
	Until    time.Time `json:"until"`
}

func standingOf(p layout.Paths, v loop.View) Standing {
	s := Standing{RunID: v.RunID, Branch: branchOf(p.Repo), Reason: v.Reason, Detail: v.Detail, MaxIterations: v.Max, Attempt: v.Attempt,
		UnknownCost: v.Spent.UnknownCost, Tokens: v.Spent.Tokens, StatusSince: timeOf(v.UpdatedAt), Gates: gatesOf(v.Gates)}
	if len(s.Gates) == 0 {
		s.Gates = gatesOf(v.LastGates)
	}
	switch {
	case !v.EndedAt.IsZero():
		s.StatusSince = timeOf(v.EndedAt)
	case v.Human != nil:
		s.StatusSince, s.Question = timeOf(v.Human.Since), v.Human.Question
	case v.Limit != nil:
		s.StatusSince = timeOf(v.Limit.Since)
		s.Limit = &LimitRow{v.Limit.Provider, v.Limit.Account, v.Limit.Class, v.Limit.Text, v.Limit.Until}
	case v.Status == loop.Running && !v.ActiveSince.IsZero():
		s.StatusSince = timeOf(v.ActiveSince)
	}
	if e := v.Pending; e != nil && !v.Status.Ended() {
		s.Step = e.Kind
		if e.Kind == loop.RunRole && v.Status == loop.Running {
			s.Runner, s.Model, s.SaidAt = e.Runner, e.Model, saidAt(p.Logs(v.Iteration), e.Role)
			if e.MaxCostUSD > 0 {
				s.BudgetUSD = v.Spent.CostUSD + e.MaxCostUSD
			}
		}
	}
	return s
}

// held adds to the standing of a supervised loop that runs what its agent is held for.
func (s *Standing) held(p layout.Paths, id string, now time.Time) {
	if s.Step != loop.RunRole {
		return
	}
	rec, err := escalation.Store{Dir: p.Questions(), Loop: id}.Load()
	if err != nil || rec.Question.Run != s.RunID {
		return
	}
	if s.Hold = rec.Hold(now); s.Hold != nil {
		s.SubStatus, s.Question = escalation.AwaitingPermission, rec.Question.ID
	}
}

// gatesOf returns the verdicts that are known, by the names of state.json.
func gatesOf(g loop.Gates) map[string]string {
	all := map[string]string{"promise": g.Promise, "tests": g.Tests, "checklist": g.Checklist, "validation": g.Validation, "prerequisites": g.Prerequisites,
		"evidence": g.Evidence, "approval": g.Approval, "change": g.Change, "reports": g.Reports, "test_change": g.TestChange, "tree": g.Tree, "final": g.Final}
	for name, verdict := range all {
		if verdict == "" {
			delete(all, name)
		}
	}
	return all
}

// saidAt returns when a log of a role has grown last.
func saidAt(dir, role string) (last *time.Time) {
	files, _ := os.ReadDir(dir) // none: it has said nothing
	for _, f := range files {
		if !strings.HasPrefix(f.Name(), role+".") || filepath.Ext(f.Name()) != ".log" {
			continue
		}
		if info, err := f.Info(); err == nil && (last == nil || info.ModTime().After(*last)) {
			last = timeOf(info.ModTime().UTC())
		}
	}
	return last
}

// branchOf returns the branch that a work tree has checked out, "" if there is none or it is not known.
func branchOf(root string) string {
	head, err := door.Read(filepath.Join(root, ".git", "HEAD"), 4096)
	if err != nil {
		return ""
	}
	name, ok := strings.CutPrefix(strings.TrimSpace(string(head)), "ref: refs/heads/")
	if !ok {
		return ""
	}
	return name
}
