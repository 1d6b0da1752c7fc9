package effects

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/gate"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/recovery/learn"
)

// preflightEvery is the time between two runs of a failing environment check while superloop waits for an operator's
// answer about it. The operator may have repaired the environment without an answer.
const preflightEvery = 5 * time.Second

// Approvals performs AskHuman: it opens an escalation and turns its answer into a fact. An escalation is a record in
// the private directory that any process can answer. escalation.json is a view of it.
type Approvals struct {
	*Host
	Journal  Journal
	Executor Executor // judges the command in the question
	Outbox   *Outbox
	Tree     Watcher // Tree tells whether the work tree still is the one whose completion the operator is to approve
	// Runners tells who can go on with a role after the operator's answer.
	Runners interface {
		Candidates(s loop.State, role string) []failures.Candidate
		// Believed resets the health of the runners of a role after the operator has repaired them, or has said so.
		Believed(s loop.State, role string)
	}
	Whole func(context.Context, loop.State) bool // reports whether the environment checks that had failed pass now
	// Views updates state.json after escalation.json was written, so that a reader who finds there that the loop waits for
	// an operator also finds the question.
	Views func() error

	asking *escalation.Question // made by request and not opened yet; if a crash loses it, superloop makes another one
	shown  string               // the id of the question that escalation.json is known to hold
}

// Shown reports whether escalation.json holds the question that the state waits for. It is true if the state waits for
// none.
func (a *Approvals) Shown(s loop.State) bool {
	return s.Human == nil || s.Human.Question != "" && s.Human.Question == a.shown
}

// Mended is a wish that the loop goes on at once, because the operator has done what the escalation asks for.
type Mended struct{ By, Note, IntentID string }

// Store returns the store of the loop's escalations.
func (a *Approvals) Store() escalation.Store {
	return escalation.Store{Disk: a.Disk, Dir: a.Paths.Questions(), Loop: a.LoopID, Now: a.Clock}
}

// Perform makes the escalation and returns the fact with its id. Answer opens the escalation when that fact is on the
// disk, so that an answer always finds the loop that asked.
func (a *Approvals) Perform(ctx context.Context, e loop.Effect, s loop.State) (loop.Fact, error) {
	if e.Kind != loop.AskHuman || s.Human == nil {
		return nil, fmt.Errorf("performing %s: nobody is to be asked", e.Kind)
	}
	return a.request(ctx, s)
}

// request makes the question of an escalation, and returns the fact that names it.
func (a *Approvals) request(ctx context.Context, s loop.State) (loop.Fact, error) {
	q, err := a.question(ctx, s)
	if err != nil {
		return nil, err
	}
	q = q.Complete(q.Created) // completed as the store keeps it, so that the digest is that of the record
	digest, err := q.Digest()
	if err != nil {
		return nil, fmt.Errorf("making the escalation: %w", err)
	}
	a.asking = &q
	h := s.Human
	f := loop.Escalated{Of: loop.To(*s.Pending), Type: h.Type, Reason: h.Class, Awaiting: "human", ID: q.ID, Digest: digest, Role: h.Role, Runner: h.Runner,
		Error: h.Text, Fix: h.Fix, Expires: q.Expires}
	if h.About == loop.AboutCompletion {
		if err := a.writeApproval(ctx, s); err != nil {
			return nil, err
		}
		return loop.ApprovalRequested{Of: f.Of, File: a.Paths.Rel(a.Paths.File("approval.json")), ID: f.ID, Digest: f.Digest, Expires: f.Expires}, nil
	}
	if r := s.Recovery; r != nil {
		f.Reason, f.N, f.Command, f.Rule = h.Text, r.N, r.Attempt.Command, r.Rule
	}
	return f, nil
}

