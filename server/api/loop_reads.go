package api

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/result"
	"github.com/superloop/superloop/loop/stats"
	"github.com/superloop/superloop/recovery/undo"
)

// ofLoops registers the other routes of one loop.
func (a *api) ofLoops(h huma.API) {
	huma.Get(h, "/api/v1/loops/{id}/iterations", a.iterations)
	huma.Get(h, "/api/v1/loops/{id}/recoveries", a.recoveries)
	huma.Get(h, "/api/v1/loops/{id}/plan", a.plan)
	huma.Get(h, "/api/v1/loops/{id}/said", a.said)
	huma.Get(h, "/api/v1/loops/{id}/logs/{role}/{n}/items", a.items)
	huma.Get(h, "/api/v1/loops/{id}/prompts/{role}/{n}", a.turn)
	huma.Get(h, "/api/v1/loops/{id}/stats", func(ctx context.Context, in *struct {
		LoopPath
		Run string `query:"run" default:"latest" maxLength:"200" doc:"the id of a run, or latest"`
	}) (*body[Says[LoopStats]], error) {
		e, _, err := a.find(in.ID)
		if err != nil {
			return nil, err
		}
		if in.Run == "all" { // has another form
			return nil, problem(http.StatusNotFound, "not-found", "the loop has no run %q", in.Run)
		}
		return say[LoopStats](ctx, a, VerbCall{Args: append(of(e, "stats"), "--run="+in.Run)})
	})
	huma.Get(h, "/api/v1/loops/{id}/diff", a.diff, isPlain)
	huma.Register(h, huma.Operation{Method: http.MethodGet, Path: "/api/v1/loops/{id}/logs/{role}/{n}", Responses: map[string]*huma.Response{
		"200": {Description: "the log, as the agent wrote it", Content: map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: huma.TypeString}}}},
		"206": {Description: "the part of it that Range names", Content: map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: huma.TypeString}}}},
	}}, a.roleLog)
	huma.Register(h, huma.Operation{Method: http.MethodPost, Path: "/api/v1/loops/{id}/recoveries/{n}/undo"}, a.undo)
	huma.Register(h, huma.Operation{Method: http.MethodPost, Path: "/api/v1/loops/{id}/approve-completion"}, a.approveCompletion)
}

// resultOf returns the result of the last run of a loop, and whether there is one.
func resultOf(p layout.Paths) (result.Result, bool, error) {
	fold := result.New()
	err := journal.Read(p.Events(), 0, fold.Add)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return result.Result{}, false, problem(http.StatusConflict, "unreadable-journal", "%v", err)
	}
	r, ok := fold.Result()
	return r, ok, nil
}

// Iterations is a page of the iterations of a loop's last run.
type Iterations struct {
	RunID      string      `json:"run_id,omitempty" doc:"missing: the loop has not run yet"`
	Iterations []Iteration `json:"iterations" nullable:"false"`
	NextCursor string      `json:"next_cursor,omitempty" doc:"missing on the last page"`
}

// Iteration is one iteration.
type Iteration struct {
	N        int        `json:"n"`
	From     time.Time  `json:"from"`
	To       time.Time  `json:"to" doc:"the time of its last event so far"`
	Roles    []RoleRun  `json:"roles" nullable:"false" doc:"in the order in which they ran; an attempt is one of them"`
	Tests    []TestRun  `json:"tests" nullable:"false"`
	Gates    []GateSays `json:"gates" nullable:"false" doc:"of the last evaluation"`
	Complete bool       `json:"complete"`
	Missing  []string   `json:"missing,omitempty" nullable:"false" doc:"what completion lacked: tests=failed"`
	Why      []string   `json:"why,omitempty" nullable:"false"`
	Cost     *float64   `json:"cost_usd" doc:"the sum of what is known; null: nothing is"`
	Unpriced int        `json:"unpriced_runs" doc:"how many runs of roles have a cost that is not known"`
}

// RoleRun is one attempt of a role.
type RoleRun struct {
	Role       string     `json:"role"`
	Runner     string     `json:"runner"`
	Model      string     `json:"model,omitempty" doc:"missing: not told"`
	Attempt    int        `json:"attempt"`
	From       time.Time  `json:"from"`
	To         *time.Time `json:"to,omitempty" doc:"missing: it runs, or nobody recorded its end"`
	Outcome    string     `json:"outcome" doc:"as in docs/events.md, or open"`
	Error      string     `json:"error,omitempty"`
	DurationMS *int64     `json:"duration_ms" doc:"null: it has no end yet"`
	CostUSD    *float64   `json:"cost_usd" doc:"null: not known"`
	Tokens     *int64     `json:"tokens" doc:"null: not known"`
}

