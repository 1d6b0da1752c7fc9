// Package result computes the result of a run of a loop from its journal: how it ended, how it was tested, what it cost,
// what was repaired and asked, what is missing. Work adds what only the repository knows: the files that changed and
// the branch. The package touches no file; Markdown and Short say the result for people.
//
// A text of an agent or of a tool stands in the Result as it was written. Markdown and Short make it harmless.
package result

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/stats"
)

// Fold computes the Result of the last run of a journal. Its memory grows with the number of role runs, recoveries and
// questions of that run.
type Fold struct {
	r     Result
	stats *stats.Fold
	open  string // what the last checklist_end says is open
}

// New returns a Fold without events.
func New() *Fold { return &Fold{stats: stats.New()} }

// fields are the fields of the events that a result is made of. A field of an unexpected type stays empty.
type fields struct {
	Plan         loop.Plan `json:"plan"`
	Version      string    `json:"version"`
	Status       string    `json:"status"`
	Reason       string    `json:"reason"`
	Detail       string    `json:"detail"`
	By           string    `json:"by"`
	Note         string    `json:"note"`
	ActiveMS     int64     `json:"active_ms"`
	Role         string    `json:"role"`
	Runner       string    `json:"runner"`
	Model        string    `json:"model"`
	Attempt      int       `json:"attempt"`
	Outcome      string    `json:"outcome"`
	Error        string    `json:"error"`
	DurationMS   int64     `json:"duration_ms"`
	CostUSD      *float64  `json:"cost_usd"`
	Usage        *usage    `json:"usage"`
	Commands     []string  `json:"commands"`
	ExitCode     int       `json:"exit_code"`
	Failed       string    `json:"failed_command"`
	Interrupted  bool      `json:"interrupted"`
	Complete     bool      `json:"complete"`
	Missing      []string  `json:"missing"`
	Why          []string  `json:"why"`
	Details      string    `json:"details"`
	SHA          string    `json:"sha"`
	Subject      string    `json:"subject"`
	N            int       `json:"n"`
	Source       string    `json:"source"`
	Report       string    `json:"output_file"`
	ReportStatus string    `json:"output_status"`
	ReportDigest string    `json:"output_digest"`
	Category     string    `json:"category"`
	RootCause    string    `json:"root_cause"`
	Evidence     []string  `json:"evidence"`
	Command      string    `json:"command"`
	Verdict      string    `json:"verdict"`
	Rule         string    `json:"rule"`
	Result       string    `json:"result"`
	EscalationID string    `json:"escalation_id"`
	Awaiting     string    `json:"awaiting"`
	Type         string    `json:"type"`
	Method       string    `json:"method"`
	gateFields
}

// usage are the kinds of tokens that do not overlap.
type usage struct {
	Input      *int64 `json:"input_tokens"`
	CacheRead  *int64 `json:"cache_read_input_tokens"`
	CacheWrite *int64 `json:"cache_creation_input_tokens"`
	Output     *int64 `json:"output_tokens"`
}

// total returns the sum of the kinds. It returns nil if neither input nor output is known.
func (u *usage) total() *int64 {
	if u == nil || u.Input == nil && u.Output == nil {
		return nil
	}
	sum := int64(0)
	for _, n := range []*int64{u.Input, u.CacheRead, u.CacheWrite, u.Output} {
		if n != nil && *n > 0 {
			sum += *n
		}
	}
	return &sum
}

// gateFields are the verdicts in gates_evaluated.
type gateFields struct {
	Promise       json.RawMessage `json:"promise"`
	Tests         string          `json:"tests"`
	Checklist     string          `json:"checklist"`
	Validation    string          `json:"validation"`
	Prerequisites string          `json:"prerequisites"`
	Approval      string          `json:"approval"`
	Stuck         string          `json:"stuck"`
	Change        string          `json:"change"`
	TestChange    string          `json:"test_change"`
	Reports       string          `json:"reports"`
	Tree          string          `json:"tree"`
	Final         string          `json:"final"`
}