// Answer returns the answer to the escalation of the state, as a fact. mended is a wish to go on, or nil. A nil fact
// means that there is no answer yet. The caller then calls Answer again when something changes in the store's
// directory, and at the time next at the latest. If the record of the escalation is lost or damaged, or if it has
// lapsed, Answer opens another escalation. Silence is never consent.
func (a *Approvals) Answer(ctx context.Context, s loop.State, mended *Mended) (fact loop.Fact, next time.Time, err error) {
	rec, fact, err := a.Open(ctx, s)
	if err != nil || fact != nil {
		return fact, next, err
	}
	if mended == nil && rec.State == escalation.Pending && s.Human.About == loop.AboutPreflight && a.Whole(ctx, s) {
		mended = &Mended{By: "superloop", Note: "a look finds the environment whole again"}
	}
	switch {
	case mended != nil && rec.State == escalation.Pending:
		fact, err = a.mended(ctx, s, rec, *mended)
		return fact, a.Clock(), err
	case rec.Lapsed(a.Clock()): // also an approval that can no longer begin
		fact, err = a.lapsed(ctx, s)
		return fact, a.Clock(), err
	case rec.State != escalation.Pending:
		fact, err = a.heard(ctx, s, rec)
		return fact, next, err
	}
	next = a.Outbox.Opened(rec, s)
	if s.Human.About == loop.AboutPreflight {
		next = earlier(next, a.Clock().Add(preflightEvery))
	}
	return nil, next, nil
}

// Open returns the record of the escalation that the state names, and opens the escalation if it is not open yet. When
// Open returns a record, escalation.json holds it. If the record is lost or damaged, Open returns the fact of another
// escalation instead.
func (a *Approvals) Open(ctx context.Context, s loop.State) (escalation.Record, loop.Fact, error) {
	store := a.Store()
	again := func(why string) (escalation.Record, loop.Fact, error) {
		a.Log.Warn("the escalation is asked anew", zap.String("why", why))
		f, err := a.request(ctx, s)
		return escalation.Record{}, f, err
	}
	rec, err := store.Load()
	damaged, isDamaged := errors.AsType[*escalation.DamagedError](err)
	switch {
	case isDamaged:
		if _, err := store.SetAside(ctx); err != nil {
			return rec, nil, a.Full(err)
		}
		if err := a.Journal.Record("escalation_damaged", map[string]any{"error": damaged.Error()}); err != nil {
			return rec, nil, err
		}
		return again("its record was damaged")
	case err != nil && !errors.Is(err, escalation.ErrNothingPending):
		return rec, nil, err
	case err == nil && rec.Question.ID == s.Human.Question:
		a.asking = nil
		if a.shown != rec.Question.ID { // a supervisor that died may have opened it and not shown it
			err = a.show(rec)
		}
		return rec, nil, err
	case a.asking == nil || a.asking.ID != s.Human.Question:
		return again("its record is gone")
	}
	if err == nil && rec.State == escalation.Executing {
		if _, err := store.Interrupt(ctx, rec.Question.ID); err != nil {
			return rec, nil, a.Full(err)
		}
	}
	if rec, err = store.Open(ctx, *a.asking); err != nil {
		return rec, nil, a.Full(err)
	}
	a.asking = nil
	return rec, nil, a.show(rec)
}

// show writes escalation.json and flushes it, and then lets state.json say that the loop waits.
func (a *Approvals) show(rec escalation.Record) error {
	data, err := escalation.View(rec)
	if err != nil {
		return fmt.Errorf("writing escalation.json: %w", err)
	}
	if err := a.Full(a.Disk.WriteFile("escalation", a.Paths.File("escalation.json"), data, 0o644)); err != nil {
		return err
	}
	a.shown = rec.Question.ID
	return a.Views()
}

// mended answers the escalation in the name of whoever wants the loop to go on. It returns nil if the escalation was
// answered or has lapsed in the meantime.
func (a *Approvals) mended(ctx context.Context, s loop.State, rec escalation.Record, m Mended) (loop.Fact, error) {
	rec, err := a.Store().Answer(ctx, escalation.AnswerRequest{Method: escalation.Resolve, ID: rec.Question.ID, Note: m.Note,
		By: escalation.By{Channel: escalation.CLI, User: m.By, Method: "process"}})
	if isError[*escalation.DecidedError](err) || isError[*escalation.ExpiredError](err) {
		return nil, nil
	}
	if err != nil {
		return nil, a.Full(err)
	}
	a.Outbox.Ended(rec)
	f := loop.Resolved{Of: loop.To(*s.Pending), ID: rec.Question.ID, By: m.By, Method: loop.MethodManual, Note: m.Note, IntentID: m.IntentID}
	return a.resolved(s, f), a.show(rec)
}