// TestRun is one run of the tests.
type TestRun struct {
	Commands   []string  `json:"commands" nullable:"false"`
	Reason     string    `json:"reason,omitempty"`
	Status     string    `json:"status,omitempty" doc:"missing: it has no end yet"`
	ExitCode   int       `json:"exit_code"`
	Failed     string    `json:"failed_command,omitempty"`
	At         time.Time `json:"at"`
	DurationMS int64     `json:"duration_ms"`
}

// GateSays is the verdict of a gate.
type GateSays struct {
	Gate    string `json:"gate"`
	Verdict string `json:"verdict"`
}

type loopPage struct {
	LoopPath
	Page
}

type iterationsPage struct {
	LoopPath
	Page
	Last int `query:"last" minimum:"0" doc:"only the last so many"`
}

func (a *api) iterations(_ context.Context, in *iterationsPage) (*body[Iterations], error) {
	_, p, err := a.find(in.ID)
	if err != nil {
		return nil, err
	}
	r, ok, err := resultOf(p)
	if err != nil || !ok {
		return &body[Iterations]{Iterations{Iterations: []Iteration{}}}, err
	}
	out := Iterations{RunID: r.RunID}
	if in.Last > 0 {
		r.Iterations = r.Iterations[max(0, len(r.Iterations)-in.Last):]
	}
	list, next := cut(r.Iterations, in.Page, func(i result.Iteration) string { return ordinal(i.N) })
	out.Iterations, out.NextCursor = make([]Iteration, 0, len(list)), next
	for _, i := range list {
		out.Iterations = append(out.Iterations, iterationOf(i))
	}
	return &body[Iterations]{out}, nil
}

func iterationOf(i result.Iteration) Iteration {
	out := Iteration{N: i.N, From: i.From, To: i.To, Roles: []RoleRun{}, Tests: []TestRun{}, Gates: []GateSays{}, Complete: i.Complete, Missing: i.Missing, Why: i.Why}
	for _, r := range i.Roles {
		x := RoleRun{Role: r.Role, Runner: r.Runner, Model: r.Model, Attempt: r.Attempt, From: r.From, Outcome: r.Outcome, Error: r.Error, CostUSD: r.CostUSD, Tokens: r.Tokens}
		if !r.To.IsZero() {
			x.To, x.DurationMS = &r.To, &r.DurationMS
		}
		switch {
		case r.Outcome == "open" || r.Outcome == "not_started": // it cost nothing so far
		case r.CostUSD == nil:
			out.Unpriced++
		default:
			sum := *r.CostUSD
			if out.Cost != nil {
				sum += *out.Cost
			}
			out.Cost = &sum
		}
		out.Roles = append(out.Roles, x)
	}
	for _, t := range i.Tests {
		out.Tests = append(out.Tests, TestRun{append([]string{}, t.Commands...), t.Reason, t.Status, t.ExitCode, t.Failed, t.At, t.DurationMS})
	}
	for _, g := range i.Gates {
		out.Gates = append(out.Gates, GateSays{g.Name, g.Verdict})
	}
	return out
}

// Recoveries is a page of what was proposed to repair in a loop's last run.
type Recoveries struct {
	Recoveries []Recovery `json:"recoveries" nullable:"false"`
	NextCursor string     `json:"next_cursor,omitempty" doc:"missing on the last page"`
}

// Recovery is one proposal and what became of it.
type Recovery struct {
	N          int         `json:"n" doc:"its number in the run"`
	Iteration  int         `json:"iteration"`
	At         time.Time   `json:"at"`
	Source     string      `json:"source,omitempty"`
	Category   string      `json:"category,omitempty"`
	Command    string      `json:"command,omitempty"`
	Verdict    string      `json:"verdict,omitempty"`
	Rule       string      `json:"rule,omitempty"`
	Reason     string      `json:"reason,omitempty"`
	By         string      `json:"by,omitempty"`
	RootCause  string      `json:"root_cause,omitempty"`
	Evidence   []string    `json:"evidence,omitempty" nullable:"false"`
	Outcome    string      `json:"outcome" doc:"verified, ineffective, harmful, failed, denied, executed and others"`
	DurationMS int64       `json:"duration_ms"`
	Kept       []undo.Kept `json:"kept" nullable:"false" doc:"what undo can put back, a set for each try"`
}