// Add takes the next event of the journal. Events have to come in order.
func (f *Fold) Add(ev journal.Event) error {
	_ = f.stats.Add(ev) // with an error the figures lack a role run, and the rest of the result does not
	var d fields
	_ = text.Decode(ev.Fields, &d) // a field of an unexpected type stays empty; the others are set
	r := &f.r
	if ev.Event == "loop_start" {
		*r = Result{LoopID: ev.LoopID, RunID: ev.RunID, Started: ev.Timestamp, Plan: d.Plan, Version: d.Version, Status: loop.Running}
	}
	if r.RunID == "" {
		return nil // the journal lacks the start of the run
	}
	r.Updated = ev.Timestamp
	switch ev.Event {
	case "loop_resume":
		r.Plan, r.Version, r.Status, r.Reason, r.Detail, r.Ended, r.By, r.StopNote = d.Plan, d.Version, loop.Running, "", "", time.Time{}, "", ""
	case "loop_stop", "loop_complete":
		r.stop(ev, d)
	case "role_start", "role_end", "role_failed", "role_timeout":
		r.role(ev, d)
	case "tests_start", "tests_rerun_start", "tests_end", "tests_rerun_end", "tests_baseline", "final_start", "final_end":
		r.tested(ev, d)
	case "checklist_end":
		f.open = d.Details
	case "gates_evaluated":
		i := r.iteration(ev)
		i.Gates, i.Complete, i.Missing, i.Why, i.Note = gates(ev.Fields, d), d.Complete, d.Missing, d.Why, d.Note
		if f.open != "" && d.Checklist == "remaining" {
			i.Why = append(slices.Clip(i.Why), "the checklist has "+f.open)
		}
	case "iteration_start", "iteration_end":
		r.iteration(ev)
	case "auto_commit_success":
		if d.SHA != "" && !slices.ContainsFunc(r.Commits, func(c Commit) bool { return c.SHA == d.SHA }) {
			r.Commits = append(r.Commits, Commit{SHA: d.SHA, Subject: d.Subject, Iteration: ev.Iteration})
		}
	case "recovery_escalated", "approval_requested", "recovery_resolved", "approval_decided":
		r.question(ev, d)
	}
	if len(ev.Event) > 9 && ev.Event[:9] == "recovery_" && d.N > 0 {
		r.recovery(ev, d)
	}
	return nil
}

// Result returns the result of the last run, as far as the journal goes. ok is false if the journal holds no run. A later
// Add does not change the figures of a result.
func (f *Fold) Result() (r Result, ok bool) {
	r = f.r
	if runs := f.stats.Report().Runs; len(runs) > 0 && runs[len(runs)-1].RunID == r.RunID {
		r.Total = runs[len(runs)-1].Total
	}
	if r.ActiveMS == 0 && !r.Started.IsZero() {
		r.ActiveMS = r.Updated.Sub(r.Started).Milliseconds()
	}
	return r, r.RunID != ""
}

func (r *Result) stop(ev journal.Event, d fields) {
	r.Status, r.Reason, r.Detail, r.By, r.StopNote = loop.Status(d.Status), d.Reason, d.Detail, d.By, d.Note
	if ev.Event == "loop_complete" {
		r.Status = loop.Completed
	}
	if d.ActiveMS > 0 {
		r.ActiveMS = d.ActiveMS
	}
	if r.Status.Ended() {
		r.Ended = ev.Timestamp
	}
}

// iteration returns the iteration of an event, and makes it if it is the first one of the iteration.
func (r *Result) iteration(ev journal.Event) *Iteration {
	if n := len(r.Iterations); n == 0 || r.Iterations[n-1].N != ev.Iteration {
		r.Iterations = append(r.Iterations, Iteration{N: ev.Iteration, From: ev.Timestamp})
	}
	i := &r.Iterations[len(r.Iterations)-1]
	i.To = ev.Timestamp
	return i
}

func (r *Result) role(ev journal.Event, d fields) {
	i := r.iteration(ev)
	if ev.Event == "role_start" {
		i.Roles = append(i.Roles, RoleRun{Role: d.Role, Runner: d.Runner, Model: d.Model, Attempt: d.Attempt, From: ev.Timestamp, Outcome: "open"})
		return
	}
	at := len(i.Roles) - 1
	if at < 0 || i.Roles[at].Role != d.Role || i.Roles[at].Outcome != "open" {
		i.Roles = append(i.Roles, RoleRun{From: ev.Timestamp.Add(-time.Duration(max(0, d.DurationMS)) * time.Millisecond)})
		at++
	}
	x := &i.Roles[at]
	x.Role, x.Runner, x.Model, x.Attempt = d.Role, cmp.Or(d.Runner, x.Runner), cmp.Or(d.Model, x.Model), d.Attempt
	x.To, x.Outcome, x.Error, x.DurationMS, x.CostUSD, x.Tokens = ev.Timestamp, cmp.Or(d.Outcome, "ok"), d.Error, max(0, d.DurationMS), d.CostUSD, d.Usage.total()
	x.Report, x.ReportStatus, x.ReportDigest = d.Report, d.ReportStatus, d.ReportDigest
	if x.CostUSD != nil && !(*x.CostUSD >= 0 && *x.CostUSD < 1e6) {
		x.CostUSD = nil
	}
}