// heard turns the operator's answer into a fact.
func (a *Approvals) heard(ctx context.Context, s loop.State, rec escalation.Record) (loop.Fact, error) {
	if err := a.show(rec); err != nil {
		return nil, err
	}
	f := loop.Resolved{Of: loop.To(*s.Pending), ID: rec.Question.ID}
	if ans := rec.Answer; ans != nil {
		a.Outbox.Ended(rec)
		f.By, f.Note = ans.By.String(), ans.Note
	}
	about, state := s.Human.About, rec.State
	if rec.Question.Command == nil && (state == escalation.Executing || state == escalation.Done) {
		state = escalation.Approved // the supervisor that took the answer died before it wrote the fact
	}
	switch state {
	case escalation.Approved:
		f.Method = loop.MethodApprove
		if rec.Question.Command == nil && about != loop.AboutCompletion && about != loop.AboutPreflight {
			f.Method = loop.MethodManual // "go on" means that superloop tries again
		}
		if rec.Question.Command != nil && rec.Answer.Edit != nil {
			e := s.Recovery.Attempt
			e.Command, e.Digest = string(rec.Answer.Edit.Text), rec.Answer.Edit.Digest
			f.Edit = &e
		}
	case escalation.Rejected:
		f.Method = loop.MethodReject
		a.refused(ctx, s)
	case escalation.Resolved:
		f.Method = loop.MethodManual
	default: // a supervisor that has died began the command, or the escalation has lapsed or was withdrawn
		return a.request(ctx, s)
	}
	var fact loop.Fact
	var err error
	if about == loop.AboutCompletion {
		fact, err = a.completionAnswered(ctx, s, rec, f.Method)
	} else {
		fact = a.resolved(s, f)
	}
	if err == nil && state == escalation.Approved && rec.Question.Command == nil {
		err = a.finish(ctx, rec)
	}
	return fact, err
}

// refused notes that an operator has refused a remedy, so that another one is offered first the next time.
func (a *Approvals) refused(ctx context.Context, s loop.State) {
	if s.Recovery == nil {
		return
	}
	o := learn.Outcome{Command: s.Recovery.Attempt.Command, Result: learn.Refused, ByPerson: true}
	if o.Signature, o.Option = against(s); o.Option != "" {
		a.Executor.Learn(ctx, o)
	}
}

// resolved adds to an answer the agents that can go on with the role that the answer is about. It resets the health of
// the role's runners if the escalation was about a runner, because the operator has repaired it.
func (a *Approvals) resolved(s loop.State, f loop.Resolved) loop.Fact {
	h := s.Human
	if s.Recovery != nil || f.Method == loop.MethodReject || s.Plan.Respond == nil || h.About == loop.AboutTests {
		return f
	}
	if h.Type == loop.EscalationRunner {
		a.Runners.Believed(s, h.Role)
	}
	if s.Response.Policy != nil {
		f.Candidates = a.Runners.Candidates(s, h.Role)
	}
	return f
}

// lapsed ends an escalation that nobody has answered in time, and makes another one. It returns nil if the escalation
// was answered in the meantime.
func (a *Approvals) lapsed(ctx context.Context, s loop.State) (loop.Fact, error) {
	_, lapsed, err := a.Store().Expire(ctx, a.Clock())
	if err != nil || !lapsed {
		return nil, a.Full(err)
	}
	return a.request(ctx, s)
}

// Withdraw ends an escalation that needs no answer any more, because its loop has ended or begins anew.
func (a *Approvals) Withdraw(why string) error {
	store := a.Store()
	rec, err := store.Load()
	if err != nil || rec.State != escalation.Pending && rec.State != escalation.Approved {
		return nil // there is none, or one that the next escalation replaces
	}
	rec, err = store.Withdraw(context.Background(), rec.Question.ID, why)
	if isError[*escalation.StateError](err) {
		return nil // it was rejected or resolved in the meantime, which ends it too
	}
	if err != nil {
		return a.Full(err)
	}
	a.Outbox.Ended(rec)
	return a.show(rec)
}