func (a *api) recoveries(_ context.Context, in *loopPage) (*body[Recoveries], error) {
	e, p, err := a.find(in.ID)
	if err != nil {
		return nil, err
	}
	r, _, err := resultOf(p)
	if err != nil {
		return nil, err
	}
	kept, _ := undo.Store{Disk: a.o.Disk, Dir: p.Undo()}.List() // a set that cannot be read can put nothing back
	list, next := cut(r.Recoveries, in.Page, func(x result.Recovery) string { return ordinal(x.N) })
	out := Recoveries{Recoveries: []Recovery{}, NextCursor: next}
	for _, x := range list {
		sets := slices.DeleteFunc(slices.Clone(kept), func(k undo.Kept) bool {
			return k.Label.Loop != e.Loop || k.Label.Run != r.RunID || k.Label.Recovery != x.N
		})
		out.Recoveries = append(out.Recoveries, Recovery{x.N, x.Iteration, x.At, x.Source, x.Category, x.Command, x.Verdict, x.Rule, x.Reason, x.By, x.RootCause, x.Evidence,
			x.Outcome, x.DurationMS, append([]undo.Kept{}, sets...)})
	}
	return &body[Recoveries]{out}, nil
}

// Undone is what superloop undo --json prints.
type Undone struct {
	LoopID   string `json:"loop_id"`
	RunID    string `json:"run_id"`
	Recovery int    `json:"recovery"`
	ID       string `json:"id"`
	Command  string `json:"command"`
	Complete bool   `json:"complete" doc:"false: something has changed since, or failed; force moves what has changed aside"`
	undo.Report
}

type undoIn struct {
	LoopPath
	N    int `path:"n" minimum:"1" doc:"the number of a recovery"`
	Body struct {
		Force bool `json:"force,omitempty" doc:"move files that have changed since aside, and put back what was kept"`
	}
}

func (a *api) undo(ctx context.Context, in *undoIn) (*body[Says[Undone]], error) {
	by, err := a.operator(ctx)
	if err != nil {
		return nil, err
	}
	e, _, err := a.find(in.ID)
	if err == nil {
		err = a.stepUp(ctx, fmt.Sprintf("put back what recovery %d of loop %s has changed", in.N, e.Name()))
	}
	if err != nil {
		return nil, err
	}
	return say[Undone](ctx, a, VerbCall{By: by, Args: append(of(e, "undo"), fmt.Sprintf("--recovery=%d", in.N), fmt.Sprintf("--force=%v", in.Body.Force))})
}

// LoopStats is what superloop stats --json prints.
type LoopStats struct {
	LoopID string `json:"loop_id"`
	stats.Section
}

// Object is a JSON object whose form stands elsewhere.
type Object map[string]any

func (a *api) plan(ctx context.Context, in *LoopPath) (*body[Says[Object]], error) {
	e, _, err := a.find(in.ID)
	if err != nil {
		return nil, err
	}
	return say[Object](ctx, a, VerbCall{Args: of(e, "chain", "show")})
}

type approveIn struct {
	LoopPath
	Body struct {
		Digest string `json:"digest" minLength:"8" maxLength:"64" doc:"that of the question that was shown"`
		Reject bool   `json:"reject,omitempty" doc:"it is not done: the loop goes on with another iteration"`
		Note   string `json:"note,omitempty" maxLength:"4096"`
	}
}

func (a *api) approveCompletion(ctx context.Context, in *approveIn) (*body[Question], error) {
	by, err := a.operator(ctx)
	if err != nil {
		return nil, err
	}
	e, p, err := a.find(in.ID)
	if err != nil {
		return nil, err
	}
	rec, err := a.questionsOf(p, e.Loop).Load()
	if err != nil || rec.Question.Type != escalation.CompletionApproval {
		return nil, problem(http.StatusConflict, "not-waiting", "the loop does not ask whether it is done")
	}
	method := "approve"
	if in.Body.Reject {
		method = "reject"
	}
	return a.give(ctx, asked{e, p, rec}, by, answer{Method: method, Digest: in.Body.Digest, Note: in.Body.Note})
}