func (r *Result) tested(ev journal.Event, d fields) {
	i := r.iteration(ev)
	final := ev.Event == "final_start" || ev.Event == "final_end"
	switch ev.Event {
	case "tests_start", "tests_rerun_start", "final_start":
		t := TestRun{Commands: d.Commands, Reason: d.Reason, At: ev.Timestamp}
		if final {
			t.Reason = "final"
		}
		i.Tests = append(i.Tests, t)
		return
	}
	at := len(i.Tests) - 1
	if at < 0 || i.Tests[at].Status != "" {
		i.Tests = append(i.Tests, TestRun{At: ev.Timestamp, Reason: d.Reason})
		at++
	}
	t := &i.Tests[at]
	t.Status, t.ExitCode, t.Failed, t.DurationMS = d.Status, d.ExitCode, d.Failed, max(0, d.DurationMS)
	if d.Interrupted {
		t.Status = "interrupted"
	}
}

// recovery takes an event of a proposal, which n numbers in the run.
func (r *Result) recovery(ev journal.Event, d fields) {
	at := slices.IndexFunc(r.Recoveries, func(x Recovery) bool { return x.N == d.N })
	if at < 0 {
		r.Recoveries = append(r.Recoveries, Recovery{N: d.N, Iteration: ev.Iteration, At: ev.Timestamp, Outcome: "not run"})
		at = len(r.Recoveries) - 1
	}
	x := &r.Recoveries[at]
	switch ev.Event {
	case "recovery_proposed":
		x.Source, x.Category, x.Command, x.Verdict, x.Rule, x.Reason = d.Source, d.Category, d.Command, d.Verdict, d.Rule, d.Reason
		x.RootCause, x.Evidence = cmp.Or(d.RootCause, x.RootCause), append(x.Evidence[:0:0], d.Evidence...)
	case "recovery_approved":
		x.By = d.By
	case "recovery_executing":
		x.Command, x.Outcome = cmp.Or(d.Command, x.Command), "outcome unknown"
	case "recovery_executed":
		x.DurationMS, x.Outcome = x.DurationMS+max(0, d.DurationMS), "executed"
	case "recovery_failed":
		x.DurationMS, x.Outcome = x.DurationMS+max(0, d.DurationMS), "failed"
	case "recovery_verified":
		if x.Outcome = cmp.Or(d.Result, x.Outcome); x.Outcome == "unknown" {
			x.Outcome = "executed, not verified"
		}
	case "recovery_denied":
		x.Outcome = "denied"
	}
}

func (r *Result) question(ev journal.Event, d fields) {
	switch ev.Event {
	case "recovery_escalated", "approval_requested":
		if d.EscalationID == "" || slices.ContainsFunc(r.Questions, func(q Question) bool { return q.ID == d.EscalationID }) {
			return // an operator was only told, or a supervisor asked it again
		}
		q := Question{ID: d.EscalationID, Type: cmp.Or(d.Type, loop.EscalationCompletion), Role: d.Role, About: cmp.Or(d.Command, d.Error, d.Reason), At: ev.Timestamp, Iteration: ev.Iteration}
		r.Questions = append(r.Questions, q)
	default:
		if at := slices.IndexFunc(r.Questions, func(q Question) bool { return q.ID == d.EscalationID }); at >= 0 {
			q := &r.Questions[at]
			q.Answer, q.By, q.Note, q.Answered = cmp.Or(d.Method, d.Status), d.By, d.Note, ev.Timestamp
		}
	}
}

// gates lists the verdicts of gates_evaluated in the order of gate-summary.txt.
func gates(raw json.RawMessage, d fields) (list []Gate) {
	var e struct {
		Evidence string `json:"evidence"` // in other events it is a list
	}
	_ = text.Decode(raw, &e) // stays empty
	var promise any
	_ = text.Decode(d.Promise, &promise)
	said := ""
	switch p := promise.(type) {
	case bool:
		said = map[bool]string{true: "true", false: "false"}[p]
	case string:
		said = p
	}
	for _, g := range []Gate{{"promise", said}, {"tests", d.Tests}, {"validation", d.Validation}, {"prerequisites", d.Prerequisites}, {"checklist", d.Checklist},
		{"evidence", e.Evidence}, {"approval", d.Approval}, {"stuck", d.Stuck}, {"change", d.Change}, {"test_change", d.TestChange}, {"reports", d.Reports},
		{"tree", d.Tree}, {"final", d.Final}} {
		if g.Verdict != "" {
			list = append(list, g)
		}
	}
	return list
}