// finish begins and ends an approval that has no command.
func (a *Approvals) finish(ctx context.Context, rec escalation.Record) (err error) {
	store, id := a.Store(), rec.Question.ID
	if rec.State == escalation.Approved {
		rec, err = store.Begin(ctx, id)
	}
	if err == nil && rec.State == escalation.Executing {
		_, err = store.Finish(ctx, id, escalation.Outcome{OK: true})
	}
	return a.Full(err)
}

// writeApproval writes approval.json, the view of the request to approve the completion of the loop.
func (a *Approvals) writeApproval(ctx context.Context, s loop.State) error {
	p, err := a.promise(s)
	if err != nil {
		return err
	}
	head, err := a.Repo.Head(context.WithoutCancel(ctx)) // short, so it goes on after ctx has ended
	if err != nil {
		return err
	}
	rel := func(name string) string { return a.Paths.Rel(a.Paths.File(name)) }
	asked := gate.Approval{LoopID: a.LoopID, RunID: s.RunID, Iteration: s.Iteration, Tree: s.Tree, Head: head,
		Files: gate.ApprovalFiles{GateSummary: rel("gate-summary.txt"), Evidence: rel("evidence.json"), ReviewerReport: rel("review.md"),
			TestReport: rel("test-report.md"), Plan: rel("plan.md"), IterationNotes: rel("iteration_notes.md")}}
	return a.Write("approval.json", asked.Pending(p, s.Gates, s.Approval.Requested, s.IterationAt, s.UpdatedAt).JSON())
}

// completionAnswered turns the answer about the completion into a fact. The fact tells whether the work tree has
// changed since the request. The method manual counts as a change: the operator has edited the tree by hand and wants
// the gates to run again.
func (a *Approvals) completionAnswered(ctx context.Context, s loop.State, rec escalation.Record, method string) (loop.Fact, error) {
	f := loop.ApprovalDecided{Of: loop.To(*s.Pending), ID: rec.Question.ID, Status: "approved", By: rec.Answer.By.User, Note: rec.Answer.Note}
	if f.By == "" || rec.Answer.By.Channel != escalation.CLI {
		f.By = rec.Answer.By.String()
	}
	if method == loop.MethodReject {
		f.Status = "rejected"
	} else {
		look, was := a.Tree.Files, s.Approval.Files
		if was == "" {
			look, was = func(ctx context.Context) (string, error) { return a.Tree.Look(ctx, s) }, s.Approval.Tree
		}
		now, err := look(ctx)
		if err != nil {
			return nil, err
		}
		f.TreeChanged = now != was || now == loop.UnseenFiles || method == loop.MethodManual
	}
	return f, a.recordDecision(rec.Answer.At, f)
}

// recordDecision writes the decision into the files that operators read. The event in the journal is the record.
func (a *Approvals) recordDecision(at time.Time, f loop.ApprovalDecided) error {
	data, err := door.ReadJSON(a.Paths.File("approval.json"), door.MaxReport)
	if err != nil {
		return nil // the view is gone, or somebody has put something else there
	}
	was, err := gate.ParseApproval(data)
	if err != nil {
		return nil // somebody has damaged the view
	}
	dec := gate.Decision{Status: f.Status, By: f.By, Note: f.Note, At: at, File: a.Paths.Rel(a.Paths.File("approval.json"))}
	decided, err := was.Decide(dec)
	if errors.Is(err, gate.ErrNotPending) {
		return nil // the decision was written before a crash
	}
	if err != nil {
		return err
	}
	if err := a.Write("approval.json", decided.JSON()); err != nil {
		return err
	}
	for name, line := range map[string][]byte{"decisions.jsonl": decided.LogLine(dec), "decisions.md": decided.LogMarkdown(dec)} {
		if err := a.Append("decisions", name, line); err != nil {
			return fmt.Errorf("noting the decision: %w", err)
		}
	}
	return nil
}
